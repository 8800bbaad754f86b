//! `nagaya jobs enqueue`: one job from an argument or standard input, many from a file.

use std::fs::File;
use std::io::{self, BufRead, BufReader, IsTerminal, Read, Write};
use std::path::PathBuf;
use std::process::ExitCode;
use std::time::{Duration, SystemTime};

use anyhow::{Context, anyhow, bail};
use clap::Args;
use indicatif::ProgressBar;
use nagaya_client::{Client, NewJob, RawValue, State};
use nagaya_config::{Loaded, with_unit};
use serde_json::json;

use super::connect::{ConnectArgs, connect};

/// Jobs in one registration of many.
const BATCH: usize = 500;
/// Bytes of payload in one registration of many; well below what a server takes as one body.
const BATCH_BYTES: usize = 512 << 10;

#[derive(Args)]
pub(crate) struct EnqueueArgs {
    /// The queue to put it into
    #[arg(value_name = "QUEUE")]
    queue: String,
    /// The payload as JSON; `-` reads it from standard input
    #[arg(value_name = "PAYLOAD")]
    payload: Option<String>,
    /// Take the payload as text and not as JSON
    #[arg(long, value_name = "TEXT", conflicts_with = "payload")]
    text: Option<String>,
    /// Register one job per line of this file; `-` is standard input
    #[arg(long, value_name = "FILE", conflicts_with_all = ["payload", "text", "wait"])]
    lines: Option<PathBuf>,
    /// Wait for the end and print the result
    #[arg(long)]
    wait: bool,
    /// How long to wait for the end
    #[arg(long, value_name = "TIME", default_value = "1h", value_parser = with_unit::<Duration>, requires = "wait")]
    wait_limit: Duration,
    #[command(flatten)]
    options: JobArgs,
    /// Two jobs of a queue with the same key are one
    #[arg(long, value_name = "KEY", conflicts_with = "lines")]
    key: Option<String>,
    /// Not before this time, such as 2026-12-24T18:00:00Z
    #[arg(long, value_name = "TIME")]
    run_at: Option<jiff::Timestamp>,
    /// Not before this much time has passed
    #[arg(long, value_name = "TIME", value_parser = with_unit::<Duration>, conflicts_with = "run_at")]
    delay: Option<Duration>,
    /// Only after these jobs have succeeded
    #[arg(long, value_name = "ID,..", value_delimiter = ',')]
    after: Vec<String>,
    /// Print JSON instead of ids and results
    #[arg(long)]
    json: bool,
    #[command(flatten)]
    connect: ConnectArgs,
}

/// What a job can be told besides its payload; what is not said comes from the queue.
#[derive(Args)]
pub(super) struct JobArgs {
    /// How long an attempt may stay silent before another worker gets it
    #[arg(long, value_name = "TIME", value_parser = with_unit::<Duration>)]
    timeout: Option<Duration>,
    /// Attempts after the first
    #[arg(long, value_name = "N")]
    max_retries: Option<u32>,
    /// Higher goes first
    #[arg(long, value_name = "N", allow_negative_numbers = true)]
    priority: Option<i16>,
    /// Tell this address when the job has ended
    #[arg(long, value_name = "URL")]
    webhook: Option<String>,
    /// What sort of work it is
    #[arg(long, value_name = "KIND")]
    kind: Option<String>,
    /// A word to find it by (may be given several times)
    #[arg(long, value_name = "TAG")]
    tag: Vec<String>,
}

impl JobArgs {
    pub(super) fn apply(&self, mut job: NewJob) -> NewJob {
        if let Some(timeout) = self.timeout {
            job = job.timeout(timeout);
        }
        if let Some(retries) = self.max_retries {
            job = job.max_retries(retries);
        }
        if let Some(priority) = self.priority {
            job = job.priority(priority);
        }
        if let Some(url) = &self.webhook {
            job = job.webhook(url);
        }
        if let Some(kind) = &self.kind {
            job = job.field("kind", kind.as_str());
        }
        match self.tag.as_slice() {
            [] => job,
            tags => job.field("tags", tags),
        }
    }
}

pub(super) async fn enqueue(loaded: &Loaded, args: EnqueueArgs) -> anyhow::Result<ExitCode> {
    let client = connect(loaded, &args.connect)?;
    if let Some(path) = &args.lines {
        return enqueue_lines(&client, &args, path).await;
    }
    let payload = match (&args.payload, &args.text) {
        (_, Some(text)) => RawValue::from_string(serde_json::to_string(text)?)?,
        (Some(text), None) if text == "-" => payload(&io::read_to_string(io::stdin())?)?,
        (Some(text), None) => payload(text)?,
        (None, None) => bail!("give a payload, --text or --lines"),
    };
    let mut job = args.job(payload);
    if let Some(key) = &args.key {
        job = job.idempotency_key(key);
    }
    let enqueued = client.enqueue(job).await?;
    if args.wait {
        wait_and_print(&client, &enqueued.id, &args).await
    } else {
        let text = if args.json {
            json!({"id": enqueued.id, "state": enqueued.state}).to_string()
        } else {
            enqueued.id
        };
        writeln!(io::stdout(), "{text}")?;
        Ok(ExitCode::SUCCESS)
    }
}

impl EnqueueArgs {
    fn job(&self, payload: Box<RawValue>) -> NewJob {
        let mut job = self.options.apply(NewJob::with_raw(&self.queue, payload));
        let at = match (self.run_at, self.delay) {
            (Some(at), _) => Some(SystemTime::from(at)),
            (None, Some(delay)) => Some(SystemTime::now() + delay),
            (None, None) => None,
        };
        if let Some(at) = at {
            job = job.run_at(at);
        }
        match self.after.as_slice() {
            [] => job,
            ids => job.depends_on(ids),
        }
    }
}

pub(super) fn payload(text: &str) -> anyhow::Result<Box<RawValue>> {
    RawValue::from_string(text.trim().to_owned()).with_context(|| {
        format!(
            "`{}` is not JSON; --text takes plain text",
            super::show_value::short(text)
        )
    })
}

async fn wait_and_print(client: &Client, id: &str, args: &EnqueueArgs) -> anyhow::Result<ExitCode> {
    let job = client.wait(id, args.wait_limit).await?;
    let mut stdout = io::stdout();
    match (args.json, job.state, &job.result) {
        (true, ..) => writeln!(stdout, "{}", serde_json::to_string_pretty(&job)?)?,
        (false, State::Succeeded, Some(result)) => writeln!(stdout, "{result}")?,
        (false, State::Succeeded, None) => (),
        (false, state, _) => match &job.error {
            Some(error) => eprintln!("job {id} {state}: {error}"),
            None => eprintln!("job {id} is {state}"),
        },
    }
    Ok(match job.state {
        State::Succeeded => ExitCode::SUCCESS,
        _ => ExitCode::FAILURE,
    })
}

/// Registers the lines of a file in batches and prints the ids. What was registered before a bad line stays.
async fn enqueue_lines(client: &Client, args: &EnqueueArgs, path: &PathBuf) -> anyhow::Result<ExitCode> {
    let input: Box<dyn Read> = if path.as_os_str() == "-" {
        Box::new(io::stdin())
    } else {
        Box::new(File::open(path).with_context(|| format!("cannot read {}", path.display()))?)
    };
    let progress = if io::stderr().is_terminal() {
        ProgressBar::no_length()
    } else {
        ProgressBar::hidden()
    };
    let (mut batch, mut bytes) = (Vec::new(), 0);
    let mut count = 0;
    for (number, line) in BufReader::new(input).lines().enumerate() {
        let line = line.with_context(|| format!("line {} cannot be read", number + 1))?;
        if line.trim().is_empty() {
            continue;
        }
        let payload = payload(&line).with_context(|| format!("line {}, after {count} jobs", number + 1))?;
        bytes += line.len();
        batch.push(args.job(payload));
        if batch.len() == BATCH || bytes >= BATCH_BYTES {
            count += send(client, std::mem::take(&mut batch), args.json, count).await?;
            bytes = 0;
            progress.set_position(count);
        }
    }
    if !batch.is_empty() {
        count += send(client, batch, args.json, count).await?;
    }
    progress.finish_and_clear();
    eprintln!("{count} jobs registered");
    Ok(ExitCode::SUCCESS)
}

async fn send(client: &Client, batch: Vec<NewJob>, as_json: bool, before: u64) -> anyhow::Result<u64> {
    let enqueued = client
        .enqueue_many(batch)
        .await
        .with_context(|| format!("{before} jobs were registered before this"))?;
    let mut stdout = io::stdout().lock();
    let total = enqueued.len() as u64;
    for (number, one) in (before + 1..).zip(enqueued) {
        let one = one.map_err(|problem| anyhow!("job {number} was refused: {problem}"))?;
        if as_json {
            writeln!(stdout, "{}", json!({"id": one.id}))?
        } else {
            writeln!(stdout, "{}", one.id)?
        }
    }
    Ok(total)
}
