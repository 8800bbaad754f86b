//! `nagaya-bench fleet`: the scenarios that document 000's program was measured with, run by ours.
//!
//! [`placing`] drives the store and the decision directly, [`moving`] runs managers and agents as
//! processes. The other program's figures are those of its own measurement, quoted beside ours.

mod moving;
mod placing;

use std::path::PathBuf;
use std::time::Duration;

use anyhow::Context;
use clap::Args;
use nagaya_clock::{Clock, SystemClock};
use serde::Serialize;
use tempfile::TempDir;

use super::machine::{Machine, Versions};
use super::plan::{Programs, Target, date_of};
use super::progress;
use super::record::{Record, typed_command};
use super::subject::Nagaya;
use super::table::Table;

/// Measure placing and moving workers
#[derive(Args)]
pub(crate) struct FleetArgs {
    /// A short run to see that everything works
    #[arg(long)]
    quick: bool,
    /// Workers to place [default: 10000]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=1_000_000))]
    workers: Option<u32>,
    /// Instances to place them on
    #[arg(long, value_name = "N", default_value_t = 100, value_parser = clap::value_parser!(u32).range(1..=10_000))]
    instances: u32,
    /// Keys of others in the same Redis [default: 1000000]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=50_000_000))]
    unrelated_keys: Option<u32>,
    /// How long an agent is cut off from Redis [default: 120s]
    #[arg(long, value_name = "SECONDS", value_parser = clap::value_parser!(u64).range(1..=3600))]
    partition: Option<u64>,
    /// Print JSON instead of a table
    #[arg(long)]
    pub(super) json: bool,
    /// Write the table, raw figures, machine and command here
    #[arg(long, value_name = "DIR")]
    out: Option<PathBuf>,
}

/// What will be measured.
pub(super) struct Plan {
    programs: Programs,
    workers: usize,
    instances: usize,
    unrelated_keys: u32,
    /// Workers and instances of the plan after a death.
    planned: (usize, usize),
    /// Workers that are moved as processes.
    moved: usize,
    partition: Duration,
    pub(super) target: Target,
}

impl Plan {
    pub(super) fn new(args: &FleetArgs, nagaya: Nagaya) -> anyhow::Result<Plan> {
        let of = |full, quick| if args.quick { quick } else { full };
        Ok(Plan {
            programs: Programs::find(nagaya)?,
            workers: args.workers.unwrap_or(of(10_000, 500)) as usize,
            instances: args.instances as usize,
            unrelated_keys: args.unrelated_keys.unwrap_or(of(1_000_000, 10_000)),
            planned: if args.quick {
                (10_000, 100)
            } else {
                (1_000_000, 10_000)
            },
            moved: of(20, 4) as usize,
            partition: Duration::from_secs(args.partition.unwrap_or(if args.quick { 8 } else { 120 })),
            target: Target {
                name: "fleet",
                quick: args.quick,
                out: args.out.clone(),
            },
        })
    }
}

/// One scenario: what the other program needs, what we need, what is wanted.
#[derive(Clone, Debug, Serialize)]
pub(super) struct Row {
    what: String,
    upstream: &'static str,
    ours_seconds: f64,
    goal: &'static str,
}

impl Row {
    fn new(what: impl Into<String>, upstream: &'static str, ours: Duration, goal: &'static str) -> Row {
        Row {
            what: what.into(),
            upstream,
            ours_seconds: ours.as_secs_f64(),
            goal,
        }
    }
}

/// The results of a run.
#[derive(Serialize)]
pub(super) struct Report {
    date: String,
    machine: Machine,
    versions: Versions,
    command: String,
    rows: Vec<Row>,
}

pub(super) fn measure(plan: &Plan, folder: &TempDir) -> anyhow::Result<Report> {
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .worker_threads(2)
        .enable_all()
        .build()
        .context("cannot start the runtime")?;
    let mut rows = Vec::new();
    progress("placing workers");
    rows.extend(runtime.block_on(placing::measure(plan, folder.path()))?);
    progress("moving workers between processes");
    rows.extend(moving::measure(plan, folder.path())?);
    Ok(Report {
        date: date_of(SystemClock.unix_ms().unsigned_abs()),
        machine: Machine::this(),
        versions: Versions::of(&plan.programs),
        command: typed_command(),
        rows,
    })
}

impl Report {
    pub(super) fn json(&self) -> anyhow::Result<String> {
        let text = serde_json::to_string_pretty(self).context("the report cannot be written as JSON")?;
        Ok(text + "\n")
    }

    pub(super) fn text(&self) -> String {
        self.table().text()
    }

    fn table(&self) -> Table {
        let mut table = Table::new(&["", "obniz-app-sdk", "nagaya", "goal"]);
        for row in &self.rows {
            table.row(vec![
                row.what.clone(),
                row.upstream.to_owned(),
                format!("{:.3} s", row.ours_seconds),
                row.goal.to_owned(),
            ]);
        }
        table
    }

    pub(super) fn record(&self) -> anyhow::Result<Record> {
        let mut markdown = format!("# nagaya's fleet, {}\n\n", self.date);
        markdown.push_str("`bench/README.md` says what the rows mean.\n\n");
        markdown.push_str(&self.table().markdown());
        markdown.push_str("\n## Machine and versions\n\n");
        for (name, value) in self.machine.facts().into_iter().chain(self.versions.facts()) {
            markdown.push_str(&format!("- {name}: {value}\n"));
        }
        markdown.push_str(&format!("\n## Command\n\n```text\n{}\n```\n", self.command));
        let lines = self.rows.iter();
        let lines = lines.map(|row| format!("\"{}\",{:.6}\n", row.what, row.ours_seconds));
        Ok(Record {
            markdown,
            json: self.json()?,
            raw_csv: std::iter::once("what,seconds\n".to_owned())
                .chain(lines)
                .collect(),
            pictures: Vec::new(),
        })
    }
}
