//! Server-sent events, and the subscriptions that store a reader's position.
//!
//! The id of an event is its position in the log, so a browser's `Last-Event-ID` is enough to resume after a
//! disconnect. An idle stream sends keep-alives with its position.

use std::fmt::Write;

use axum::body::Body;
use axum::extract::State;
use axum::http::{HeaderMap, HeaderName, HeaderValue, StatusCode, header};
use axum::response::{IntoResponse, Response};
use bytes::Bytes;
use futures_util::stream;
use nagaya_jobs::Error;
use nagaya_jobs::event::{EventFilter, EventKind, Subscription};
use serde::Deserialize;

use super::jobs::{readable_queue, seen};
use crate::api::Api;
use crate::auth::{Permission, Principal};
use crate::call::{Call, ok, parse, parse_if_any};
use crate::feed::{Batch, Reader};
use crate::handlers::check_name;
use crate::problem::Problem;
use crate::wire::event::{Cursor, EventLine, Gap, NewSubscription, SubscriptionLine, Subscriptions};
use crate::wire::scalar::{Number, parse_position};

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
    let (filter, after) = match query.subscription {
        Some(name) => {
            let found = subscription(&api, &principal, &name).await?;
            (found.filter, after.or(asked).or(Some(found.cursor)))
        }
        None => {
            let filter = EventFilter {
                tenant: principal.seeing(query.tenant.as_deref())?,
                queue: readable_queue(&principal, query.queue.as_deref())?,
                job: None,
                kinds: kinds(query.kind.as_deref())?,
            };
            (filter, after.or(asked))
        }
    };
    let reader = api.handlers.feed().reader(filter, after).await?;
    Ok(event_stream(api, reader))
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct JobEventsQuery {
    after: Option<String>,
}

/// Streams a job's events from the first one, or after those that the reader has seen.
pub(super) async fn job_events(State(api): State<Api>, call: Call) -> Result<Response, Problem> {
    let principal = call.principal(&api, Permission::Read).await?;
    let id = call.id()?;
    let query: JobEventsQuery = call.query()?;
    let after = last_event_id(call.headers())?;
    let after = after.or(position("after", query.after.as_deref())?).unwrap_or(0);
    seen(&api, &principal, id).await?;
    let filter = EventFilter {
        job: Some(id),
        ..EventFilter::default()
    };
    let reader = api.handlers.feed().reader(filter, Some(after)).await?;
    Ok(event_stream(api, reader))
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

fn event_stream(api: Api, reader: Reader) -> Response {
    let opening = stream::iter([Ok::<_, std::convert::Infallible>(Bytes::from_static(
        b"retry: 1000\n\n",
    ))]);
    let frames = stream::unfold((api, reader), |(api, mut reader)| async move {
        let frame = next_frame(&api, &mut reader).await?;
        Some((Ok(frame), (api, reader)))
    });
    let body = Body::from_stream(futures_util::StreamExt::chain(opening, frames));
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

/// Returns the next bytes to send; `None` when the stream ends.
async fn next_frame(api: &Api, reader: &mut Reader) -> Option<Bytes> {
    tokio::select! {
        batch = reader.next() => match batch {
            Ok(batch) => Some(frame(&batch)),
            Err(error) => {
                // The client reconnects with its last id.
                tracing::warn!(%error, "event stream ended by an error");
                None
            }
        },
        () = api.closing.cancelled() => None,
        () = tokio::time::sleep(api.config.heartbeat) => {
            Some(Bytes::from(format!("id: {}\n: alive\n\n", reader.position())))
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

pub(crate) async fn subscription(
    api: &Api,
    principal: &Principal,
    name: &str,
) -> Result<Subscription, Problem> {
    let tenant = principal.acting_for(None)?;
    let all = api.handlers.store().subscriptions(Some(tenant)).await?;
    let found = all.into_iter().find(|one| one.name == name);
    Ok(found.ok_or_else(|| Error::no_such("subscription", name))?)
}

pub(super) async fn subscriptions(State(api): State<Api>, call: Call) -> Result<Response, Problem> {
    let principal = call.principal(&api, Permission::Read).await?;
    let all = api
        .handlers
        .store()
        .subscriptions(principal.seeing(None)?)
        .await?;
    Ok(ok(&Subscriptions {
        subscriptions: all.iter().map(SubscriptionLine::from).collect(),
    }))
}

pub(super) async fn put_subscription(State(api): State<Api>, call: Call) -> Result<Response, Problem> {
    let principal = call.principal(&api, Permission::Read).await?;
    let name = call.part("name").to_owned();
    let body = call.json_if_any(&api).await?;
    let form: NewSubscription = parse_if_any(&body)?;
    let filter = EventFilter {
        tenant: principal.seeing(None)?,
        queue: readable_queue(&principal, form.queue.as_deref())?,
        job: None,
        kinds: form
            .kinds
            .unwrap_or_default()
            .into_iter()
            .map(EventKind::from)
            .collect(),
    };
    let made = subscribe(&api, &principal, name, filter, form.after.map(|after| after.0)).await?;
    Ok(ok(&SubscriptionLine::from(&made)))
}

/// Creates a subscription, or returns the existing one with that name.
pub(crate) async fn subscribe(
    api: &Api,
    principal: &Principal,
    name: String,
    filter: EventFilter,
    after: Option<u64>,
) -> Result<Subscription, Problem> {
    check_name(&name)?;
    let store = api.handlers.store();
    let head = store.log_bounds().await?.head;
    let cursor = after.unwrap_or(head);
    check_position(cursor, head)?;
    Ok(store
        .subscribe(principal.acting_for(None)?, name, filter, cursor)
        .await?)
}

/// Rejects a cursor beyond the end of the log, which would skip events that no reader has seen.
fn check_position(cursor: u64, head: u64) -> Result<(), Problem> {
    if cursor <= head {
        Ok(())
    } else {
        Err(Problem::bad_request(format!(
            "cursor {cursor} is beyond the end of the log, which is {head}"
        )))
    }
}

pub(super) async fn ack_subscription(State(api): State<Api>, call: Call) -> Result<Response, Problem> {
    let principal = call.principal(&api, Permission::Read).await?;
    let name = call.part("name").to_owned();
    let body = call.json(&api).await?;
    let Cursor { cursor } = parse(&body)?;
    subscription(&api, &principal, &name).await?;
    let tenant = principal.acting_for(None)?;
    check_position(cursor.0, api.handlers.store().log_bounds().await?.head)?;
    let cursor = api.handlers.store().advance(tenant, name, cursor.0).await?;
    Ok(ok(&Cursor {
        cursor: Number(cursor),
    }))
}

pub(super) async fn delete_subscription(State(api): State<Api>, call: Call) -> Result<Response, Problem> {
    let principal = call.principal(&api, Permission::Read).await?;
    let name = call.part("name").to_owned();
    let tenant = principal.acting_for(None)?;
    if api.handlers.store().unsubscribe(tenant, name.clone()).await? {
        Ok(StatusCode::NO_CONTENT.into_response())
    } else {
        Err(Error::no_such("subscription", name).into())
    }
}
