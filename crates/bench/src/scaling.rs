//! Part three: whether the cost of a command grows with the number of keys.

use std::path::Path;

use serde::Serialize;

use super::load_generator::{self, Load, Sample};
use super::loader::fill_benchmark_keys;
use super::options::Test;
use super::plan::{Plan, SMALL_KEYS};
use super::progress;
use super::servers::{Pair, Side};
use super::table::{Table, ratio};
use super::throughput::median;

const TESTS: [Test; 2] = [Test::Get, Test::Set];

/// One server's CPU seconds per million commands, with few keys and with many.
#[derive(Clone, Debug, Serialize)]
pub(super) struct Row {
    pub(super) side: Side,
    pub(super) depth: u32,
    pub(super) test: Test,
    pub(super) small_keys: u64,
    pub(super) large_keys: u64,
    pub(super) small_cpu: f64,
    pub(super) large_cpu: f64,
    /// Many over few: one means that the number of keys does not matter.
    pub(super) ratio: f64,
}

pub(super) fn run(plan: &Plan, folder: &Path, raw: &mut Vec<Sample>) -> anyhow::Result<Vec<Row>> {
    let servers = Pair::start(&plan.programs, folder)?;
    let mut samples = Vec::new();
    let mut filled = 0;
    for keys in [SMALL_KEYS, plan.large_keys] {
        progress(&format!("scaling: filling up to {keys} keys"));
        for server in [&servers.ours, &servers.redis] {
            fill_benchmark_keys(server, filled..keys)?;
        }
        filled = keys;
        for &depth in &plan.depths {
            for round in 0..plan.rounds {
                progress(&format!(
                    "scaling: {keys} keys, depth {depth}, round {} of {}",
                    round + 1,
                    plan.rounds
                ));
                for test in TESTS {
                    for server in servers.in_turn(round) {
                        let load = Load {
                            test,
                            depth,
                            round,
                            keys,
                        };
                        samples.push(load_generator::run(plan, server, load)?);
                    }
                }
            }
        }
    }
    let mut rows = Vec::new();
    for side in [Side::Ours, Side::Redis] {
        for &depth in &plan.depths {
            rows.extend(TESTS.map(|test| row(side, depth, test, plan.large_keys, &samples)));
        }
    }
    raw.extend(samples);
    Ok(rows)
}

fn row(side: Side, depth: u32, test: Test, large_keys: u64, samples: &[Sample]) -> Row {
    let cpu = |keys: u64| {
        let same = |sample: &&Sample| {
            (sample.side, sample.depth, sample.test, sample.keys) == (side, depth, test, keys)
        };
        median(samples.iter().filter(same).map(Sample::cpu_per_million))
    };
    let (small_cpu, large_cpu) = (cpu(SMALL_KEYS), cpu(large_keys));
    let ratio = large_cpu / small_cpu;
    Row {
        side,
        depth,
        test,
        small_keys: SMALL_KEYS,
        large_keys,
        small_cpu,
        large_cpu,
        ratio,
    }
}

pub(super) fn table(rows: &[Row]) -> Table {
    let mut table = Table::new(&["", "depth", "few keys CPU s/M", "many keys CPU s/M", "ratio"]);
    for row in rows {
        table.row(vec![
            format!("{} {}", row.side.name(), row.test.name()),
            row.depth.to_string(),
            format!("{:.2}", row.small_cpu),
            format!("{:.2}", row.large_cpu),
            ratio(row.ratio),
        ]);
    }
    table
}
