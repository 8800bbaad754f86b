//! Queues and schedules.

use axum::extract::State;
use axum::http::StatusCode;
use axum::response::{IntoResponse, Response};
use nagaya_jobs::Error;
use nagaya_jobs::queue::QueueSettings;
use serde::Deserialize;

use crate::api::Api;
use crate::auth::Permission;
use crate::call::{Call, ok, parse};
use crate::problem::Problem;
use crate::wire::queue::{Queue, Queues, Settings};
use crate::wire::schedule::{NewSchedule, ScheduleLine, Schedules};

pub(super) async fn queues(State(api): State<Api>, call: Call) -> Result<Response, Problem> {
    let principal = call.principal(&api, Permission::Read).await?;
    let queues = api.handlers.store().queues().await?;
    let queues = queues.iter().filter(|queue| principal.may_use(&queue.name));
    Ok(ok(&Queues {
        queues: queues.map(Queue::from).collect(),
    }))
}

pub(super) async fn queue(State(api): State<Api>, call: Call) -> Result<Response, Problem> {
    let principal = call.principal(&api, Permission::Read).await?;
    let name = call.queue()?;
    principal.check_queue(&name)?;
    let queue = api.handlers.store().queue(name.clone()).await?;
    let queue = queue.ok_or_else(|| Error::no_such("queue", &name))?;
    Ok(ok(&Queue::from(&queue)))
}

pub(super) async fn put_queue(State(api): State<Api>, call: Call) -> Result<Response, Problem> {
    call.principal(&api, Permission::Admin).await?;
    let name = call.queue()?;
    let body = call.json(&api).await?;
    let form: Settings = parse(&body)?;
    api.handlers
        .put_queue(name.clone(), QueueSettings::from(form))
        .await?;
    let queue = api.handlers.store().queue(name.clone()).await?;
    let queue = queue.ok_or_else(|| Error::no_such("queue", &name))?;
    Ok(ok(&Queue::from(&queue)))
}

pub(super) async fn pause(State(api): State<Api>, call: Call) -> Result<Response, Problem> {
    set_paused(&api, call, true).await
}

pub(super) async fn resume(State(api): State<Api>, call: Call) -> Result<Response, Problem> {
    set_paused(&api, call, false).await
}

async fn set_paused(api: &Api, call: Call, paused: bool) -> Result<Response, Problem> {
    call.principal(api, Permission::Admin).await?;
    let name = call.queue()?;
    call.json_if_any(api).await?;
    api.handlers.store().set_paused(name, paused).await?;
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
    let tenant = principal.seeing(query.tenant.as_deref())?;
    let schedules = api.handlers.store().schedules(tenant).await?;
    let schedules = schedules
        .iter()
        .filter(|one| principal.may_use(&one.schedule.template.queue));
    Ok(ok(&Schedules {
        schedules: schedules.map(ScheduleLine::from).collect(),
    }))
}

pub(super) async fn schedule(State(api): State<Api>, call: Call) -> Result<Response, Problem> {
    let principal = call.principal(&api, Permission::Read).await?;
    let query: TenantQuery = call.query()?;
    let tenant = principal.acting_for(query.tenant.as_deref())?;
    let name = call.part("name");
    let schedules = api.handlers.store().schedules(Some(tenant)).await?;
    let found = schedules.iter().find(|one| one.schedule.name == name);
    let found = found.filter(|one| principal.may_use(&one.schedule.template.queue));
    let found = found.ok_or_else(|| Error::no_such("schedule", name))?;
    Ok(ok(&ScheduleLine::from(found)))
}

pub(super) async fn put_schedule(State(api): State<Api>, call: Call) -> Result<Response, Problem> {
    let principal = call.principal(&api, Permission::Enqueue).await?;
    let name = call.part("name").to_owned();
    let body = call.json(&api).await?;
    let form: NewSchedule<'_> = parse(&body)?;
    let tenant = principal.acting_for(form.tenant())?;
    let schedule = form.into_schedule(name, tenant, &body)?;
    principal.check_queue(&schedule.template.queue)?;
    let view = api.handlers.put_schedule(schedule).await?;
    Ok(ok(&ScheduleLine::from(&view)))
}

pub(super) async fn delete_schedule(State(api): State<Api>, call: Call) -> Result<Response, Problem> {
    let principal = call.principal(&api, Permission::Enqueue).await?;
    let query: TenantQuery = call.query()?;
    let tenant = principal.acting_for(query.tenant.as_deref())?;
    let name = call.part("name").to_owned();
    if api.handlers.store().delete_schedule(tenant, name.clone()).await? {
        Ok(StatusCode::NO_CONTENT.into_response())
    } else {
        Err(Error::no_such("schedule", name).into())
    }
}
