//! Part one: batches, burn-down, single registrations, latency at half load.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::{Duration, Instant};

use anyhow::Context;
use nagaya_clock::{Clock, SystemClock};
use tokio::task::JoinSet;

use super::caller::{Caller, Taken};
use super::options::Plan;
use super::report::Figure;
use crate::progress;

/// Jobs in one registration of many; the peers' runners use the same.
pub(super) const BATCH: u64 = 1000;
/// Jobs in one claim.
const CLAIM: usize = 500;
/// Loops that claim and complete.
pub(super) const LOOPS: usize = 4;
/// Loops that register batches.
const PRODUCERS: usize = 2;
/// How long a claim waits for jobs.
const WAIT: Duration = Duration::from_secs(1);

pub(super) async fn run<C: Caller>(
    plan: &Plan,
    subject: &'static str,
    caller: &C,
) -> anyhow::Result<Vec<Figure>> {
    let mut figures = Vec::new();
    let mut tell = |part: String, jobs: u64, seconds: f64| {
        progress(&format!("  {part}: {:.0} jobs/s", jobs as f64 / seconds));
        figures.push(Figure::speed(subject, part, jobs, seconds));
        jobs as f64 / seconds
    };
    let seconds = timed(fill(caller, plan.jobs)).await?;
    tell("bulk".to_owned(), plan.jobs, seconds);
    let seconds = timed(drain(caller, plan.jobs)).await?;
    let mut peak = tell("burn".to_owned(), plan.jobs, seconds);
    for &(clients, jobs) in &plan.single {
        let seconds = timed(single(caller, clients, jobs)).await?;
        let speed = tell(format!("single-{clients}"), jobs, seconds);
        if clients == 256 {
            peak = peak.min(speed);
        }
        drain(caller, jobs).await?;
    }
    let latency = latency(caller, subject, peak / 2.0, plan.latency).await?;
    progress(&format!(
        "  latency at {:.0} jobs/s: {}",
        peak / 2.0,
        latency.latency()
    ));
    figures.push(latency);
    Ok(figures)
}

pub(super) async fn timed(work: impl Future<Output = anyhow::Result<()>>) -> anyhow::Result<f64> {
    let from = SystemClock.now();
    work.await?;
    Ok((SystemClock.now() - from).as_secs_f64())
}

/// Registers jobs in batches from a few clients.
pub(super) async fn fill<C: Caller>(caller: &C, jobs: u64) -> anyhow::Result<()> {
    let left = Arc::new(AtomicU64::new(jobs));
    let mut producers = JoinSet::new();
    for _ in 0..PRODUCERS {
        let (caller, left) = (caller.clone(), Arc::clone(&left));
        producers.spawn(async move {
            loop {
                let before = left.fetch_update(Ordering::Relaxed, Ordering::Relaxed, |left| {
                    (left > 0).then(|| left.saturating_sub(BATCH))
                });
                match before {
                    Err(_) => return anyhow::Ok(()),
                    Ok(before) => caller.enqueue_many(usize::try_from(before.min(BATCH))?).await?,
                }
            }
        });
    }
    join(producers).await
}

/// Claims and completes until this many jobs have ended.
pub(super) async fn drain<C: Caller>(caller: &C, jobs: u64) -> anyhow::Result<()> {
    let left = Arc::new(AtomicU64::new(jobs));
    let mut loops = JoinSet::new();
    for _ in 0..LOOPS {
        let (caller, left) = (caller.clone(), Arc::clone(&left));
        loops.spawn(async move {
            while left.load(Ordering::Relaxed) > 0 {
                let taken = caller.claim(CLAIM, WAIT).await?;
                let count = taken.len() as u64;
                if count > 0 {
                    caller.complete(taken).await?;
                    left.fetch_update(Ordering::Relaxed, Ordering::Relaxed, |left| {
                        Some(left.saturating_sub(count))
                    })
                    .ok();
                }
            }
            anyhow::Ok(())
        });
    }
    // The first loop to see the end is enough; the others may be waiting for jobs that do not come.
    while let Some(ended) = loops.join_next().await {
        ended.context("a loop ended badly")??;
        if left.load(Ordering::Relaxed) == 0 {
            return Ok(());
        }
    }
    Ok(())
}

/// Registers jobs one at a time from some clients.
async fn single<C: Caller>(caller: &C, clients: usize, jobs: u64) -> anyhow::Result<()> {
    let left = Arc::new(AtomicU64::new(jobs));
    let mut tasks = JoinSet::new();
    for _ in 0..clients {
        let (caller, left) = (caller.clone(), Arc::clone(&left));
        tasks.spawn(async move {
            let take = |left: u64| left.checked_sub(1);
            while left
                .fetch_update(Ordering::Relaxed, Ordering::Relaxed, take)
                .is_ok()
            {
                caller.enqueue(0).await?;
            }
            anyhow::Ok(())
        });
    }
    join(tasks).await
}

/// Registers at an even rate and measures how long each job waits for its claim to arrive.
async fn latency<C: Caller>(
    caller: &C,
    subject: &'static str,
    rate: f64,
    duration: Duration,
) -> anyhow::Result<Figure> {
    let total = ((rate * duration.as_secs_f64()) as u64).max(20);
    let (from, stop) = (SystemClock.now(), Arc::new(AtomicBool::new(false)));
    let mut workers = JoinSet::new();
    for _ in 0..LOOPS {
        workers.spawn(work(caller.clone(), from, Arc::clone(&stop)));
    }
    let mut producers = JoinSet::new();
    let mut sent = 0;
    while sent < total {
        let due = (((SystemClock.now() - from).as_secs_f64() * rate) as u64 + 1).min(total);
        for _ in sent..due {
            let (caller, at_ns) = (caller.clone(), nanoseconds(from));
            producers.spawn(async move { caller.enqueue(at_ns).await });
        }
        sent = due;
        tokio::time::sleep(Duration::from_millis(1)).await;
    }
    join(producers).await?;
    stop.store(true, Ordering::Relaxed);
    let mut waited = Vec::new();
    while let Some(found) = workers.join_next().await {
        waited.extend(found.context("a worker ended badly")??);
    }
    let seconds = (SystemClock.now() - from).as_secs_f64();
    Ok(Figure::waits(subject, rate, seconds, total, waited))
}

/// Claims and completes until told to stop and nothing more comes; returns the waits in nanoseconds.
async fn work<C: Caller>(caller: C, from: Instant, stop: Arc<AtomicBool>) -> anyhow::Result<Vec<u64>> {
    let mut waited = Vec::new();
    loop {
        let last = stop.load(Ordering::Relaxed);
        let taken = caller.claim(CLAIM, WAIT).await?;
        let now_ns = nanoseconds(from);
        waited.extend(taken.iter().map(|job: &Taken| now_ns.saturating_sub(job.at_ns)));
        match taken.is_empty() {
            true if last => return Ok(waited),
            true => (),
            false => caller.complete(taken).await?,
        }
    }
}

fn nanoseconds(from: Instant) -> u64 {
    u64::try_from((SystemClock.now() - from).as_nanos()).unwrap_or(u64::MAX)
}

async fn join(mut tasks: JoinSet<anyhow::Result<()>>) -> anyhow::Result<()> {
    while let Some(ended) = tasks.join_next().await {
        ended.context("a client ended badly")??;
    }
    Ok(())
}
