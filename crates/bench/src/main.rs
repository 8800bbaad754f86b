//! `nagaya-bench`: our engine beside the server it stands in for, on the same machine.
//!
//! It starts the binary `nagaya`, which lies beside it or is named, and depends on no code of that crate.
//! `redis` starts both servers as children and drives them in turn with the same load. Three parts:
//! [`throughput`] (requests a second, latency and the server's own CPU), [`memory`] (what the same data costs)
//! and [`scaling`] (whether the cost of a command grows with the number of keys). Every figure is a median over
//! rounds and every verdict a ratio of two figures from the same run.
//!
//! `room` measures what keeping data costs; its parts are in [`room`]. `proxy` measures the room on
//! Redis and PostgreSQL; see [`proxy`]. `jobs` measures the job
//! queue beside others; its parts are in [`jobs`]. `results` measures how results reach submitters; see
//! [`results`]. `fanout` measures how requests are fanned out; see
//! [`fanout`]. `fleet` places and moves workers; see [`fleet`].

mod cli;
mod options;
mod plan;
mod subject;

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
use nagaya_process::Signals;
use tempfile::TempDir;

use fanout::FanoutArgs;
use fleet::FleetArgs;
use jobs::JobsArgs;
use options::RedisArgs;
use plan::{Plan, Target};
use proxy::ProxyArgs;
use record::Record;
use report::Report;
use results::ResultsArgs;
use room::RoomArgs;
use subject::Nagaya;

/// The allocator of `nagaya` itself, so that the load generators keep up with it.
#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

fn main() -> ExitCode {
    cli::run()
}

/// Runs `nagaya-bench redis`.
fn redis(args: &RedisArgs, nagaya: Nagaya) -> anyhow::Result<()> {
    let plan = Plan::new(args, nagaya)?;
    let folder = begin()?;
    let report = measure(&plan, &folder)?;
    let output = if args.json { report.json()? } else { report.text() };
    end(&output, &plan.target, || report.record())
}

/// Runs `nagaya-bench room`.
fn room(args: &RoomArgs, nagaya: Nagaya) -> anyhow::Result<()> {
    let plan = room::Plan::new(args, nagaya)?;
    let folder = begin()?;
    let report = room::measure(&plan, folder.path())?;
    let output = if args.json { report.json()? } else { report.text() };
    end(&output, &plan.target, || report.record())
}

/// Runs `nagaya-bench proxy`.
fn proxy(args: &ProxyArgs, nagaya: Nagaya) -> anyhow::Result<()> {
    let plan = proxy::Plan::new(args, nagaya)?;
    let folder = begin()?;
    let report = proxy::measure(&plan, folder.path())?;
    let output = if args.json { report.json()? } else { report.text() };
    end(&output, &plan.target, || report.record())
}

/// Runs `nagaya-bench jobs`.
fn jobs(args: &JobsArgs, nagaya: Nagaya) -> anyhow::Result<()> {
    let plan = jobs::Plan::new(args, nagaya);
    let folder = begin()?;
    let report = jobs::measure(&plan, folder.path())?;
    let output = if args.json { report.json()? } else { report.text() };
    end(&output, &plan.target, || report.record())
}

/// Runs `nagaya-bench results`.
fn results(args: &ResultsArgs, nagaya: Nagaya) -> anyhow::Result<()> {
    let plan = results::Plan::new(args, nagaya);
    let folder = begin()?;
    let report = results::measure(&plan, folder.path())?;
    let output = if args.json { report.json()? } else { report.text() };
    end(&output, &plan.target, || report.record())
}

/// Runs `nagaya-bench fanout`.
fn fanout(args: &FanoutArgs, nagaya: Nagaya) -> anyhow::Result<()> {
    let plan = fanout::Plan::new(args, nagaya)?;
    let folder = begin()?;
    let report = fanout::measure(&plan, folder.path())?;
    let output = if args.json { report.json()? } else { report.text() };
    end(&output, &plan.target, || report.record())
}

/// Runs `nagaya-bench fleet`.
fn fleet(args: &FleetArgs, nagaya: Nagaya) -> anyhow::Result<()> {
    let plan = fleet::Plan::new(args, nagaya)?;
    let folder = begin()?;
    let report = fleet::measure(&plan, &folder)?;
    let output = if args.json { report.json()? } else { report.text() };
    end(&output, &plan.target, || report.record())
}

/// Prepares a measurement: makes a folder for its servers that is removed when the process ends.
fn begin() -> anyhow::Result<TempDir> {
    let folder = temporary_folder()?;
    tidy_up_on_signals(&folder)?;
    warn_of_debug_build();
    Ok(folder)
}

/// Finishes a measurement: prints the results and records them if configured.
fn end(output: &str, target: &Target, record: impl FnOnce() -> anyhow::Result<Record>) -> anyhow::Result<()> {
    io::stdout().write_all(output.as_bytes())?;
    if let Some(folder) = target.folder()? {
        record::write(&folder, &record()?)?;
        progress(&format!("recorded in {}", folder.display()));
    }
    Ok(())
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
                match Signals::listen_for_stop() {
                    Ok(mut signals) => signals.next_name().await,
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

/// Prints a line of progress to standard error.
fn progress(text: &str) {
    eprintln!("bench: {text}");
}
