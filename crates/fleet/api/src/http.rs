//! The HTTP handlers.

use std::time::Duration;

use axum::body::Bytes;
use axum::extract::rejection::QueryRejection;
use axum::extract::{Query, State};
use axum::http::{HeaderMap, StatusCode};
use axum::response::{IntoResponse, Response};
use axum::routing::{get, post};
use axum::{Json, Router};
use nagaya_fleet::ask::ask as ask_workers;
use nagaya_fleet::commands::{Policy, confirm_in, events_in, relocate_all_in};
use nagaya_fleet::name::{InstanceName, WorkerId};
use nagaya_fleet::plan::SeedRules;
use nagaya_fleet::status::Status;
use serde::Deserialize;
use serde::de::DeserializeOwned;
use serde_json::{Value, json};

use crate::FleetApi;
use crate::problem::Problem;
use crate::webhook::WEBHOOK_PATH;

/// Events per reply: the maximum and the default.
const EVENTS_MAX: usize = 10_000;
const EVENTS_DEFAULT: usize = 100;
/// How long a question may stay open: the maximum and the default.
const ASK_MAX: Duration = Duration::from_secs(300);
const ASK_DEFAULT: Duration = Duration::from_secs(30);

type Answer = Result<Json<Value>, Problem>;

/// Builds the routes under `/v1/fleet`.
pub fn router(api: FleetApi) -> Router {
    Router::new()
        .route("/v1/fleet", get(list))
        .route("/v1/fleet/plan", get(plan))
        .route("/v1/fleet/events", get(events))
        .route("/v1/fleet/relocate", post(relocate))
        .route("/v1/fleet/drain", post(drain))
        .route("/v1/fleet/ask", post(ask))
        .route("/v1/fleet/confirm", post(confirm))
        .route(WEBHOOK_PATH, post(webhook))
        .with_state(api)
}

async fn list(State(api): State<FleetApi>) -> Answer {
    let mut list = Status::new(api.store.snapshot(None).await?).to_json();
    let manager = api.manager.status().borrow().clone();
    let held = manager.held.as_ref();
    list["app"] = api.store.app().as_str().into();
    list["manager"] = json!({
        "is_first_manager": manager.is_first_manager,
        "unplaced": manager.unplaced,
        "syncs": manager.syncs,
        "sync_failures": manager.sync_failures,
        "left_out": manager.left_out,
        "health": {
            "starting": manager.health.starting, "healthy": manager.health.healthy,
            "failing": manager.health.failing, "quarantined": manager.health.quarantined,
        },
        "cordoned": manager.cordoned.iter().map(|name| name.as_str()).collect::<Vec<_>>(),
        "held": held.map(|held| json!({"digest": held.digest, "stops": held.stops, "of": held.of})),
        "bounds": api.bounds.to_string(),
    });
    Ok(Json(list))
}

async fn plan(State(api): State<FleetApi>) -> Answer {
    let status = Status::new(api.store.snapshot(None).await?);
    Ok(Json(status.plan(api.rebalance).to_json()))
}

#[derive(Debug, Deserialize)]
struct EventParams {
    after: Option<String>,
    count: Option<usize>,
}

async fn events(State(api): State<FleetApi>, params: Result<Query<EventParams>, QueryRejection>) -> Answer {
    let Query(params) = params.map_err(|rejection| Problem::bad_request(rejection.body_text()))?;
    let count = params.count.unwrap_or(EVENTS_DEFAULT).clamp(1, EVENTS_MAX);
    if let Some(after) = params.after.as_deref().filter(|after| !is_event_id(after)) {
        return Err(Problem::bad_request(format!(
            "after must be the id of an event, such as 1700000000000-0, not {after:?}"
        )));
    }
    let events = events_in(&api.store, params.after.as_deref(), count).await?;
    Ok(Json(json!({"events": events})))
}

fn is_event_id(text: &str) -> bool {
    let number =
        |text: &str| !text.is_empty() && text.len() <= 20 && text.bytes().all(|byte| byte.is_ascii_digit());
    text.split_once('-')
        .is_some_and(|(ms, sequence)| number(ms) && number(sequence))
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct Relocate {
    worker: Option<String>,
    #[serde(default)]
    force: bool,
    #[serde(default)]
    all: bool,
    policy: Option<PolicyName>,
}

#[derive(Debug, Deserialize)]
#[serde(rename_all = "kebab-case")]
enum PolicyName {
    Even,
    Seed,
    SeedCode,
}

async fn relocate(State(api): State<FleetApi>, body: Bytes) -> Answer {
    let asked: Relocate = read(&body)?;
    match (asked.worker, asked.all) {
        (Some(worker), false) => {
            let worker = worker_id(&worker)?;
            let to = api.store.relocate(&worker, asked.force).await?;
            Ok(Json(json!({"worker": worker.as_str(), "to": to.as_str()})))
        }
        (None, true) => {
            let policy = match asked.policy {
                None | Some(PolicyName::Even) => Policy::Even,
                Some(PolicyName::Seed) => Policy::Seed(SeedRules::Document),
                Some(PolicyName::SeedCode) => Policy::Seed(SeedRules::Code),
            };
            let moves = relocate_all_in(&api.store, policy).await?;
            Ok(Json(json!({"moves": moves})))
        }
        _ => Err(Problem::bad_request("name a worker, or say \"all\": true")),
    }
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct Drain {
    instance: String,
    #[serde(default)]
    off: bool,
}

async fn drain(State(api): State<FleetApi>, body: Bytes) -> Answer {
    let asked: Drain = read(&body)?;
    let name = InstanceName::new(&asked.instance).map_err(|error| Problem::bad_request(error.to_string()))?;
    let workers = api.store.drain(&name, !asked.off).await?;
    Ok(Json(
        json!({"instance": name.as_str(), "draining": !asked.off, "workers": workers}),
    ))
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct Ask {
    key: String,
    worker: Option<String>,
    timeout_ms: Option<u64>,
}

async fn ask(State(api): State<FleetApi>, body: Bytes) -> Answer {
    let asked: Ask = read(&body)?;
    let worker = asked.worker.as_deref().map(worker_id).transpose()?;
    let limit = asked
        .timeout_ms
        .map_or(ASK_DEFAULT, Duration::from_millis)
        .min(ASK_MAX);
    let answers = ask_workers(&api.store, &asked.key, worker.as_ref(), limit).await?;
    Ok(Json(answers.to_json()))
}

#[derive(Debug, Default, Deserialize)]
#[serde(deny_unknown_fields)]
struct Confirm {
    digest: Option<String>,
}

async fn confirm(State(api): State<FleetApi>, body: Bytes) -> Answer {
    let asked: Confirm = if body.is_empty() {
        Confirm::default()
    } else {
        read(&body)?
    };
    let Some(held) = confirm_in(&api.store, asked.digest.as_deref()).await? else {
        return Err(Problem::new(StatusCode::NOT_FOUND, "nothing that fits is held"));
    };
    // The next list applies what was confirmed.
    api.manager.trigger();
    Ok(Json(
        json!({"confirmed": held.stops, "of": held.of, "digest": held.digest}),
    ))
}

async fn webhook(State(api): State<FleetApi>, headers: HeaderMap, body: Bytes) -> Response {
    if !api.webhook.is_open_to_some() {
        let detail = "webhooks need a secret; set `fleet.webhook_secret` or `http.token`";
        return Problem::new(StatusCode::FORBIDDEN, detail).into_response();
    }
    if !api.webhook.lets_in(&headers, &body) {
        let detail = "this needs `Authorization: Bearer SECRET`, or the body signed in `X-Nagaya-Signature`";
        return Problem::new(StatusCode::UNAUTHORIZED, detail)
            .challenge()
            .into_response();
    }
    api.manager.trigger();
    (StatusCode::ACCEPTED, Json(json!({"reading": true}))).into_response()
}

fn worker_id(text: &str) -> Result<WorkerId, Problem> {
    WorkerId::new(text).map_err(|error| Problem::bad_request(error.to_string()))
}

fn read<T: DeserializeOwned>(body: &[u8]) -> Result<T, Problem> {
    serde_json::from_slice(body)
        .map_err(|error| Problem::bad_request(format!("the body cannot be used: {error}")))
}
