//! `nagaya ids init`, `stats` and `list`: one question to the pool each.

use std::io::{self, Write};
use std::process::ExitCode;

use anyhow::Context;
use nagaya_config::Loaded;
use nagaya_ids::pool::{Error, Pool, Report, list_table, stats_table};
use serde_json::Value;

use super::args::{InitArgs, ListArgs, PoolArgs, StatsArgs};
use crate::ids::target::Target;

/// The range of a new pool: what ten bits of worker hold, but for 0, which reads as "none" to many.
const NEW_MIN: u64 = 1;
const NEW_MAX: u64 = 1023;

pub(super) fn init(loaded: &Loaded, args: &InitArgs) -> anyhow::Result<ExitCode> {
    let (namespace, (min, max)) = ask(loaded, &args.pool, async |pool| {
        let (old_min, old_max) = if args.grow || args.shrink {
            pool.range().await?
        } else {
            (NEW_MIN, NEW_MAX)
        };
        let (min, max) = (args.min.unwrap_or(old_min), args.max.unwrap_or(old_max));
        match (args.grow, args.shrink) {
            (true, _) => pool.grow(min, max).await?,
            (_, true) => pool.shrink(min, max).await?,
            _ => pool.init(min, max).await?,
        }
        Ok((pool.namespace().to_owned(), (min, max)))
    })?;
    print(&format!("the pool {namespace} has the numbers {min} to {max}\n"))
}

pub(super) fn stats(loaded: &Loaded, args: &StatsArgs) -> anyhow::Result<ExitCode> {
    let stats = ask(loaded, &args.pool, report)?.stats();
    if args.json {
        print_json(&stats.to_json())
    } else {
        print(&ended(stats_table(&stats)))
    }
}

pub(super) fn list(loaded: &Loaded, args: &ListArgs) -> anyhow::Result<ExitCode> {
    let report = ask(loaded, &args.pool, report)?;
    if args.json {
        print_json(&report.to_json())
    } else {
        print(&ended(list_table(&report, args.all)))
    }
}

/// A pool that does not exist has nothing to show.
async fn report(pool: &Pool) -> Result<Report, Error> {
    let report = pool.report().await?;
    if report.entries.is_empty() {
        let namespace = pool.namespace().to_owned();
        return Err(Error::NotInitialized { namespace });
    }
    Ok(report)
}

/// Runs one conversation with the pool that the flags and settings name.
fn ask<T>(
    loaded: &Loaded,
    args: &PoolArgs,
    question: impl AsyncFnOnce(&Pool) -> Result<T, Error>,
) -> anyhow::Result<T> {
    let target = Target::choose(loaded, args.redis.as_deref())?;
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .context("cannot start the runtime")?;
    runtime.block_on(async {
        let pool = target.pool()?;
        question(&pool).await.map_err(|error| target.explain(error))
    })
}

fn ended(table: String) -> String {
    let lines: Vec<&str> = table.lines().map(str::trim_end).collect();
    lines.join("\n") + "\n"
}

pub(super) fn print_json(value: &Value) -> anyhow::Result<ExitCode> {
    print(&format!("{value:#}\n"))
}

pub(super) fn print(text: &str) -> anyhow::Result<ExitCode> {
    io::stdout().write_all(text.as_bytes())?;
    Ok(ExitCode::SUCCESS)
}
