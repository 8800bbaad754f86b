//! Jobs to be registered, and what became of them.

use std::borrow::Cow;
use std::collections::BTreeMap;

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use bytes::Bytes;
use nagaya_jobs::backoff::Backoff as BackoffRule;
use nagaya_jobs::delivery::Webhook as WebhookRule;
use nagaya_jobs::event::EventKind as Kind;
use nagaya_jobs::job::{Body, Concurrency as ConcurrencyRule, Idempotency, TraceContext};
use nagaya_jobs::request::{Enqueued, FoundBy};
use nagaya_jobs::{Error, QueueName, TenantId};
use serde::{Deserialize, Serialize};
use serde_json::value::RawValue;
use utoipa::ToSchema;

use super::scalar::{Id, Number, Seconds, Time};
use crate::problem::{Problem, ProblemDocument};

/// A job to be registered. What is left out comes from the queue's settings.
#[derive(Debug, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct NewJob<'a> {
    #[serde(borrow)]
    #[schema(min_length = 1, max_length = 128, pattern = "^(?!\\.+$)[A-Za-z0-9._:-]+$")]
    queue: Cow<'a, str>,
    /// Any JSON; null when left out.
    #[serde(borrow, default)]
    #[schema(value_type = Option<serde_json::Value>)]
    payload: Option<&'a RawValue>,
    /// A payload that is not JSON, in base64; then there is a content type and no `payload`.
    payload_base64: Option<Cow<'a, str>>,
    /// The media type of `payload_base64`.
    #[schema(min_length = 1, max_length = 256)]
    content_type: Option<String>,
    /// What sort of work this is, for people, filters and grouping.
    #[schema(min_length = 1, max_length = 256)]
    kind: Option<String>,
    #[serde(default)]
    #[schema(max_items = 16)]
    tags: Option<Vec<String>>,
    /// Higher goes first.
    #[schema(minimum = -1000, maximum = 1000)]
    priority: Option<i16>,
    /// Not before this.
    run_at: Option<Time>,
    /// How long an attempt may take before the job waits again; heartbeats make it longer.
    timeout_seconds: Option<Seconds>,
    /// Attempts after the first one.
    #[schema(maximum = 1000)]
    max_retries: Option<u32>,
    backoff: Option<Backoff>,
    /// A second registration with this key finds the first one.
    #[schema(min_length = 1, max_length = 256)]
    idempotency_key: Option<String>,
    /// How long the key is remembered.
    idempotency_window_seconds: Option<Seconds>,
    /// While a job with this key has not ended, another registration finds it.
    #[schema(min_length = 1, max_length = 256)]
    unique_key: Option<String>,
    /// Runs after all of these succeeded.
    #[schema(max_items = 1000)]
    depends_on: Option<Vec<Id>>,
    concurrency: Option<Concurrency>,
    webhook: Option<Webhook>,
    /// How long the job is kept after it ended.
    retention_seconds: Option<Seconds>,
    /// W3C trace context, passed on to the worker.
    #[schema(min_length = 1, max_length = 256)]
    traceparent: Option<String>,
    #[schema(max_length = 512)]
    tracestate: Option<String>,
    /// Only for callers that speak for several tenants.
    #[schema(min_length = 1, max_length = 128)]
    tenant: Option<Cow<'a, str>>,
}

/// How long to wait between attempts.
#[derive(Clone, Debug, Deserialize, Serialize, ToSchema)]
#[serde(tag = "kind", rename_all = "snake_case", deny_unknown_fields)]
pub(crate) enum Backoff {
    /// Doubles from `first_seconds` up to `max_seconds`, with jitter.
    Exponential {
        first_seconds: Seconds,
        max_seconds: Seconds,
    },
    Fixed {
        delay_seconds: Seconds,
    },
    None {},
}

impl From<&Backoff> for BackoffRule {
    fn from(backoff: &Backoff) -> BackoffRule {
        match *backoff {
            Backoff::Exponential {
                first_seconds: Seconds(first),
                max_seconds: Seconds(max),
            } => BackoffRule::Exponential { first, max },
            Backoff::Fixed {
                delay_seconds: Seconds(delay),
            } => BackoffRule::Fixed { delay },
            Backoff::None {} => BackoffRule::None,
        }
    }
}

impl From<BackoffRule> for Backoff {
    fn from(backoff: BackoffRule) -> Backoff {
        match backoff {
            BackoffRule::Exponential { first, max } => Backoff::Exponential {
                first_seconds: Seconds(first),
                max_seconds: Seconds(max),
            },
            BackoffRule::Fixed { delay } => Backoff::Fixed {
                delay_seconds: Seconds(delay),
            },
            BackoffRule::None => Backoff::None {},
        }
    }
}

/// At most `limit` jobs of the queue with this key run at a time.
#[derive(Clone, Debug, Deserialize, Serialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct Concurrency {
    #[schema(min_length = 1, max_length = 256)]
    pub(crate) key: String,
    #[schema(minimum = 1)]
    pub(crate) limit: u32,
}

/// The events of a job.
#[derive(Clone, Copy, Debug, Deserialize, Serialize, ToSchema)]
#[serde(rename_all = "snake_case")]
pub(crate) enum EventKind {
    Enqueued,
    Started,
    Progress,
    Retrying,
    Succeeded,
    Failed,
    Cancelled,
    LeaseLost,
    Released,
}

impl From<Kind> for EventKind {
    fn from(kind: Kind) -> EventKind {
        match kind {
            Kind::Enqueued => EventKind::Enqueued,
            Kind::Started => EventKind::Started,
            Kind::Progress => EventKind::Progress,
            Kind::Retrying => EventKind::Retrying,
            Kind::Succeeded => EventKind::Succeeded,
            Kind::Failed => EventKind::Failed,
            Kind::Cancelled => EventKind::Cancelled,
            Kind::LeaseLost => EventKind::LeaseLost,
            Kind::Released => EventKind::Released,
        }
    }
}

impl From<EventKind> for Kind {
    fn from(kind: EventKind) -> Kind {
        match kind {
            EventKind::Enqueued => Kind::Enqueued,
            EventKind::Started => Kind::Started,
            EventKind::Progress => Kind::Progress,
            EventKind::Retrying => Kind::Retrying,
            EventKind::Succeeded => Kind::Succeeded,
            EventKind::Failed => Kind::Failed,
            EventKind::Cancelled => Kind::Cancelled,
            EventKind::LeaseLost => Kind::LeaseLost,
            EventKind::Released => Kind::Released,
        }
    }
}

/// Where events of a job are sent.
#[derive(Clone, Debug, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct Webhook {
    #[schema(max_length = 2048, pattern = "^https?://")]
    url: String,
    /// Sent along with each delivery.
    #[serde(default)]
    headers: BTreeMap<String, String>,
    /// The three endings when left out. Progress and starts are not delivered.
    #[serde(default)]
    events: Vec<EventKind>,
    #[serde(default)]
    format: WebhookFormat,
}

/// What a delivery looks like.
#[derive(Clone, Copy, Debug, Default, Deserialize, Serialize, ToSchema)]
#[serde(rename_all = "snake_case")]
pub(crate) enum WebhookFormat {
    #[default]
    Standard,
    CloudEvents,
}

impl From<Webhook> for WebhookRule {
    fn from(webhook: Webhook) -> WebhookRule {
        WebhookRule {
            url: webhook.url,
            headers: webhook.headers.into_iter().collect(),
            events: webhook.events.into_iter().map(Kind::from).collect(),
            cloud_events: matches!(webhook.format, WebhookFormat::CloudEvents),
        }
    }
}

/// A webhook as readers see it: what its headers say may be a secret.
#[derive(Debug, Serialize, ToSchema)]
pub(crate) struct WebhookView {
    url: String,
    header_names: Vec<String>,
    events: Vec<EventKind>,
    format: WebhookFormat,
}

impl From<&WebhookRule> for WebhookView {
    fn from(webhook: &WebhookRule) -> WebhookView {
        WebhookView {
            url: webhook.url.clone(),
            header_names: webhook.headers.iter().map(|(name, _)| name.clone()).collect(),
            events: webhook.events.iter().copied().map(EventKind::from).collect(),
            format: if webhook.cloud_events {
                WebhookFormat::CloudEvents
            } else {
                WebhookFormat::Standard
            },
        }
    }
}

impl NewJob<'_> {
    pub(crate) fn tenant(&self) -> Option<&str> {
        self.tenant.as_deref()
    }

    /// Converts to the domain type. `whole` is the body that this borrows from.
    pub(crate) fn into_job(self, tenant: TenantId, whole: &Bytes) -> Result<nagaya_jobs::NewJob, Problem> {
        let queue = client_queue(&self.queue)?;
        let payload = match (self.payload, self.payload_base64) {
            (Some(_), Some(_)) => {
                return Err(Problem::bad_request("give either payload or payload_base64"));
            }
            (payload, None) if self.content_type.is_none() => json_body(payload, whole),
            (_, None) => {
                return Err(Problem::bad_request("content_type is for payload_base64 only"));
            }
            (None, Some(text)) => {
                let bytes = STANDARD
                    .decode(text.as_bytes())
                    .map_err(|_| Problem::bad_request("payload_base64 is not base64"))?;
                Body {
                    content_type: Some(self.content_type.as_deref().unwrap_or(BINARY).into()),
                    bytes: bytes.into(),
                }
            }
        };
        let mut job = nagaya_jobs::NewJob::new(tenant, queue, payload);
        job.kind = self.kind;
        job.tags = self.tags.unwrap_or_default();
        job.priority = self.priority.unwrap_or(0);
        job.run_at_ms = self.run_at.map(|time| time.0);
        job.timeout = self.timeout_seconds.map(|seconds| seconds.0);
        job.max_retries = self.max_retries;
        job.backoff = self.backoff.as_ref().map(BackoffRule::from);
        let window = self.idempotency_window_seconds.map(|seconds| seconds.0);
        job.idempotency = match (self.idempotency_key, window) {
            (Some(key), window) => Some(Idempotency {
                key,
                window,
                fingerprint: Some(job.payload.fingerprint()),
            }),
            (None, None) => None,
            (None, Some(_)) => {
                return Err(Problem::bad_request(
                    "idempotency_window_seconds needs an idempotency_key",
                ));
            }
        };
        job.unique_key = self.unique_key;
        job.depends_on = self
            .depends_on
            .unwrap_or_default()
            .iter()
            .map(|id| id.0)
            .collect();
        job.concurrency = self.concurrency.map(|one| ConcurrencyRule {
            key: one.key,
            limit: one.limit,
        });
        job.webhook = self.webhook.map(WebhookRule::from);
        job.retention = self.retention_seconds.map(|seconds| seconds.0);
        job.trace = match (self.traceparent, self.tracestate) {
            (Some(parent), state) => Some(TraceContext { parent, state }),
            (None, None) => None,
            (None, Some(_)) => return Err(Problem::bad_request("tracestate needs a traceparent")),
        };
        Ok(job)
    }
}

/// The media type of bytes without a declared type.
pub(crate) const BINARY: &str = "application/octet-stream";

/// Takes a piece of JSON out of the body it came in, without a copy.
pub(crate) fn json_body(value: Option<&RawValue>, whole: &Bytes) -> Body {
    match value {
        Some(value) => Body::json(whole.slice_ref(value.get().as_bytes())),
        None => Body::json(Bytes::from_static(b"null")),
    }
}

/// Validates a queue named by a client: queues reserved for the server are refused.
pub(crate) fn client_queue(name: &str) -> Result<QueueName, Problem> {
    let queue = QueueName::new(name)?;
    if queue.is_reserved() {
        Err(Error::invalid(
            "queue",
            "begins with an underscore: such queues are the server's own",
        )
        .into())
    } else {
        Ok(queue)
    }
}

/// Jobs to be registered together. Each is judged by itself.
#[derive(Debug, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct NewJobs<'a> {
    #[serde(borrow)]
    #[schema(min_items = 1, max_items = 10000)]
    pub(crate) jobs: Vec<NewJob<'a>>,
}

/// What became of a registration.
#[derive(Debug, Serialize, ToSchema)]
pub(crate) struct Registered {
    #[schema(inline)]
    id: Id,
    state: State,
    /// The key by which an earlier registration was found: this call made no job.
    #[serde(skip_serializing_if = "Option::is_none")]
    found_by: Option<FoundByKey>,
}

#[derive(Clone, Copy, Debug, Serialize, ToSchema)]
#[serde(rename_all = "snake_case")]
pub(crate) enum FoundByKey {
    IdempotencyKey,
    UniqueKey,
}

impl From<Enqueued> for Registered {
    fn from(enqueued: Enqueued) -> Registered {
        Registered {
            id: Number(enqueued.id),
            state: enqueued.state.into(),
            found_by: enqueued.found_by.map(|found_by| match found_by {
                FoundBy::IdempotencyKey => FoundByKey::IdempotencyKey,
                FoundBy::UniqueKey => FoundByKey::UniqueKey,
            }),
        }
    }
}

/// One item's outcome: either it, or why not.
#[derive(Debug, Serialize, ToSchema)]
#[serde(untagged)]
pub(crate) enum RegisteredOrProblem<'a> {
    Registered(Registered),
    Problem { error: ProblemDocument<'a> },
}

/// What became of a batch, in its order.
#[derive(Debug, Serialize, ToSchema)]
pub(crate) struct RegisteredJobs<'a> {
    pub(crate) jobs: Vec<RegisteredOrProblem<'a>>,
}

/// Where a job is in its life.
#[derive(Clone, Copy, Debug, Deserialize, Serialize, ToSchema)]
#[serde(rename_all = "snake_case")]
pub(crate) enum State {
    Scheduled,
    Waiting,
    Running,
    Succeeded,
    Failed,
    Cancelled,
}

impl From<nagaya_jobs::State> for State {
    fn from(state: nagaya_jobs::State) -> State {
        match state {
            nagaya_jobs::State::Scheduled => State::Scheduled,
            nagaya_jobs::State::Waiting => State::Waiting,
            nagaya_jobs::State::Running => State::Running,
            nagaya_jobs::State::Succeeded => State::Succeeded,
            nagaya_jobs::State::Failed => State::Failed,
            nagaya_jobs::State::Cancelled => State::Cancelled,
        }
    }
}

impl From<State> for nagaya_jobs::State {
    fn from(state: State) -> nagaya_jobs::State {
        match state {
            State::Scheduled => nagaya_jobs::State::Scheduled,
            State::Waiting => nagaya_jobs::State::Waiting,
            State::Running => nagaya_jobs::State::Running,
            State::Succeeded => nagaya_jobs::State::Succeeded,
            State::Failed => nagaya_jobs::State::Failed,
            State::Cancelled => nagaya_jobs::State::Cancelled,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(text: &str) -> Result<nagaya_jobs::NewJob, String> {
        let whole = Bytes::copy_from_slice(text.as_bytes());
        let form: NewJob<'_> = serde_json::from_slice(&whole).map_err(|error| error.to_string())?;
        form.into_job(TenantId::default_tenant(), &whole)
            .map_err(|problem| problem.detail)
    }

    #[test]
    fn a_payload_is_kept_as_it_was_written() {
        let job = read(r#"{"queue":"mail","payload": {"a" : [1,  2.50]} }"#).unwrap();
        assert_eq!(&job.payload.bytes[..], br#"{"a" : [1,  2.50]}"#);
        assert!(job.payload.is_json());
    }

    #[test]
    fn every_option_has_its_place() {
        let job = read(
            r#"{"queue":"mail","payload_base64":"AP8=","content_type":"image/png","kind":"k","tags":["t"],
                "priority":-3,"run_at":"2026-01-01T00:00:00Z","timeout_seconds":2.5,"max_retries":0,
                "backoff":{"kind":"fixed","delay_seconds":3},"idempotency_key":"i",
                "idempotency_window_seconds":60,"unique_key":"u","depends_on":["17"],
                "concurrency":{"key":"c","limit":2},"webhook":{"url":"https://x.test/","events":["failed"],
                "headers":{"a":"b"},"format":"cloud_events"},"retention_seconds":9,"traceparent":"p",
                "tracestate":"s"}"#,
        )
        .unwrap();
        assert_eq!(&job.payload.bytes[..], [0, 255]);
        assert_eq!(job.payload.content_type(), "image/png");
        assert_eq!(job.timeout.unwrap().as_millis(), 2_500);
        assert_eq!(job.depends_on[0].get(), 17);
        assert_eq!(job.webhook.unwrap().headers, [("a".to_owned(), "b".to_owned())]);
        assert_eq!(job.trace.unwrap().state.as_deref(), Some("s"));
    }

    #[test]
    fn what_does_not_fit_is_refused_by_name() {
        let refused = |text: &str, word: &str| {
            let why = read(text).unwrap_err();
            assert!(why.contains(word), "{text}: {why}");
        };
        refused(r#"{"payload":1}"#, "queue");
        refused(r#"{"queue":"mail","colour":1}"#, "colour");
        refused(r#"{"queue":"mail","backoff":{"kind":"none","x":1}}"#, "x");
        refused(r#"{"queue":"mail","priority":"high"}"#, "expected i16");
        refused(r#"{"queue":"_notify"}"#, "underscore");
        refused(r#"{"queue":"a b"}"#, "queue");
        refused(
            r#"{"queue":"mail","payload":1,"payload_base64":"AA=="}"#,
            "either",
        );
        refused(r#"{"queue":"mail","payload_base64":"?"}"#, "base64");
        refused(r#"{"queue":"mail","depends_on":[17]}"#, "string");
        refused(r#"{"queue":"mail","queue":"post"}"#, "duplicate");
    }
}
