//! Metrics of the process itself, read from the system at each scrape.

use std::fmt;
use std::sync::Arc;
use std::time::Instant;

use prometheus_client::collector::Collector;
use prometheus_client::encoding::{DescriptorEncoder, EncodeMetric};
use prometheus_client::metrics::counter::ConstCounter;
use prometheus_client::metrics::gauge::ConstGauge;
use prometheus_client::registry::Unit;

use nagaya_clock::Clock;

/// Reports uptime, memory, CPU time, threads and open files of this process.
///
/// What the system does not provide (there is no `/proc` outside Linux) is left out.
pub(crate) struct ProcessCollector {
    clock: Arc<dyn Clock>,
    started: Instant,
    started_unix_ms: i64,
}

/// The values of `/proc/self` at one moment.
#[derive(Debug, Default, PartialEq)]
struct Usage {
    cpu_seconds: Option<f64>,
    threads: Option<u64>,
    resident_bytes: Option<u64>,
    open_files: Option<u64>,
}

impl ProcessCollector {
    pub(crate) fn new(clock: Arc<dyn Clock>) -> ProcessCollector {
        let (started, started_unix_ms) = (clock.now(), clock.unix_ms());
        ProcessCollector {
            clock,
            started,
            started_unix_ms,
        }
    }
}

impl fmt::Debug for ProcessCollector {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ProcessCollector")
            .field("started", &self.started)
            .finish_non_exhaustive()
    }
}

impl Collector for ProcessCollector {
    fn encode(&self, mut encoder: DescriptorEncoder<'_>) -> fmt::Result {
        let uptime = (self.clock.now() - self.started).as_secs_f64();
        gauge(
            &mut encoder,
            "process_uptime",
            "Time since the process started.",
            Some(&Unit::Seconds),
            uptime,
        )?;
        let started = self.started_unix_ms as f64 / 1000.0;
        let help = "Unix time at which the process started.";
        gauge(
            &mut encoder,
            "process_start_time",
            help,
            Some(&Unit::Seconds),
            started,
        )?;

        let usage = Usage::read();
        if let Some(seconds) = usage.cpu_seconds {
            let counter = ConstCounter::new(seconds);
            let help = "User and system CPU time spent.";
            let metric = encoder.encode_descriptor(
                "process_cpu",
                help,
                Some(&Unit::Seconds),
                counter.metric_type(),
            )?;
            counter.encode(metric)?;
        }
        if let Some(bytes) = usage.resident_bytes {
            let help = "Memory held in RAM.";
            gauge(
                &mut encoder,
                "process_resident_memory",
                help,
                Some(&Unit::Bytes),
                bytes as f64,
            )?;
        }
        if let Some(threads) = usage.threads {
            gauge(
                &mut encoder,
                "process_threads",
                "Threads of the process.",
                None,
                threads as f64,
            )?;
        }
        if let Some(files) = usage.open_files {
            gauge(
                &mut encoder,
                "process_open_fds",
                "Open file descriptors.",
                None,
                files as f64,
            )?;
        }
        Ok(())
    }
}

impl Usage {
    fn read() -> Usage {
        let stat = std::fs::read_to_string("/proc/self/stat").unwrap_or_default();
        let statm = std::fs::read_to_string("/proc/self/statm").unwrap_or_default();
        let open_files = std::fs::read_dir("/proc/self/fd")
            .ok()
            .map(|entries| entries.count() as u64);
        Usage {
            open_files,
            ..Usage::parse(&stat, &statm)
        }
    }

    /// Reads the fields of proc(5). The second field of `stat` is the program's name in
    /// parentheses and may hold anything, so counting starts after the last `)`.
    fn parse(stat: &str, statm: &str) -> Usage {
        let rest = stat.rsplit_once(')').map_or("", |(_, rest)| rest);
        let fields: Vec<&str> = rest.split_whitespace().collect();
        let field = |number: usize| fields.get(number - 3).and_then(|text| text.parse::<u64>().ok());
        let ticks = field(14).zip(field(15)).map(|(user, system)| user + system);
        let pages = statm
            .split_whitespace()
            .nth(1)
            .and_then(|text| text.parse::<u64>().ok());
        Usage {
            cpu_seconds: ticks.map(|ticks| ticks as f64 / rustix::param::clock_ticks_per_second() as f64),
            threads: field(20),
            resident_bytes: pages.map(|pages| pages * rustix::param::page_size() as u64),
            open_files: None,
        }
    }
}

fn gauge(
    encoder: &mut DescriptorEncoder<'_>,
    name: &str,
    help: &str,
    unit: Option<&Unit>,
    value: f64,
) -> fmt::Result {
    let gauge = ConstGauge::new(value);
    let metric = encoder.encode_descriptor(name, help, unit, gauge.metric_type())?;
    gauge.encode(metric)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_program_name_with_spaces_and_parentheses_does_not_shift_the_fields() {
        let stat = "12 (a b) c) S 1 2 3 4 5 6 7 8 9 10 150 50 17 18 19 20 8 0 99";
        let usage = Usage::parse(stat, "1000 3 2 1 0 5 0");
        assert_eq!(usage.threads, Some(8));
        assert_eq!(
            usage.cpu_seconds,
            Some(200.0 / rustix::param::clock_ticks_per_second() as f64)
        );
        assert_eq!(usage.resident_bytes, Some(3 * rustix::param::page_size() as u64));
        assert_eq!(Usage::parse("", ""), Usage::default());
    }
}
