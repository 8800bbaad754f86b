//! Data ten times larger than the memory allowed: what a hit costs, what a load costs, and whether the
//! limit holds.
//!
//! The same load runs twice, first on a server without a limit, then on one with it. A *hot hit* is a GET of
//! one of the most used keys, a thousandth of all, which are always in memory: their latencies can be compared
//! between the two. For *cold loads*, now and then a GET of a seldom used key is preceded by ROOM.STATUS, which
//! says whether it is in memory and does not bring it there.

use std::net::SocketAddr;
use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use anyhow::{anyhow, bail};
use nagaya_clock::{Clock, SystemClock};
use nagaya_resp::encode_request;
use serde::Serialize;

use super::memory_watch::{MemoryWatch, MostMemory};
use super::options::Plan;
use super::zipf::{Random, Zipf};
use crate::connection::{Connection, Reply};
use crate::progress;
use crate::servers::{Server, Side};
use crate::table::{Table, ratio};

/// Minimum size of a value in bytes; up to [`VALUE_SPREAD`] more.
const VALUE_BYTES_MIN: usize = 200;
const VALUE_SPREAD: u64 = 825;
/// What a key takes in memory on average, for the choice of their number.
const BYTES_PER_KEY: u64 = 700;
/// One request in this many is a SET.
const SET_ONE_IN: u64 = 10;
/// Before one in this many GETs of a seldom used key, ROOM.STATUS is asked.
const PROBE_ONE_IN: u64 = 20;

/// Writes sent before their replies are read while the data goes in.
const FILL_BATCH: u64 = 200;
/// Pause after a write was refused because memory was full.
const REFUSED_PAUSE: Duration = Duration::from_millis(10);

/// One run of the load.
#[derive(Clone, Debug, Serialize)]
pub(super) struct Run {
    pub(super) requests_per_second: f64,
    pub(super) hot: Percentiles,
    pub(super) cold: Percentiles,
    pub(super) memory: MostMemory,
    /// Writes that were refused because memory was full and then retried, including those of the initial load.
    pub(super) refused: u64,
}

#[derive(Clone, Copy, Debug, Default, Serialize)]
pub(super) struct Percentiles {
    pub(super) samples: usize,
    pub(super) p50_us: u32,
    pub(super) p99_us: u32,
}

/// Both runs.
#[derive(Clone, Debug, Serialize)]
pub(super) struct Larger {
    pub(super) keys: u64,
    pub(super) limit_bytes: u64,
    pub(super) seconds: u64,
    pub(super) unlimited: Run,
    pub(super) limited: Run,
    /// The limited run's over the other's: the goal is at most 1.2.
    pub(super) hot_p99_ratio: f64,
    pub(super) limit_held: bool,
}

/// What one connection saw, latencies in microseconds.
#[derive(Default)]
struct Seen {
    requests: u64,
    refused: u64,
    hot: Vec<u32>,
    cold: Vec<u32>,
}

pub(super) fn run(plan: &Plan, folder: &Path) -> anyhow::Result<Larger> {
    let keys = plan.memory_bytes * plan.times / BYTES_PER_KEY;
    let unlimited = one(plan, &folder.join("unlimited"), 0, keys)?;
    let limited = one(plan, &folder.join("limited"), plan.memory_bytes, keys)?;
    Ok(Larger {
        keys,
        limit_bytes: plan.memory_bytes,
        seconds: plan.seconds,
        hot_p99_ratio: f64::from(limited.hot.p99_us) / f64::from(unlimited.hot.p99_us.max(1)),
        limit_held: limited.memory.used_bytes <= plan.memory_bytes,
        unlimited,
        limited,
    })
}

fn one(plan: &Plan, folder: &Path, limit_bytes: u64, keys: u64) -> anyhow::Result<Run> {
    std::fs::create_dir(folder)?;
    let limit = format!("room.max_memory={limit_bytes}b");
    let server = Server::start_with(Side::Ours, &plan.programs, folder, &["--set", &limit])?;
    let watch = MemoryWatch::start(&server)?;
    progress(&format!("{keys} keys go in, max_memory {limit_bytes}"));
    let refused = fill(server.address, keys)?;
    progress(&format!("Zipf load for {} s", plan.seconds));
    let seen = load(plan, server.address, Zipf::new(keys), keys)?;
    let memory = watch.finish()?;
    let mut all = Seen {
        refused,
        ..Seen::default()
    };
    for one in seen {
        all.requests += one.requests;
        all.refused += one.refused;
        all.hot.extend(one.hot);
        all.cold.extend(one.cold);
    }
    Ok(Run {
        requests_per_second: all.requests as f64 / plan.seconds as f64,
        hot: percentiles(all.hot),
        cold: percentiles(all.cold),
        memory,
        refused: all.refused,
    })
}

/// Writes every key; those refused because memory could not be freed fast enough are sent again. Returns
/// how often that was.
fn fill(address: SocketAddr, keys: u64) -> anyhow::Result<u64> {
    let mut connection = Connection::open(address)?;
    let mut refused = 0;
    let mut next = 0;
    let mut batch: Vec<u64> = Vec::new();
    while next < keys || !batch.is_empty() {
        let fresh = (FILL_BATCH - batch.len() as u64).min(keys - next);
        batch.extend(next..next + fresh);
        next += fresh;
        let encode = |at: usize, out: &mut Vec<u8>| {
            encode_request(&[b"SET", &name(batch[at]), &value(batch[at])], out);
        };
        let mut again = Vec::new();
        let mut other = None;
        connection.ask_all(batch.len(), encode, |at, reply| match reply {
            Reply::Line(_) => {}
            Reply::Error(text) if text.starts_with("OOM") => again.push(batch[at]),
            reply => other = Some(reply),
        })?;
        if let Some(reply) = other {
            bail!("SET was answered with {reply:?}");
        }
        if !again.is_empty() {
            refused += again.len() as u64;
            std::thread::sleep(REFUSED_PAUSE);
        }
        batch = again;
    }
    Ok(refused)
}

fn load(plan: &Plan, address: SocketAddr, zipf: Zipf, keys: u64) -> anyhow::Result<Vec<Seen>> {
    let stop = AtomicBool::new(false);
    std::thread::scope(|scope| {
        let stop = &stop;
        let threads: Vec<_> = (0..plan.connections)
            .map(|number| scope.spawn(move || client(address, zipf, keys, number, stop)))
            .collect();
        std::thread::sleep(Duration::from_secs(plan.seconds));
        stop.store(true, Ordering::Relaxed);
        let ended = threads.into_iter().map(|thread| match thread.join() {
            Ok(seen) => seen,
            Err(_) => Err(anyhow!("a thread of the load generator panicked")),
        });
        ended.collect()
    })
}

/// Asks one request after the other until told to stop.
fn client(
    address: SocketAddr,
    zipf: Zipf,
    keys: u64,
    number: u32,
    stop: &AtomicBool,
) -> anyhow::Result<Seen> {
    let mut connection = Connection::open(address)?;
    let mut random = Random::new(u64::from(number) + 1);
    let mut seen = Seen::default();
    while !stop.load(Ordering::Relaxed) {
        let rank = zipf.draw(&mut random);
        let key = zipf.key(rank);
        let name = name(key);
        if random.next().is_multiple_of(SET_ONE_IN) {
            match connection.ask(&[b"SET", &name, &value(key)])? {
                Reply::Line(_) => seen.requests += 1,
                Reply::Error(text) if text.starts_with("OOM") => {
                    seen.refused += 1;
                    std::thread::sleep(REFUSED_PAUSE);
                }
                other => bail!("SET was answered with {other:?}"),
            }
            continue;
        }
        let (hot, seldom) = (rank < keys / 1000, rank > keys / 20);
        let cold = seldom && random.next().is_multiple_of(PROBE_ONE_IN) && !connection.is_resident(&name)?;
        let begun = SystemClock.now();
        let reply = connection.ask(&[b"GET", &name])?;
        let spent_us = u32::try_from((SystemClock.now() - begun).as_micros()).unwrap_or(u32::MAX);
        match reply {
            Reply::Bytes(found) if found.len() == value_bytes(key) => seen.requests += 1,
            other => bail!(
                "GET {} was answered with {other:?}",
                String::from_utf8_lossy(&name)
            ),
        }
        if hot {
            seen.hot.push(spent_us);
        } else if cold {
            seen.cold.push(spent_us);
        }
    }
    Ok(seen)
}

fn name(number: u64) -> Vec<u8> {
    format!("user:{number:012}").into_bytes()
}

fn value_bytes(number: u64) -> usize {
    VALUE_BYTES_MIN + (Random::new(number).next() % VALUE_SPREAD) as usize
}

/// Bytes that do not compress, as data of users does not compress well.
fn value(number: u64) -> Vec<u8> {
    let mut random = Random::new(number ^ 0x5555);
    let words = std::iter::repeat_with(|| random.next().to_le_bytes());
    words.flatten().take(value_bytes(number)).collect()
}

fn percentiles(mut latencies: Vec<u32>) -> Percentiles {
    latencies.sort_unstable();
    let at = |percent: usize| {
        let index = latencies.len() * percent / 100;
        latencies.get(index).or(latencies.last()).copied().unwrap_or(0)
    };
    Percentiles {
        samples: latencies.len(),
        p50_us: at(50),
        p99_us: at(99),
    }
}

pub(super) fn table(larger: &Larger) -> Table {
    let mut table = Table::new(&[
        "",
        "rps",
        "hot p50 us",
        "hot p99 us",
        "cold p50 us",
        "cold p99 us",
        "used MiB",
        "RSS MiB",
        "refused",
    ]);
    let mebibytes = |bytes: u64| format!("{:.1}", bytes as f64 / f64::from(1 << 20));
    let limit = format!("max_memory {} MiB", larger.limit_bytes >> 20);
    for (name, run) in [("all in memory", &larger.unlimited), (&limit, &larger.limited)] {
        let cold = |figure: u32| match run.cold.samples {
            0 => "-".to_owned(),
            _ => figure.to_string(),
        };
        table.row(vec![
            name.to_owned(),
            format!("{:.0}", run.requests_per_second),
            run.hot.p50_us.to_string(),
            run.hot.p99_us.to_string(),
            cold(run.cold.p50_us),
            cold(run.cold.p99_us),
            mebibytes(run.memory.used_bytes),
            mebibytes(run.memory.resident_bytes),
            run.refused.to_string(),
        ]);
    }
    let mut cells = vec![String::new(); 9];
    cells[0] = "ratio".to_owned();
    cells[1] = ratio(larger.limited.requests_per_second / larger.unlimited.requests_per_second);
    cells[3] = ratio(larger.hot_p99_ratio);
    table.row(cells);
    table
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn percentiles_of_few_and_of_none() {
        let found = percentiles((1..=200).rev().collect());
        assert_eq!((found.samples, found.p50_us, found.p99_us), (200, 101, 199));
        assert_eq!(percentiles(Vec::new()).p99_us, 0);
    }

    #[test]
    fn values_have_the_size_they_are_checked_for() {
        for number in 0..1000 {
            let bytes = value(number).len();
            assert_eq!(bytes, value_bytes(number));
            assert!((200..=1024).contains(&bytes));
        }
    }
}
