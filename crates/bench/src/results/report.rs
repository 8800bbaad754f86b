//! The results of a run, and their three forms: text, Markdown, JSON.

use std::fmt;

use anyhow::Context;
use nagaya_clock::{Clock, SystemClock};
use serde::Serialize;

use super::options::Plan;
use crate::jobs::postgres::Postgres;
use crate::machine::Machine;
use crate::plan::date_of;
use crate::record::{Record, typed_command};
use crate::table::Table;

/// Waits from registration to result.
#[derive(Clone, Debug, Serialize)]
pub(super) struct Waits {
    pub(super) name: String,
    pub(super) jobs: usize,
    /// Registrations a second that were really made.
    pub(super) per_second: f64,
    pub(super) p50_ms: Option<f64>,
    pub(super) p99_ms: Option<f64>,
}

impl fmt::Display for Waits {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        let [name, rate, p50, p99] = self.cells();
        write!(out, "{name} at {rate} jobs/s: p50 {p50} ms, p99 {p99} ms")
    }
}

impl Waits {
    fn cells(&self) -> [String; 4] {
        let ms = |value: Option<f64>| value.map_or_else(|| "-".to_owned(), |ms| format!("{ms:.1}"));
        [
            self.name.clone(),
            format!("{:.0}", self.per_second),
            ms(self.p50_ms),
            ms(self.p99_ms),
        ]
    }
}

/// Memory of streams on which nothing happens.
#[derive(Clone, Debug, Serialize)]
pub(super) struct Idle {
    pub(super) streams: usize,
    pub(super) before_bytes: u64,
    pub(super) after_bytes: u64,
    /// Milliseconds from a job's registration until all streams had reported its result.
    pub(super) told_after_ms: f64,
}

impl Idle {
    fn cells(&self) -> Vec<String> {
        let mb = |bytes: u64| format!("{:.1}", bytes as f64 / f64::from(1 << 20));
        let grown = self.after_bytes.saturating_sub(self.before_bytes);
        vec![
            self.streams.to_string(),
            mb(self.before_bytes),
            mb(self.after_bytes),
            format!("{:.1}", grown as f64 / 1024.0 / self.streams.max(1) as f64),
            format!("{:.0}", self.told_after_ms),
        ]
    }
}

impl fmt::Display for Idle {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        let cells = self.cells();
        write!(
            out,
            "{} streams: {} MB, then {} MB ({} KB each), all told after {} ms",
            cells[0], cells[1], cells[2], cells[3], cells[4]
        )
    }
}

#[derive(Clone, Debug, Serialize)]
pub(super) struct Speed {
    pub(super) deliveries: usize,
    pub(super) per_second: f64,
}

#[derive(Serialize)]
pub(crate) struct Report {
    date: String,
    machine: Machine,
    store: &'static str,
    versions: Vec<(String, String)>,
    command: String,
    pub(super) ways: Vec<Waits>,
    pub(super) idle: Option<Idle>,
    pub(super) webhooks: Option<Speed>,
    pub(super) targets: Vec<Waits>,
}

impl Report {
    pub(super) fn new(plan: &Plan, postgres: Option<&Postgres>) -> Report {
        let mut versions = vec![("nagaya".to_owned(), plan.nagaya.version.clone())];
        versions.extend(postgres.map(|postgres| ("PostgreSQL".to_owned(), postgres.version())));
        Report {
            date: date_of(SystemClock.unix_ms().unsigned_abs()),
            machine: Machine::this(),
            store: plan.store.name(),
            versions,
            command: typed_command(),
            ways: Vec::new(),
            idle: None,
            webhooks: None,
            targets: Vec::new(),
        }
    }

    pub(crate) fn json(&self) -> anyhow::Result<String> {
        let text = serde_json::to_string_pretty(self).context("the report cannot be written as JSON")?;
        Ok(text + "\n")
    }

    pub(crate) fn text(&self) -> String {
        let table = |(title, table): (&str, Table)| format!("{title}\n{}\n", table.text());
        self.tables().into_iter().map(table).collect()
    }

    pub(crate) fn record(&self) -> anyhow::Result<Record> {
        Ok(Record {
            markdown: self.markdown(),
            json: self.json()?,
            raw_csv: self.csv(),
            pictures: Vec::new(),
        })
    }

    fn tables(&self) -> Vec<(&'static str, Table)> {
        let waits = |all: &[Waits]| {
            let mut table = Table::new(&["", "jobs/s", "p50 ms", "p99 ms"]);
            all.iter().for_each(|waits| table.row(waits.cells().to_vec()));
            table
        };
        let mut tables = Vec::new();
        if !self.ways.is_empty() {
            tables.push(("Registration to result", waits(&self.ways)));
        }
        if let Some(idle) = &self.idle {
            let mut table = Table::new(&["idle streams", "MB before", "MB", "KB each", "all told, ms"]);
            table.row(idle.cells());
            tables.push(("Idle streams", table));
        }
        if let Some(speed) = &self.webhooks {
            let mut table = Table::new(&["webhooks", "deliveries/s"]);
            table.row(vec![
                speed.deliveries.to_string(),
                format!("{:.0}", speed.per_second),
            ]);
            tables.push(("To a fast target", table));
        }
        if !self.targets.is_empty() {
            tables.push(("Webhooks to 99 targets beside another one", waits(&self.targets)));
        }
        tables
    }

    fn markdown(&self) -> String {
        let mut text = format!("# How results reach submitters, {}\n\n", self.date);
        text.push_str(&format!(
            "Jobs in {}. `bench/README.md` says what the figures mean.\n",
            self.store
        ));
        for (title, table) in self.tables() {
            text.push_str(&format!("\n## {title}\n\n{}", table.markdown()));
        }
        text.push_str("\n## Machine and versions\n\n");
        let versions = self.versions.iter().cloned();
        for (name, value) in self
            .machine
            .facts()
            .into_iter()
            .map(|(name, value)| (name.to_string(), value.to_string()))
            .chain(versions)
        {
            text.push_str(&format!("- {name}: {value}\n"));
        }
        text.push_str(&format!("\n## Commands\n\n```text\n{}\n```\n", self.command));
        text
    }

    fn csv(&self) -> String {
        let mut text = "name,jobs,per_second,p50_ms,p99_ms\n".to_owned();
        let cell = |value: Option<f64>| value.map(|value| format!("{value:.3}")).unwrap_or_default();
        for waits in self.ways.iter().chain(&self.targets) {
            text.push_str(&format!(
                "{},{},{:.1},{},{}\n",
                waits.name,
                waits.jobs,
                waits.per_second,
                cell(waits.p50_ms),
                cell(waits.p99_ms)
            ));
        }
        if let Some(speed) = &self.webhooks {
            text.push_str(&format!(
                "webhooks,{},{:.1},,\n",
                speed.deliveries, speed.per_second
            ));
        }
        text
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn memory_is_told_by_stream() {
        let idle = Idle {
            streams: 1024,
            before_bytes: 50 << 20,
            after_bytes: 82 << 20,
            told_after_ms: 12.3,
        };
        assert_eq!(idle.cells(), ["1024", "50.0", "82.0", "32.0", "12"]);
    }
}
