//! Part two: what saving and loading costs on Redis and PostgreSQL.
//!
//! The log that a small change of a large tag writes; how long tags of several sizes take to load; what a
//! thousand first requests for one tag cause; and how far the copy lags behind under ten thousand writes a
//! second, each to one of many tags.

use std::io::{Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use anyhow::{Context, bail, ensure};
use nagaya_clock::{Clock, SystemClock};
use nagaya_cluster::hot_tier::{Limits, RedisHotTier};
use nagaya_cold::PostgresCold;
use nagaya_resp::encode_request;
use nagaya_tiering::cold::{Change, ColdTier, Kind, Snapshot, StoredValue, Version};
use nagaya_tiering::loader::{Loader, LoaderConfig};
use serde::Serialize;

use super::engines::{self, Running};
use super::options::Plan;
use crate::connection::{Connection, Reply};
use crate::jobs::postgres::Postgres;
use crate::progress;

/// Changes whose log is measured.
const CHANGES: u64 = 200;
/// Keys of the tags that are loaded.
const SIZES: [u64; 3] = [1, 10, 1000];
const FIRST_REQUESTS: usize = 1000;
const WRITES_PER_SECOND: f64 = 10_000.0;
/// Tags that the writes are spread over.
const WRITTEN_TAGS: u64 = 10_000;
const PATIENCE: Duration = Duration::from_secs(30);
const PAUSE: Duration = Duration::from_millis(20);

/// What saving and loading costs.
#[derive(Serialize)]
pub(super) struct Saves {
    /// Bytes of PostgreSQL's log for a change of 1 KB in a tag of 100 KB.
    pub(super) wal_bytes_per_change: f64,
    pub(super) loads: Vec<LoadTimes>,
    /// Loads that a thousand first requests for one tag at the same time caused, and how long until all were
    /// answered.
    pub(super) loads_of_one_tag: u64,
    pub(super) one_tag_ms: f64,
    pub(super) writes_per_second: f64,
    pub(super) saves_per_second: f64,
    /// How far the copy lagged behind, at most and in the middle.
    pub(super) staleness_max_s: f64,
    pub(super) staleness_p50_s: f64,
}

/// How long tags take to load: the look, the claim and the installation.
#[derive(Serialize)]
pub(super) struct LoadTimes {
    pub(super) keys: u64,
    pub(super) tags: u64,
    pub(super) p50_ms: f64,
    pub(super) p99_ms: f64,
}

pub(super) fn run(plan: &Plan, folder: &Path) -> anyhow::Result<Saves> {
    let postgres = Postgres::start(None, folder)?;
    let database = postgres.database()?;
    let nodes = engines::cluster(plan, 1, folder)?;
    let redis = engines::url_of(&nodes);
    let cold: Arc<dyn ColdTier> = Arc::new(open(&database)?);
    progress("the log of a small change");
    let wal_bytes_per_change = wal(&postgres, &*cold)?;
    progress("loads");
    let loads = load_times(plan, &nodes[0], &redis, &cold)?;
    let (proxy, http) = engines::our_proxy(plan, &redis, &database, folder)?;
    progress("a thousand first requests for one tag");
    save(&*cold, b"crowd", 10, &payload(&nodes[0])?)?;
    let (loads_of_one_tag, one_tag_ms) = first_requests(&proxy, http)?;
    progress("writes");
    let task = engines::our_task(plan, &redis, &database, folder)?;
    let written = write(plan, &proxy, task.address)?;
    Ok(Saves {
        wal_bytes_per_change,
        loads,
        loads_of_one_tag,
        one_tag_ms,
        writes_per_second: written.writes_per_second,
        saves_per_second: written.saves_per_second,
        staleness_max_s: written.staleness.last().copied().unwrap_or(0.0),
        staleness_p50_s: quantile(&written.staleness, 0.5),
    })
}

/// Rows are made here behind the back of any filter, so there is none.
fn open(url: &str) -> anyhow::Result<PostgresCold> {
    let options = nagaya_cold::postgres::Options {
        filter: false,
        filter_lag: None,
        ..Default::default()
    };
    PostgresCold::open(url, options).context("the cold tier cannot be opened")
}

fn wal(postgres: &Postgres, cold: &dyn ColdTier) -> anyhow::Result<f64> {
    // Text that does not compress: digits of a number that never repeats.
    let text = |key: u64, snap: u64| -> String {
        let part = |at: u64| (key * 977 + snap * 31 + at).wrapping_mul(0x9e37_79b9_7f4a_7c15);
        (0..64).map(|at| format!("{:016x}", part(at))).collect()
    };
    let change = |key: u64, snap: u64| Change {
        key: format!("{{wal}}{key}").into_bytes(),
        value: Some(rest(text(key, snap).as_bytes())),
    };
    cold.ensure(&[b"wal"])?;
    cold.commit(
        &[snapshot(b"wal", 1, (0..100).map(|key| change(key, 0)).collect())],
        1,
    )?;
    let before = postgres.log_position()?;
    for at in 0..CHANGES {
        cold.commit(&[snapshot(b"wal", at + 2, vec![change(at % 100, at + 1)])], 1)?;
    }
    Ok((postgres.log_position()? - before) / CHANGES as f64)
}

fn snapshot(tag: &[u8], snap: u64, changes: Vec<Change>) -> Snapshot {
    Snapshot {
        tag: tag.to_vec(),
        version: Version { generation: 1, snap },
        changes,
        read_at_ms: None,
        written_at_ms: None,
    }
}

fn rest(payload: &[u8]) -> StoredValue {
    StoredValue {
        kind: Kind::String,
        payload: payload.to_vec(),
        expires_at_ms: None,
    }
}

/// What DUMP gives for a value of 100 bytes.
fn payload(node: &Running) -> anyhow::Result<Vec<u8>> {
    let mut connection = Connection::open(node.address)?;
    connection.ask(&[b"SET", b"sample", &[b'x'; 100]])?;
    let dumped = connection.ask(&[b"DUMP", b"sample"])?;
    connection.ask(&[b"DEL", b"sample"])?;
    match dumped {
        Reply::Bytes(payload) => Ok(payload),
        other => bail!("DUMP was answered with {other:?}"),
    }
}

fn save(cold: &dyn ColdTier, tag: &[u8], keys: u64, payload: &[u8]) -> anyhow::Result<()> {
    let name = |key: u64| [b"{", tag, b"}", key.to_string().as_bytes()].concat();
    let changes = (0..keys).map(|key| Change {
        key: name(key),
        value: Some(rest(payload)),
    });
    cold.ensure(&[tag])?;
    cold.commit(&[snapshot(tag, 1, changes.collect())], 1)?;
    Ok(())
}

fn load_times(
    plan: &Plan,
    node: &Running,
    redis: &str,
    cold: &Arc<dyn ColdTier>,
) -> anyhow::Result<Vec<LoadTimes>> {
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .worker_threads(1)
        .enable_all()
        .build()
        .context("no runtime")?;
    let url = redis.parse().context("the URL cannot be used")?;
    let hot = RedisHotTier::new(url, "bench", Limits::default(), runtime.handle().clone())?;
    let clock = Arc::new(SystemClock);
    let loader = Loader::new(Arc::new(hot), Arc::clone(cold), clock, LoaderConfig::default());
    let payload = payload(node)?;
    let mut measured = Vec::new();
    for keys in SIZES {
        let tags = if plan.is_quick {
            20
        } else {
            (100_000 / keys).min(1000)
        };
        let name = |number: u64| format!("load:{keys}:{number}").into_bytes();
        for number in 0..tags {
            save(&**cold, &name(number), keys, &payload)?;
        }
        let mut times = Vec::new();
        for number in 0..tags {
            let begun = SystemClock.now();
            if let Err(error) = loader.load(&name(number)) {
                bail!("a load failed: {error}");
            }
            times.push((SystemClock.now() - begun).as_secs_f64() * 1e3);
        }
        times.sort_by(f64::total_cmp);
        measured.push(LoadTimes {
            keys,
            tags,
            p50_ms: quantile(&times, 0.5),
            p99_ms: quantile(&times, 0.99),
        });
    }
    Ok(measured)
}

fn quantile(sorted: &[f64], part: f64) -> f64 {
    let at = (sorted.len() as f64 * part) as usize;
    sorted
        .get(at.min(sorted.len().saturating_sub(1)))
        .copied()
        .unwrap_or(0.0)
}

/// Sends one request on each of many connections before any reply is read; returns how many loads that caused.
fn first_requests(proxy: &Running, http: SocketAddr) -> anyhow::Result<(u64, f64)> {
    let mut request = Vec::new();
    encode_request(&[b"GET", b"{crowd}1"], &mut request);
    let open = |_| -> anyhow::Result<TcpStream> {
        let stream = TcpStream::connect(proxy.address).context("cannot connect")?;
        stream.set_read_timeout(Some(PATIENCE))?;
        Ok(stream)
    };
    let mut streams = (0..FIRST_REQUESTS)
        .map(open)
        .collect::<anyhow::Result<Vec<_>>>()?;
    let before = metric(http, "nagaya_tiers_loads_total")?;
    let begun = SystemClock.now();
    for stream in &mut streams {
        stream.write_all(&request)?;
    }
    for stream in &mut streams {
        let mut head = [0; 4];
        stream.read_exact(&mut head)?;
        ensure!(
            head == *b"$100",
            "a first request was not answered with the value"
        );
    }
    let took_ms = (SystemClock.now() - begun).as_secs_f64() * 1e3;
    Ok((
        (metric(http, "nagaya_tiers_loads_total")? - before) as u64,
        took_ms,
    ))
}

struct Written {
    writes_per_second: f64,
    saves_per_second: f64,
    /// All that was seen, sorted.
    staleness: Vec<f64>,
}

fn write(plan: &Plan, proxy: &Running, task: SocketAddr) -> anyhow::Result<Written> {
    let mut writer = Writer {
        connection: Connection::open(proxy.address)?,
        tags: if plan.is_quick { 1000 } else { WRITTEN_TAGS },
        sent: 0,
    };
    // Every tag comes into memory before anything is counted.
    while writer.sent < writer.tags {
        writer.write(1000)?;
    }
    let saves = || metric(task, "nagaya_tiers_saves_total");
    let (first, saves_before) = (writer.sent, wait_for(&saves)?);
    let begun = SystemClock.now();
    let elapsed = || SystemClock.now() - begun;
    let (mut staleness, mut next_look) = (Vec::new(), Duration::ZERO);
    while elapsed() < Duration::from_secs(plan.seconds) {
        let due = first + (elapsed().as_secs_f64() * WRITES_PER_SECOND) as u64;
        match due.saturating_sub(writer.sent).min(1000) {
            0 => std::thread::sleep(Duration::from_millis(1)),
            count => writer.write(count)?,
        }
        if elapsed() >= next_look {
            staleness.push(metric(task, "nagaya_tiers_staleness_seconds")?);
            next_look = elapsed() + Duration::from_millis(200);
        }
    }
    let seconds = elapsed().as_secs_f64();
    staleness.sort_by(f64::total_cmp);
    Ok(Written {
        writes_per_second: (writer.sent - first) as f64 / seconds,
        saves_per_second: (saves()? - saves_before) / seconds,
        staleness,
    })
}

struct Writer {
    connection: Connection,
    tags: u64,
    sent: u64,
}

impl Writer {
    /// Writes to as many tags, in a row that goes through all of them.
    fn write(&mut self, count: u64) -> anyhow::Result<()> {
        let (from, tags, mut failed) = (self.sent, self.tags, None);
        let encode = |at: usize, out: &mut Vec<u8>| {
            let tag = (from + at as u64).wrapping_mul(7919) % tags;
            encode_request(&[b"SET", format!("{{w{tag}}}v").as_bytes(), &[b'v'; 100]], out);
        };
        let count = usize::try_from(count).unwrap_or(1);
        self.connection.ask_all(count, encode, |_, reply| {
            if let Reply::Error(error) = reply {
                failed = Some(error);
            }
        })?;
        self.sent += count as u64;
        match failed {
            Some(error) => bail!("a write failed: {error}"),
            None => Ok(()),
        }
    }
}

/// Waits until the first answer.
fn wait_for(ask: &impl Fn() -> anyhow::Result<f64>) -> anyhow::Result<f64> {
    let begun = SystemClock.now();
    loop {
        match ask() {
            Err(error) if SystemClock.now() - begun > PATIENCE => return Err(error),
            Err(_) => std::thread::sleep(PAUSE),
            answer => return answer,
        }
    }
}

/// Reads one figure from `/metrics`.
fn metric(http: SocketAddr, name: &str) -> anyhow::Result<f64> {
    let mut stream = TcpStream::connect(http).context("cannot reach the metrics")?;
    stream.set_read_timeout(Some(PATIENCE))?;
    stream.write_all(b"GET /metrics HTTP/1.1\r\nhost: localhost\r\nconnection: close\r\n\r\n")?;
    let mut text = String::new();
    stream.read_to_string(&mut text)?;
    figure(&text, name).with_context(|| format!("there is no metric {name}"))
}

fn figure(text: &str, name: &str) -> Option<f64> {
    let line = text
        .lines()
        .find_map(|line| line.strip_prefix(name)?.strip_prefix(' '));
    line?.trim().parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_metric_is_found_by_its_whole_name() {
        let text = "# HELP a_total x\na_total_more 3\na_total 2\n";
        assert_eq!(figure(text, "a_total"), Some(2.0));
        assert_eq!(figure(text, "a"), None);
    }

    #[test]
    fn quantiles_of_few_values_are_values() {
        assert_eq!(quantile(&[1.0, 2.0, 3.0], 0.5), 2.0);
        assert_eq!(quantile(&[1.0, 2.0, 3.0], 0.99), 3.0);
        assert_eq!(quantile(&[], 0.5), 0.0);
    }
}
