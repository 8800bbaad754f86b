//! `nagaya bench`: our engine beside the server it stands in for, on the same machine.
//!
//! `bench redis` starts both servers as children and drives them in turn with the same load. Three parts:
//! [`throughput`] (requests a second, latency and the server's own CPU), [`memory`] (what the same data
//! costs) and [`scaling`] (whether a command grows dearer with the number of keys). Every figure is a
//! median over rounds and every verdict a ratio of two figures from the same run.
//!
//! `bench room` measures what keeping data costs; its parts are in [`room`]. `bench proxy` measures the room on
//! Redis and PostgreSQL; see [`proxy`]. `bench jobs` measures the job
//! queue beside others; its parts are in [`jobs`]. `bench results` measures how results reach submitters; see
//! [`results`]. `bench fanout` measures how requests are fanned out; see
//! [`fanout`]. `bench fleet` places and moves workers; see [`fleet`].

mod options;
mod plan;

mod memory;
mod scaling;
mod throughput;

mod fanout;
mod fleet;
mod jobs;
mod proxy;
mod results;
mod room;

mod connection;
mod load_generator;
mod loader;
mod proc;
mod servers;

mod machine;
mod record;
mod report;
mod table;

use std::io::{self, Write};
use std::process::ExitCode;

use anyhow::Context;
use tempfile::TempDir;

use crate::signals::Signals;

pub(crate) use fanout::FanoutArgs;
pub(crate) use fleet::FleetArgs;
pub(crate) use jobs::JobsArgs;
pub(crate) use options::RedisArgs;
use plan::{Plan, Target};
pub(crate) use proxy::ProxyArgs;
use record::Record;
use report::Report;
pub(crate) use results::ResultsArgs;
pub(crate) use room::RoomArgs;
pub(crate) use servers::spawn as spawn_child;

/// Runs `nagaya bench redis`.
pub(crate) fn redis(args: RedisArgs) -> anyhow::Result<ExitCode> {
    let plan = Plan::new(&args)?;
    let folder = begin()?;
    let report = measure(&plan, &folder)?;
    let output = if args.json { report.json()? } else { report.text() };
    end(&output, &plan.target, || report.record())
}

/// Runs `nagaya bench room`.
pub(crate) fn room(args: RoomArgs) -> anyhow::Result<ExitCode> {
    let plan = room::Plan::new(&args)?;
    let folder = begin()?;
    let report = room::measure(&plan, folder.path())?;
    let output = if args.json { report.json()? } else { report.text() };
    end(&output, &plan.target, || report.record())
}

/// Runs `nagaya bench proxy`.
pub(crate) fn proxy(args: ProxyArgs) -> anyhow::Result<ExitCode> {
    let plan = proxy::Plan::new(&args)?;
    let folder = begin()?;
    let report = proxy::measure(&plan, folder.path())?;
    let output = if args.json { report.json()? } else { report.text() };
    end(&output, &plan.target, || report.record())
}

/// Runs `nagaya bench jobs`.
pub(crate) fn jobs(args: JobsArgs) -> anyhow::Result<ExitCode> {
    let plan = jobs::Plan::new(&args);
    let folder = begin()?;
    let report = jobs::measure(&plan, folder.path())?;
    let output = if args.json { report.json()? } else { report.text() };
    end(&output, &plan.target, || report.record())
}

/// Runs `nagaya bench results`.
pub(crate) fn results(args: ResultsArgs) -> anyhow::Result<ExitCode> {
    let plan = results::Plan::new(&args);
    let folder = begin()?;
    let report = results::measure(&plan, folder.path())?;
    let output = if args.json { report.json()? } else { report.text() };
    end(&output, &plan.target, || report.record())
}

/// Runs `nagaya bench fanout`.
pub(crate) fn fanout(args: FanoutArgs) -> anyhow::Result<ExitCode> {
    let plan = fanout::Plan::new(&args)?;
    let folder = begin()?;
    let report = fanout::measure(&plan, folder.path())?;
    let output = if args.json { report.json()? } else { report.text() };
    end(&output, &plan.target, || report.record())
}

/// Runs `nagaya bench fleet`.
pub(crate) fn fleet(args: FleetArgs) -> anyhow::Result<ExitCode> {
    let plan = fleet::Plan::new(&args)?;
    let folder = begin()?;
    let report = fleet::measure(&plan, &folder)?;
    let output = if args.json { report.json()? } else { report.text() };
    end(&output, &plan.target, || report.record())
}

/// What every measurement begins with: a folder for its servers that goes when it ends, however it ends.
fn begin() -> anyhow::Result<TempDir> {
    let folder = temporary_folder()?;
    tidy_up_on_signals(&folder)?;
    warn_of_debug_build();
    Ok(folder)
}

/// What it ends with: the figures are printed, and recorded where that is wanted.
fn end(
    output: &str,
    target: &Target,
    record: impl FnOnce() -> anyhow::Result<Record>,
) -> anyhow::Result<ExitCode> {
    io::stdout().write_all(output.as_bytes())?;
    if let Some(folder) = target.folder()? {
        record::write(&folder, &record()?)?;
        progress(&format!("recorded in {}", folder.display()));
    }
    Ok(ExitCode::SUCCESS)
}

fn temporary_folder() -> anyhow::Result<TempDir> {
    tempfile::Builder::new()
        .prefix("nagaya-bench-")
        .tempdir()
        .context("cannot make a temporary folder")
}

fn warn_of_debug_build() {
    if cfg!(debug_assertions) {
        progress("this is a debug build: its figures say nothing about speed");
    }
}

fn measure(plan: &Plan, folder: &TempDir) -> anyhow::Result<Report> {
    let mut report = Report::new(plan);
    if plan.throughput {
        report.throughput = throughput::run(plan, folder.path(), &mut report.raw)?;
    }
    if plan.memory {
        report.memory = memory::run(plan, folder.path())?;
    }
    if plan.scaling {
        report.scaling = scaling::run(plan, folder.path(), &mut report.raw)?;
    }
    Ok(report)
}

/// Removes the temporary folder and ends on SIGINT or SIGTERM. The kernel ends the children with us.
fn tidy_up_on_signals(folder: &TempDir) -> anyhow::Result<()> {
    let path = folder.path().to_owned();
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .context("cannot listen for signals")?;
    std::thread::Builder::new()
        .name("nagaya-signals".to_owned())
        .spawn(move || {
            let signal = runtime.block_on(async {
                match Signals::listen() {
                    Ok(mut signals) => signals.next().await,
                    // Without our handler a signal ends the process by itself.
                    Err(_) => std::future::pending().await,
                }
            });
            // What cannot be removed is left to the system's own tidying.
            std::fs::remove_dir_all(path).ok();
            eprintln!("ended by {signal}");
            std::process::exit(1);
        })
        .context("cannot listen for signals")?;
    Ok(())
}

/// Tells the person who waits what is going on.
fn progress(text: &str) {
    eprintln!("bench: {text}");
}
