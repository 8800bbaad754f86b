//! Part one: requests a second, latency, and the server's CPU for each of them.
//!
//! Each test runs on one server right after the other, and the order turns with every round, so that
//! whatever else the machine does meets both. Before each round both are emptied and given the keys that
//! GET will ask for.

use std::path::Path;

use serde::Serialize;

use super::load_generator::{self, Load, Sample};
use super::loader::fill_benchmark_keys;
use super::options::Test;
use super::plan::Plan;
use super::servers::{Pair, Side};
use super::{progress, table};

/// What one server did in one test: medians over the rounds.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub(super) struct Stats {
    pub(super) requests_per_second: f64,
    pub(super) cpu_seconds_per_million: f64,
    pub(super) p50_ms: f64,
    pub(super) p99_ms: f64,
}

/// One command at one depth.
#[derive(Clone, Debug, Serialize)]
pub(super) struct Row {
    pub(super) depth: u32,
    pub(super) test: Test,
    pub(super) ours: Stats,
    pub(super) redis: Stats,
    /// Ours over theirs: more is better.
    pub(super) throughput_ratio: f64,
    /// Ours over theirs: less is better.
    pub(super) cpu_ratio: f64,
}

pub(super) fn run(plan: &Plan, folder: &Path, raw: &mut Vec<Sample>) -> anyhow::Result<Vec<Row>> {
    let servers = Pair::start(&plan.programs, folder)?;
    measure(plan, &servers, raw)
}

/// Measures two servers that run already.
pub(super) fn measure(plan: &Plan, servers: &Pair, raw: &mut Vec<Sample>) -> anyhow::Result<Vec<Row>> {
    let mut samples = Vec::new();
    for &depth in &plan.depths {
        for round in 0..plan.rounds {
            progress(&format!("depth {depth}, round {} of {}", round + 1, plan.rounds));
            for server in [&servers.ours, &servers.redis] {
                server.flush()?;
                fill_benchmark_keys(server, 0..plan.keyspace)?;
            }
            for &test in &plan.tests {
                for server in servers.in_turn(round) {
                    let load = Load {
                        test,
                        depth,
                        round,
                        keys: plan.keyspace,
                    };
                    samples.push(load_generator::run(plan, server, load)?);
                }
            }
        }
    }
    let rows = plan
        .depths
        .iter()
        .flat_map(|&depth| plan.tests.iter().map(move |&test| (depth, test)))
        .map(|(depth, test)| row(depth, test, &samples))
        .collect();
    raw.extend(samples);
    Ok(rows)
}

fn row(depth: u32, test: Test, samples: &[Sample]) -> Row {
    let of = |side: Side| {
        let same = |sample: &&Sample| (sample.side, sample.depth, sample.test) == (side, depth, test);
        let median_of = |figure: fn(&Sample) -> f64| median(samples.iter().filter(same).map(figure));
        Stats {
            requests_per_second: median_of(|sample| sample.requests_per_second),
            cpu_seconds_per_million: median_of(Sample::cpu_per_million),
            p50_ms: median_of(|sample| sample.p50_ms),
            p99_ms: median_of(|sample| sample.p99_ms),
        }
    };
    let (ours, redis) = (of(Side::Ours), of(Side::Redis));
    Row {
        depth,
        test,
        ours,
        redis,
        throughput_ratio: ours.requests_per_second / redis.requests_per_second,
        cpu_ratio: ours.cpu_seconds_per_million / redis.cpu_seconds_per_million,
    }
}

/// The middle value; the mean of the two middle ones when their number is even.
pub(super) fn median(values: impl Iterator<Item = f64>) -> f64 {
    let mut values: Vec<f64> = values.collect();
    values.sort_by(f64::total_cmp);
    let middle = values.len() / 2;
    match values.len() {
        0 => f64::NAN,
        odd if odd % 2 == 1 => values[middle],
        _ => f64::midpoint(values[middle - 1], values[middle]),
    }
}

/// One table per depth.
pub(super) fn tables(rows: &[Row]) -> Vec<(String, table::Table)> {
    let mut tables: Vec<(String, table::Table)> = Vec::new();
    for row in rows {
        let title = format!("Throughput, pipeline depth {}", row.depth);
        if tables.last().is_none_or(|(last, _)| *last != title) {
            tables.push((title, table::Table::new(&HEAD)));
        }
        let (ours, redis) = (row.ours, row.redis);
        let cells = vec![
            row.test.name(),
            format!("{:.0}", ours.requests_per_second),
            format!("{:.0}", redis.requests_per_second),
            table::ratio(row.throughput_ratio),
            format!("{:.2}", ours.cpu_seconds_per_million),
            format!("{:.2}", redis.cpu_seconds_per_million),
            table::ratio(row.cpu_ratio),
            format!("{:.2}", ours.p99_ms),
            format!("{:.2}", redis.p99_ms),
        ];
        if let Some((_, table)) = tables.last_mut() {
            table.row(cells);
        }
    }
    tables
}

const HEAD: [&str; 9] = [
    "",
    "rps",
    "redis rps",
    "ratio",
    "CPU s/M",
    "redis CPU s/M",
    "ratio",
    "p99 ms",
    "redis p99 ms",
];

#[cfg(test)]
mod tests {
    use super::*;

    fn sample(side: Side, requests_per_second: f64, cpu_seconds: f64) -> Sample {
        Sample {
            side,
            test: Test::Get,
            depth: 1,
            round: 0,
            keys: 1,
            requests: 500_000,
            requests_per_second,
            p50_ms: 0.2,
            p99_ms: 0.4,
            cpu_seconds,
            csv: String::new(),
        }
    }

    #[test]
    fn medians_are_taken_per_server_and_ratios_of_medians() {
        let samples = [
            sample(Side::Ours, 300.0, 4.0),
            sample(Side::Ours, 200.0, 1.0),
            sample(Side::Ours, 900.0, 2.0),
            sample(Side::Redis, 100.0, 4.0),
            sample(Side::Redis, 200.0, 4.0),
        ];
        let row = row(1, Test::Get, &samples);
        assert_eq!(row.ours.requests_per_second, 300.0);
        assert_eq!(row.ours.cpu_seconds_per_million, 4.0);
        assert_eq!(row.redis.requests_per_second, 150.0);
        assert_eq!(row.throughput_ratio, 2.0);
        assert_eq!(row.cpu_ratio, 0.5);
        let [(title, table)] = &tables(&[row])[..] else {
            panic!("one depth, one table")
        };
        assert_eq!(title, "Throughput, pipeline depth 1");
        assert!(
            table
                .text()
                .contains("GET  300        150  2.00x     4.00           8.00  0.50x"),
            "{}",
            table.text()
        );
    }
}
