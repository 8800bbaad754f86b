//! Events and subscriptions.

use nagaya_jobs::event::{Event, EventData, Subscription};
use serde::{Deserialize, Serialize};
use serde_json::value::RawValue;
use utoipa::ToSchema;

use super::job::ProgressView;
use super::new_job::EventKind;
use super::scalar::{Id, Number, Position, Time};
use super::work::BodyView;

/// An event. Its id is its position in the log: readers drop duplicates by it.
#[derive(Debug, Serialize, ToSchema)]
pub(crate) struct EventLine<'a> {
    #[schema(inline)]
    id: Position,
    kind: EventKind,
    #[schema(inline)]
    job: Id,
    queue: &'a str,
    tenant: &'a str,
    #[serde(skip_serializing_if = "Option::is_none")]
    job_kind: Option<&'a str>,
    attempt: u32,
    #[schema(inline)]
    at: Time,
    /// What the job ended with, unless that is not JSON.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<serde_json::Value>)]
    result: Option<&'a RawValue>,
    #[serde(skip_serializing_if = "Option::is_none")]
    result_base64: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    result_content_type: Option<&'a str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    error: Option<&'a str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    progress: Option<ProgressView<'a>>,
    /// When the next attempt may begin.
    #[serde(skip_serializing_if = "Option::is_none")]
    run_at: Option<Time>,
}

impl<'a> From<&'a Event> for EventLine<'a> {
    fn from(event: &'a Event) -> EventLine<'a> {
        let mut line = EventLine {
            id: Number(event.seq),
            kind: event.kind.into(),
            job: Number(event.job),
            queue: event.queue.as_str(),
            tenant: event.tenant.as_str(),
            job_kind: event.job_kind.as_deref(),
            attempt: event.attempt,
            at: Time(event.at_ms),
            result: None,
            result_base64: None,
            result_content_type: None,
            error: None,
            progress: None,
            run_at: None,
        };
        match &event.data {
            EventData::None => (),
            EventData::Progress(progress) => line.progress = Some(ProgressView::from(progress)),
            EventData::Retry { error, run_at_ms } => {
                line.error = error.as_deref();
                line.run_at = Some(Time(*run_at_ms));
            }
            EventData::Result(body) => {
                let body = BodyView::of(body);
                line.result = body.json;
                line.result_base64 = body.base64;
                line.result_content_type = body.content_type;
            }
            EventData::Error(error) => line.error = Some(error),
        }
        line
    }
}

/// Events that no longer exist: the reader has to query the jobs themselves.
#[derive(Debug, Serialize, ToSchema)]
pub(crate) struct Gap {
    /// The reader had seen everything up to here.
    #[schema(inline)]
    pub(crate) after: Position,
    /// Everything up to here was cut off by the log's retention.
    #[schema(inline)]
    pub(crate) up_to: Position,
    /// Where current states are found.
    pub(crate) see: &'static str,
}

impl Gap {
    pub(crate) fn new(after: u64, up_to: u64) -> Gap {
        Gap {
            after: Number(after),
            up_to: Number(up_to),
            see: "/v1/jobs",
        }
    }
}

/// A reader with a name, whose position the server keeps.
#[derive(Debug, Serialize, ToSchema)]
pub(crate) struct SubscriptionLine {
    name: String,
    tenant: String,
    /// Everything up to here has been acknowledged.
    #[schema(inline)]
    cursor: Position,
    #[serde(skip_serializing_if = "Option::is_none")]
    queue: Option<String>,
    kinds: Vec<EventKind>,
    #[schema(inline)]
    created_at: Time,
    #[schema(inline)]
    advanced_at: Time,
}

impl From<&Subscription> for SubscriptionLine {
    fn from(one: &Subscription) -> SubscriptionLine {
        SubscriptionLine {
            name: one.name.clone(),
            tenant: one.tenant.to_string(),
            cursor: Number(one.cursor),
            queue: one.filter.queue.as_ref().map(ToString::to_string),
            kinds: one.filter.kinds.iter().copied().map(EventKind::from).collect(),
            created_at: Time(one.created_at_ms),
            advanced_at: Time(one.advanced_at_ms),
        }
    }
}

#[derive(Debug, Serialize, ToSchema)]
pub(crate) struct Subscriptions {
    pub(crate) subscriptions: Vec<SubscriptionLine>,
}

/// A subscription to be made. One of that name that is there gets the filter and keeps its cursor.
#[derive(Debug, Default, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct NewSubscription {
    #[schema(min_length = 1, max_length = 128)]
    pub(crate) queue: Option<String>,
    /// Every kind when left out.
    pub(crate) kinds: Option<Vec<EventKind>>,
    /// Begins after this position; with the newest event when left out.
    pub(crate) after: Option<Position>,
}

/// Everything up to here has been dealt with.
#[derive(Debug, Deserialize, Serialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct Cursor {
    #[schema(inline)]
    pub(crate) cursor: Position,
}
