//! Lists and replays deliveries.

use axum::extract::State;
use axum::response::Response;
use base64::Engine;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use bytes::Bytes;
use http::{HeaderMap, Uri};
use nagaya_jobs::delivery::{DeliveryFilter, DeliveryId, DeliveryState, DeliveryView};
use nagaya_jobs::limits::PAGE_MAX;
use nagaya_jobs::{Error, JobId};
use serde::{Deserialize, Serialize};

use super::Api;
use super::auth::{Permission, Principal};
use super::problem::{Problem, Refused};
use super::read::{json, ok, principal, query};

/// Deliveries per page by default.
const PAGE_DEFAULT: usize = 100;
/// Deliveries replayed per call at most.
const REPLAY_MAX: usize = 10_000;

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct ListQuery {
    id: Option<String>,
    job: Option<String>,
    queue: Option<String>,
    state: Option<String>,
    tenant: Option<String>,
    since: Option<String>,
    cursor: Option<String>,
    limit: Option<usize>,
}

pub(super) async fn list(State(api): State<Api>, uri: Uri, headers: HeaderMap) -> Result<Response, Refused> {
    let principal = principal(&api, &headers, Permission::Read).await?;
    let query: ListQuery = query(&uri)?;
    let wanted = Wanted {
        id: query.id,
        job: query.job,
        queue: query.queue,
        state: query.state,
        since: query.since,
        tenant: query.tenant,
    };
    let filter = wanted.filter(&api, &principal).await?;
    let before = query.cursor.as_deref().map(read_cursor).transpose()?;
    let limit = query.limit.unwrap_or(PAGE_DEFAULT);
    if !(1..=PAGE_MAX).contains(&limit) {
        return Err(Problem::bad_request("limit must lie between 1 and 1000").into());
    }
    let page = api.store.deliveries(filter, before, limit).await?;
    Ok(ok(&Page {
        deliveries: page.items.iter().map(Line::from).collect(),
        next_cursor: page.next.map(write_cursor),
    }))
}

/// Selects deliveries, as requested.
#[derive(Debug, Default, Deserialize)]
#[serde(deny_unknown_fields)]
struct Wanted {
    id: Option<String>,
    job: Option<String>,
    queue: Option<String>,
    state: Option<String>,
    since: Option<String>,
    tenant: Option<String>,
}

pub(super) async fn replay(
    State(api): State<Api>,
    headers: HeaderMap,
    body: Bytes,
) -> Result<Response, Refused> {
    let principal = principal(&api, &headers, Permission::Enqueue).await?;
    let mut wanted: Wanted = json(&headers, &body)?;
    let named = [&wanted.id, &wanted.job, &wanted.state];
    let is_named = named.into_iter().any(Option::is_some);
    if !is_named && wanted.queue.is_none() && wanted.since.is_none() {
        let detail = "say which deliveries: at least one of id, job, queue, state and since";
        return Err(Problem::bad_request(detail).into());
    }
    if !is_named {
        // Delivered events are replayed only if requested explicitly.
        wanted.state = Some(DeliveryState::GaveUp.name().to_owned());
    }
    let filter = wanted.filter(&api, &principal).await?;
    let replayed = api.store.replay(filter, REPLAY_MAX).await?;
    Ok(ok(&Replayed {
        replayed,
        more: replayed == REPLAY_MAX,
    }))
}

impl Wanted {
    async fn filter(&self, api: &Api, principal: &Principal) -> Result<DeliveryFilter, Problem> {
        let id = |text: &str| {
            let bad = || Problem::bad_request("id must be the number of a delivery");
            read_id(text).ok_or_else(bad)
        };
        let job: Option<JobId> = self.job.as_deref().map(str::parse).transpose()?;
        let queue = match (job, &self.queue) {
            // The job's queue is looked up, so that a token bound to queues need not name it.
            (Some(job), None) if !principal.queues.is_empty() => {
                let view = api.store.read(vec![job]).await?.into_iter().next().flatten();
                let view = view.filter(|view| principal.sees(&view.summary.tenant, &view.summary.queue));
                let view = view.ok_or_else(|| Error::no_such("job", job))?;
                Some(view.summary.queue.to_string())
            }
            (_, queue) => queue.clone(),
        };
        let state = |name: &str| {
            let bad = || Problem::bad_request("state must be pending, delivered or gave_up");
            DeliveryState::named(name).ok_or_else(bad)
        };
        let time = |text: &str| {
            let bad = |_| Problem::bad_request("since must be a time like 2026-11-15T09:00:00Z");
            text.parse::<jiff::Timestamp>()
                .map(|time| time.as_millisecond())
                .map_err(bad)
        };
        Ok(DeliveryFilter {
            id: self.id.as_deref().map(id).transpose()?,
            tenant: principal.seeing(self.tenant.as_deref())?,
            queue: principal.queue(queue.as_deref())?,
            job,
            state: self.state.as_deref().map(state).transpose()?,
            since_ms: self.since.as_deref().map(time).transpose()?,
        })
    }
}

#[derive(Serialize)]
struct Page {
    deliveries: Vec<Line>,
    #[serde(skip_serializing_if = "Option::is_none")]
    next_cursor: Option<String>,
}

#[derive(Serialize)]
struct Replayed {
    replayed: usize,
    /// One call did not replay all of them: call again.
    more: bool,
}

#[derive(Serialize)]
struct Line {
    id: String,
    job: String,
    queue: String,
    tenant: String,
    event: &'static str,
    seq: String,
    url: String,
    state: &'static str,
    created_at: String,
    tries: Vec<Try>,
    #[serde(skip_serializing_if = "Option::is_none")]
    next_try_at: Option<String>,
}

#[derive(Serialize)]
struct Try {
    number: u32,
    at: String,
    latency_ms: u64,
    #[serde(skip_serializing_if = "Option::is_none")]
    status: Option<u16>,
    #[serde(skip_serializing_if = "Option::is_none")]
    error: Option<String>,
    /// The first bytes of the reply.
    reply: String,
}

impl From<&DeliveryView> for Line {
    fn from(view: &DeliveryView) -> Line {
        let delivery = &view.delivery;
        let tries = view.tries.iter().map(|one| Try {
            number: one.number,
            at: time(one.at_ms),
            latency_ms: u64::try_from(one.latency.as_millis()).unwrap_or(u64::MAX),
            status: one.status,
            error: one.error.clone(),
            reply: String::from_utf8_lossy(&one.reply).into_owned(),
        });
        let is_pending = delivery.state == DeliveryState::Pending;
        Line {
            id: delivery.id.0.to_string(),
            job: delivery.job.to_string(),
            queue: delivery.queue.to_string(),
            tenant: delivery.tenant.to_string(),
            event: delivery.kind.name(),
            seq: delivery.seq.to_string(),
            url: delivery.webhook.url.clone(),
            state: delivery.state.name(),
            created_at: time(delivery.created_at_ms),
            tries: tries.collect(),
            next_try_at: is_pending.then(|| time(delivery.next_try_at_ms)),
        }
    }
}

/// Parses the number of a delivery, which has exactly one form.
fn read_id(text: &str) -> Option<DeliveryId> {
    let is_plain = text.bytes().all(|byte| byte.is_ascii_digit()) && !text.starts_with('0');
    text.parse().ok().filter(|_| is_plain).map(DeliveryId)
}

fn time(ms: i64) -> String {
    jiff::Timestamp::from_millisecond(ms).map_or_else(|_| ms.to_string(), |time| time.to_string())
}

/// Distinguishes cursors of deliveries from those of other listings.
const DELIVERIES: u8 = 2;

fn write_cursor(id: DeliveryId) -> String {
    let mut bytes = [0; 9];
    bytes[0] = DELIVERIES;
    bytes[1..].copy_from_slice(&id.0.to_be_bytes());
    URL_SAFE_NO_PAD.encode(bytes)
}

fn read_cursor(text: &str) -> Result<DeliveryId, Problem> {
    let bytes: Option<[u8; 9]> = URL_SAFE_NO_PAD
        .decode(text)
        .ok()
        .and_then(|bytes| bytes.try_into().ok());
    match bytes {
        Some([DELIVERIES, number @ ..]) => Ok(DeliveryId(i64::from_be_bytes(number))),
        _ => Err(Problem::bad_request(
            "the cursor is none that this server gave out",
        )),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_delivery_has_one_number() {
        assert_eq!(read_id("17"), Some(DeliveryId(17)));
        for bad in ["", "0", "017", "+17", "-1", "1e3", "99999999999999999999"] {
            assert_eq!(read_id(bad), None, "{bad}");
        }
    }

    #[test]
    fn a_cursor_leads_back_to_its_delivery() {
        let id = DeliveryId(1 << 40);
        assert_eq!(read_cursor(&write_cursor(id)).unwrap(), id);
        for bad in ["", "x", "AAAAAAAAAAAA", "é"] {
            assert!(read_cursor(bad).is_err(), "{bad}");
        }
    }
}
