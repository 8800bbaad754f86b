//! The results of a run, and their three forms: text, Markdown, JSON.

use anyhow::Context;
use nagaya_clock::{Clock, SystemClock};
use serde::Serialize;

use super::options::{Plan, Subject};
use super::peers::{NODE_PACKAGES, PYTHON_PACKAGES};
use super::postgres::Postgres;
use crate::machine::Machine;
use crate::plan::date_of;
use crate::record::{Record, typed_command};
use crate::table::{Table, ratio};

/// A peer that answers before a job is on disk: shown, but no reference for ratios.
const NOT_SYNCED: &str = Subject::Bullmq.name();

/// One measured figure.
#[derive(Clone, Debug, Serialize)]
pub(super) struct Figure {
    pub(super) subject: &'static str,
    pub(super) part: String,
    pub(super) jobs: u64,
    pub(super) seconds: f64,
    /// Registrations a second while waits were measured.
    pub(super) rate: Option<f64>,
    pub(super) p50_ms: Option<f64>,
    pub(super) p99_ms: Option<f64>,
}

impl Figure {
    pub(super) fn speed(subject: &'static str, part: String, jobs: u64, seconds: f64) -> Figure {
        Figure {
            subject,
            part,
            jobs,
            seconds,
            rate: None,
            p50_ms: None,
            p99_ms: None,
        }
    }

    /// Waits of jobs from registration to start, in nanoseconds.
    pub(super) fn waits(
        subject: &'static str,
        rate: f64,
        seconds: f64,
        jobs: u64,
        mut waits: Vec<u64>,
    ) -> Figure {
        waits.sort_unstable();
        let at = |share: f64| {
            let place = ((waits.len() as f64 * share) as usize).min(waits.len().saturating_sub(1));
            waits.get(place).map(|&wait| wait as f64 / 1e6)
        };
        Figure {
            rate: Some(rate),
            p50_ms: at(0.5),
            p99_ms: at(0.99),
            ..Figure::speed(subject, "latency".to_owned(), jobs, seconds)
        }
    }

    pub(super) fn per_second(&self) -> f64 {
        self.jobs as f64 / self.seconds
    }

    pub(super) fn latency(&self) -> String {
        let ms = |value: Option<f64>| value.map_or_else(|| "-".to_owned(), |ms| format!("{ms:.1} ms"));
        format!("p50 {}, p99 {}", ms(self.p50_ms), ms(self.p99_ms))
    }
}

#[derive(Serialize)]
pub(crate) struct Report {
    date: String,
    machine: Machine,
    versions: Vec<(String, String)>,
    command: String,
    /// Peers that could not be measured, and why.
    pub(super) missing: Vec<String>,
    figures: Vec<Figure>,
}

impl Report {
    pub(super) fn new(plan: &Plan, postgres: Option<&Postgres>) -> Report {
        let mut versions = vec![("nagaya".to_owned(), plan.nagaya.version.clone())];
        if let Some(postgres) = postgres {
            versions.push(("PostgreSQL".to_owned(), postgres.version()));
        }
        let peers = NODE_PACKAGES.iter().map(|package| package.rsplit_once('@'));
        let peers = peers.chain(PYTHON_PACKAGES.iter().map(|package| package.split_once("==")));
        versions.extend(
            peers
                .flatten()
                .map(|(name, version)| (name.to_owned(), version.to_owned())),
        );
        Report {
            date: date_of(SystemClock.unix_ms().unsigned_abs()),
            machine: Machine::this(),
            versions,
            command: typed_command(),
            missing: Vec::new(),
            figures: Vec::new(),
        }
    }

    pub(super) fn add(&mut self, figures: Vec<Figure>) {
        self.figures.extend(figures);
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

    fn markdown(&self) -> String {
        let mut text = format!("# Our job queue beside others, {}\n\n", self.date);
        text.push_str(
            "Jobs a second; ratios are over the fastest peer that has a job on disk when it answers. `bench/README.md` says what they mean.\n",
        );
        for (title, table) in self.tables() {
            text.push_str(&format!("\n## {title}\n\n{}", table.markdown()));
        }
        for missing in &self.missing {
            text.push_str(&format!("\nNot measured: {missing}\n"));
        }
        text.push_str("\n## Machine and versions\n\n");
        for (name, value) in self.machine.facts() {
            text.push_str(&format!("- {name}: {value}\n"));
        }
        for (name, value) in &self.versions {
            text.push_str(&format!("- {name}: {value}\n"));
        }
        text.push_str(&format!("\n## Commands\n\n```text\n{}\n```\n", self.command));
        text
    }

    fn csv(&self) -> String {
        let mut text = "subject,part,jobs,seconds,rate,p50_ms,p99_ms\n".to_owned();
        let cell = |value: Option<f64>| value.map(|value| format!("{value:.3}")).unwrap_or_default();
        for figure in &self.figures {
            text.push_str(&format!(
                "{},{},{},{:.6},{},{},{}\n",
                figure.subject,
                figure.part,
                figure.jobs,
                figure.seconds,
                cell(figure.rate),
                cell(figure.p50_ms),
                cell(figure.p99_ms)
            ));
        }
        text
    }

    fn tables(&self) -> Vec<(&'static str, Table)> {
        let mut tables = vec![("Jobs a second", self.speeds())];
        tables.push(("Registration to start, at half of each one's speed", self.waits()));
        tables.push(("Steadiness", self.steadiness()));
        tables
    }

    fn find(&self, subject: &str, part: &str) -> Option<&Figure> {
        self.figures
            .iter()
            .find(|figure| figure.subject == subject && figure.part == part)
    }

    fn subjects(&self) -> Vec<&'static str> {
        let mut subjects: Vec<&'static str> = Vec::new();
        for figure in &self.figures {
            if !subjects.contains(&figure.subject) {
                subjects.push(figure.subject);
            }
        }
        subjects
    }

    fn speeds(&self) -> Table {
        const PARTS: [&str; 5] = ["bulk", "burn", "single-1", "single-16", "single-256"];
        let mut head = vec![""];
        for part in PARTS {
            head.extend([part, "ratio"]);
        }
        let mut table = Table::new(&head);
        let is_peer =
            |figure: &&Figure| !figure.subject.starts_with("nagaya-") && figure.subject != NOT_SYNCED;
        for subject in self.subjects() {
            let mut row = vec![subject.to_owned()];
            for part in PARTS {
                let speed = self.find(subject, part).map_or(f64::NAN, Figure::per_second);
                let peers = self
                    .figures
                    .iter()
                    .filter(is_peer)
                    .filter(|figure| figure.part == part);
                let fastest = peers.map(Figure::per_second).fold(f64::NAN, f64::max);
                row.extend([whole(speed), ratio(speed / fastest)]);
            }
            table.row(row);
        }
        table
    }

    fn waits(&self) -> Table {
        let mut table = Table::new(&["", "jobs/s", "p50 ms", "p99 ms"]);
        let ms = |value: Option<f64>| value.map_or_else(|| "-".to_owned(), |ms| format!("{ms:.1}"));
        for figure in self.figures.iter().filter(|figure| figure.part == "latency") {
            let rate = figure.rate.unwrap_or(f64::NAN);
            table.row(vec![
                figure.subject.to_owned(),
                whole(rate),
                ms(figure.p50_ms),
                ms(figure.p99_ms),
            ]);
        }
        table
    }

    /// Flatness over the number of waiting jobs, and the speed under a held snapshot.
    fn steadiness(&self) -> Table {
        let mut table = Table::new(&["", "jobs/s", "over the first"]);
        for subject in self.subjects() {
            for kind in ["flat-", "snapshot-"] {
                let of_kind = |figure: &&Figure| figure.subject == subject && figure.part.starts_with(kind);
                let first = self
                    .figures
                    .iter()
                    .find(of_kind)
                    .map_or(f64::NAN, Figure::per_second);
                for figure in self.figures.iter().filter(of_kind) {
                    let speed = figure.per_second();
                    let name = format!("{subject} {}", figure.part);
                    table.row(vec![name, whole(speed), ratio(speed / first)]);
                }
            }
        }
        table
    }
}

fn whole(value: f64) -> String {
    if value.is_finite() {
        format!("{value:.0}")
    } else {
        "-".to_owned()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn report(figures: Vec<Figure>) -> Report {
        Report {
            date: "2026-11-15".to_owned(),
            machine: Machine::this(),
            versions: Vec::new(),
            command: "nagaya bench jobs".to_owned(),
            missing: Vec::new(),
            figures,
        }
    }

    #[test]
    fn ratios_are_over_the_fastest_peer() {
        let speed = |subject: Subject, jobs| Figure::speed(subject.name(), "burn".to_owned(), jobs, 1.0);
        let report = report(vec![
            speed(Subject::HttpPostgres, 3_000),
            speed(Subject::PgBoss, 1_000),
            speed(Subject::GraphileWorker, 2_000),
        ]);
        let text = report.speeds().text();
        let row: Vec<&str> = text.lines().nth(1).unwrap().split_whitespace().collect();
        assert_eq!(row[..5], ["nagaya-http-postgres", "-", "-", "3000", "1.50x"]);
    }

    #[test]
    fn waits_are_told_by_their_shares() {
        let waits = (1..=1000).map(|ms| ms * 1_000_000).collect();
        let figure = Figure::waits("x", 10.0, 1.0, 1000, waits);
        assert_eq!((figure.p50_ms, figure.p99_ms), (Some(501.0), Some(991.0)));
        assert_eq!(Figure::waits("x", 1.0, 1.0, 0, Vec::new()).p50_ms, None);
    }
}
