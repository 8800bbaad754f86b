//! The results of a run, and their forms.

use anyhow::Context;
use nagaya_clock::{Clock, SystemClock};
use serde::Serialize;

use super::competitor::Kind;
use super::options::{Part, Plan};
use super::overload::Overloaded;
use super::{Memory, Sample, curve};
use crate::machine::{Machine, Versions};
use crate::plan::date_of;
use crate::record::{Record, typed_command};
use crate::table::{Table, ratio};

/// The file with the goodput curve.
const GOODPUT: &str = "goodput.svg";

#[derive(Serialize)]
pub(crate) struct Report {
    date: String,
    machine: Machine,
    versions: Versions,
    commands: Vec<String>,
    /// The most requests a second of each contender.
    pub(super) capacities: Vec<(Kind, f64)>,
    pub(super) memory: Option<Memory>,
    pub(super) overload: Vec<Overloaded>,
    pub(super) raw: Vec<Sample>,
}

impl Report {
    pub(super) fn new(plan: &Plan) -> Report {
        Report {
            date: date_of(SystemClock.unix_ms().unsigned_abs()),
            machine: Machine::this(),
            versions: Versions::of(&plan.programs),
            commands: vec![typed_command()],
            capacities: Vec::new(),
            memory: None,
            overload: Vec::new(),
            raw: Vec::new(),
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
            raw_csv: raw_csv(&self.raw),
            pictures: self.pictures(),
        })
    }

    fn pictures(&self) -> Vec<(&'static str, String)> {
        let points: Vec<_> = self.overload.iter().map(Overloaded::point).collect();
        if points.is_empty() {
            return Vec::new();
        }
        vec![(GOODPUT, curve::svg(&points))]
    }

    fn markdown(&self) -> String {
        let mut text = format!("# The fan-out, {}\n\n", self.date);
        text.push_str("`bench/README.md` says what the figures mean.\n");
        for (title, table) in self.tables() {
            text.push_str(&format!("\n## {title}\n\n{}", table.markdown()));
        }
        if !self.overload.is_empty() {
            text.push_str(&format!("\n![Goodput]({GOODPUT})\n"));
        }
        text.push_str("\n## Machine and versions\n\n");
        for (name, value) in self.machine.facts().into_iter().chain(self.versions.facts()) {
            text.push_str(&format!("- {name}: {value}\n"));
        }
        text.push_str(&format!(
            "\n## Command\n\n```text\n{}\n```\n",
            self.commands.join("\n")
        ));
        text
    }

    fn tables(&self) -> Vec<(&'static str, Table)> {
        let mut tables = Vec::new();
        if !self.capacities.is_empty() {
            tables.push((
                "Requests a second with 99 % of the answers stored in time",
                self.capacity(),
            ));
        }
        for (part, title) in [
            (Part::Latency, "At 70 % of that"),
            (Part::Dead, "All endpoints well, then one more that never answers"),
            (Part::Endpoints, "Few endpoints and many"),
        ] {
            let samples: Vec<&Sample> = self.raw.iter().filter(|sample| sample.part == part).collect();
            if !samples.is_empty() {
                tables.push((title, samples_table(&samples)));
            }
        }
        if let Some(memory) = &self.memory {
            tables.push(("Memory at twice the capacity", memory_table(memory)));
        }
        if !self.overload.is_empty() {
            tables.push(("Arrivals that wait for nobody", overload_table(&self.overload)));
        }
        tables
    }

    fn capacity(&self) -> Table {
        let mut table = Table::new(&["", "requests/s", "ours over it"]);
        let ours = self.capacities.iter().find(|(kind, _)| *kind == Kind::Ours);
        let ours = ours.map_or(f64::NAN, |(_, capacity)| *capacity);
        for (kind, capacity) in &self.capacities {
            let cells = [
                kind.name().to_owned(),
                format!("{capacity:.0}"),
                ratio(ours / capacity),
            ];
            table.row(cells.to_vec());
        }
        table
    }
}

fn samples_table(samples: &[&Sample]) -> Table {
    let head = [
        "",
        "endpoints",
        "requests/s",
        "stored",
        "p50 ms",
        "p99 ms",
        "answers p99 ms",
        "CPU ms/request",
        "CPU us/answer",
    ];
    let mut table = Table::new(&head);
    for sample in samples {
        table.row(vec![
            sample.kind.name().to_owned(),
            sample.endpoints.to_string(),
            format!("{:.0}", sample.per_second),
            format!("{:.1} %", sample.share * 100.0),
            format!("{:.2}", sample.p50_ms),
            format!("{:.2}", sample.p99_ms),
            sample
                .answers_p99_ms
                .map_or_else(|| "-".to_owned(), |ms| ms.to_string()),
            format!("{:.3}", sample.cpu_ms),
            format!("{:.0}", sample.cpu_us_per_answer),
        ]);
    }
    table
}

fn memory_table(memory: &Memory) -> Table {
    let head = [
        "",
        "requests/s",
        "turned away",
        "MB early",
        "MB at the end",
        "MB at most",
    ];
    let mut table = Table::new(&head);
    table.row(vec![
        format!("{} s", memory.seconds),
        format!("{:.0}", memory.rate),
        format!("{:.0} %", memory.refused_share * 100.0),
        format!("{:.0}", memory.first_mb),
        format!("{:.0}", memory.last_mb),
        format!("{:.0}", memory.most_mb),
    ]);
    table
}

fn overload_table(samples: &[Overloaded]) -> Table {
    let head = [
        "",
        "times the capacity",
        "offered",
        "taken",
        "refused",
        "lost",
        "stored of taken",
        "goodput/s",
        "of the capacity",
        "p99 ms",
        "MB",
    ];
    let mut table = Table::new(&head);
    for sample in samples {
        let share = |count: u64| format!("{:.1} %", 100.0 * count as f64 / sample.offered.max(1) as f64);
        table.row(vec![
            sample.kind.name().to_owned(),
            sample.factor.to_string(),
            sample.offered.to_string(),
            share(sample.taken),
            share(sample.refused),
            share(sample.lost),
            format!("{:.1} %", sample.stored_share * 100.0),
            format!("{:.0}", sample.goodput),
            ratio(sample.goodput / sample.capacity),
            format!("{:.2}", sample.p99_ms),
            format!("{:.0}", sample.resident_mb),
        ]);
    }
    table
}

fn raw_csv(samples: &[Sample]) -> String {
    let mut text =
        "part,program,endpoints,rate,per_second,share,p50_ms,p99_ms,answers_p99_ms,cpu_ms\n".to_owned();
    for sample in samples {
        let answers = sample.answers_p99_ms.map(|ms| ms.to_string()).unwrap_or_default();
        text.push_str(&format!(
            "{:?},\"{}\",{},{:.0},{:.1},{:.4},{:.3},{:.3},{answers},{:.4}\n",
            sample.part,
            sample.kind.name(),
            sample.endpoints,
            sample.rate,
            sample.per_second,
            sample.share,
            sample.p50_ms,
            sample.p99_ms,
            sample.cpu_ms
        ));
    }
    text
}
