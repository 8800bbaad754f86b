//! `nagaya fleet list`, `plan` and `events`: they change nothing.

use std::io::{self, Write};
use std::process::ExitCode;
use std::time::Duration;

use anyhow::Context;
use nagaya_config::Loaded;
use nagaya_fleet::commands::{self, CommandError, StoreOptions};
use nagaya_fleet::protocol::Rebalance;
use nagaya_fleet::status::events_table;
use serde_json::Value;

use super::args::{EventsArgs, ListArgs, PlanArgs, StoreArgs};
use crate::fleet::FleetConfig;
use crate::fleet::target::Target;

/// How often `--follow` looks for what is new.
const FOLLOW_EVERY: Duration = Duration::from_millis(500);
/// What `--follow` reads at once.
const FOLLOW_COUNT: usize = 1000;

pub(super) fn list(loaded: &Loaded, args: &ListArgs) -> anyhow::Result<ExitCode> {
    let status = ask(loaded, &args.store, commands::list)?;
    if args.json {
        print_json(&status.to_json())
    } else {
        print(&tidy(&status.to_table()))
    }
}

pub(super) fn plan(loaded: &Loaded, args: &PlanArgs) -> anyhow::Result<ExitCode> {
    let config: FleetConfig = loaded.section();
    let rebalance = Rebalance {
        per_zone_max: args.per_zone_max.or(config.per_zone_max),
        ..config.rebalance()
    };
    let plan = ask(loaded, &args.store, async |store| {
        commands::plan(store, rebalance).await
    })?;
    if args.json {
        print_json(&plan.to_json())
    } else {
        print(&tidy(&plan.to_table()))
    }
}

pub(super) fn events(loaded: &Loaded, args: &EventsArgs) -> anyhow::Result<ExitCode> {
    let target = Target::choose(loaded, &args.store)?;
    block_on(async {
        let mut after = args.after.clone();
        let mut count = args.count;
        loop {
            let read = commands::events(target.store(), after.as_deref(), count).await;
            let events = read.map_err(|error| target.explain(error))?;
            if let Some(last) = events.last().and_then(|event| event["id"].as_str()) {
                after = Some(last.to_owned());
            }
            let text = if args.json {
                events.iter().map(|event| format!("{event}\n")).collect()
            } else {
                tidy(&events_table(&events))
            };
            if !(events.is_empty() && args.follow) {
                print(&text)?;
            }
            if !args.follow {
                return Ok(ExitCode::SUCCESS);
            }
            // `--follow` shows everything new, from the beginning if there is nothing yet.
            after.get_or_insert_with(|| "0-0".to_owned());
            count = FOLLOW_COUNT;
            tokio::time::sleep(FOLLOW_EVERY).await;
        }
    })
}

/// Runs one conversation with the fleet that the flags and settings name.
pub(super) fn ask<T>(
    loaded: &Loaded,
    args: &StoreArgs,
    question: impl AsyncFnOnce(StoreOptions) -> Result<T, CommandError>,
) -> anyhow::Result<T> {
    let target = Target::choose(loaded, args)?;
    block_on(async {
        question(target.store())
            .await
            .map_err(|error| target.explain(error))
    })
}

pub(super) fn block_on<T>(future: impl Future<Output = anyhow::Result<T>>) -> anyhow::Result<T> {
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .context("cannot start the runtime")?;
    runtime.block_on(future)
}

/// A table without the blanks that fill its lines.
pub(super) fn tidy(table: &str) -> String {
    let lines: Vec<&str> = table.lines().map(str::trim_end).collect();
    lines.join("\n") + "\n"
}

pub(super) fn print_json(value: &Value) -> anyhow::Result<ExitCode> {
    print(&format!("{value:#}\n"))
}

pub(super) fn print(text: &str) -> anyhow::Result<ExitCode> {
    let mut output = io::stdout();
    output.write_all(text.as_bytes())?;
    output.flush()?;
    Ok(ExitCode::SUCCESS)
}
