//! `nagaya fleet simulate`: the simulator with one's own settings.

use std::process::ExitCode;

use anyhow::Context;
use nagaya_config::Loaded;
use nagaya_fleet::simulator::{self, SeedSearch, Settings};
use nagaya_fleet::timing::Timing;
use serde_json::json;

use super::args::SimulateArgs;
use super::list::{print, print_json};
use super::manager::timing_options;
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
    let mut sum = SeedSearch::default();
    let end = args.first.saturating_add(args.seeds);
    let mut first = args.first;
    while first < end && sum.failure.is_none() {
        let until = first.saturating_add(TOLD_EVERY).min(end);
        sum.add(simulator::search_seeds(&settings, first..until));
        first = until;
        if first < end && !args.json {
            eprintln!("{} worlds", sum.seeds);
        }
    }
    if args.json {
        print_json(&sum.to_json())?
    } else {
        print(&describe(&settings, &sum))?
    };
    Ok(match sum.failure {
        None => ExitCode::SUCCESS,
        Some(_) => ExitCode::FAILURE,
    })
}

fn timing(config: &FleetConfig, args: &SimulateArgs) -> anyhow::Result<Timing> {
    let timing_options = timing_options(config, &args.timing);
    if args.unsafe_timing {
        Ok(Timing::from_unchecked_options(timing_options))
    } else {
        Timing::from_options(timing_options).context("the lengths of time do not fit each other")
    }
}

fn describe(settings: &Settings, search: &SeedSearch) -> String {
    let mut text = format!(
        "{} worlds, {} starts, {} deaths, {} moves; dark at most {:.1} s (promised after a crash: {:.1} s, \
         after a failover: {:.1} s, plus the wait for the list)\n",
        search.seeds,
        search.starts,
        search.deaths,
        search.moves,
        search.dark_ms_max as f64 / 1000.0,
        settings.timing.bounds().after_crash.as_secs_f64(),
        settings.timing.bounds().after_failover.as_secs_f64(),
    );
    match &search.failure {
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
