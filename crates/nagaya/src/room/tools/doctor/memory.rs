//! What a running server says of its memory, against what its keys take.

use anyhow::Context;
use nagaya_resp::Frame;

use super::report::{Part, Report};
use crate::app::data_dir::Holder;
use crate::room::tools::client::Client;
use crate::room::tools::room_data::RoomData;
use crate::room::tools::size::{count, human};

/// Random keys whose size is asked for.
const SAMPLE_KEYS: u64 = 1000;
/// How much more than it counts the process may occupy: half as much, and what any program has.
const UNCOUNTED_MAX: u64 = 128 << 20;
/// Keys may seem this much larger than all memory in use before the count is called wrong: a sample errs.
const SAMPLE_ERROR: f64 = 1.25;

#[derive(Debug, Default)]
struct MemoryStats {
    used: u64,
    resident: u64,
    limit: u64,
    hot_keys: u64,
    /// Tags that could not be read from the cold tier since the start.
    loads_failed: u64,
    /// Mean size of a key in the sample.
    bytes_per_key: f64,
}

pub(super) fn check(room_data: &RoomData, holder: &Holder, report: &mut Report) {
    let stats = room_data.connect(holder).and_then(|mut client| ask(&mut client));
    match stats {
        Ok(stats) => judge(&stats, report),
        Err(error) => report.find(
            Part::Memory,
            format!("the running server could not be asked: {error:#}"),
            "see that it answers: redis-cli ping",
        ),
    }
}

fn ask(client: &mut Client) -> anyhow::Result<MemoryStats> {
    let info = client
        .ask_bytes(&[b"INFO", b"memory", b"room"])?
        .unwrap_or_default();
    let info = String::from_utf8_lossy(&info).into_owned();
    let field = |name: &str| {
        let line = info
            .lines()
            .find_map(|line| line.strip_prefix(name)?.strip_prefix(':'));
        line.and_then(|value| value.parse().ok())
            .with_context(|| format!("INFO has no field {name}"))
    };
    let hot_keys = field("room_hot_keys")?;
    Ok(MemoryStats {
        used: field("used_memory")?,
        resident: field("used_memory_rss")?,
        limit: field("maxmemory")?,
        hot_keys,
        loads_failed: field("room_loads_failed")?,
        bytes_per_key: sample(client, hot_keys)?,
    })
}

fn sample(client: &mut Client, hot_keys: u64) -> anyhow::Result<f64> {
    if hot_keys == 0 {
        return Ok(0.0);
    }
    let (mut keys, mut bytes) = (0, 0);
    for _ in 0..SAMPLE_KEYS.min(10 * hot_keys) {
        let Some(key) = client.ask_bytes(&[b"RANDOMKEY"])? else {
            break;
        };
        if let Frame::Int(size) = client.ask(&[b"MEMORY", b"USAGE", &key])? {
            keys += 1;
            bytes += size.unsigned_abs();
        }
    }
    Ok(bytes as f64 / f64::from(keys.max(1)))
}

fn judge(stats: &MemoryStats, report: &mut Report) {
    let MemoryStats {
        used,
        resident,
        limit,
        hot_keys,
        loads_failed,
        bytes_per_key,
    } = *stats;
    let data = (hot_keys as f64 * bytes_per_key) as u64;
    let before = report.findings.len();
    if data as f64 > used as f64 * SAMPLE_ERROR {
        report.find(
            Part::Memory,
            format!(
                "the keys in memory take about {}, but only {} are counted",
                human(data),
                human(used)
            ),
            "the limit on memory would not hold: please report this with the output of INFO memory",
        );
    }
    if loads_failed > 0 {
        report.find(
            Part::Cold,
            format!("{} failed since the server started", count(loads_failed, "load")),
            "its log says why; stop the server and look at all of the cold tier with this tool",
        );
    }
    if limit > 0 && used > limit {
        report.find(
            Part::Memory,
            format!(
                "{} are in use, more than the {} allowed",
                human(used),
                human(limit)
            ),
            "see whether saving works (INFO, the log of the server); a higher room.max_memory helps at once",
        );
    }
    if resident > used + used / 2 + UNCOUNTED_MAX {
        report.find(
            Part::Memory,
            format!(
                "the process occupies {}, of which {} are in use",
                human(resident),
                human(used)
            ),
            "memory was freed and not given back, or is not counted; a restart gives it back",
        );
    }
    if report.findings.len() == before {
        let limit = if limit > 0 {
            format!(" of {} allowed", human(limit))
        } else {
            String::new()
        };
        report.note(
            Part::Memory,
            format!(
                "{} in use{limit}, about {} of it in {}; the process occupies {}",
                human(used),
                human(data),
                count(hot_keys, "key"),
                human(resident)
            ),
        );
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn findings(stats: MemoryStats) -> usize {
        let mut report = Report::default();
        judge(&stats, &mut report);
        report.findings.len()
    }

    #[test]
    fn memory_that_is_not_counted_is_found() {
        let fine = || MemoryStats {
            used: 100 << 20,
            resident: 120 << 20,
            limit: 200 << 20,
            hot_keys: 1000,
            loads_failed: 0,
            bytes_per_key: 80_000.0,
        };
        assert_eq!(findings(fine()), 0);
        assert_eq!(
            findings(MemoryStats {
                bytes_per_key: 200_000.0,
                ..fine()
            }),
            1
        );
        assert_eq!(
            findings(MemoryStats {
                limit: 50 << 20,
                ..fine()
            }),
            1
        );
        assert_eq!(
            findings(MemoryStats {
                resident: 900 << 20,
                ..fine()
            }),
            1
        );
    }
}
