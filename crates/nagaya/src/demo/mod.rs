//! `nagaya demo`: traffic against a running server, so that there is something to look at.
//!
//! One part per service. A part has its own traffic, its own figures, and cleans up after itself; the demo starts them
//! together, shows what they see, and ends them together. A demo that was killed leaves things behind under names that
//! the next one knows, and clears away before it begins; a lock in the room keeps two of them apart.
//!
//! Everything runs on the main thread: the kernel ends the child processes of a thread that ends.

mod target;

mod fanout;
mod fleet;
mod ids;
mod jobs;
mod room;

mod latency;
mod part;
mod screen;
mod summary;

use std::convert::Infallible;
use std::process::ExitCode;
use std::time::Duration;

use anyhow::{Context, bail};
use clap::Args;
use futures_util::future::join_all;
use nagaya_config::{Flag, Loaded};
use nagaya_process::{Signal, Signals};
use nagaya_redis_client::reply;
use tokio::time::{Instant, MissedTickBehavior};

use crate::app::settings;
use crate::cli::GlobalArgs;
use crate::jobs::tools::block_on;
use crate::jobs::tools::connect::ConnectArgs;

use part::{End, Part};
use screen::Screen;
use summary::Summary;
use target::Target;

pub(crate) const EXAMPLES: &str = "\
Examples:
  nagaya demo                          100 seconds of traffic
  nagaya demo --seconds 20 --json      a short one, with a summary as JSON

Users visit and go cold, thumbnails are made with failures and retries, requests
are fanned out with one endpoint that is slow, a fleet loses an agent to kill -9,
and ids are fetched and compared. It needs a running server (`nagaya up`) and
nothing else, and takes away what it brought: keys that begin with demo, jobs of
the queue demo-thumbnails, and its processes. Ctrl-C ends it early.

Exit code 0 when all that was tried held, 1 otherwise.";

/// How often the screen is drawn.
const DRAW_EVERY: Duration = Duration::from_millis(500);
/// How long one part may take to clean up.
const CLEAN_LIMIT: Duration = Duration::from_secs(20);
/// Kept while a demo runs, so that no other begins.
const LOCK: &str = "demo:lock";
/// How long the lock of a demo that was killed lasts, how often it is renewed, and how long it lasts while the demo
/// cleans up.
const LOCK_FOR: Duration = Duration::from_secs(10);
const RENEW_EVERY: Duration = Duration::from_secs(3);
const LOCK_FOR_CLEANING: Duration = Duration::from_secs(120);

#[derive(Args)]
pub(crate) struct DemoArgs {
    /// How long it lasts
    #[arg(long, value_name = "N", default_value_t = 100, value_parser = clap::value_parser!(u64).range(3..=3600))]
    seconds: u64,
    /// Print a summary as JSON at the end instead of words
    #[arg(long)]
    json: bool,
    #[command(flatten)]
    connect: ConnectArgs,
}

pub(crate) fn run(global: &GlobalArgs, flags: Vec<Flag>, args: DemoArgs) -> anyhow::Result<ExitCode> {
    let loaded = settings::load(global, flags)?;
    block_on(demo(&loaded, args))
}

async fn demo(loaded: &Loaded, args: DemoArgs) -> anyhow::Result<ExitCode> {
    // A terminal that is closed ends the demo as Ctrl-C does.
    let ending = [Signal::INT, Signal::TERM, Signal::HUP];
    let mut signals = Signals::listen(&ending).context("cannot listen for signals")?;
    let target = Target::find(loaded, &args.connect).await?;
    let length = Duration::from_secs(args.seconds);
    let parts: Vec<Box<dyn Part>> = vec![
        Box::new(room::RoomPart::new(&target)),
        Box::new(jobs::JobsPart::new(&target)),
        Box::new(fanout::FanoutPart::new(&target)),
        Box::new(fleet::FleetPart::new(&target, length)?),
        Box::new(ids::IdsPart::new(&target)),
    ];
    take_lock(&target).await?;
    if let Err(error) = clean(&parts).await {
        free_lock(&target).await?;
        return Err(error.context("what an earlier demo left cannot be cleared away"));
    }
    let ends = play(&target, &parts, length, &mut signals).await;
    let left = clean(&parts).await.and(free_lock(&target).await).err();

    let summary = Summary::new(&target, args.seconds, &parts, ends, left);
    summary.print(args.json)?;
    Ok(if summary.is_fine() {
        ExitCode::SUCCESS
    } else {
        ExitCode::FAILURE
    })
}

async fn take_lock(target: &Target) -> anyhow::Result<()> {
    let pid = std::process::id().to_string();
    // Long enough to clear away what an earlier one left.
    let taken = target
        .ask(&["SET", LOCK, &pid, "NX", "PX", &ms(LOCK_FOR_CLEANING)])
        .await?;
    if reply::is_nil(&taken) {
        bail!("a demo runs on this server already, or was killed a moment ago; try again in two minutes");
    }
    Ok(())
}

async fn free_lock(target: &Target) -> anyhow::Result<()> {
    target.ask(&["DEL", LOCK]).await.map(drop)
}

/// Keeps the lock while the demo runs; the parts report a room that does not answer.
async fn keep_lock(target: &Target) -> Infallible {
    loop {
        target.ask(&["PEXPIRE", LOCK, &ms(LOCK_FOR)]).await.ok();
        tokio::time::sleep(RENEW_EVERY).await;
    }
}

fn ms(length: Duration) -> String {
    length.as_millis().to_string()
}

/// Runs all parts until the time is up or the user interrupts, and returns how each ended.
async fn play(
    target: &Target,
    parts: &[Box<dyn Part>],
    length: Duration,
    signals: &mut Signals,
) -> Vec<anyhow::Result<()>> {
    let end = End::default();
    let running = join_all(parts.iter().map(|part| part.run(&end)));
    tokio::pin!(running);
    let began = Instant::now();
    let mut screen = Screen::new(&target.url, length);
    let mut draw = tokio::time::interval(DRAW_EVERY);
    draw.set_missed_tick_behavior(MissedTickBehavior::Skip);
    let (time_is_up, keeping) = (tokio::time::sleep(length), keep_lock(target));
    tokio::pin!(time_is_up, keeping);
    loop {
        tokio::select! {
            ends = &mut running => {
                screen.draw(began.elapsed(), parts);
                target.ask(&["PEXPIRE", LOCK, &ms(LOCK_FOR_CLEANING)]).await.ok();
                return ends;
            }
            never = &mut keeping => match never {},
            () = &mut time_is_up, if !end.time_is_up.is_cancelled() => end.time_is_up.cancel(),
            _ = draw.tick() => screen.draw(began.elapsed(), parts),
            _ = signals.next() => {
                if end.interrupted.is_cancelled() {
                    // The children end with us, the rest is cleared away by the next demo.
                    std::process::exit(1);
                }
                end.interrupted.cancel();
            }
        }
    }
}

/// Lets every part clean up even if one fails, and returns the first failure.
async fn clean(parts: &[Box<dyn Part>]) -> anyhow::Result<()> {
    let mut all = Ok(());
    for part in parts {
        let cleaned = tokio::time::timeout(CLEAN_LIMIT, part.clean()).await;
        let cleaned = cleaned.unwrap_or_else(|_| bail!("it takes too long"));
        all = all.and(cleaned.with_context(|| format!("{} could not clean up", part.name())));
    }
    all
}
