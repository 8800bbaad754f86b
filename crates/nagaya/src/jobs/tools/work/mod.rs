//! `nagaya jobs work`: a command per job.
//!
//! Each attempt is a child process in a group of its own. It gets the payload on standard input and in a
//! file; what it writes to standard output is the result, standard error becomes the job's log, and lines on
//! file descriptor 3 its progress. The exit code says how the attempt ended.
//!
//! The lease is kept while the child runs. When it is lost, or the job is cancelled, the whole group is
//! asked to end and killed after a moment. When this worker is killed, the kernel kills the child and the
//! guardian the rest of its group.

mod args;
mod command;
mod output;
mod process;
mod progress;

use std::process::{Command, ExitCode, Stdio};
use std::sync::Arc;
use std::time::Duration;

use anyhow::{Context, bail};
use nagaya_client::{CancellationToken, Tally, Worker};
use nagaya_config::Loaded;
use nagaya_process::{Guardian, Signals};
use nagaya_telemetry::{Telemetry, TelemetryConfig};

pub(crate) use args::WorkArgs;
use command::CommandHandler;

use super::connect::connect;

/// Kept between the last KILL and the end of the handler's own patience.
const MARGIN: Duration = Duration::from_secs(5);

/// Works until SIGINT or SIGTERM; a second signal kills what still runs.
pub(super) fn work(loaded: &Loaded, args: WorkArgs) -> anyhow::Result<ExitCode> {
    let telemetry: TelemetryConfig = loaded.section();
    // The kernel ties a child to the thread that started it, so all of it happens on this one.
    let runtime = tokio::runtime::Builder::new_current_thread()
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

async fn run(loaded: &Loaded, args: WorkArgs) -> anyhow::Result<ExitCode> {
    if !process::exists(&args.command[0]) {
        bail!("there is no program {:?} to run jobs with", args.command[0]);
    }
    let mut signals = Signals::listen_for_stop().context("cannot listen for signals")?;
    let client = connect(loaded, &args.connect)?;
    let (drain, kill) = (CancellationToken::new(), CancellationToken::new());
    let worker = Worker::new(client, &args.queue)
        .name(args.name.unwrap_or_else(worker_name))
        .concurrency(args.concurrency)
        .grace(args.grace + MARGIN);
    let handler = CommandHandler {
        command: args.command,
        permanent: args.permanent,
        result_bytes_max: args.result_max.as_usize(),
        grace: args.grace,
        kill: kill.clone(),
        folder: tempfile::Builder::new().prefix("nagaya-jobs-").tempdir()?,
        guardian: Arc::new(start_guardian()?),
    };
    tracing::info!(
        queue = args.queue,
        concurrency = args.concurrency,
        "waiting for jobs"
    );
    let working = worker.run(handler, drain.clone());
    tokio::pin!(working);
    let tally = loop {
        tokio::select! {
            ended = &mut working => break ended?,
            signal = signals.next_name() => {
                if drain.is_cancelled() {
                    tracing::warn!(signal, "killing what still runs");
                    kill.cancel();
                } else {
                    tracing::info!(signal, "finishing what runs; a second signal kills it");
                    drain.cancel();
                }
            }
        }
    };
    let Tally {
        succeeded,
        failed,
        lost,
        given_back,
    } = tally;
    tracing::info!(succeeded, failed, lost, given_back, "worker ended");
    Ok(if kill.is_cancelled() {
        ExitCode::FAILURE
    } else {
        ExitCode::SUCCESS
    })
}

/// Starts our own binary as the guardian.
fn start_guardian() -> anyhow::Result<Guardian> {
    let program = std::env::current_exe().context("cannot tell where our own binary is")?;
    let mut command = Command::new(program);
    command.args(["jobs", "guard"]).stderr(Stdio::null());
    Guardian::start(command).context("the guardian cannot be started")
}

/// The guardian itself: `nagaya jobs guard`, started by workers only.
pub(super) fn guard() -> anyhow::Result<()> {
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()?;
    let _context = runtime.enter();
    // Caught and ignored: a signal that ends the worker may be sent to the guardian too.
    let _signals = Signals::listen_for_stop()?;
    nagaya_process::guard();
    Ok(())
}

/// Host and process, by which people find the worker that runs a job.
pub(super) fn worker_name() -> String {
    let host = hostname::get().map(|host| host.to_string_lossy().into_owned());
    format!(
        "{}:{}",
        host.unwrap_or_else(|_| "unknown".to_owned()),
        std::process::id()
    )
}
