//! `GET /v1/ids` and `/v1/ids/ranges`, and katsubushi's `/id`, `/ids` and `/stats`.
//!
//! Ids are made by GET as in katsubushi. Answers are marked as not to be stored, because an id from a
//! cache is a duplicate.

use std::ops::RangeInclusive;

use axum::extract::rejection::QueryRejection;
use axum::extract::{Query, State};
use axum::http::{HeaderMap, HeaderValue, header};
use axum::response::{IntoResponse, Response};
use axum::routing::get;
use axum::{Json, Router};
use nagaya_ids::spelling::Spelling;
use serde::Deserialize;
use serde_json::{Value, json};

use crate::problem::Problem;
use crate::{IDS_MAX, IdsApi};

/// Our own interface: `GET /v1/ids?n=&format=` with n from 1 to 1000, 1 unless given, and `GET /v1/ids/ranges?n=` for
/// clients that keep ids in stock.
///
/// JSON unless only text is accepted: `ids` as strings, because JavaScript rounds numbers of
/// this size, and the same as `numbers`. Text is one id per line, or a range's first id and length.
pub fn router(api: IdsApi) -> Router {
    Router::new()
        .route("/v1/ids", get(ids))
        .route("/v1/ids/ranges", get(ranges))
        .with_state(api)
}

/// katsubushi's interface: `/id`, `/ids?n=` with n from 0 to 1000, `/stats`. Text unless JSON
/// is accepted. Where it crashes (a negative n) or says nothing, the answer is a problem
/// document.
pub fn katsubushi_router(api: IdsApi) -> Router {
    Router::new()
        .route("/id", get(katsubushi_id))
        .route("/ids", get(katsubushi_ids))
        .route("/stats", get(katsubushi_stats))
        .with_state(api)
}

#[derive(Debug, Deserialize)]
struct Params {
    n: Option<String>,
    format: Option<String>,
}

type ParamsResult = Result<Query<Params>, QueryRejection>;

async fn ids(
    State(api): State<IdsApi>,
    params: ParamsResult,
    headers: HeaderMap,
) -> Result<Response, Problem> {
    let params = read(params)?;
    let spelling = spelling(&params)?;
    let ids = api.fetch(count(&params, 1..=IDS_MAX)?).await?;
    let layout = api.mint.layout();
    let texts = spelling.write(&ids, layout);
    if wants_text(&headers) {
        return Ok(text(texts.join("\n") + "\n"));
    }
    let worker = ids.first().and_then(|id| layout.decode(*id));
    let worker = worker.map(|parts| parts.worker);
    Ok(document(json!({"ids": texts, "numbers": ids, "worker": worker})))
}

async fn ranges(
    State(api): State<IdsApi>,
    params: ParamsResult,
    headers: HeaderMap,
) -> Result<Response, Problem> {
    let params = read(params)?;
    if params.format.is_some() {
        return Err(Problem::bad_request("ranges are of numbers and have no format"));
    }
    let ranges = api
        .fetch_ranges(count(&params, 1..=api.mint.ranges_max())?)
        .await?;
    if wants_text(&headers) {
        let lines = ranges.iter().map(|(first, count)| format!("{first} {count}\n"));
        return Ok(text(lines.collect()));
    }
    let ranges = ranges.iter().map(|(first, count)| {
        let parts = api.mint.layout().decode(*first);
        // Another number may have been leased meanwhile.
        let worker = parts.map(|parts| parts.worker);
        json!({"first": first.to_string(), "count": count, "worker": worker})
    });
    Ok(document(json!({"ranges": ranges.collect::<Vec<_>>()})))
}

async fn katsubushi_id(State(api): State<IdsApi>, headers: HeaderMap) -> Result<Response, Problem> {
    let ids = api.fetch(1).await?;
    if accepts(&headers, "application/json") {
        return Ok(document(json!({"id": ids[0].to_string()})));
    }
    Ok(text(lines(&ids)))
}

async fn katsubushi_ids(
    State(api): State<IdsApi>,
    params: ParamsResult,
    headers: HeaderMap,
) -> Result<Response, Problem> {
    let ids = api.fetch(count(&read(params)?, 0..=IDS_MAX)?).await?;
    if accepts(&headers, "application/json") {
        let strings: Vec<String> = ids.iter().map(u64::to_string).collect();
        return Ok(document(json!({"ids": strings})));
    }
    Ok(text(lines(&ids)))
}

async fn katsubushi_stats(State(api): State<IdsApi>) -> Response {
    let stats = api.stats.snapshot(&api.mint);
    let (worker, fence) = stats.worker.unzip();
    document(json!({
        "pid": stats.pid,
        "uptime": stats.uptime,
        "time": stats.time,
        "version": stats.version,
        "curr_connections": stats.curr_connections,
        "total_connections": stats.total_connections,
        "cmd_get": stats.cmd_get,
        "get_hits": stats.get_hits,
        "get_misses": stats.get_misses,
        "rejected_connections": stats.rejected_connections,
        "clock_behind_ms": stats.clock_behind_ms,
        "worker_id": worker,
        "fence": fence,
    }))
}

fn read(params: ParamsResult) -> Result<Params, Problem> {
    let Query(params) = params.map_err(|rejection| Problem::bad_request(rejection.body_text()))?;
    Ok(params)
}

/// Returns the parameter `n`; 1 when it is missing or empty.
fn count(params: &Params, allowed: RangeInclusive<u64>) -> Result<u64, Problem> {
    let Some(text) = params.n.as_deref().filter(|text| !text.is_empty()) else {
        return Ok(1);
    };
    let count = text.parse().ok().filter(|count| allowed.contains(count));
    count.ok_or_else(|| {
        let (min, max) = allowed.into_inner();
        Problem::bad_request(format!("n must be a number from {min} to {max}, not {text:?}"))
    })
}

fn spelling(params: &Params) -> Result<Spelling, Problem> {
    let Some(text) = params.format.as_deref() else {
        return Ok(Spelling::default());
    };
    Spelling::parse(text)
        .ok_or_else(|| Problem::bad_request(format!("format must be {}, not {text:?}", Spelling::NAMES)))
}

fn wants_text(headers: &HeaderMap) -> bool {
    accepts(headers, "text/plain") && !accepts(headers, "application/json")
}

fn accepts(headers: &HeaderMap, media_type: &str) -> bool {
    let mut accepted = headers.get_all(header::ACCEPT).iter();
    accepted.any(|value| value.to_str().is_ok_and(|value| value.contains(media_type)))
}

fn lines(ids: &[u64]) -> String {
    let lines: Vec<String> = ids.iter().map(u64::to_string).collect();
    lines.join("\n")
}

fn text(body: String) -> Response {
    unstored(([(header::CONTENT_TYPE, "text/plain; charset=utf-8")], body).into_response())
}

fn document(value: Value) -> Response {
    unstored(Json(value).into_response())
}

fn unstored(mut response: Response) -> Response {
    let value = HeaderValue::from_static("no-store");
    response.headers_mut().insert(header::CACHE_CONTROL, value);
    response
}
