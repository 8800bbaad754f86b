//! `nagaya fleet agent`: an instance that runs workers.

use std::process::ExitCode;

use anyhow::Context;
use nagaya_config::Loaded;
use nagaya_fleet::agent::{AgentOptions, ExecOptions, Limits};
use nagaya_fleet::commands::{self, RunnerOptions};
use nagaya_fleet::name::{InstanceName, check_label};
use nagaya_fleet::store::Capabilities;
use nagaya_fleet::timing::Timing;
use nagaya_redis_client::Need;

use super::args::AgentArgs;
use super::manager::timing_options;
use crate::app::up;
use crate::fleet::FleetConfig;
use crate::fleet::config::host_name;
use crate::fleet::target::Target;
use crate::watchdog::watchdog;

pub(super) fn run(loaded: &Loaded, args: AgentArgs) -> anyhow::Result<ExitCode> {
    let config: FleetConfig = loaded.section();
    let target = Target::choose(loaded, &args.store)?;
    let timing = Timing::from_options(timing_options(&config, &args.timing))
        .context("the lengths of time do not fit each other")?;
    let options = options(&args, timing)?;
    let token = config
        .callback_token
        .as_ref()
        .map(|token| token.reveal().to_owned());
    let runner = runner(args, token);
    up::until_second_signal(loaded.section(), move |stop| async move {
        target.expect_house().await?;
        // A heartbeat that takes longer than its interval has failed.
        let store = target.store_within(timing.heartbeat);
        let ended = commands::run_agent(store, options, runner, stop).await;
        ended.map_err(|error| target.explain(error))
    })
}

fn options(args: &AgentArgs, timing: Timing) -> anyhow::Result<AgentOptions> {
    let name = match &args.name {
        Some(name) => name.clone(),
        None => InstanceName::new(&host_name()).context("the host's name cannot be used; pass --name")?,
    };
    for word in args.labels.iter().chain(&args.zone) {
        check_label(word)?;
    }
    Ok(AgentOptions {
        capabilities: Capabilities {
            weight: args.weight,
            capacity: args.capacity,
            zone: args.zone.clone(),
            labels: args.labels.iter().cloned().collect(),
        },
        timing,
        need: Need {
            replicas: args.min_replicas,
            limit: timing.heartbeat,
        },
        limits: Limits {
            starts_at_once: args.starts_at_once as usize,
            ..Limits::default()
        },
        state_dir: args.state_dir.clone(),
        leave_limit: args.leave_limit,
        ..AgentOptions::new(name)
    })
}

fn runner(args: AgentArgs, token: Option<String>) -> RunnerOptions {
    match (args.http, args.exec) {
        (Some(url), _) => RunnerOptions::Http { url, token },
        (None, command) => RunnerOptions::Exec(ExecOptions {
            command: command.unwrap_or_default(),
            request: args.request,
            progress_limit: args.progress_limit,
            watchdog,
        }),
    }
}
