//! Thumbnails of videos, some of which resist.
//!
//! The demo registers the jobs and has workers of its own. Every eighth video fails once, a few fail for good; which
//! ones follows from their numbers, so a short demo has some of each.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use anyhow::Context;
use futures_util::FutureExt;
use futures_util::future::LocalBoxFuture;
use nagaya_client::{Attempt, CancellationToken, Client, Failure, Filter, NewJob, State, Worker};
use serde_json::{Value, json};

use super::part::{End, Part, count};
use super::target::Target;

const QUEUE: &str = "demo-thumbnails";
/// How long its ended jobs can be looked at.
const KEPT_SECONDS: u32 = 300;
/// The pause between two registrations.
const ENQUEUE_EVERY: Duration = Duration::from_millis(150);
/// Jobs that are worked on at once.
const CONCURRENCY: usize = 6;
/// How long the workers may take to finish at the end, and how long what waits is then worked off.
const DRAIN: Duration = Duration::from_secs(3);
const WORK_OFF: Duration = Duration::from_secs(4);
/// Jobs that are cancelled per page at the end.
const PAGE: u32 = 200;

pub(super) struct JobsPart {
    client: Client,
    is_there: bool,
    counts: Arc<Counts>,
}

#[derive(Default)]
struct Counts {
    enqueued: AtomicU64,
    running: AtomicU64,
    succeeded: AtomicU64,
    retried: AtomicU64,
    failed: AtomicU64,
}

/// What becomes of an attempt at a video.
#[derive(Debug, PartialEq, Eq)]
enum Fate {
    Succeeds,
    FailsOnce,
    FailsForGood,
}

fn fate(video: u64, attempt: u32) -> Fate {
    match (video % 23, video % 8, attempt) {
        (7, _, _) => Fate::FailsForGood,
        (_, 3, 1) => Fate::FailsOnce,
        _ => Fate::Succeeds,
    }
}

impl JobsPart {
    pub(super) fn new(target: &Target) -> JobsPart {
        JobsPart {
            client: target.client.clone(),
            is_there: target.has("jobs"),
            counts: Arc::default(),
        }
    }

    /// Ended jobs stay for a while, to be looked at; those of a demo need not stay for days.
    async fn make_queue(&self) -> anyhow::Result<()> {
        let settings =
            json!({ "retention": { "succeeded_seconds": KEPT_SECONDS, "failed_seconds": KEPT_SECONDS } });
        let made = self.client.put(&format!("/v1/queues/{QUEUE}"), &settings).await;
        made.map(drop).context("the queue could not be made")
    }

    async fn enqueue_until(&self, end: &End) -> anyhow::Result<()> {
        self.make_queue().await?;
        for video in 0_u64.. {
            let payload = json!({ "video": video, "path": format!("/videos/{video}.mp4") });
            let job = NewJob::new(QUEUE, &payload)?
                .max_retries(3)
                .timeout(Duration::from_secs(30))
                .field("kind", "thumbnail")
                .field("backoff", json!({ "kind": "fixed", "delay_seconds": 1 }));
            self.client.enqueue(job).await.context("a job was not taken")?;
            self.counts.enqueued.fetch_add(1, Ordering::Relaxed);
            tokio::select! {
                () = end.time_is_up.cancelled() => break,
                () = tokio::time::sleep(ENQUEUE_EVERY) => (),
            }
        }
        Ok(())
    }

    /// Works until all is done that was registered, or patience is over.
    async fn work_until(&self, end: &End) -> anyhow::Result<()> {
        let shutdown = CancellationToken::new();
        let counts = Arc::clone(&self.counts);
        let worker = Worker::new(self.client.clone(), QUEUE)
            .name("nagaya-demo")
            .concurrency(CONCURRENCY)
            .poll(Duration::from_secs(1))
            .grace(Duration::from_millis(500))
            .drain_limit(DRAIN);
        let working = worker.run(
            move |attempt: Attempt| make_thumbnail(Arc::clone(&counts), attempt),
            shutdown.clone(),
        );
        let told = async {
            end.time_is_up.cancelled().await;
            let done = async {
                while self.counts.open() > 0 {
                    tokio::time::sleep(Duration::from_millis(50)).await;
                }
            };
            tokio::select! {
                () = done => (),
                () = tokio::time::sleep(WORK_OFF) => (),
                () = end.interrupted.cancelled() => (),
            }
            shutdown.cancel();
        };
        let (worked, ()) = tokio::join!(working, told);
        worked.context("the workers were sent away")?;
        Ok(())
    }

    async fn cancel_all(&self) -> anyhow::Result<()> {
        for state in [State::Waiting, State::Scheduled, State::Running] {
            let mut filter = Filter {
                queue: Some(QUEUE.to_owned()),
                state: Some(state),
                limit: Some(PAGE),
                ..Filter::default()
            };
            loop {
                let page = self.client.list(&filter).await?;
                for job in &page.jobs {
                    // It may have ended in the meantime, which is as good.
                    match self.client.cancel(&job.id).await {
                        Err(error) if error.problem().is_none_or(|problem| problem.status != 409) => {
                            return Err(error.into());
                        }
                        _ => (),
                    }
                }
                filter.cursor = page.next_cursor;
                if filter.cursor.is_none() {
                    break;
                }
            }
        }
        Ok(())
    }
}

async fn make_thumbnail(counts: Arc<Counts>, attempt: Attempt) -> Result<Value, Failure> {
    let payload: Value = attempt.payload()?;
    let video = payload["video"].as_u64().unwrap_or(0);
    counts.running.fetch_add(1, Ordering::Relaxed);
    let made = thumbnail(&attempt, video).await;
    counts.running.fetch_sub(1, Ordering::Relaxed);
    let counter = match &made {
        Ok(_) => &counts.succeeded,
        Err(failure) if failure.permanent => &counts.failed,
        Err(_) => &counts.retried,
    };
    counter.fetch_add(1, Ordering::Relaxed);
    made
}

async fn thumbnail(attempt: &Attempt, video: u64) -> Result<Value, Failure> {
    let length = Duration::from_millis(60 + video * 37 % 300);
    tokio::time::sleep(length / 2).await;
    match fate(video, attempt.number()) {
        Fate::FailsForGood => return Err(Failure::permanent("the file is no video")),
        Fate::FailsOnce => return Err(Failure::retry("the decoder ran out of memory")),
        Fate::Succeeds => (),
    }
    attempt.progress(0.5, Some("frame found")).await?;
    tokio::time::sleep(length / 2).await;
    Ok(json!({ "thumbnail": format!("/thumbnails/{video}.jpg") }))
}

impl Counts {
    fn read(counter: &AtomicU64) -> u64 {
        counter.load(Ordering::Relaxed)
    }

    /// Jobs that have not ended.
    fn open(&self) -> u64 {
        let ended = Counts::read(&self.succeeded) + Counts::read(&self.failed);
        Counts::read(&self.enqueued).saturating_sub(ended)
    }
}

impl Part for JobsPart {
    fn name(&self) -> &'static str {
        "jobs"
    }

    fn run<'a>(&'a self, end: &'a End) -> LocalBoxFuture<'a, anyhow::Result<()>> {
        async move {
            if self.is_there {
                tokio::try_join!(self.enqueue_until(end), self.work_until(end)).map(drop)
            } else {
                Ok(())
            }
        }
        .boxed_local()
    }

    fn clean(&self) -> LocalBoxFuture<'_, anyhow::Result<()>> {
        async move {
            if self.is_there {
                self.cancel_all().await
            } else {
                Ok(())
            }
        }
        .boxed_local()
    }

    fn line(&self) -> String {
        let counts = &self.counts;
        format!(
            "{}, {} running, {} done, {} retried, {} failed for good",
            count(Counts::read(&counts.enqueued), "thumbnail"),
            Counts::read(&counts.running),
            Counts::read(&counts.succeeded),
            Counts::read(&counts.retried),
            Counts::read(&counts.failed),
        )
    }

    fn sentence(&self) -> String {
        let counts = &self.counts;
        format!(
            "{} in the queue {QUEUE}, {} succeeded, {} retried, {} failed for good",
            count(Counts::read(&counts.enqueued), "job"),
            Counts::read(&counts.succeeded),
            Counts::read(&counts.retried),
            Counts::read(&counts.failed),
        )
    }

    fn figures(&self) -> Value {
        let counts = &self.counts;
        json!({
            "queue": QUEUE, "enqueued": Counts::read(&counts.enqueued), "succeeded": Counts::read(&counts.succeeded),
            "retried": Counts::read(&counts.retried), "failed": Counts::read(&counts.failed),
        })
    }

    fn skipped(&self) -> Option<&'static str> {
        (!self.is_there).then_some("jobs are off on this server (jobs.enabled)")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_few_seconds_have_failures_of_each_kind_and_every_retry_helps() {
        let fates: Vec<Fate> = (0..30).map(|video| fate(video, 1)).collect();
        for wanted in [Fate::Succeeds, Fate::FailsOnce, Fate::FailsForGood] {
            assert!(fates.contains(&wanted), "{wanted:?}");
        }
        assert!((0..1000).all(|video| fate(video, 2) != Fate::FailsOnce));
    }
}
