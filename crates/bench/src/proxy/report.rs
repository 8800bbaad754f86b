//! The results of a run, and their forms.

use anyhow::Context;
use nagaya_clock::{Clock, SystemClock};
use serde::Serialize;

use super::forwarding::{self, Row, Sample, Way};
use super::options::Plan;
use super::saves::Saves;
use crate::machine::{Machine, Versions};
use crate::plan::date_of;
use crate::record::{Record, typed_command};
use crate::table::{Table, ratio};

/// What the proxy has to reach beside twemproxy: depth, throughput at least, CPU at most.
const BARS: [(u32, f64, f64); 2] = [(1, 1.0, 0.8), (16, 2.0, 0.3)];
/// Bytes of log that a change of 1 KB may write.
const WAL_BYTES_MAX: f64 = 5.0 * 1024.0;

#[derive(Serialize)]
pub(crate) struct Report {
    date: String,
    machine: Machine,
    versions: Versions,
    commands: Vec<String>,
    rounds: u32,
    pub(super) rows: Vec<Row>,
    pub(super) saves: Option<Saves>,
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
            rows: Vec::new(),
            saves: None,
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
            raw_csv: self.raw_csv(),
            pictures: Vec::new(),
        })
    }

    fn markdown(&self) -> String {
        let mut text = format!("# nagaya's proxy, {}\n\n", self.date);
        text.push_str(&format!(
            "Ratios are ours over twemproxy's; figures are medians over the rounds ({} of them). \
             `bench/README.md` says what they mean.\n",
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
        let mut tables: Vec<(String, Table)> = Vec::new();
        for row in &self.rows {
            let title = format!("{} behind it, pipeline depth {}", servers(row.nodes), row.depth);
            if tables.last().is_none_or(|(last, _)| *last != title) {
                tables.push((title, Table::new(&HEAD)));
            }
            if let Some((_, table)) = tables.last_mut() {
                table.row(cells(row));
            }
        }
        if let Some(saves) = &self.saves {
            tables.push(("Saves and loads".to_owned(), saves_table(saves)));
        }
        tables
    }

    /// Whether the bars are reached.
    fn verdict(&self) -> String {
        let mut text = String::new();
        for (depth, least, most) in BARS {
            for row in self.rows.iter().filter(|row| row.depth == depth) {
                let is_met = row.throughput_ratio >= least && row.cpu_ratio <= most;
                text.push_str(&format!(
                    "{}, depth {depth}, {}: {} (throughput at least {least:.1}x, CPU at most {most:.1}x)\n",
                    servers(row.nodes),
                    row.test.name(),
                    met(is_met),
                ));
            }
        }
        if let Some(saves) = &self.saves {
            let wal = met(saves.wal_bytes_per_change <= WAL_BYTES_MAX);
            text.push_str(&format!("1 KB changed in 100 KB, at most 5 KB of log: {wal}\n"));
            let once = met(saves.loads_of_one_tag == 1);
            text.push_str(&format!("1000 first requests for one tag, one load: {once}\n"));
        }
        text
    }

    fn raw_csv(&self) -> String {
        let mut text = "way,nodes,depth,round,requests,proxy_cpu_seconds,more_commands,".to_owned();
        text.push_str("test,rps,avg_latency_ms,min_latency_ms,p50_latency_ms,p95_latency_ms,");
        text.push_str("p99_latency_ms,max_latency_ms\n");
        for sample in &self.raw {
            let way = match sample.way {
                Way::Ours => "nagaya",
                Way::Twemproxy => "twemproxy",
                Way::Direct => "direct",
            };
            let cpu = sample
                .cpu_seconds
                .map_or_else(String::new, |cpu| format!("{cpu:.2}"));
            let more = sample
                .more_commands
                .map_or_else(String::new, |more| more.to_string());
            let Sample {
                nodes,
                depth,
                round,
                requests,
                csv,
                ..
            } = sample;
            text.push_str(&format!(
                "{way},{nodes},{depth},{round},{requests},{cpu},{more},{csv}\n"
            ));
        }
        text
    }
}

fn met(is_met: bool) -> &'static str {
    if is_met { "met" } else { "MISSED" }
}

fn servers(count: u16) -> String {
    match count {
        1 => "1 server".to_owned(),
        _ => format!("{count} servers"),
    }
}

const HEAD: [&str; 10] = [
    "",
    "rps",
    "twemproxy rps",
    "ratio",
    "direct rps",
    "CPU s/M",
    "twemproxy CPU s/M",
    "ratio",
    "of direct",
    "more commands",
];

fn cells(row: &Row) -> Vec<String> {
    vec![
        row.test.name(),
        format!("{:.0}", row.ours_rps),
        format!("{:.0}", row.twemproxy_rps),
        ratio(row.throughput_ratio),
        format!("{:.0}", row.direct_rps),
        format!("{:.2}", row.ours_cpu),
        format!("{:.2}", row.twemproxy_cpu),
        ratio(row.cpu_ratio),
        ratio(row.ours_rps / row.direct_rps),
        format!("{:.2} %", row.more_commands_percent),
    ]
}

fn saves_table(saves: &Saves) -> Table {
    let mut table = Table::new(&["", "figure"]);
    let mut row = |name: String, figure: String| table.row(vec![name, figure]);
    row(
        "log for 1 KB changed in 100 KB".to_owned(),
        format!("{:.0} bytes", saves.wal_bytes_per_change),
    );
    for load in &saves.loads {
        row(
            format!("load of a tag, keys: {}, p50 / p99", load.keys),
            format!("{:.2} / {:.2} ms", load.p50_ms, load.p99_ms),
        );
    }
    row(
        "loads by 1000 first requests for one tag".to_owned(),
        format!("{} ({:.0} ms)", saves.loads_of_one_tag, saves.one_tag_ms),
    );
    row("writes".to_owned(), format!("{:.0} /s", saves.writes_per_second));
    row(
        "saves of tags meanwhile".to_owned(),
        format!("{:.0} /s", saves.saves_per_second),
    );
    row(
        "staleness, p50 / worst".to_owned(),
        format!("{:.2} / {:.2} s", saves.staleness_p50_s, saves.staleness_max_s),
    );
    table
}

fn commands(plan: &Plan) -> Vec<String> {
    let mut commands = vec![typed_command()];
    commands.push("nagaya room serve --set room.io_threads=1 --redis URL --postgres URL".to_owned());
    if plan.saves {
        commands.push("nagaya room task --redis URL --postgres URL".to_owned());
        return commands;
    }
    commands.push("nutcracker -c FILE (hash fnv1a_64, distribution ketama, redis true)".to_owned());
    for &depth in &plan.depths {
        for test in forwarding::TESTS {
            for is_spread in [false, true] {
                let arguments = forwarding::arguments(plan, is_spread, test, depth, plan.requests_at(depth));
                commands.push(format!(
                    "redis-benchmark -h 127.0.0.1 -p PORT {}",
                    arguments.join(" ")
                ));
            }
        }
    }
    commands
}
