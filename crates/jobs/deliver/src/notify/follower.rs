//! Reads failures from the log and registers notifications.

use std::sync::Arc;
use std::time::Duration;

use nagaya_jobs::backoff::Backoff;
use nagaya_jobs::event::{EventFilter, EventKind};
use nagaya_jobs::job::{Body, Idempotency};
use nagaya_jobs::queue::Counted;
use nagaya_jobs::request::Enqueued;
use nagaya_jobs::store::JobStore;
use nagaya_jobs::{Error, NewJob, QueueName, TenantId, Visibility};
use serde::{Deserialize, Serialize};
use tokio_util::sync::CancellationToken;
use tracing::warn;

use super::config::{Config, RouteConfig};
use super::groups::{GroupKey, Groups, Notice};
use super::message_text::{self, Message};
use crate::undelivered;

/// The name of the subscription, which belongs to the default tenant.
const SUBSCRIPTION: &str = "_notify";
/// The metadata key under which the progress of each group is stored.
const NOTIFIED_KEY: &str = "notify-told";
/// How often the cursor follows the log while there is no route.
const NO_ROUTES_PAUSE: Duration = Duration::from_secs(60);
/// Events read at a time.
const PAGE: usize = 1_000;
/// About a day of attempts, so that a mail server may be down overnight.
const RETRIES: u32 = 50;
const BACKOFF: Backoff = Backoff::Exponential {
    first: Duration::from_secs(10),
    max: Duration::from_secs(30 * 60),
};
/// Longer than sending may take by any route.
const LEASE: Duration = Duration::from_secs(60);

/// A pending notification: the payload of its job.
#[derive(Deserialize, Serialize)]
pub(super) struct NotificationJob {
    pub(super) route: String,
    pub(super) last_seq: u64,
    #[serde(flatten)]
    pub(super) message: Message,
}

pub(super) struct Follower {
    store: Arc<dyn JobStore>,
    config: Arc<Config>,
    groups: Groups,
    /// The position up to which the log was read.
    read: u64,
    /// The position of the subscription's cursor.
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
            let done = if is_open {
                self.round().await
            } else {
                self.open().await
            };
            match done {
                Ok(()) => is_open = true,
                Err(error) => warn!(%error, "failures cannot be reported at the moment"),
            }
            let rest = if self.config.routes.is_empty() {
                NO_ROUTES_PAUSE
            } else {
                self.config.poll_interval
            };
            tokio::select! {
                () = stop.cancelled() => return,
                () = tokio::time::sleep(rest) => (),
            }
        }
    }

    /// Opens the subscription, or creates it at the current end of the log, so that old failures are not
    /// reported.
    async fn open(&mut self) -> Result<(), Error> {
        let head = self.store.log_bounds().await?.head;
        let name = SUBSCRIPTION.to_owned();
        let subscription = self
            .store
            .subscribe(TenantId::default_tenant(), name, filter(), head)
            .await?;
        self.cursor = subscription.cursor;
        self.read = subscription.cursor;
        self.adopt_notified().await
    }

    async fn round(&mut self) -> Result<(), Error> {
        if self.config.routes.is_empty() {
            return self.skip().await;
        }
        self.read_on().await?;
        let now_ms = self.store.now_ms().await?;
        if !self.groups.due(now_ms).is_empty() {
            self.adopt_notified().await?;
            for notice in self.groups.due(now_ms) {
                let notified_seq = self.register(&notice).await?;
                self.groups.mark_notified(&notice.key, notified_seq, now_ms);
            }
            self.store
                .set_metadata(NOTIFIED_KEY.to_owned(), self.groups.write())
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

    /// Nobody is told, so nothing is read. The cursor goes along, so that a route that is set up later does not begin
    /// with old failures.
    async fn skip(&mut self) -> Result<(), Error> {
        let head = self.store.log_bounds().await?.head;
        if head > self.cursor {
            let name = SUBSCRIPTION.to_owned();
            self.cursor = self.store.advance(TenantId::default_tenant(), name, head).await?;
            self.read = self.cursor;
        }
        Ok(())
    }

    async fn read_on(&mut self) -> Result<(), Error> {
        loop {
            let page = self.store.events_after(self.read, filter(), PAGE).await?;
            if page.has_gap(self.read) {
                warn!("failures were deleted from the log before they were reported");
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

    /// Reads what an earlier run or another server has already reported.
    async fn adopt_notified(&mut self) -> Result<(), Error> {
        if let Some(written) = self.store.metadata(NOTIFIED_KEY.to_owned()).await? {
            self.groups.merge(&written);
        }
        Ok(())
    }

    /// Registers a notification, once per route. Returns the position up to which it reports: a notification
    /// that an earlier run or another server registered may cover less.
    async fn register(&self, notice: &Notice) -> Result<u64, Error> {
        let wanted = self.routes_of_queue(&notice.key).await?;
        let queue = queue_to_notify(&notice.key);
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
        let mut notified_seq = notice.last_seq;
        for answer in self.store.enqueue(jobs).await? {
            let enqueued = answer?;
            if enqueued.found_by.is_some() {
                notified_seq = notified_seq.min(self.seq_of(&enqueued).await?.unwrap_or(notified_seq));
            }
        }
        Ok(notified_seq)
    }

    /// Returns the routes named in a queue's settings; all routes if there are none.
    async fn routes_of_queue(&self, key: &GroupKey) -> Result<Vec<String>, Error> {
        let Ok(name) = QueueName::new(queue_to_notify(key)) else {
            return Ok(Vec::new());
        };
        let queue = self
            .store
            .queue(name, Visibility::everything(), Counted::Nothing)
            .await?;
        Ok(queue.map(|queue| queue.settings.notify).unwrap_or_default())
    }

    fn job(&self, notice: &Notice, route: &RouteConfig) -> NewJob {
        let notification = NotificationJob {
            route: route.name.clone(),
            last_seq: notice.last_seq,
            message: message_text::notice(notice, self.config.public_url.as_deref()),
        };
        let payload = serde_json::to_vec(&notification).expect("a document of plain fields");
        let queue = QueueName::notifications();
        let mut job = NewJob::new(TenantId::default_tenant(), queue, Body::json(payload));
        job.kind = Some("notice".into());
        job.max_retries = Some(RETRIES);
        job.backoff = Some(BACKOFF);
        job.timeout = Some(LEASE);
        job.idempotency = Some(Idempotency {
            // A failure belongs to one group only, so its position identifies the notification that begins
            // with it.
            key: format!("{}:{}", route.name, notice.first_seq),
            window: None,
            fingerprint: None,
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
        let notification =
            job.and_then(|job| serde_json::from_slice::<NotificationJob>(&job.payload.bytes).ok());
        Ok(notification.map(|notification| notification.last_seq))
    }
}

/// Returns the queue whose settings select the routes.
fn queue_to_notify(key: &GroupKey) -> &str {
    if key.queue == undelivered::queue().as_str() {
        key.kind.as_deref().unwrap_or_default()
    } else {
        &key.queue
    }
}

fn filter() -> EventFilter {
    EventFilter {
        kinds: vec![EventKind::Failed],
        ..EventFilter::default()
    }
}
