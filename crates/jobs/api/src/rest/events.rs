//! Server-sent events, and the subscriptions that store a reader's position.
//!
//! The id of an event is its position in the log, so a browser's `Last-Event-ID` is enough to resume after a
//! disconnect. An idle stream sends keep-alives with its position.

use std::fmt::Write;
use std::sync::Arc;

use axum::body::Body;
use axum::extract::State;
use axum::http::{HeaderMap, HeaderName, HeaderValue, StatusCode, header};
use axum::response::{IntoResponse, Response};
use bytes::Bytes;
use futures_util::{StreamExt, stream};
use nagaya_jobs::JobId;
use nagaya_jobs::event::{EventFilter, EventKind};
use serde::Deserialize;

use crate::api::Api;
use crate::auth::{Permission, Principal};
use crate::call::{Call, ok, parse, parse_if_any};
use crate::feed::{Batch, Reader};
use crate::problem::Problem;
use crate::wire::event::{Cursor, EventLine, Gap, NewSubscription, SubscriptionLine, Subscriptions};
use crate::wire::scalar::{Number, parse_position};

/// The token of an attempt, by which a worker follows its own job.
pub(crate) const LEASE: HeaderName = HeaderName::from_static("nagaya-lease");
const LAST_EVENT_ID: HeaderName = HeaderName::from_static("last-event-id");
/// Tells nginx not to buffer events.
const NO_BUFFERING: (HeaderName, HeaderValue) = (
    HeaderName::from_static("x-accel-buffering"),
    HeaderValue::from_static("no"),
);

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct EventsQuery {
    queue: Option<String>,
    kind: Option<String>,
    after: Option<String>,
    tenant: Option<String>,
    subscription: Option<String>,
}

pub(super) async fn events(State(api): State<Api>, call: Call) -> Result<Response, Problem> {
    let principal = call.principal(&api, Permission::Read).await?;
    let query: EventsQuery = call.query()?;
    let after = last_event_id(call.headers())?;
    let asked = position("after", query.after.as_deref())?;
    let seen = api.handlers.seen_by(&principal);
    let (filter, after) = match query.subscription {
        Some(name) => {
            let found = seen.subscription(&name).await?;
            (found.filter, after.or(asked).or(Some(found.cursor)))
        }
        None => {
            let filter = EventFilter {
                kinds: kinds(query.kind.as_deref())?,
                ..seen.event_filter(query.tenant.as_deref(), query.queue.as_deref())?
            };
            (filter, after.or(asked))
        }
    };
    let reader = seen.reader(filter, after).await?;
    Ok(event_stream(Streamed {
        api: api.clone(),
        principal,
        reader,
        job: None,
        queued: None,
    }))
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct JobEventsQuery {
    after: Option<String>,
}

/// Streams a job's events from the first one, or after those that the reader has seen, until the job has ended. A
/// reader that has seen the end gets 204, which keeps browsers from asking again. A worker shows the token of its
/// attempt, and then needs only the scope `work`.
pub(super) async fn job_events(State(api): State<Api>, call: Call) -> Result<Response, Problem> {
    let lease = call.headers().get(LEASE);
    let permission = match lease {
        None => Permission::Read,
        Some(_) => Permission::Work,
    };
    let principal = call.principal(&api, permission).await?;
    let id = call.id()?;
    if let Some(token) = lease {
        let token = token.to_str().map_err(|_| Problem::foreign_token())?;
        api.handlers.lease(token, Some(id))?;
    }
    let query: JobEventsQuery = call.query()?;
    let after = last_event_id(call.headers())?;
    let after = after.or(position("after", query.after.as_deref())?).unwrap_or(0);
    let filter = EventFilter {
        job: Some(id),
        ..EventFilter::default()
    };
    let seen = api.handlers.seen_by(&principal);
    let mut reader = seen.reader(filter, Some(after)).await?;
    let queued = reader.ready().await?;
    if queued.is_none() && seen.has_ended(id).await? {
        return Ok(StatusCode::NO_CONTENT.into_response());
    }
    Ok(event_stream(Streamed {
        api: api.clone(),
        principal,
        reader,
        job: Some(id),
        queued,
    }))
}

fn last_event_id(headers: &HeaderMap) -> Result<Option<u64>, Problem> {
    match headers.get(LAST_EVENT_ID).map(HeaderValue::to_str) {
        None | Some(Ok("")) => Ok(None),
        Some(Ok(text)) => position("Last-Event-ID", Some(text)),
        Some(Err(_)) => Err(Problem::bad_request("Last-Event-ID is not a position")),
    }
}

fn position(name: &str, text: Option<&str>) -> Result<Option<u64>, Problem> {
    let bad = || Problem::bad_request(format!("{name} must be the id of an event"));
    text.map(|text| parse_position(text).ok_or_else(bad)).transpose()
}

fn kinds(list: Option<&str>) -> Result<Vec<EventKind>, Problem> {
    let names = list.into_iter().flat_map(|list| list.split(','));
    let kind = |name| {
        EventKind::named(name)
            .ok_or_else(|| Problem::bad_request(format!("there is no kind of event {name:?}")))
    };
    names.map(kind).collect()
}

/// A stream, and for whom it is.
struct Streamed {
    api: Api,
    principal: Arc<Principal>,
    reader: Reader,
    /// The stream ends with this job.
    job: Option<JobId>,
    /// Read and not sent.
    queued: Option<Batch>,
}

fn event_stream(streamed: Streamed) -> Response {
    let opening = stream::iter([Ok::<_, std::convert::Infallible>(Bytes::from_static(
        b"retry: 1000\n\n",
    ))]);
    // The token is looked at again and again beside the stream, also while that is busy.
    let (api, principal) = (streamed.api.clone(), Arc::clone(&streamed.principal));
    let invalid = async move { api.auth.until_invalid(&principal).await };
    let frames = stream::unfold(streamed, |mut streamed| async move {
        let frame = streamed.next_frame().await?;
        Some((Ok(frame), streamed))
    });
    let frames = frames.take_until(Box::pin(invalid));
    let body = Body::from_stream(opening.chain(frames));
    let head = [
        (
            header::CONTENT_TYPE,
            HeaderValue::from_static("text/event-stream"),
        ),
        (header::CACHE_CONTROL, HeaderValue::from_static("no-store")),
        NO_BUFFERING,
    ];
    (head, body).into_response()
}

impl Streamed {
    /// Returns the next bytes to send; `None` when the stream ends.
    async fn next_frame(&mut self) -> Option<Bytes> {
        if let Some(batch) = self.queued.take() {
            return Some(frame(&batch));
        }
        match self.next().await {
            Ok(frame) => frame,
            Err(problem) => {
                // The client reconnects with its last id.
                tracing::warn!(problem = problem.detail, "event stream ended by an error");
                None
            }
        }
    }

    async fn next(&mut self) -> Result<Option<Bytes>, Problem> {
        if let Some(job) = self.job {
            // Looked at before the log is: what happens in between is found there.
            let has_ended = self.api.handlers.seen_by(&self.principal).has_ended(job).await?;
            if let Some(batch) = self.reader.ready().await? {
                return Ok(Some(frame(&batch)));
            }
            if has_ended {
                return Ok(None);
            }
        }
        tokio::select! {
            batch = self.reader.next() => Ok(Some(frame(&batch?))),
            () = self.api.closing.cancelled() => Ok(None),
            () = tokio::time::sleep(self.api.config.heartbeat) => {
                Ok(Some(Bytes::from(format!("id: {}\n: alive\n\n", self.reader.position()))))
            }
        }
    }
}

fn frame(batch: &Batch) -> Bytes {
    let mut text = String::with_capacity(256 * (batch.events.len() + 1));
    let mut put = |id: u64, event: &str, document: serde_json::Result<String>| {
        let document = document.expect("documents have string keys");
        // Writing to a string cannot fail. Our JSON contains no line breaks, but a payload may.
        let _ = write!(text, "id: {id}\nevent: {event}\n");
        for line in document.split(['\n', '\r']) {
            let _ = writeln!(text, "data: {line}");
        }
        text.push('\n');
    };
    if let Some((after, up_to)) = batch.gap {
        put(up_to, "gap", serde_json::to_string(&Gap::new(after, up_to)));
    }
    for event in &batch.events {
        put(
            event.seq,
            event.kind.name(),
            serde_json::to_string(&EventLine::from(&**event)),
        );
    }
    text.into()
}

pub(super) async fn subscriptions(State(api): State<Api>, call: Call) -> Result<Response, Problem> {
    let principal = call.principal(&api, Permission::Read).await?;
    let all = api.handlers.seen_by(&principal).subscriptions().await?;
    Ok(ok(&Subscriptions {
        subscriptions: all.iter().map(SubscriptionLine::from).collect(),
    }))
}

pub(super) async fn put_subscription(State(api): State<Api>, call: Call) -> Result<Response, Problem> {
    let principal = call.principal(&api, Permission::Enqueue).await?;
    let name = call.part("name").to_owned();
    let body = call.json_if_any(&api).await?;
    let form: NewSubscription = parse_if_any(&body)?;
    let seen = api.handlers.seen_by(&principal);
    let kinds = form.kinds.unwrap_or_default().into_iter();
    let filter = EventFilter {
        kinds: kinds.map(EventKind::from).collect(),
        ..seen.event_filter(None, form.queue.as_deref())?
    };
    let after = form.after.map(|after| after.0);
    let made = seen.put_subscription(name, filter, after).await?;
    Ok(ok(&SubscriptionLine::from(&made)))
}

pub(super) async fn ack_subscription(State(api): State<Api>, call: Call) -> Result<Response, Problem> {
    let principal = call.principal(&api, Permission::Enqueue).await?;
    let name = call.part("name").to_owned();
    let body = call.json(&api).await?;
    let Cursor { cursor } = parse(&body)?;
    let cursor = api.handlers.seen_by(&principal).advance(&name, cursor.0).await?;
    Ok(ok(&Cursor {
        cursor: Number(cursor),
    }))
}

pub(super) async fn delete_subscription(State(api): State<Api>, call: Call) -> Result<Response, Problem> {
    let principal = call.principal(&api, Permission::Enqueue).await?;
    let name = call.part("name").to_owned();
    api.handlers.seen_by(&principal).unsubscribe(&name).await?;
    Ok(StatusCode::NO_CONTENT.into_response())
}
