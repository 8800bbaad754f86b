//! Queues and schedules.

use axum::extract::State;
use axum::http::StatusCode;
use axum::response::{IntoResponse, Response};
use nagaya_jobs::queue::QueueSettings;
use serde::Deserialize;

use crate::api::Api;
use crate::auth::Permission;
use crate::call::{Call, answer, ok, parse};
use crate::problem::Problem;
use crate::wire::new_job::Registered;
use crate::wire::queue::{Queue, Queues, Settings};
use crate::wire::schedule::{NewSchedule, ScheduleLine, Schedules};

pub(super) async fn queues(State(api): State<Api>, call: Call) -> Result<Response, Problem> {
    let principal = call.principal(&api, Permission::Read).await?;
    let queues = api.handlers.seen_by(&principal).queues().await?;
    Ok(ok(&Queues {
        queues: queues.iter().map(Queue::from).collect(),
    }))
}

pub(super) async fn queue(State(api): State<Api>, call: Call) -> Result<Response, Problem> {
    let principal = call.principal(&api, Permission::Read).await?;
    let queue = api.handlers.seen_by(&principal).queue(call.queue()?).await?;
    Ok(ok(&Queue::from(&queue)))
}

pub(super) async fn put_queue(State(api): State<Api>, call: Call) -> Result<Response, Problem> {
    let principal = call.principal(&api, Permission::Admin).await?;
    let name = call.queue()?;
    let body = call.json(&api).await?;
    let form: Settings = parse(&body)?;
    let seen = api.handlers.seen_by(&principal);
    let queue = seen.put_queue(name, QueueSettings::from(form)).await?;
    Ok(ok(&Queue::from(&queue)))
}

pub(super) async fn patch_queue(State(api): State<Api>, call: Call) -> Result<Response, Problem> {
    let principal = call.principal(&api, Permission::Admin).await?;
    let name = call.queue()?;
    let body = call.json(&api).await?;
    let form: Settings = parse(&body)?;
    let seen = api.handlers.seen_by(&principal);
    let queue = seen.change_queue(name, |settings| form.apply(settings)).await?;
    Ok(ok(&Queue::from(&queue)))
}

pub(super) async fn delete_queue(State(api): State<Api>, call: Call) -> Result<Response, Problem> {
    let principal = call.principal(&api, Permission::Admin).await?;
    api.handlers
        .seen_by(&principal)
        .delete_queue(call.queue()?)
        .await?;
    Ok(StatusCode::NO_CONTENT.into_response())
}

pub(super) async fn pause(State(api): State<Api>, call: Call) -> Result<Response, Problem> {
    set_paused(&api, call, true).await
}

pub(super) async fn resume(State(api): State<Api>, call: Call) -> Result<Response, Problem> {
    set_paused(&api, call, false).await
}

async fn set_paused(api: &Api, call: Call, paused: bool) -> Result<Response, Problem> {
    let principal = call.principal(api, Permission::Admin).await?;
    let name = call.queue()?;
    call.json_if_any(api).await?;
    api.handlers.seen_by(&principal).set_paused(name, paused).await?;
    Ok(StatusCode::NO_CONTENT.into_response())
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct TenantQuery {
    tenant: Option<String>,
}

pub(super) async fn schedules(State(api): State<Api>, call: Call) -> Result<Response, Problem> {
    let principal = call.principal(&api, Permission::Read).await?;
    let query: TenantQuery = call.query()?;
    let seen = api.handlers.seen_by(&principal);
    let schedules = seen.schedules(query.tenant.as_deref()).await?;
    Ok(ok(&Schedules {
        schedules: schedules.iter().map(ScheduleLine::from).collect(),
    }))
}

pub(super) async fn schedule(State(api): State<Api>, call: Call) -> Result<Response, Problem> {
    let principal = call.principal(&api, Permission::Read).await?;
    let query: TenantQuery = call.query()?;
    let seen = api.handlers.seen_by(&principal);
    let found = seen.schedule(query.tenant.as_deref(), call.part("name")).await?;
    Ok(ok(&ScheduleLine::from(&found)))
}

pub(super) async fn put_schedule(State(api): State<Api>, call: Call) -> Result<Response, Problem> {
    let principal = call.principal(&api, Permission::Enqueue).await?;
    let name = call.part("name").to_owned();
    let body = call.json(&api).await?;
    let form: NewSchedule<'_> = parse(&body)?;
    let tenant = principal.acting_for(form.tenant())?;
    let schedule = form.into_schedule(name, tenant, &body)?;
    let view = api.handlers.seen_by(&principal).put_schedule(schedule).await?;
    Ok(ok(&ScheduleLine::from(&view)))
}

pub(super) async fn delete_schedule(State(api): State<Api>, call: Call) -> Result<Response, Problem> {
    let principal = call.principal(&api, Permission::Enqueue).await?;
    let query: TenantQuery = call.query()?;
    let seen = api.handlers.seen_by(&principal);
    seen.delete_schedule(query.tenant.as_deref(), call.part("name"))
        .await?;
    Ok(StatusCode::NO_CONTENT.into_response())
}

pub(super) async fn run_schedule(State(api): State<Api>, call: Call) -> Result<Response, Problem> {
    let principal = call.principal(&api, Permission::Enqueue).await?;
    let query: TenantQuery = call.query()?;
    let name = call.part("name").to_owned();
    call.json_if_any(&api).await?;
    let seen = api.handlers.seen_by(&principal);
    let made = seen.run_schedule(query.tenant.as_deref(), &name).await?;
    Ok(answer(StatusCode::CREATED, &Registered::from(made)))
}
