//! `nagaya ids init`, `stats` and `list`: one question to the pool each.

use std::io::{self, Write};
use std::process::ExitCode;

use anyhow::Context;
use nagaya_config::Loaded;
use nagaya_ids::lease::{Timing, USE_MAX_CAP};
use nagaya_ids::pool::{Error, NewPool, Pool, Report, list_table, stats_table};
use serde_json::Value;

use super::args::{InitArgs, ListArgs, PoolArgs, ReleaseArgs, StatsArgs};
use crate::ids::IdsConfig;
use crate::ids::target::Target;

/// The range of a new pool: what ten bits of worker hold, but for 0, which reads as "none" to many.
const NEW_MIN: u64 = 1;
const NEW_MAX: u64 = 1023;

pub(super) fn init(loaded: &Loaded, args: &InitArgs) -> anyhow::Result<ExitCode> {
    let ids: IdsConfig = loaded.section();
    let use_max = args.use_max.unwrap_or(ids.use_max);
    let (namespace, (min, max)) = ask(loaded, &args.pool, async |pool| {
        let is_new = !(args.grow || args.shrink || args.change_use_max);
        let (old_min, old_max) = if is_new {
            (NEW_MIN, NEW_MAX)
        } else {
            pool.range().await?
        };
        let (min, max) = (args.min.unwrap_or(old_min), args.max.unwrap_or(old_max));
        if args.grow {
            pool.grow(min, max).await?;
        } else if args.shrink {
            pool.shrink(min, max).await?;
        } else if args.change_use_max {
            pool.change_use_max(use_max, USE_MAX_CAP).await?;
        } else {
            let unused = args.unused;
            pool.init(min, max, NewPool { use_max, unused }).await?;
        }
        Ok((pool.namespace().to_owned(), (min, max)))
    })?;
    print(&format!("the pool {namespace} has the numbers {min} to {max}\n"))?;
    if args.change_use_max || !(args.unused || args.grow || args.shrink) {
        let wait = Timing::default().wait_out(USE_MAX_CAP);
        eprintln!(
            "its first users wait {wait:.1?}, for processes that may still use these numbers; `init --unused` says that \
             there are none"
        );
    }
    Ok(ExitCode::SUCCESS)
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

pub(super) fn release(loaded: &Loaded, args: &ReleaseArgs) -> anyhow::Result<ExitCode> {
    let number = args.number;
    let freed = ask(loaded, &args.pool, async |pool| {
        pool.free(number, args.forget_ceiling).await
    })?;
    let holder = if freed.name.is_empty() {
        String::new()
    } else {
        format!(", which {} had last,", freed.name)
    };
    print(&format!("number {number}{holder} is free\n"))
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
