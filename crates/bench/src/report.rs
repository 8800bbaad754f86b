//! The results of a run, and their three forms: text, Markdown, JSON.

use anyhow::Context;
use nagaya_clock::{Clock, SystemClock};
use serde::Serialize;

use super::load_generator::{self, Load, Sample};
use super::machine::{Machine, Versions};
use super::options::Test;
use super::plan::{Plan, SMALL_KEYS, date_of};
use super::record::{Record, typed_command};
use super::servers::KEEP_NOTHING;
use super::table::Table;
use super::{memory, scaling, throughput};

#[derive(Serialize)]
pub(super) struct Report {
    date: String,
    machine: Machine,
    versions: Versions,
    /// What can be typed to repeat the run, and what the run typed itself.
    commands: Vec<String>,
    rounds: u32,
    pub(super) throughput: Vec<throughput::Row>,
    pub(super) memory: Vec<memory::Row>,
    pub(super) scaling: Vec<scaling::Row>,
    /// Every single run of the load generator.
    pub(super) raw: Vec<Sample>,
}

impl Report {
    pub(super) fn new(plan: &Plan) -> Report {
        Report {
            date: date_of(SystemClock.unix_ms().unsigned_abs()),
            machine: Machine::this(),
            versions: Versions::of(&plan.programs),
            commands: commands(plan),
            rounds: plan.rounds,
            throughput: Vec::new(),
            memory: Vec::new(),
            scaling: Vec::new(),
            raw: Vec::new(),
        }
    }

    pub(super) fn json(&self) -> anyhow::Result<String> {
        let text = serde_json::to_string_pretty(self).context("the report cannot be written as JSON")?;
        Ok(text + "\n")
    }

    pub(super) fn record(&self) -> anyhow::Result<Record> {
        Ok(Record {
            markdown: self.markdown(),
            json: self.json()?,
            raw_csv: raw_csv(&self.raw),
            pictures: Vec::new(),
        })
    }

    /// The tables, for the terminal.
    pub(super) fn text(&self) -> String {
        let table = |(title, table): (String, Table)| format!("{title}\n{}\n", table.text());
        self.tables().into_iter().map(table).collect()
    }

    /// The whole record but the raw figures.
    fn markdown(&self) -> String {
        let mut text = format!("# nagaya beside redis-server, {}\n\n", self.date);
        text.push_str("Ratios are ours over theirs; figures are medians over the rounds ");
        text.push_str(&format!(
            "({} of them). `bench/README.md` says what they mean.\n",
            self.rounds
        ));
        for (title, table) in self.tables() {
            text.push_str(&format!("\n## {title}\n\n{}", table.markdown()));
        }
        text.push_str("\n## Machine and versions\n\n");
        for (name, value) in self.machine.facts().into_iter().chain(self.versions.facts()) {
            text.push_str(&format!("- {name}: {value}\n"));
        }
        text.push_str("\n## Commands\n\n```text\n");
        for command in &self.commands {
            text.push_str(&format!("{command}\n"));
        }
        text.push_str("```\n");
        text
    }

    fn tables(&self) -> Vec<(String, Table)> {
        let mut tables = throughput::tables(&self.throughput);
        if !self.memory.is_empty() {
            tables.push(("Memory".to_owned(), memory::table(&self.memory)));
        }
        if let Some(row) = self.scaling.first() {
            let title = format!("CPU with {} keys and with {}", row.small_keys, row.large_keys);
            tables.push((title, scaling::table(&self.scaling)));
        }
        tables
    }
}

/// Every run of redis-benchmark, with the line it printed.
pub(super) fn raw_csv(raw: &[Sample]) -> String {
    let mut text = "server,depth,round,keys,requests,server_cpu_seconds,".to_owned();
    text.push_str("test,rps,avg_latency_ms,min_latency_ms,p50_latency_ms,p95_latency_ms,");
    text.push_str("p99_latency_ms,max_latency_ms\n");
    for sample in raw {
        let Sample {
            side,
            depth,
            round,
            keys,
            requests,
            cpu_seconds,
            csv,
            ..
        } = sample;
        let name = side.name();
        text.push_str(&format!(
            "{name},{depth},{},{keys},{requests},{cpu_seconds:.2},{csv}\n",
            round + 1
        ));
    }
    text
}

fn commands(plan: &Plan) -> Vec<String> {
    let mut commands = vec![
        typed_command(),
        format!("nagaya up --room-listen 127.0.0.1:PORT --set {KEEP_NOTHING}"),
        "redis-server --bind 127.0.0.1 --port PORT --save \"\" --appendonly no".to_owned(),
    ];
    let mut load = |test: Test, depth: u32, keys: u64| {
        let arguments = load_generator::arguments(
            plan,
            Load {
                test,
                depth,
                round: 0,
                keys,
            },
        );
        commands.push(format!(
            "redis-benchmark -h 127.0.0.1 -p PORT {}",
            arguments.join(" ")
        ));
    };
    for &depth in &plan.depths {
        if plan.throughput {
            plan.tests
                .iter()
                .for_each(|&test| load(test, depth, plan.keyspace));
        }
        if plan.scaling {
            for keys in [SMALL_KEYS, plan.large_keys] {
                [Test::Get, Test::Set]
                    .into_iter()
                    .for_each(|test| load(test, depth, keys));
            }
        }
    }
    commands
}
