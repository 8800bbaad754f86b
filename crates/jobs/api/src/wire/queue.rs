//! Queues and their settings.

use std::collections::BTreeMap;

use nagaya_jobs::backoff::Backoff as BackoffRule;
use nagaya_jobs::delivery::Webhook as WebhookRule;
use nagaya_jobs::queue::{
    EventDetail, Push as PushRule, QueueSettings, QueueView, Retention as RetentionRule,
};
use nagaya_jobs::rate::Rate as RateRule;
use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

use super::new_job::{Backoff, Webhook, WebhookView};
use super::scalar::{Seconds, Time};

/// Settings of a queue. What is left out gets its default.
#[derive(Debug, Default, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct Settings {
    /// Lease of jobs that ask for none.
    timeout_seconds: Option<Seconds>,
    #[schema(maximum = 1000)]
    max_retries: Option<u32>,
    backoff: Option<Backoff>,
    idempotency_window_seconds: Option<Seconds>,
    retention: Option<Retention>,
    /// Most jobs that have not started; more are refused with 429.
    depth_max: Option<u64>,
    rate: Option<Rate>,
    events: Option<Events>,
    /// Told of jobs that name no webhook of their own.
    webhook: Option<Webhook>,
    push: Option<Push>,
    /// Routes of administrators' notifications by name; all routes when empty.
    notify: Option<Vec<String>>,
}

/// How long jobs are kept after they ended.
#[derive(Clone, Copy, Debug, Deserialize, Serialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct Retention {
    #[schema(inline)]
    succeeded_seconds: Seconds,
    /// Failed and cancelled ones.
    #[schema(inline)]
    failed_seconds: Seconds,
}

/// At most so many jobs start in any period, give or take one burst.
#[derive(Clone, Copy, Debug, Deserialize, Serialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct Rate {
    #[schema(minimum = 1)]
    jobs: u32,
    #[schema(inline)]
    per_seconds: Seconds,
}

/// Which events of a queue's jobs are written to the log.
#[derive(Clone, Copy, Debug, Deserialize, Serialize, ToSchema)]
#[serde(rename_all = "snake_case")]
pub(crate) enum Events {
    All,
    /// Only endings, retries and lost leases.
    Ends,
}

/// An HTTP endpoint that the server calls with each job.
#[derive(Clone, Debug, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct Push {
    #[schema(max_length = 2048, pattern = "^https?://")]
    url: String,
    #[serde(default)]
    headers: BTreeMap<String, String>,
    /// Calls at a time.
    #[schema(minimum = 1)]
    concurrency: u32,
}

impl From<Settings> for QueueSettings {
    fn from(form: Settings) -> QueueSettings {
        let mut settings = QueueSettings::default();
        form.apply(&mut settings);
        settings
    }
}

impl Settings {
    /// Changes what is said; the rest stays.
    pub(crate) fn apply(self, settings: &mut QueueSettings) {
        fn set<T>(place: &mut T, value: Option<T>) {
            if let Some(value) = value {
                *place = value;
            }
        }
        set(&mut settings.lease, self.timeout_seconds.map(|seconds| seconds.0));
        set(&mut settings.max_retries, self.max_retries);
        set(
            &mut settings.backoff,
            self.backoff.as_ref().map(BackoffRule::from),
        );
        let window = self.idempotency_window_seconds.map(|seconds| seconds.0);
        set(&mut settings.idempotency_window, window);
        let retention = self.retention.map(|one| RetentionRule {
            succeeded: one.succeeded_seconds.0,
            failed: one.failed_seconds.0,
        });
        set(&mut settings.retention, retention);
        set(&mut settings.depth_max, self.depth_max.map(Some));
        let rate = self.rate.map(|rate| RateRule {
            jobs: rate.jobs,
            per: rate.per_seconds.0,
        });
        set(&mut settings.rate, rate.map(Some));
        let events = self.events.map(|events| match events {
            Events::All => EventDetail::All,
            Events::Ends => EventDetail::Ends,
        });
        set(&mut settings.events, events);
        set(
            &mut settings.webhook,
            self.webhook.map(WebhookRule::from).map(Some),
        );
        let push = self.push.map(|push| PushRule {
            url: push.url,
            headers: push.headers.into_iter().collect(),
            concurrency: push.concurrency,
        });
        set(&mut settings.push, push.map(Some));
        set(&mut settings.notify, self.notify);
    }
}

/// Settings as they are.
#[derive(Debug, Serialize, ToSchema)]
pub(crate) struct SettingsView {
    #[schema(inline)]
    timeout_seconds: Seconds,
    max_retries: u32,
    backoff: Backoff,
    #[schema(inline)]
    idempotency_window_seconds: Seconds,
    retention: Retention,
    depth_max: Option<u64>,
    rate: Option<Rate>,
    events: Events,
    webhook: Option<WebhookView>,
    push: Option<PushView>,
    notify: Vec<String>,
}

/// A push endpoint as readers see it: what its headers say may be a secret.
#[derive(Debug, Serialize, ToSchema)]
pub(crate) struct PushView {
    url: String,
    header_names: Vec<String>,
    concurrency: u32,
}

impl From<&QueueSettings> for SettingsView {
    fn from(settings: &QueueSettings) -> SettingsView {
        SettingsView {
            timeout_seconds: Seconds(settings.lease),
            max_retries: settings.max_retries,
            backoff: settings.backoff.into(),
            idempotency_window_seconds: Seconds(settings.idempotency_window),
            retention: Retention {
                succeeded_seconds: Seconds(settings.retention.succeeded),
                failed_seconds: Seconds(settings.retention.failed),
            },
            depth_max: settings.depth_max,
            rate: settings.rate.map(|rate| Rate {
                jobs: rate.jobs,
                per_seconds: Seconds(rate.per),
            }),
            events: match settings.events {
                EventDetail::All => Events::All,
                EventDetail::Ends => Events::Ends,
            },
            webhook: settings.webhook.as_ref().map(WebhookView::from),
            push: settings.push.as_ref().map(|push| PushView {
                url: push.url.clone(),
                header_names: push.headers.iter().map(|(name, _)| name.clone()).collect(),
                concurrency: push.concurrency,
            }),
            notify: settings.notify.clone(),
        }
    }
}

/// A queue with what can be counted in it.
#[derive(Debug, Serialize, ToSchema)]
pub(crate) struct Queue {
    name: String,
    paused: bool,
    #[schema(inline)]
    created_at: Time,
    depth: Depth,
    passed: Passed,
    /// When the job was registered that has been ready for longest.
    oldest_ready_at: Option<Time>,
    /// When a worker last asked for jobs here and got one.
    last_claim_at: Option<Time>,
    settings: SettingsView,
}

/// Jobs by place.
#[derive(Debug, Serialize, ToSchema)]
pub(crate) struct Depth {
    scheduled: u64,
    /// Can be claimed now, but for a pause or a rate.
    ready: u64,
    /// Wait for other jobs or for a place under their key.
    blocked: u64,
    running: u64,
    succeeded: u64,
    failed: u64,
    cancelled: u64,
}

/// How many ever passed.
#[derive(Debug, Serialize, ToSchema)]
pub(crate) struct Passed {
    enqueued: u64,
    started: u64,
    succeeded: u64,
    failed: u64,
    cancelled: u64,
    attempts_failed: u64,
    leases_lost: u64,
    late_reports: u64,
}

/// How long the newest ended jobs of a queue waited and took.
#[derive(Debug, Serialize, ToSchema)]
pub(crate) struct Latency {
    /// How many jobs were looked at.
    pub(crate) jobs: usize,
    /// From registration to the first start, with any delay that was asked for.
    pub(crate) wait_ms: Option<Spread>,
    /// The last attempt, from start to end.
    pub(crate) run_ms: Option<Spread>,
}

/// Percentiles.
#[derive(Debug, Serialize, ToSchema)]
pub(crate) struct Spread {
    pub(crate) p50: u64,
    pub(crate) p90: u64,
    pub(crate) p99: u64,
}

#[derive(Debug, Serialize, ToSchema)]
pub(crate) struct Queues {
    pub(crate) queues: Vec<Queue>,
}

impl From<&QueueView> for Queue {
    fn from(queue: &QueueView) -> Queue {
        let (depth, passed) = (&queue.depth, &queue.throughput);
        Queue {
            name: queue.name.to_string(),
            paused: queue.paused,
            created_at: Time(queue.created_at_ms),
            depth: Depth {
                scheduled: depth.scheduled,
                ready: depth.ready,
                blocked: depth.blocked,
                running: depth.running,
                succeeded: depth.succeeded,
                failed: depth.failed,
                cancelled: depth.cancelled,
            },
            passed: Passed {
                enqueued: passed.enqueued,
                started: passed.started,
                succeeded: passed.succeeded,
                failed: passed.failed,
                cancelled: passed.cancelled,
                attempts_failed: passed.attempts_failed,
                leases_lost: passed.leases_lost,
                late_reports: passed.late_reports,
            },
            oldest_ready_at: queue.oldest_ready_at_ms.map(Time),
            last_claim_at: queue.last_claim_at_ms.map(Time),
            settings: SettingsView::from(&queue.settings),
        }
    }
}
