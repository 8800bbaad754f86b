//! `nagaya jobs`: registering, watching, working and mending, through the REST interface of a running server.
//!
//! The tools are clients like any other: they need an address and a token, and nothing of the server's data.

mod change;
pub(crate) mod connect;
mod deliveries;
mod enqueue;
mod list;
mod notify;
mod push;
mod queues;
mod schedule;
mod serve;
mod show;
pub(crate) mod show_value;
mod work;

use std::process::ExitCode;

use anyhow::Context;
use clap::Subcommand;
use nagaya_config::Flag;

use crate::app::settings;
use crate::cli::GlobalArgs;

const WORK_EXAMPLES: &str = "\
Examples:
  nagaya jobs work --queue mail -- ./send-mail
  nagaya jobs work --queue resize --concurrency 4 -- python3 resize.py

The command gets the payload on standard input and in the file that
NAGAYA_JOB_PAYLOAD_FILE names; NAGAYA_JOB_ID, NAGAYA_JOB_ATTEMPT and
NAGAYA_JOB_QUEUE say which job it is, TRACEPARENT which trace it belongs to.
Standard output is the result (JSON, or else text), standard error the job's
log. Lines on file descriptor 3 are progress: a number from 0 to 1, 42%, a JSON
object with progress and message, or words.

Exit code 0 is success, 65 a failure that no retry will mend (--permanent
names others), all else is tried again later; 75 is the usual one for that.

SIGTERM or Ctrl-C finishes what runs; a second one kills it. When the job is
cancelled or its lease is lost, the command and all its children are ended.";

const ENQUEUE_EXAMPLES: &str = "\
Examples:
  nagaya jobs enqueue mail '{\"to\": \"a@example.org\"}'
  nagaya jobs enqueue mail '{\"to\": \"a@example.org\"}' --wait
  echo '{\"page\": 7}' | nagaya jobs enqueue crawl -
  nagaya jobs enqueue crawl --lines pages.jsonl --max-retries 2
  nagaya jobs enqueue report --text 'for March' --delay 1h

--lines takes one payload per line and registers them in batches. With --wait
the result is printed; the exit code is 1 unless the job succeeded.";

const LIST_EXAMPLES: &str = "\
Examples:
  nagaya jobs list
  nagaya jobs list --queue mail --state failed --limit 100
  nagaya jobs list --state failed --json | jq -r '.jobs[].id'";

const CHANGE_EXAMPLES: &str = "\
Examples:
  nagaya jobs retry 83886080017
  nagaya jobs retry --queue mail --state failed
  nagaya jobs cancel --queue crawl --state waiting --yes

With a filter, the jobs are counted first and you are asked; --yes is for
scripts.";

const SCHEDULE_EXAMPLES: &str = "\
Examples:
  nagaya jobs schedule list
  nagaya jobs schedule set nightly '0 3 * * *' report '{\"of\": \"day\"}'
  nagaya jobs schedule set early '0 6 * * 1-5' mail --time-zone Asia/Tokyo
  nagaya jobs schedule remove nightly";

const DELIVERIES_EXAMPLES: &str = "\
Examples:
  nagaya jobs deliveries --state gave_up
  nagaya jobs deliveries show 4711
  nagaya jobs deliveries replay 4711
  nagaya jobs deliveries replay --failed-since 2h --queue mail";

const PUSH_EXAMPLES: &str = "\
Examples:
  nagaya jobs push --queue mail --to https://app.example.org/jobs
  NAGAYA_PUSH_SECRET=whsec_... nagaya jobs push -q mail --to http://127.0.0.1:8000/

Each job is POSTed with its payload; 2xx is success with the body as the
result, 409, 410 and 422 are permanent failures, all else is tried again.
The secret signs each call as Standard Webhooks 1.0 says.";

#[derive(Subcommand)]
pub(crate) enum JobsCommand {
    /// Serve jobs without the other services
    #[command(after_long_help = serve::SERVE_EXAMPLES)]
    Serve(serve::ServeArgs),
    /// Run a command for each job of a queue
    #[command(after_long_help = WORK_EXAMPLES)]
    Work(work::WorkArgs),
    /// Ends what the commands of a killed worker have started
    #[command(hide = true)]
    Guard,
    /// Pass each job of a queue on to an HTTP endpoint
    #[command(after_long_help = PUSH_EXAMPLES)]
    Push(push::PushArgs),
    /// Register jobs
    #[command(after_long_help = ENQUEUE_EXAMPLES)]
    Enqueue(enqueue::EnqueueArgs),
    /// List jobs, newest first
    #[command(after_long_help = LIST_EXAMPLES)]
    List(list::ListArgs),
    /// Show a job, and why it is not running
    Show(show::ShowArgs),
    /// Let jobs that failed or were cancelled start over
    #[command(after_long_help = CHANGE_EXAMPLES)]
    Retry(change::ChangeArgs),
    /// Cancel jobs that have not ended
    #[command(after_long_help = CHANGE_EXAMPLES)]
    Cancel(change::ChangeArgs),
    /// Let scheduled jobs run now
    Run(change::ChangeArgs),
    /// Move jobs that have not started to another queue
    Move(change::MoveArgs),
    /// Remove jobs that have ended, before their retention is over
    Delete(change::ChangeArgs),
    /// Show queues, pause or resume one
    Queues(queues::QueuesArgs),
    /// Show, set up or remove jobs that come again
    #[command(subcommand, after_long_help = SCHEDULE_EXAMPLES)]
    Schedule(schedule::ScheduleCommand),
    /// Show what was sent to webhooks, and send it again
    #[command(after_long_help = DELIVERIES_EXAMPLES)]
    Deliveries(deliveries::DeliveriesArgs),
    /// Try how administrators are told of failures
    #[command(subcommand)]
    Notify(notify::NotifyCommand),
}

/// Runs one of the tools.
pub(crate) fn run(global: &GlobalArgs, flags: Vec<Flag>, command: JobsCommand) -> anyhow::Result<ExitCode> {
    let loaded = settings::load(global, flags.clone())?;
    match command {
        JobsCommand::Serve(args) => serve::serve(global, flags, args),
        JobsCommand::Guard => work::guard().map(|()| ExitCode::SUCCESS),
        JobsCommand::Work(args) => work::work(&loaded, args),
        JobsCommand::Push(args) => push::push(&loaded, args),
        JobsCommand::Enqueue(args) => block_on(enqueue::enqueue(&loaded, args)),
        JobsCommand::List(args) => block_on(list::list(&loaded, args)),
        JobsCommand::Show(args) => block_on(show::show(&loaded, args)),
        JobsCommand::Retry(args) => block_on(change::change(&loaded, change::Change::Retry, args)),
        JobsCommand::Cancel(args) => block_on(change::change(&loaded, change::Change::Cancel, args)),
        JobsCommand::Run(args) => block_on(change::change(&loaded, change::Change::Run, args)),
        JobsCommand::Move(args) => block_on(change::move_jobs(&loaded, args)),
        JobsCommand::Delete(args) => block_on(change::change(&loaded, change::Change::Delete, args)),
        JobsCommand::Queues(args) => block_on(queues::queues(&loaded, args)),
        JobsCommand::Schedule(command) => block_on(schedule::schedule(&loaded, command)),
        JobsCommand::Deliveries(args) => block_on(deliveries::deliveries(&loaded, args)),
        JobsCommand::Notify(command) => block_on(notify::notify(&loaded, command)),
    }
}

/// Runs a tool to its end on a runtime of its own.
pub(crate) fn block_on<T>(task: impl Future<Output = anyhow::Result<T>>) -> anyhow::Result<T> {
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .context("cannot start the runtime")?;
    runtime.block_on(task).map_err(with_remedy)
}

/// Adds a remedy to the error of an unreachable server.
fn with_remedy(error: anyhow::Error) -> anyhow::Error {
    match error.downcast_ref::<nagaya_client::Error>() {
        Some(nagaya_client::Error::Unreachable { .. }) => {
            error.context("start the server with `nagaya up`, or name it with --url")
        }
        _ => error,
    }
}
