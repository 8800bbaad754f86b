//! From a crash to answers: how long until the first value comes, and until all of them have.

use std::path::Path;
use std::time::{Duration, Instant};

use anyhow::bail;
use nagaya_clock::{Clock, SystemClock};
use nagaya_resp::encode_request;
use serde::Serialize;

use super::options::Plan;
use super::persisted::{our_setting, redis_arguments};
use crate::connection::{Connection, Reply};
use crate::loader::fill;
use crate::progress;
use crate::servers::{Server, Side};
use crate::table::Table;

const FSYNC: &str = "everysec";
/// After the last write, so that nothing acknowledged is younger than the promise of a second.
const SETTLE: Duration = Duration::from_secs(2);
/// How often a starting server is asked, and for how long at most.
const ASK_EVERY: Duration = Duration::from_millis(5);
const START_MAX: Duration = Duration::from_secs(600);
/// Requests sent before their replies are read.
const BATCH: u64 = 500;

/// One server's return.
#[derive(Clone, Debug, Serialize)]
pub(super) struct Row {
    pub(super) side: Side,
    pub(super) keys: u64,
    pub(super) first_value_s: f64,
    pub(super) all_read_s: f64,
    pub(super) lost: u64,
}

pub(super) fn run(plan: &Plan, folder: &Path) -> anyhow::Result<Vec<Row>> {
    let setting = our_setting(FSYNC);
    let ours = ["--set", setting.as_str()];
    let redis = redis_arguments(FSYNC);
    let sides: [(Side, &[&str]); 2] = [(Side::Ours, &ours), (Side::Redis, &redis)];
    let mut rows = Vec::new();
    for (side, arguments) in sides {
        let folder = folder.join(side.name());
        std::fs::create_dir(&folder)?;
        rows.push(one(plan, side, &folder, arguments)?);
    }
    Ok(rows)
}

fn one(plan: &Plan, side: Side, folder: &Path, arguments: &[&str]) -> anyhow::Result<Row> {
    let keys = plan.restart_keys;
    let server = Server::start_with(side, &plan.programs, folder, arguments)?;
    progress(&format!("{keys} keys go into {}", side.name()));
    fill(&server, 0..keys, |number, out| {
        encode_request(&[b"SET", name(number).as_bytes(), value(number).as_bytes()], out);
    })?;
    std::thread::sleep(SETTLE);
    server.kill()?;
    progress(&format!("{} was killed and starts again", side.name()));
    let begun = SystemClock.now();
    let server = Server::launch(side, &plan.programs, folder, arguments)?;
    let mut connection = first_value(&server, keys / 2, begun)?;
    let first_value_s = (SystemClock.now() - begun).as_secs_f64();
    let lost = read_all(&mut connection, keys)?;
    Ok(Row {
        side,
        keys,
        first_value_s,
        all_read_s: (SystemClock.now() - begun).as_secs_f64(),
        lost,
    })
}

/// Asks until a value comes; refusals while data is loaded do not count.
fn first_value(server: &Server, number: u64, begun: Instant) -> anyhow::Result<Connection> {
    while SystemClock.now() - begun < START_MAX {
        if let Ok(mut connection) = Connection::open(server.address)
            && let Ok(Reply::Bytes(_)) = connection.ask(&[b"GET", name(number).as_bytes()])
        {
            return Ok(connection);
        }
        std::thread::sleep(ASK_EVERY);
    }
    bail!(
        "{} gave no value in {} s",
        server.side.name(),
        START_MAX.as_secs()
    )
}

/// Reads every key once and returns how many are not what they were.
fn read_all(connection: &mut Connection, keys: u64) -> anyhow::Result<u64> {
    let mut lost = 0;
    let mut first = 0;
    while first < keys {
        let count = BATCH.min(keys - first);
        let encode = |number: usize, out: &mut Vec<u8>| {
            encode_request(&[b"GET", name(first + number as u64).as_bytes()], out);
        };
        connection.ask_all(count as usize, encode, |number, reply| {
            let expected = value(first + number as u64).into_bytes();
            lost += u64::from(reply != Reply::Bytes(expected));
        })?;
        first += count;
    }
    Ok(lost)
}

fn name(number: u64) -> String {
    format!("key:{number:020}")
}

fn value(number: u64) -> String {
    format!("value:{number:026}")
}

pub(super) fn table(rows: &[Row]) -> Table {
    let mut table = Table::new(&["", "keys", "first value s", "all read s", "lost"]);
    for row in rows {
        table.row(vec![
            row.side.name().to_owned(),
            row.keys.to_string(),
            format!("{:.2}", row.first_value_s),
            format!("{:.2}", row.all_read_s),
            row.lost.to_string(),
        ]);
    }
    table
}
