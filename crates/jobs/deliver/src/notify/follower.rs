//! Reads failures out of the log and registers notices.

use std::sync::Arc;
use std::time::Duration;

use nagaya_jobs::backoff::Backoff;
use nagaya_jobs::event::{EventFilter, EventKind};
use nagaya_jobs::job::{Body, Idempotency};
use nagaya_jobs::request::Enqueued;
use nagaya_jobs::store::JobStore;
use nagaya_jobs::{Error, NewJob, QueueName, TenantId};
use serde::{Deserialize, Serialize};
use tokio_util::sync::CancellationToken;
use tracing::warn;

use super::config::{Config, RouteConfig};
use super::groups::{GroupKey, Groups, Notice};
use super::words::{self, Message};
use crate::undelivered;

/// The subscription's name, of the default tenant.
const SUBSCRIPTION: &str = "_notify";
/// The fact that tells how far groups have been told.
const TOLD_FACT: &str = "notify-told";
/// Events that are read at a time.
const PAGE: usize = 1_000;
/// About a day of tries, so that a mail server may be down overnight.
const RETRIES: u32 = 50;
const BACKOFF: Backoff = Backoff::Exponential {
    first: Duration::from_secs(10),
    max: Duration::from_secs(30 * 60),
};
/// Longer than any way of sending may take.
const LEASE: Duration = Duration::from_secs(60);

/// A notice on its way, as the payload of its job.
#[derive(Deserialize, Serialize)]
pub(super) struct Letter {
    pub(super) route: String,
    pub(super) last_seq: u64,
    #[serde(flatten)]
    pub(super) message: Message,
}

pub(super) struct Follower {
    store: Arc<dyn JobStore>,
    config: Arc<Config>,
    groups: Groups,
    /// Everything up to here has been read.
    read: u64,
    /// Where the subscription's cursor is.
    cursor: u64,
}

impl Follower {
    pub(super) fn new(store: Arc<dyn JobStore>, config: Arc<Config>) -> Follower {
        Follower {
            groups: Groups::new(config.timing),
            store,
            config,
            read: 0,
            cursor: 0,
        }
    }

    pub(super) async fn run(mut self, stop: CancellationToken) {
        let mut is_open = false;
        loop {
            let done = match is_open {
                false => self.open().await,
                true => self.round().await,
            };
            match done {
                Ok(()) => is_open = true,
                Err(error) => warn!(%error, "failures cannot be told right now"),
            }
            tokio::select! {
                () = stop.cancelled() => return,
                () = tokio::time::sleep(self.config.look) => (),
            }
        }
    }

    /// Finds the subscription, or makes it: then it begins now, and old failures are not told.
    async fn open(&mut self) -> Result<(), Error> {
        let head = self.store.log_bounds().await?.head;
        let name = SUBSCRIPTION.to_owned();
        let subscription = self
            .store
            .subscribe(TenantId::default_tenant(), name, filter(), head)
            .await?;
        self.cursor = subscription.cursor;
        self.read = subscription.cursor;
        self.adopt_told().await
    }

    async fn round(&mut self) -> Result<(), Error> {
        self.read_on().await?;
        let now_ms = self.store.now_ms().await?;
        if !self.groups.due(now_ms).is_empty() {
            self.adopt_told().await?;
            for notice in self.groups.due(now_ms) {
                let told_seq = self.register(&notice).await?;
                self.groups.told(&notice.key, told_seq, now_ms);
            }
            self.store
                .set_metadata(TOLD_FACT.to_owned(), self.groups.write())
                .await?;
        }
        let cursor = self.groups.cursor(self.read);
        if cursor > self.cursor {
            let name = SUBSCRIPTION.to_owned();
            self.cursor = self
                .store
                .advance(TenantId::default_tenant(), name, cursor)
                .await?;
        }
        self.groups.forget(now_ms);
        Ok(())
    }

    async fn read_on(&mut self) -> Result<(), Error> {
        loop {
            let page = self.store.events_after(self.read, filter(), PAGE).await?;
            if page.has_gap(self.read) {
                warn!("failures were cut off the log before they could be told");
            }
            page.events.iter().for_each(|event| self.groups.add(event));
            let next = page.next.max(page.bounds.trimmed);
            if next <= self.read {
                return Ok(());
            }
            self.read = next;
            if next >= page.bounds.head {
                return Ok(());
            }
        }
    }

    /// Reads what an earlier run or another server has told.
    async fn adopt_told(&mut self) -> Result<(), Error> {
        if let Some(written) = self.store.metadata(TOLD_FACT.to_owned()).await? {
            self.groups.merge(&written);
        }
        Ok(())
    }

    /// Registers a notice, once for each route that is for it. Returns up to which position it tells: one that
    /// an earlier run or another server had registered may tell of less.
    async fn register(&self, notice: &Notice) -> Result<u64, Error> {
        let wanted = self.routes_of_queue(&notice.key).await?;
        let queue = told_queue(&notice.key);
        let is_for = |route: &&RouteConfig| {
            let wants = route.queues.is_empty() || route.queues.iter().any(|name| name == queue);
            wants && (wanted.is_empty() || wanted.contains(&route.name))
        };
        let jobs: Vec<NewJob> = self
            .config
            .routes
            .iter()
            .filter(is_for)
            .map(|route| self.job(notice, route))
            .collect();
        if jobs.is_empty() {
            return Ok(notice.last_seq);
        }
        let mut told_seq = notice.last_seq;
        for answer in self.store.enqueue(jobs).await? {
            let enqueued = answer?;
            if enqueued.found_by.is_some() {
                told_seq = told_seq.min(self.seq_of(&enqueued).await?.unwrap_or(told_seq));
            }
        }
        Ok(told_seq)
    }

    /// The routes that a queue's settings name; all when there are none.
    async fn routes_of_queue(&self, key: &GroupKey) -> Result<Vec<String>, Error> {
        let Ok(name) = QueueName::new(told_queue(key)) else {
            return Ok(Vec::new());
        };
        let queue = self.store.queue(name).await?;
        Ok(queue.map(|queue| queue.settings.notify).unwrap_or_default())
    }

    fn job(&self, notice: &Notice, route: &RouteConfig) -> NewJob {
        let letter = Letter {
            route: route.name.clone(),
            last_seq: notice.last_seq,
            message: words::notice(notice, self.config.public_url.as_deref()),
        };
        let payload = serde_json::to_vec(&letter).expect("a document of plain fields");
        let queue = QueueName::notifications();
        let mut job = NewJob::new(TenantId::default_tenant(), queue, Body::json(payload));
        job.kind = Some("notice".into());
        job.max_retries = Some(RETRIES);
        job.backoff = Some(BACKOFF);
        job.timeout = Some(LEASE);
        job.idempotency = Some(Idempotency {
            // A failure is in one group only, so its position names the notice that begins with it.
            key: format!("{}:{}", route.name, notice.first_seq),
            window: None,
        });
        job
    }

    async fn seq_of(&self, enqueued: &Enqueued) -> Result<Option<u64>, Error> {
        let job = self
            .store
            .read(vec![enqueued.id])
            .await?
            .into_iter()
            .next()
            .flatten();
        let letter = job.and_then(|job| serde_json::from_slice::<Letter>(&job.payload.bytes).ok());
        Ok(letter.map(|letter| letter.last_seq))
    }
}

/// The queue whose settings decide who is told.
fn told_queue(key: &GroupKey) -> &str {
    match key.queue == undelivered::queue().as_str() {
        true => key.kind.as_deref().unwrap_or_default(),
        false => &key.queue,
    }
}

fn filter() -> EventFilter {
    EventFilter {
        kinds: vec![EventKind::Failed],
        ..EventFilter::default()
    }
}
