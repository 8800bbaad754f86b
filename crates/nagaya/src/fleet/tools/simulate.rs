//! `nagaya fleet simulate`: the simulator with one's own settings.

use std::process::ExitCode;

use anyhow::Context;
use nagaya_config::Loaded;
use nagaya_fleet::simulator::{self, Hunt, Settings};
use nagaya_fleet::timing::Timing;
use serde_json::json;

use super::args::SimulateArgs;
use super::look::{print, print_json};
use super::manager::wish;
use crate::fleet::FleetConfig;

/// Worlds between two lines of progress.
const TOLD_EVERY: u64 = 500;

pub(super) fn run(loaded: &Loaded, args: &SimulateArgs) -> anyhow::Result<ExitCode> {
    let config: FleetConfig = loaded.section();
    let settings = Settings {
        timing: timing(&config, args)?,
        agents: args.agents as usize,
        managers: args.managers as usize,
        workers: args.workers as usize,
        faults: args.faults as usize,
        ..Settings::default()
    };
    let mut sum = Hunt::default();
    let end = args.first.saturating_add(args.seeds);
    let mut first = args.first;
    while first < end && sum.failure.is_none() {
        let until = first.saturating_add(TOLD_EVERY).min(end);
        sum.add(simulator::hunt(&settings, first..until));
        first = until;
        if first < end && !args.json {
            eprintln!("{} worlds", sum.seeds);
        }
    }
    match args.json {
        true => print_json(&sum.to_json())?,
        false => print(&describe(&settings, &sum))?,
    };
    Ok(match sum.failure {
        None => ExitCode::SUCCESS,
        Some(_) => ExitCode::FAILURE,
    })
}

fn timing(config: &FleetConfig, args: &SimulateArgs) -> anyhow::Result<Timing> {
    let wish = wish(config, &args.timing);
    match args.unsafe_timing {
        true => Ok(Timing::from_unsafe_wish(wish)),
        false => Timing::from_wish(wish).context("the lengths of time do not fit each other"),
    }
}

fn describe(settings: &Settings, hunt: &Hunt) -> String {
    let mut text = format!(
        "{} worlds, {} starts, {} deaths, {} moves; dark at most {:.1} s (promised after a crash: {:.1} s, \
         after a failover: {:.1} s, plus the wait for the list)\n",
        hunt.seeds,
        hunt.starts,
        hunt.deaths,
        hunt.moves,
        hunt.dark_ms_max as f64 / 1000.0,
        settings.timing.bounds().after_crash.as_secs_f64(),
        settings.timing.bounds().after_failover.as_secs_f64(),
    );
    match &hunt.failure {
        None => text.push_str("no world had two copies of a worker, and all workers ran in the end\n"),
        Some(failure) => {
            text.push_str(&format!("seed {}: {}\n", failure.seed, failure.violation));
            for (at_ms, fault) in &failure.scenario.faults {
                text.push_str(&format!("  {at_ms:>7} ms  {fault:?}\n"));
            }
            let again = json!({"rates_ppm": failure.scenario.rates_ppm});
            text.push_str(&format!("  clocks {again}\n"));
        }
    }
    text
}
