//! redis-benchmark: one test on one server, and the server's CPU meanwhile.

use std::process::{Command, Stdio};

use anyhow::{Context, bail};
use nagaya_process::spawn_child;
use serde::Serialize;

use super::options::Test;
use super::plan::{Plan, VALUE_BYTES};
use super::servers::{Server, Side};

/// One run of one test.
#[derive(Clone, Debug, Serialize)]
pub(super) struct Sample {
    pub(super) side: Side,
    pub(super) test: Test,
    pub(super) depth: u32,
    pub(super) round: u32,
    /// Keys the load was spread over.
    pub(super) keys: u64,
    pub(super) requests: u64,
    pub(super) requests_per_second: f64,
    pub(super) p50_ms: f64,
    pub(super) p99_ms: f64,
    pub(super) cpu_seconds: f64,
    /// The line of redis-benchmark's CSV that the figures come from.
    pub(super) csv: String,
}

impl Sample {
    /// CPU seconds of the server for a million commands.
    pub(super) fn cpu_per_million(&self) -> f64 {
        self.cpu_seconds * 1e6 / self.requests as f64
    }
}

/// What to send.
#[derive(Clone, Copy)]
pub(super) struct Load {
    pub(super) test: Test,
    pub(super) depth: u32,
    pub(super) round: u32,
    pub(super) keys: u64,
}

/// redis-benchmark's arguments, without the server's port.
pub(super) fn arguments(plan: &Plan, load: Load) -> Vec<String> {
    let (clients, requests) = (plan.clients, plan.requests_at(load.depth));
    let (depth, keys, test) = (load.depth, load.keys, load.test.flag());
    format!("-c {clients} -P {depth} -r {keys} -d {VALUE_BYTES} -n {requests} -t {test} --csv")
        .split(' ')
        .map(str::to_owned)
        .collect()
}

/// Runs one test against one server.
pub(super) fn run(plan: &Plan, server: &Server, load: Load) -> anyhow::Result<Sample> {
    let mut command = Command::new(&plan.programs.redis_benchmark);
    command.args(["-h", "127.0.0.1", "-p", &server.address.port().to_string()]);
    command
        .args(arguments(plan, load))
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped());
    let before = server.cpu_seconds()?;
    let child = spawn_child(command).context("cannot start redis-benchmark")?;
    let ended = child
        .wait_with_output()
        .context("redis-benchmark cannot be waited for")?;
    let cpu_seconds = server.cpu_seconds()? - before;
    let (name, test) = (server.side.name(), load.test.name());
    let output = String::from_utf8_lossy(&ended.stdout);
    if !ended.status.success() {
        let said = String::from_utf8_lossy(&ended.stderr);
        bail!(
            "redis-benchmark failed with {test} on {name} ({}): {output}{said}",
            ended.status
        );
    }
    let figures = parse(&output)
        .with_context(|| format!("redis-benchmark's figures for {test} on {name} make no sense: {output}"))?;
    Ok(Sample {
        side: server.side,
        test: load.test,
        depth: load.depth,
        round: load.round,
        keys: load.keys,
        requests: plan.requests_at(load.depth),
        requests_per_second: figures.requests_per_second,
        p50_ms: figures.p50_ms,
        p99_ms: figures.p99_ms,
        cpu_seconds,
        csv: figures.csv,
    })
}

/// What redis-benchmark says of a run.
#[derive(Debug, PartialEq)]
pub(super) struct Stats {
    pub(super) requests_per_second: f64,
    p50_ms: f64,
    pub(super) p99_ms: f64,
    pub(super) csv: String,
}

/// Reads the columns by their names: their order has changed between versions.
pub(super) fn parse(output: &str) -> Option<Stats> {
    let mut lines = output.lines().filter(|line| line.starts_with('"'));
    let names = cells(lines.next()?);
    let csv = lines.next()?;
    let values = cells(csv);
    let column = |name: &str| -> Option<f64> {
        let at = names.iter().position(|cell| *cell == name)?;
        values.get(at)?.parse().ok()
    };
    Some(Stats {
        requests_per_second: column("rps").filter(|rps| *rps > 0.0)?,
        p50_ms: column("p50_latency_ms")?,
        p99_ms: column("p99_latency_ms")?,
        csv: csv.to_owned(),
    })
}

fn cells(line: &str) -> Vec<&str> {
    line.split("\",\"").map(|cell| cell.trim_matches('"')).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    const HEAD: &str = r#""test","rps","avg_latency_ms","min_latency_ms","p50_latency_ms","p95_latency_ms","p99_latency_ms","max_latency_ms""#;

    #[test]
    fn figures_are_found_by_column_name() {
        let row = r#""MSET (10 keys)","99304.87","0.258","0.080","0.255","0.335","0.375","0.983""#;
        let figures = parse(&format!("{HEAD}\n{row}\n")).unwrap();
        let expected = Stats {
            requests_per_second: 99304.87,
            p50_ms: 0.255,
            p99_ms: 0.375,
            csv: row.to_owned(),
        };
        assert_eq!(figures, expected);
    }

    #[test]
    fn output_without_figures_is_refused() {
        assert_eq!(parse(""), None);
        assert_eq!(parse(HEAD), None);
        assert_eq!(parse(&format!("{HEAD}\n\"SET\",\"nan\"\n")), None);
        assert_eq!(
            parse(&format!(
                "{HEAD}\n\"SET\",\"0.00\",\"0\",\"0\",\"0\",\"0\",\"0\",\"0\"\n"
            )),
            None
        );
    }
}
