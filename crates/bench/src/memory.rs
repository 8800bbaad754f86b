//! Part two: what the same data costs each server, as growth of its resident memory.
//!
//! Each data set goes into a fresh pair of servers, since no allocator gives everything back.

use std::path::Path;
use std::time::Duration;

use nagaya_resp::encode_request;
use serde::Serialize;

use super::loader::fill;
use super::plan::Plan;
use super::progress;
use super::servers::{Pair, Server};
use super::table::{Table, ratio};

const LISTS: u64 = 100;
/// Elements that one RPUSH appends.
const ELEMENTS_PER_PUSH: u64 = 100;

/// Redis moves its keys to a larger table in the background, so the memory is read once it stands still:
/// when it has not moved for this many readings in a row, or after a limit.
const STILL_READINGS: usize = 4;
const READINGS_MAX: usize = 60;
const READING_PAUSE: Duration = Duration::from_millis(250);

#[derive(Clone, Copy)]
enum DataSet {
    Keys,
    Hashes,
    Lists,
}

/// One data set in both servers.
#[derive(Clone, Debug, Serialize)]
pub(super) struct Row {
    pub(super) data: String,
    pub(super) ours_bytes: u64,
    pub(super) redis_bytes: u64,
    pub(super) ratio: f64,
}

pub(super) fn run(plan: &Plan, folder: &Path) -> anyhow::Result<Vec<Row>> {
    let mut rows = Vec::new();
    for data in [DataSet::Keys, DataSet::Hashes, DataSet::Lists] {
        let servers = Pair::start(&plan.programs, folder)?;
        progress(&format!("memory: {}", data.describe(plan.keys)));
        let ours_bytes = growth(&servers.ours, data, plan.keys)?;
        let redis_bytes = growth(&servers.redis, data, plan.keys)?;
        rows.push(Row {
            data: data.describe(plan.keys),
            ours_bytes,
            redis_bytes,
            ratio: ours_bytes as f64 / redis_bytes.max(1) as f64,
        });
    }
    Ok(rows)
}

fn growth(server: &Server, data: DataSet, keys: u64) -> anyhow::Result<u64> {
    // A handful of keys first: tables and buffers that exist once per server are not the data's.
    data.fill(server, 0..ELEMENTS_PER_PUSH)?;
    let before = still_memory(server)?;
    data.fill(server, 0..keys)?;
    Ok(still_memory(server)?.saturating_sub(before))
}

fn still_memory(server: &Server) -> anyhow::Result<u64> {
    let mut last = server.resident_bytes()?;
    let mut still = 0;
    for _ in 0..READINGS_MAX {
        std::thread::sleep(READING_PAUSE);
        let now = server.resident_bytes()?;
        still = if now == last { still + 1 } else { 0 };
        last = now;
        if still == STILL_READINGS {
            break;
        }
    }
    Ok(last)
}

impl DataSet {
    fn describe(self, keys: u64) -> String {
        match self {
            DataSet::Keys => format!("{keys} keys of 24 bytes, values of 32"),
            DataSet::Hashes => format!("{keys} hashes of 5 fields"),
            DataSet::Lists => format!("{LISTS} lists of {} elements", keys / 10),
        }
    }

    fn fill(self, server: &Server, numbers: std::ops::Range<u64>) -> anyhow::Result<()> {
        match self {
            DataSet::Keys => fill(server, numbers, |number, out| {
                let (key, value) = (format!("key:{number:020}"), format!("value:{number:026}"));
                encode_request(&[b"SET", key.as_bytes(), value.as_bytes()], out);
            }),
            DataSet::Hashes => fill(server, numbers, |number, out| {
                let (key, value) = (format!("hash:{number:012}"), format!("value:{number:08}"));
                let mut args = vec![b"HSET".as_slice(), key.as_bytes()];
                for field in ["name", "email", "city", "visits", "state"] {
                    args.extend([field.as_bytes(), value.as_bytes()]);
                }
                encode_request(&args, out);
            }),
            // One tenth of the number in elements for each list, a hundred elements per push.
            DataSet::Lists => {
                let pushes = numbers.end / 10 * LISTS / ELEMENTS_PER_PUSH;
                fill(server, 0..pushes, |number, out| {
                    let key = format!("list:{}", number % LISTS);
                    let elements: Vec<String> = (0..ELEMENTS_PER_PUSH)
                        .map(|element| format!("element:{:08}", number * ELEMENTS_PER_PUSH + element))
                        .collect();
                    let mut args = vec![b"RPUSH".as_slice(), key.as_bytes()];
                    args.extend(elements.iter().map(String::as_bytes));
                    encode_request(&args, out);
                })
            }
        }
    }
}

pub(super) fn table(rows: &[Row]) -> Table {
    let mut table = Table::new(&["", "MiB", "redis MiB", "ratio"]);
    let mebibytes = |bytes: u64| format!("{:.1}", bytes as f64 / f64::from(1 << 20));
    for row in rows {
        table.row(vec![
            row.data.clone(),
            mebibytes(row.ours_bytes),
            mebibytes(row.redis_bytes),
            ratio(row.ratio),
        ]);
    }
    table
}
