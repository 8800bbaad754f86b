//! Part one: requests through our proxy, through twemproxy, and without either.
//!
//! Twemproxy knows no Cluster and spreads keys over servers of its own; ours is in front of a Cluster with as
//! many primaries. The rounds take turns, so that whatever else the machine does meets all three.

use std::path::Path;
use std::process::{Command, Stdio};

use anyhow::{Context, bail};
use nagaya_process::spawn_child;
use serde::Serialize;

use super::engines::{self, Running};
use super::options::Plan;
use crate::connection::{Connection, Reply};
use crate::jobs::postgres::Postgres;
use crate::options::Test;
use crate::throughput::median;
use crate::{load_generator, progress};

/// The bytes of a value.
const VALUE_BYTES: u32 = 16;
pub(super) const TESTS: [Test; 2] = [Test::Get, Test::Set];

/// Which way requests take.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub(super) enum Way {
    Ours,
    Twemproxy,
    Direct,
}

/// One run of one test.
#[derive(Clone, Debug, Serialize)]
pub(super) struct Sample {
    pub(super) way: Way,
    pub(super) nodes: u16,
    pub(super) test: Test,
    pub(super) depth: u32,
    pub(super) round: u32,
    pub(super) requests: u64,
    pub(super) requests_per_second: f64,
    pub(super) p99_ms: f64,
    /// Of the proxy alone; none without one.
    pub(super) cpu_seconds: Option<f64>,
    /// Commands that the servers ran for it, besides the requests themselves.
    pub(super) more_commands: Option<i64>,
    pub(super) csv: String,
}

/// One test at one depth and number of servers: medians over the rounds.
#[derive(Clone, Debug, Serialize)]
pub(super) struct Row {
    pub(super) nodes: u16,
    pub(super) depth: u32,
    pub(super) test: Test,
    pub(super) ours_rps: f64,
    pub(super) twemproxy_rps: f64,
    pub(super) direct_rps: f64,
    /// CPU seconds of the proxy for a million requests.
    pub(super) ours_cpu: f64,
    pub(super) twemproxy_cpu: f64,
    /// Ours over twemproxy's: more is better.
    pub(super) throughput_ratio: f64,
    /// Ours over twemproxy's: less is better.
    pub(super) cpu_ratio: f64,
    /// Commands that servers ran beyond the requests, for a hundred requests.
    pub(super) more_commands_percent: f64,
}

pub(super) fn run(plan: &Plan, folder: &Path) -> anyhow::Result<(Vec<Row>, Vec<Sample>)> {
    let postgres = Postgres::start(None, folder)?;
    let mut samples = Vec::new();
    for &count in &plan.nodes {
        let folder = folder.join(format!("nodes-{count}"));
        std::fs::create_dir(&folder)?;
        measure(plan, count, &postgres, &folder, &mut samples)?;
    }
    let mut rows = Vec::new();
    for &nodes in &plan.nodes {
        for &depth in &plan.depths {
            rows.extend(TESTS.iter().map(|&test| row(nodes, depth, test, &samples)));
        }
    }
    Ok((rows, samples))
}

/// The targets of requests.
struct Places {
    ours: Running,
    twemproxy: Running,
    cluster: Vec<Running>,
    _single: Vec<Running>,
}

fn measure(
    plan: &Plan,
    count: u16,
    postgres: &Postgres,
    folder: &Path,
    samples: &mut Vec<Sample>,
) -> anyhow::Result<()> {
    let cluster = engines::cluster(plan, count, folder)?;
    let single = engines::single_servers(plan, count, folder)?;
    let url = engines::url_of(&cluster);
    let (ours, _) = engines::our_proxy(plan, &url, &postgres.database()?, folder)?;
    let places = Places {
        twemproxy: engines::twemproxy(plan, &single, folder)?,
        ours,
        cluster,
        _single: single,
    };
    let ways = [Way::Ours, Way::Twemproxy, Way::Direct];
    // Every key is written and read once before anything is counted: the tags are resident then.
    for way in ways {
        for test in [Test::Set, Test::Get] {
            benchmark(plan, &places, way, test, 16, (plan.keyspace * 10).max(10_000))?;
        }
    }
    for &depth in &plan.depths {
        for round in 0..plan.rounds {
            progress(&format!(
                "{count} servers, depth {depth}, round {} of {}",
                round + 1,
                plan.rounds
            ));
            for test in TESTS {
                for turn in 0..ways.len() {
                    let way = ways[(turn + round as usize) % ways.len()];
                    let mut sample = sample(plan, &places, way, test, depth)?;
                    (sample.nodes, sample.round) = (count, round);
                    samples.push(sample);
                }
            }
        }
    }
    Ok(())
}

fn sample(plan: &Plan, places: &Places, way: Way, test: Test, depth: u32) -> anyhow::Result<Sample> {
    let proxy = match way {
        Way::Ours => Some(&places.ours),
        Way::Twemproxy => Some(&places.twemproxy),
        Way::Direct => None,
    };
    let requests = plan.requests_at(depth);
    let cpu = || proxy.map(Running::cpu_seconds).transpose();
    let (cpu_before, run_before) = (cpu()?, commands_run(&places.cluster)?);
    let figures = benchmark(plan, places, way, test, depth, requests)?;
    let (cpu_after, run_after) = (cpu()?, commands_run(&places.cluster)?);
    let more = run_after - run_before - requests as i64;
    Ok(Sample {
        way,
        nodes: 0,
        test,
        depth,
        round: 0,
        requests,
        requests_per_second: figures.requests_per_second,
        p99_ms: figures.p99_ms,
        cpu_seconds: cpu_after.zip(cpu_before).map(|(after, before)| after - before),
        more_commands: (way == Way::Ours).then_some(more),
        csv: figures.csv,
    })
}

fn benchmark(
    plan: &Plan,
    places: &Places,
    way: Way,
    test: Test,
    depth: u32,
    requests: u64,
) -> anyhow::Result<load_generator::Stats> {
    let address = match way {
        Way::Ours => places.ours.address,
        Way::Twemproxy => places.twemproxy.address,
        Way::Direct => places.cluster[0].address,
    };
    let mut command = Command::new(&plan.programs.redis_benchmark);
    command.args(["-h", "127.0.0.1", "-p", &address.port().to_string()]);
    let is_spread = way == Way::Direct && places.cluster.len() > 1;
    command.args(arguments(plan, is_spread, test, depth, requests));
    command
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped());
    let child = spawn_child(command).context("cannot start redis-benchmark")?;
    let ended = child
        .wait_with_output()
        .context("redis-benchmark cannot be waited for")?;
    let output = String::from_utf8_lossy(&ended.stdout);
    if !ended.status.success() {
        let said = String::from_utf8_lossy(&ended.stderr);
        bail!("redis-benchmark failed ({}): {output}{said}", ended.status);
    }
    load_generator::parse(&output)
        .with_context(|| format!("redis-benchmark's figures make no sense: {output}"))
}

/// redis-benchmark's arguments, without the port. By itself it spreads keys over two servers or more only.
pub(super) fn arguments(plan: &Plan, is_spread: bool, test: Test, depth: u32, requests: u64) -> Vec<String> {
    let (clients, keys, test) = (plan.clients, plan.keyspace, test.flag());
    let cluster = if is_spread { "--cluster " } else { "" };
    let words =
        format!("{cluster}-c {clients} -P {depth} -r {keys} -d {VALUE_BYTES} -n {requests} -t {test} --csv");
    words.split(' ').map(str::to_owned).collect()
}

/// How many commands the servers have run that came from clients, by INFO commandstats: those inside scripts
/// and our own questions left out.
fn commands_run(servers: &[Running]) -> anyhow::Result<i64> {
    let mut calls = 0;
    for server in servers {
        let Reply::Bytes(stats) = Connection::open(server.address)?.ask(&[b"INFO", b"commandstats"])? else {
            bail!("INFO was not answered with text");
        };
        calls += counted(&String::from_utf8_lossy(&stats));
    }
    Ok(calls)
}

/// Sums the calls that serve requests.
fn counted(stats: &str) -> i64 {
    const COUNTED: [&str; 4] = ["get", "set", "evalsha", "eval"];
    let calls = |line: &str| {
        let (name, fields) = line.strip_prefix("cmdstat_")?.split_once(':')?;
        let calls = fields.strip_prefix("calls=")?.split(',').next()?;
        COUNTED.contains(&name).then(|| calls.parse::<i64>().ok())?
    };
    stats.lines().filter_map(calls).sum()
}

fn row(nodes: u16, depth: u32, test: Test, samples: &[Sample]) -> Row {
    let of = |way: Way| {
        let same = move |sample: &&Sample| {
            (sample.way, sample.nodes, sample.depth, sample.test) == (way, nodes, depth, test)
        };
        samples.iter().filter(same)
    };
    let rps = |way| median(of(way).map(|sample| sample.requests_per_second));
    let cpu = |way| {
        let per_million = |sample: &Sample| sample.cpu_seconds.unwrap_or(0.0) * 1e6 / sample.requests as f64;
        median(of(way).map(per_million))
    };
    let more = of(Way::Ours).map(|sample| {
        let more = sample.more_commands.unwrap_or(0);
        more as f64 * 100.0 / sample.requests as f64
    });
    let (ours_rps, twemproxy_rps) = (rps(Way::Ours), rps(Way::Twemproxy));
    let (ours_cpu, twemproxy_cpu) = (cpu(Way::Ours), cpu(Way::Twemproxy));
    Row {
        nodes,
        depth,
        test,
        ours_rps,
        twemproxy_rps,
        direct_rps: rps(Way::Direct),
        ours_cpu,
        twemproxy_cpu,
        throughput_ratio: ours_rps / twemproxy_rps,
        cpu_ratio: ours_cpu / twemproxy_cpu,
        more_commands_percent: median(more),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_commands_of_clients_are_counted() {
        let stats = "# Commandstats\r\ncmdstat_get:calls=5,usec=9\r\ncmdstat_zadd:calls=7,usec=1\r\n\
                     cmdstat_evalsha:calls=2,usec=3\r\n";
        assert_eq!(counted(stats), 7);
    }

    #[test]
    fn ratios_are_of_medians_and_per_number_of_servers() {
        let sample = |way, nodes, requests_per_second, cpu_seconds| Sample {
            way,
            nodes,
            test: Test::Get,
            depth: 1,
            round: 0,
            requests: 1_000_000,
            requests_per_second,
            p99_ms: 1.0,
            cpu_seconds,
            more_commands: (way == Way::Ours).then_some(10_000),
            csv: String::new(),
        };
        let samples = [
            sample(Way::Ours, 1, 200.0, Some(2.0)),
            sample(Way::Ours, 1, 400.0, Some(4.0)),
            sample(Way::Ours, 3, 9000.0, Some(9.0)),
            sample(Way::Twemproxy, 1, 100.0, Some(6.0)),
            sample(Way::Direct, 1, 500.0, None),
        ];
        let row = row(1, 1, Test::Get, &samples);
        assert_eq!((row.throughput_ratio, row.cpu_ratio), (3.0, 0.5));
        assert_eq!((row.direct_rps, row.more_commands_percent), (500.0, 1.0));
    }
}
