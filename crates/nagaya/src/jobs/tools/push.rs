//! `nagaya jobs push`: passes jobs on to an HTTP endpoint, from a process of its own.

use std::process::ExitCode;
use std::time::Duration;

use anyhow::Context;
use clap::Args;
use nagaya_client::{CancellationToken, Endpoint, Push, Secret, Worker};
use nagaya_config::{Loaded, with_unit};
use nagaya_process::Signals;
use nagaya_telemetry::{Telemetry, TelemetryConfig};

use super::connect::{ConnectArgs, connect};
use super::work::worker_name;

/// The variable that holds the secret, which does not belong on a command line.
const SECRET_VARIABLE: &str = "NAGAYA_PUSH_SECRET";

#[derive(Args)]
pub(crate) struct PushArgs {
    /// Take jobs of this queue
    #[arg(long, short, value_name = "NAME")]
    queue: String,
    /// Call this address
    #[arg(long, value_name = "URL")]
    to: String,
    /// Calls at a time
    #[arg(long, short, value_name = "N", default_value_t = 1)]
    concurrency: usize,
    /// How long an answer may take; the lease is kept meanwhile
    #[arg(long, value_name = "TIME", default_value = "15m", value_parser = with_unit::<Duration>)]
    timeout: Duration,
    /// Send this header too (may be given several times)
    #[arg(long, value_name = "NAME=VALUE")]
    header: Vec<String>,
    #[command(flatten)]
    connect: ConnectArgs,
}

pub(super) fn push(loaded: &Loaded, args: PushArgs) -> anyhow::Result<ExitCode> {
    let telemetry: TelemetryConfig = loaded.section();
    // Two threads, because trace export blocks one.
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .worker_threads(2)
        .enable_all()
        .build()
        .context("cannot start the runtime")?;
    runtime.block_on(async {
        let telemetry = Telemetry::start(&telemetry)?;
        let result = run(loaded, args).await;
        tokio::task::spawn_blocking(|| telemetry.shutdown()).await?;
        result
    })
}

async fn run(loaded: &Loaded, args: PushArgs) -> anyhow::Result<ExitCode> {
    let mut signals = Signals::listen_for_stop().context("cannot listen for signals")?;
    let mut endpoint = Endpoint::new(&args.to)?.timeout(args.timeout);
    for header in &args.header {
        let (name, value) = header
            .split_once('=')
            .context("--header must look like NAME=VALUE")?;
        endpoint = endpoint.header(name, value)?;
    }
    if let Ok(secret) = std::env::var(SECRET_VARIABLE) {
        let secret = Secret::parse(&secret).with_context(|| format!("{SECRET_VARIABLE} is not usable"))?;
        endpoint = endpoint.secret(secret);
    }
    let drain = CancellationToken::new();
    let worker = Worker::new(connect(loaded, &args.connect)?, args.queue)
        .name(worker_name())
        .concurrency(args.concurrency);
    let working = worker.run(Push::new(endpoint), drain.clone());
    tokio::pin!(working);
    let tally = loop {
        tokio::select! {
            ended = &mut working => break ended?,
            signal = signals.next_name() => {
                if drain.is_cancelled() {
                    return Ok(ExitCode::FAILURE);
                }
                tracing::info!(signal, "finishing open calls; a second signal drops them");
                drain.cancel();
            }
        }
    };
    tracing::info!(
        succeeded = tally.succeeded,
        failed = tally.failed,
        lost = tally.lost,
        "push ended"
    );
    Ok(ExitCode::SUCCESS)
}
