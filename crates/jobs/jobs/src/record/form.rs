//! The forms themselves. Lengths of time are milliseconds, ids are strings, bytes are base64.

use std::time::Duration;

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use serde::{Deserialize, Serialize};

use super::damaged;
use crate::clock::{span, span_ms};
use crate::error::Error;
use crate::id::JobId;
use crate::name::{QueueName, TenantId};
use crate::{backoff, delivery, event, job, queue, rate, view};

#[derive(Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(super) enum Backoff {
    None,
    FixedMs(i64),
    ExponentialMs(i64, i64),
}

impl From<backoff::Backoff> for Backoff {
    fn from(backoff: backoff::Backoff) -> Backoff {
        match backoff {
            backoff::Backoff::None => Backoff::None,
            backoff::Backoff::Fixed { delay } => Backoff::FixedMs(span_ms(delay)),
            backoff::Backoff::Exponential { first, max } => {
                Backoff::ExponentialMs(span_ms(first), span_ms(max))
            }
        }
    }
}

impl From<Backoff> for backoff::Backoff {
    fn from(form: Backoff) -> backoff::Backoff {
        match form {
            Backoff::None => backoff::Backoff::None,
            Backoff::FixedMs(delay) => backoff::Backoff::Fixed { delay: span(delay) },
            Backoff::ExponentialMs(first, max) => backoff::Backoff::Exponential {
                first: span(first),
                max: span(max),
            },
        }
    }
}

#[derive(Serialize, Deserialize, Default)]
#[serde(default)]
pub(super) struct Webhook {
    url: String,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    headers: Vec<(String, String)>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    events: Vec<i16>,
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    cloud_events: bool,
}

impl From<&delivery::Webhook> for Webhook {
    fn from(webhook: &delivery::Webhook) -> Webhook {
        Webhook {
            url: webhook.url.clone(),
            headers: webhook.headers.clone(),
            events: webhook.events.iter().map(|kind| kind.code()).collect(),
            cloud_events: webhook.cloud_events,
        }
    }
}

impl From<Webhook> for delivery::Webhook {
    fn from(form: Webhook) -> delivery::Webhook {
        delivery::Webhook {
            url: form.url,
            headers: form.headers,
            events: kinds(&form.events),
            cloud_events: form.cloud_events,
        }
    }
}

/// Kinds that a newer program knows are left out.
fn kinds(codes: &[i16]) -> Vec<event::EventKind> {
    codes
        .iter()
        .filter_map(|code| event::EventKind::coded(*code))
        .collect()
}

#[derive(Serialize, Deserialize, Default)]
#[serde(default)]
pub(super) struct JobOptions {
    #[serde(skip_serializing_if = "Vec::is_empty")]
    tags: Vec<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    backoff: Option<Backoff>,
    #[serde(skip_serializing_if = "Option::is_none")]
    idempotency_key: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    unique_key: Option<String>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    depends_on: Vec<i64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    concurrency: Option<(String, u32)>,
    #[serde(skip_serializing_if = "Option::is_none")]
    webhook: Option<Webhook>,
    #[serde(skip_serializing_if = "Option::is_none")]
    retention_ms: Option<i64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    trace: Option<(String, Option<String>)>,
}

impl From<&super::JobOptions> for JobOptions {
    fn from(options: &super::JobOptions) -> JobOptions {
        let usual = options.backoff == backoff::Backoff::default();
        JobOptions {
            tags: options.tags.clone(),
            backoff: (!usual).then(|| options.backoff.into()),
            idempotency_key: options.idempotency_key.clone(),
            unique_key: options.unique_key.clone(),
            depends_on: options.depends_on.iter().map(|id| id.get()).collect(),
            concurrency: options.concurrency.clone().map(|one| (one.key, one.limit)),
            webhook: options.webhook.as_ref().map(Webhook::from),
            retention_ms: options.retention.map(span_ms),
            trace: options.trace.clone().map(|trace| (trace.parent, trace.state)),
        }
    }
}

impl From<JobOptions> for super::JobOptions {
    fn from(form: JobOptions) -> super::JobOptions {
        super::JobOptions {
            tags: form.tags,
            backoff: form.backoff.map(Into::into).unwrap_or_default(),
            idempotency_key: form.idempotency_key,
            unique_key: form.unique_key,
            depends_on: form.depends_on.into_iter().filter_map(JobId::new).collect(),
            concurrency: form
                .concurrency
                .map(|(key, limit)| job::Concurrency { key, limit }),
            webhook: form.webhook.map(Into::into),
            retention: form.retention_ms.map(span),
            trace: form
                .trace
                .map(|(parent, state)| job::TraceContext { parent, state }),
        }
    }
}

#[derive(Serialize, Deserialize, Default)]
#[serde(default)]
pub(super) struct QueueSettings {
    #[serde(skip_serializing_if = "Option::is_none")]
    lease_ms: Option<i64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    max_retries: Option<u32>,
    #[serde(skip_serializing_if = "Option::is_none")]
    backoff: Option<Backoff>,
    #[serde(skip_serializing_if = "Option::is_none")]
    idempotency_window_ms: Option<i64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    keep_succeeded_ms: Option<i64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    keep_failed_ms: Option<i64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    depth_max: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    rate: Option<(u32, i64)>,
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    only_ends: bool,
    #[serde(skip_serializing_if = "Option::is_none")]
    webhook: Option<Webhook>,
    #[serde(skip_serializing_if = "Option::is_none")]
    push: Option<Push>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    notify: Vec<String>,
}

#[derive(Serialize, Deserialize)]
struct Push {
    url: String,
    #[serde(default)]
    headers: Vec<(String, String)>,
    concurrency: u32,
}

impl From<&queue::QueueSettings> for QueueSettings {
    fn from(settings: &queue::QueueSettings) -> QueueSettings {
        QueueSettings {
            lease_ms: Some(span_ms(settings.lease)),
            max_retries: Some(settings.max_retries),
            backoff: Some(settings.backoff.into()),
            idempotency_window_ms: Some(span_ms(settings.idempotency_window)),
            keep_succeeded_ms: Some(span_ms(settings.retention.succeeded)),
            keep_failed_ms: Some(span_ms(settings.retention.failed)),
            depth_max: settings.depth_max,
            rate: settings.rate.map(|rate| (rate.jobs, span_ms(rate.per))),
            only_ends: settings.events == queue::EventDetail::Ends,
            webhook: settings.webhook.as_ref().map(Webhook::from),
            push: settings.push.as_ref().map(|push| Push {
                url: push.url.clone(),
                headers: push.headers.clone(),
                concurrency: push.concurrency,
            }),
            notify: settings.notify.clone(),
        }
    }
}

impl From<QueueSettings> for queue::QueueSettings {
    fn from(form: QueueSettings) -> queue::QueueSettings {
        let usual = queue::QueueSettings::default();
        let length = |ms: Option<i64>, usual: Duration| ms.map_or(usual, span);
        queue::QueueSettings {
            lease: length(form.lease_ms, usual.lease),
            max_retries: form.max_retries.unwrap_or(usual.max_retries),
            backoff: form.backoff.map_or(usual.backoff, Into::into),
            idempotency_window: length(form.idempotency_window_ms, usual.idempotency_window),
            retention: queue::Retention {
                succeeded: length(form.keep_succeeded_ms, usual.retention.succeeded),
                failed: length(form.keep_failed_ms, usual.retention.failed),
            },
            depth_max: form.depth_max,
            rate: form.rate.map(|(jobs, per)| rate::Rate { jobs, per: span(per) }),
            events: if form.only_ends {
                queue::EventDetail::Ends
            } else {
                queue::EventDetail::All
            },
            webhook: form.webhook.map(Into::into),
            push: form.push.map(|push| queue::Push {
                url: push.url,
                headers: push.headers,
                concurrency: push.concurrency,
            }),
            notify: form.notify,
        }
    }
}

#[derive(Serialize, Deserialize)]
pub(super) struct Template {
    tenant: String,
    queue: String,
    content_type: Option<Box<str>>,
    payload: String,
    kind: Option<String>,
    priority: i16,
    timeout_ms: Option<i64>,
    max_retries: Option<u32>,
    backoff: Option<Backoff>,
    idempotency_window_ms: Option<i64>,
    options: JobOptions,
}

impl From<&job::NewJob> for Template {
    fn from(job: &job::NewJob) -> Template {
        let options = super::JobOptions::of(job, &queue::QueueSettings::default());
        Template {
            tenant: job.tenant.as_str().into(),
            queue: job.queue.as_str().into(),
            content_type: job.payload.content_type.clone(),
            payload: STANDARD.encode(&job.payload.bytes),
            kind: job.kind.clone(),
            priority: job.priority,
            timeout_ms: job.timeout.map(span_ms),
            max_retries: job.max_retries,
            backoff: job.backoff.map(Into::into),
            idempotency_window_ms: job.idempotency.as_ref().and_then(|one| one.window).map(span_ms),
            options: JobOptions::from(&options),
        }
    }
}

impl Template {
    pub(super) fn into_job(self) -> Result<job::NewJob, Error> {
        let bytes = STANDARD
            .decode(&self.payload)
            .map_err(|error| damaged("schedule", &error.to_string()))?;
        let payload = job::Body {
            content_type: self.content_type,
            bytes: bytes.into(),
        };
        let options = super::JobOptions::from(self.options);
        let window = self.idempotency_window_ms.map(span);
        let mut job = job::NewJob::new(
            TenantId::new(&self.tenant)?,
            QueueName::new(&self.queue)?,
            payload,
        );
        job.kind = self.kind;
        job.tags = options.tags;
        job.priority = self.priority;
        job.timeout = self.timeout_ms.map(span);
        job.max_retries = self.max_retries;
        job.backoff = self.backoff.map(Into::into);
        job.idempotency = options.idempotency_key.map(|key| job::Idempotency {
            key,
            window,
            fingerprint: None,
        });
        job.unique_key = options.unique_key;
        job.depends_on = options.depends_on;
        job.concurrency = options.concurrency;
        job.webhook = options.webhook;
        job.retention = options.retention;
        job.trace = options.trace;
        Ok(job)
    }
}

#[derive(Serialize, Deserialize, Default)]
#[serde(default)]
pub(super) struct EventFilter {
    #[serde(skip_serializing_if = "Option::is_none")]
    tenant: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    queue: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    job: Option<i64>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    kinds: Vec<i16>,
}

impl From<&event::EventFilter> for EventFilter {
    fn from(filter: &event::EventFilter) -> EventFilter {
        EventFilter {
            tenant: filter.tenant.as_ref().map(ToString::to_string),
            queue: filter.queue.as_ref().map(ToString::to_string),
            job: filter.job.map(JobId::get),
            kinds: filter.kinds.iter().map(|kind| kind.code()).collect(),
        }
    }
}

impl EventFilter {
    pub(super) fn into_filter(self) -> Result<event::EventFilter, Error> {
        Ok(event::EventFilter {
            tenant: self.tenant.as_deref().map(TenantId::new).transpose()?,
            queue: self.queue.as_deref().map(QueueName::new).transpose()?,
            job: self.job.and_then(JobId::new),
            kinds: kinds(&self.kinds),
        })
    }
}

#[derive(Serialize, Deserialize)]
pub(super) struct Retry {
    /// Nothing when an administrator asked for it.
    pub(super) error: Option<String>,
    pub(super) run_at_ms: i64,
}

#[derive(Serialize, Deserialize)]
pub(super) struct Progress {
    per_mille: Option<u16>,
    message: Option<String>,
    data: Option<String>,
    at_ms: i64,
}

impl From<&view::Progress> for Progress {
    fn from(progress: &view::Progress) -> Progress {
        Progress {
            per_mille: progress.per_mille,
            message: progress.message.clone(),
            data: progress.data.clone(),
            at_ms: progress.at_ms,
        }
    }
}

impl From<Progress> for view::Progress {
    fn from(form: Progress) -> view::Progress {
        view::Progress {
            per_mille: form.per_mille,
            message: form.message,
            data: form.data,
            at_ms: form.at_ms,
        }
    }
}
