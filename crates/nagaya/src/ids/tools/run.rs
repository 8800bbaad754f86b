//! `nagaya ids run`: a command with a number.

use std::process::ExitCode;

use anyhow::Context;
use nagaya_config::Loaded;
use nagaya_ids::lease::{End, HolderOptions, TimingOptions};
use nagaya_ids::run::{RunError, RunOptions, run as supervise, run_timing};
use nagaya_telemetry::{Telemetry, TelemetryConfig};

use super::args::{HolderArgs, RunArgs};
use crate::app::terminal;
use crate::ids::IdsConfig;
use crate::ids::target::Target;
use crate::watchdog::watchdog;

pub(super) fn run(loaded: &Loaded, args: RunArgs) -> anyhow::Result<ExitCode> {
    let target = Target::choose(loaded, args.pool.redis.as_deref())?;
    let (ids, telemetry): (IdsConfig, TelemetryConfig) = (loaded.section(), loaded.section());
    // This runtime only renews the lease; the command is a child process. Two, because trace export blocks one.
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .worker_threads(2)
        .enable_all()
        .build()
        .context("cannot start the runtime")?;
    runtime.block_on(async {
        let telemetry = Telemetry::start(&telemetry)?;
        let result = run_with(&ids, &target, args).await;
        tokio::task::spawn_blocking(|| telemetry.shutdown()).await?;
        result
    })
}

async fn run_with(ids: &IdsConfig, target: &Target, args: RunArgs) -> anyhow::Result<ExitCode> {
    let (timing, changes) = run_timing(timing_options(ids, &args.holder), args.grace)?;
    for change in changes {
        tracing::warn!("{change}");
    }
    let pool = target.holders_pool(&timing)?;
    target.expect_house(&pool).await?;
    let options = RunOptions {
        command: args.command,
        placeholder: args.replacement,
        grace: args.grace,
        stop_timeout: args.stop_timeout,
        watchdog,
        holder: HolderOptions {
            timing,
            ..holder_options(ids, args.holder)
        },
    };
    match supervise(pool, options).await {
        Ok(code) => Ok(ExitCode::from(code)),
        Err(error) => {
            let label = terminal::stderr().red("error:");
            eprintln!("{label} {}", describe(&error));
            Ok(ExitCode::from(error.exit_code()))
        }
    }
}

/// The flags of a holder over the settings, but for the lengths of time.
pub(super) fn holder_options(ids: &IdsConfig, args: HolderArgs) -> HolderOptions {
    HolderOptions {
        name: args.name,
        state_dir: args.state_dir,
        min_replicas: args.min_replicas.unwrap_or(ids.min_replicas),
        ..HolderOptions::default()
    }
}

pub(super) fn timing_options(ids: &IdsConfig, args: &HolderArgs) -> TimingOptions {
    TimingOptions {
        interval: args.interval,
        delay: args.delay,
        reserve: args.expire,
        use_for: None,
        use_max: Some(args.use_max.unwrap_or(ids.use_max)),
        without_guards: args.i_am_a_database_removable_specialist,
    }
}

fn describe(error: &RunError) -> String {
    match error {
        RunError::NoNumber(end) => format!("no number to run with: {}", describe_end(end)),
        other => other.to_string(),
    }
}

/// Why a holder ended, for people.
pub(in crate::ids) fn describe_end(end: &End) -> String {
    match end {
        End::Released => "it was given back".to_owned(),
        End::NotReleased(reason) => format!("it could not be given back: {reason}"),
        End::Lost => "it was lost while it was in use".to_owned(),
        End::NameTaken => {
            "another process with the same name has taken it over; give each process a name of its own"
                .to_owned()
        }
        End::BoundDiffers(reason) | End::Failed(reason) => reason.clone(),
    }
}
