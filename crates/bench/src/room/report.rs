//! The results of a run, and their forms.

use anyhow::Context;
use nagaya_clock::{Clock, SystemClock};
use serde::Serialize;

use super::larger::{self, Larger};
use super::options::{Part, Plan};
use super::persisted::{self, Persisted};
use super::restart;
use crate::load_generator::{self, Load, Sample};
use crate::machine::{Machine, Versions};
use crate::plan::date_of;
use crate::record::{Record, typed_command};
use crate::report::raw_csv;
use crate::table::Table;

#[derive(Serialize)]
pub(crate) struct Report {
    date: String,
    machine: Machine,
    versions: Versions,
    commands: Vec<String>,
    rounds: u32,
    pub(super) persisted: Vec<Persisted>,
    pub(super) larger: Option<Larger>,
    pub(super) restart: Vec<restart::Row>,
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
            persisted: Vec::new(),
            larger: None,
            restart: Vec::new(),
            raw: Vec::new(),
        }
    }

    pub(crate) fn json(&self) -> anyhow::Result<String> {
        let text = serde_json::to_string_pretty(self).context("the report cannot be written as JSON")?;
        Ok(text + "\n")
    }

    /// The tables, for the terminal.
    pub(crate) fn text(&self) -> String {
        let table = |(title, table): (String, Table)| format!("{title}\n{}\n", table.text());
        self.tables().into_iter().map(table).collect::<String>() + &self.verdict()
    }

    pub(crate) fn record(&self) -> anyhow::Result<Record> {
        Ok(Record {
            markdown: self.markdown(),
            json: self.json()?,
            raw_csv: raw_csv(&self.raw),
            pictures: Vec::new(),
        })
    }

    fn markdown(&self) -> String {
        let mut text = format!("# nagaya's room, {}\n\n", self.date);
        text.push_str("Ratios are ours over theirs; throughput figures are medians over the rounds ");
        text.push_str(&format!(
            "({} of them). `bench/README.md` says what they mean.\n",
            self.rounds
        ));
        for (title, table) in self.tables() {
            text.push_str(&format!("\n## {title}\n\n{}", table.markdown()));
        }
        text.push_str(&format!("\n{}", self.verdict()));
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
        let mut tables: Vec<_> = self.persisted.iter().flat_map(persisted::tables).collect();
        if let Some(larger) = &self.larger {
            let title = format!("Zipf 0.99 over {} keys, GET and SET 9:1", larger.keys);
            tables.push((title, larger::table(larger)));
        }
        if !self.restart.is_empty() {
            tables.push(("Start after kill -9".to_owned(), restart::table(&self.restart)));
        }
        tables
    }

    /// What a table cannot say.
    fn verdict(&self) -> String {
        let Some(larger) = &self.larger else {
            return String::new();
        };
        let held = if larger.limit_held {
            "stayed under"
        } else {
            "went over"
        };
        format!(
            "Memory {held} the limit in all {} looks; {} cold loads were timed.\n",
            larger.limited.memory.looks, larger.limited.cold.samples
        )
    }
}

fn commands(plan: &Plan) -> Vec<String> {
    let mut commands = vec![typed_command()];
    for part in [Part::Everysec, Part::Always] {
        if !plan.parts.contains(&part) {
            continue;
        }
        let fsync = persisted::fsync(part);
        commands.push(format!(
            "nagaya up --room-listen 127.0.0.1:PORT --set {}",
            persisted::our_setting(fsync)
        ));
        commands.push(format!(
            "redis-server --bind 127.0.0.1 --port PORT --save \"\" {}",
            persisted::redis_arguments(fsync).join(" ")
        ));
        let throughput = plan.throughput(part);
        for &depth in &throughput.depths {
            for &test in &throughput.tests {
                let load = Load {
                    test,
                    depth,
                    round: 0,
                    keys: throughput.keyspace,
                };
                let arguments = load_generator::arguments(&throughput, load).join(" ");
                commands.push(format!("redis-benchmark -h 127.0.0.1 -p PORT {arguments}"));
            }
        }
    }
    if plan.parts.contains(&Part::Larger) {
        commands.push(format!(
            "nagaya up --room-listen 127.0.0.1:PORT --set room.max_memory={}b",
            plan.memory_bytes
        ));
    }
    commands
}
