//! The unary calls of operators: changes by filter, queues, schedules, deliveries.

use axum::http::HeaderMap;
use nagaya_jobs::delivery::{DeliveryFilter, DeliveryId, DeliveryState, DeliveryView};
use nagaya_jobs::limits::PAGE_MAX;
use nagaya_jobs::queue::{EventDetail, Push, QueueSettings, Retention};
use nagaya_jobs::rate::Rate;
use nagaya_jobs::request::Edit;
use nagaya_jobs::schedule::{MISSED_MAX, Missed, Schedule, ScheduleView};
use nagaya_jobs::view::{JobFilter, JobSummary, Page};
use nagaya_jobs::{Error, JobId, QueueName, State};

use super::convert::{self, job_id, ms, said, span};
use crate::api::Api;
use crate::auth::Permission;
use crate::cursor;
use crate::handlers::{Seen, page_limit};
use crate::problem::Problem;
use crate::proto;
use crate::rest::check_reason;
use crate::wire::new_job::client_queue;

/// Deliveries replayed per call at most.
const REPLAY_MAX: usize = 10_000;
/// Deliveries per page by default.
const DELIVERIES_DEFAULT: usize = 100;

pub(super) async fn edit(
    api: &Api,
    headers: &HeaderMap,
    message: proto::EditRequest,
) -> Result<proto::EditResponse, Problem> {
    let principal = api.auth.principal(headers, Permission::Enqueue).await?;
    let priority = message.priority.map(i16::try_from).transpose();
    let edit = Edit {
        id: job_id(message.id)?,
        priority: priority.map_err(|_| Problem::bad_request("priority must lie between -1000 and 1000"))?,
        run_at_ms: message.run_at_ms,
        payload: convert::body(message.payload, "payload")?,
        timeout: span(message.timeout_ms),
        max_retries: message.max_retries,
        queue: convert::said(message.queue)
            .map(|name| client_queue(&name))
            .transpose()?,
    };
    if edit.is_empty() {
        return Err(Problem::bad_request("the change must say at least one thing"));
    }
    api.handlers.seen_by(&principal).edit(edit).await?;
    Ok(proto::EditResponse {})
}

pub(super) async fn delete(
    api: &Api,
    headers: &HeaderMap,
    message: proto::DeleteRequest,
) -> Result<proto::DeleteResponse, Problem> {
    let principal = api.auth.principal(headers, Permission::Enqueue).await?;
    api.handlers
        .seen_by(&principal)
        .remove(job_id(message.id)?)
        .await?;
    Ok(proto::DeleteResponse {})
}

pub(super) async fn cancel_many(
    api: &Api,
    headers: &HeaderMap,
    message: proto::CancelManyRequest,
) -> Result<proto::CancelManyResponse, Problem> {
    let principal = api.auth.principal(headers, Permission::Enqueue).await?;
    check_reason(Some(&message.reason))?;
    let open = [State::Scheduled, State::Waiting, State::Running];
    let seen = api.handlers.seen_by(&principal);
    let page = matching(seen, message.filter, &open, message.cursor, message.limit).await?;
    let reason = said(message.reason);
    let answers = seen.cancel_listed(&page.items, reason.as_deref()).await?;
    let (changed, refused) = count(answers)?;
    Ok(proto::CancelManyResponse {
        changed,
        refused,
        next_cursor: page.next.map(cursor::write).unwrap_or_default(),
    })
}

pub(super) async fn retry_many(
    api: &Api,
    headers: &HeaderMap,
    message: proto::RetryManyRequest,
) -> Result<proto::RetryManyResponse, Problem> {
    let principal = api.auth.principal(headers, Permission::Enqueue).await?;
    let ended = [State::Failed, State::Cancelled];
    let seen = api.handlers.seen_by(&principal);
    let page = matching(seen, message.filter, &ended, message.cursor, message.limit).await?;
    let (changed, refused) = count(seen.retry_listed(&page.items).await?)?;
    Ok(proto::RetryManyResponse {
        changed,
        refused,
        next_cursor: page.next.map(cursor::write).unwrap_or_default(),
    })
}

/// Reads one page of the jobs that match a filter.
async fn matching(
    seen: Seen<'_>,
    message: Option<proto::JobFilter>,
    usual: &[State],
    cursor: String,
    limit: u32,
) -> Result<Page<JobSummary, JobId>, Problem> {
    let message = message.unwrap_or_default();
    let (tenant, queue, words) = (said(message.tenant), said(message.queue), said(message.search));
    let states = message.states.into_iter().map(convert::state);
    let states: Vec<State> = states.collect::<Result<_, _>>()?;
    let is_all = states.is_empty();
    let filter = JobFilter {
        states: if is_all { usual.to_vec() } else { states },
        kind: said(message.kind),
        tag: said(message.tag),
        since_ms: message.since_ms,
        before_ms: message.before_ms,
        ..seen.filter(tenant.as_deref(), queue.as_deref())?
    };
    let says_something = filter.queue.is_some()
        || !is_all
        || filter.kind.is_some()
        || filter.tag.is_some()
        || words.is_some()
        || filter.since_ms.is_some()
        || filter.before_ms.is_some();
    if !says_something {
        return Err(Problem::bad_request("the filter must say at least one thing"));
    }
    let limit = page_limit(Some(limit as usize).filter(|limit| *limit > 0), PAGE_MAX)?;
    let before = said(cursor).map(|text| cursor::read(&text)).transpose()?;
    seen.list(filter, words.as_deref(), before, limit).await
}

/// Counts what was changed, and what had changed by itself meanwhile.
fn count<T>(answers: Vec<Result<T, Error>>) -> Result<(u64, u64), Problem> {
    let (mut changed, mut refused) = (0, 0);
    for answer in answers {
        match answer {
            Ok(_) => changed += 1,
            Err(Error::WrongState { .. } | Error::NotFound { .. }) => refused += 1,
            Err(error) => return Err(error.into()),
        }
    }
    Ok((changed, refused))
}

pub(super) async fn get_queue(
    api: &Api,
    headers: &HeaderMap,
    message: proto::GetQueueRequest,
) -> Result<proto::GetQueueResponse, Problem> {
    let principal = api.auth.principal(headers, Permission::Read).await?;
    let name = QueueName::new(&message.queue)?;
    let queue = api.handlers.seen_by(&principal).queue(name).await?;
    Ok(proto::GetQueueResponse {
        settings: Some(settings_message(&queue.settings)),
        queue: Some(convert::queue(&queue)),
    })
}

pub(super) async fn put_queue(
    api: &Api,
    headers: &HeaderMap,
    message: proto::PutQueueRequest,
) -> Result<proto::PutQueueResponse, Problem> {
    let principal = api.auth.principal(headers, Permission::Admin).await?;
    let name = QueueName::new(&message.queue)?;
    let settings = settings(message.settings.unwrap_or_default())?;
    api.handlers.seen_by(&principal).put_queue(name, settings).await?;
    Ok(proto::PutQueueResponse {})
}

pub(super) async fn delete_queue(
    api: &Api,
    headers: &HeaderMap,
    message: proto::DeleteQueueRequest,
) -> Result<proto::DeleteQueueResponse, Problem> {
    let principal = api.auth.principal(headers, Permission::Admin).await?;
    let name = QueueName::new(&message.queue)?;
    api.handlers.seen_by(&principal).delete_queue(name).await?;
    Ok(proto::DeleteQueueResponse {})
}

fn settings(message: proto::QueueSettings) -> Result<QueueSettings, Problem> {
    let usual = QueueSettings::default();
    Ok(QueueSettings {
        lease: span(message.timeout_ms).unwrap_or(usual.lease),
        max_retries: message.max_retries.unwrap_or(usual.max_retries),
        backoff: convert::backoff(message.backoff).unwrap_or(usual.backoff),
        idempotency_window: span(message.idempotency_window_ms).unwrap_or(usual.idempotency_window),
        retention: Retention {
            succeeded: span(message.retention_succeeded_ms).unwrap_or(usual.retention.succeeded),
            failed: span(message.retention_failed_ms).unwrap_or(usual.retention.failed),
        },
        depth_max: message.depth_max,
        rate: message.rate.map(|rate| Rate {
            jobs: rate.jobs,
            per: std::time::Duration::from_millis(rate.per_ms),
        }),
        events: if message.only_ends {
            EventDetail::Ends
        } else {
            EventDetail::All
        },
        webhook: message.webhook.map(convert::webhook).transpose()?,
        push: message.push.map(|push| Push {
            url: push.url,
            headers: push.headers.into_iter().collect(),
            concurrency: push.concurrency,
        }),
        notify: message.notify,
    })
}

/// What headers say may be a secret, so only their names are shown.
fn settings_message(settings: &QueueSettings) -> proto::QueueSettings {
    let names = |headers: &[(String, String)]| {
        let name = |(name, _): &(String, String)| (name.clone(), String::new());
        headers.iter().map(name).collect()
    };
    proto::QueueSettings {
        timeout_ms: Some(ms(settings.lease)),
        max_retries: Some(settings.max_retries),
        backoff: Some(convert::backoff_message(settings.backoff)),
        idempotency_window_ms: Some(ms(settings.idempotency_window)),
        retention_succeeded_ms: Some(ms(settings.retention.succeeded)),
        retention_failed_ms: Some(ms(settings.retention.failed)),
        depth_max: settings.depth_max,
        rate: settings.rate.map(|rate| proto::Rate {
            jobs: rate.jobs,
            per_ms: ms(rate.per),
        }),
        only_ends: settings.events == EventDetail::Ends,
        webhook: settings.webhook.as_ref().map(|webhook| proto::Webhook {
            url: webhook.url.clone(),
            headers: names(&webhook.headers),
            events: webhook.events.iter().map(|kind| kind.code().into()).collect(),
            cloud_events: webhook.cloud_events,
        }),
        push: settings.push.as_ref().map(|push| proto::Push {
            url: push.url.clone(),
            headers: names(&push.headers),
            concurrency: push.concurrency,
        }),
        notify: settings.notify.clone(),
    }
}

pub(super) async fn list_schedules(
    api: &Api,
    headers: &HeaderMap,
    message: proto::ListSchedulesRequest,
) -> Result<proto::ListSchedulesResponse, Problem> {
    let principal = api.auth.principal(headers, Permission::Read).await?;
    let tenant = said(message.tenant);
    let schedules = api
        .handlers
        .seen_by(&principal)
        .schedules(tenant.as_deref())
        .await?;
    Ok(proto::ListSchedulesResponse {
        schedules: schedules.into_iter().map(schedule_message).collect(),
    })
}

pub(super) async fn put_schedule(
    api: &Api,
    headers: &HeaderMap,
    message: proto::PutScheduleRequest,
) -> Result<proto::PutScheduleResponse, Problem> {
    let principal = api.auth.principal(headers, Permission::Enqueue).await?;
    let template = convert::new_job(&principal, message.job.unwrap_or_default())?;
    if template.idempotency.is_some() {
        let detail = "a schedule's job has no idempotency_key: each run is a job of its own";
        return Err(Problem::bad_request(detail));
    }
    let max = match message.missed_max {
        0 => MISSED_MAX,
        max @ 1..=MISSED_MAX => max,
        _ => return Err(Problem::bad_request("missed_max must lie between 1 and 1000")),
    };
    let missed = match proto::Missed::try_from(message.missed) {
        Ok(proto::Missed::Skip) => Missed::Skip,
        Ok(proto::Missed::Once | proto::Missed::Unspecified) => Missed::Once,
        Ok(proto::Missed::All) => Missed::All { max },
        Err(_) => return Err(Problem::bad_request("there is no such policy for missed runs")),
    };
    let schedule = Schedule {
        tenant: template.tenant.clone(),
        name: message.name,
        cron: message.cron,
        time_zone: said(message.time_zone).unwrap_or_else(|| "UTC".into()),
        missed,
        paused: message.paused,
        template,
    };
    let view = api.handlers.seen_by(&principal).put_schedule(schedule).await?;
    Ok(proto::PutScheduleResponse {
        schedule: Some(schedule_message(view)),
    })
}

pub(super) async fn delete_schedule(
    api: &Api,
    headers: &HeaderMap,
    message: proto::DeleteScheduleRequest,
) -> Result<proto::DeleteScheduleResponse, Problem> {
    let principal = api.auth.principal(headers, Permission::Enqueue).await?;
    let tenant = said(message.tenant);
    let seen = api.handlers.seen_by(&principal);
    seen.delete_schedule(tenant.as_deref(), &message.name).await?;
    Ok(proto::DeleteScheduleResponse {})
}

pub(super) async fn run_schedule(
    api: &Api,
    headers: &HeaderMap,
    message: proto::RunScheduleRequest,
) -> Result<proto::RunScheduleResponse, Problem> {
    let principal = api.auth.principal(headers, Permission::Enqueue).await?;
    let tenant = said(message.tenant);
    let seen = api.handlers.seen_by(&principal);
    let made = seen.run_schedule(tenant.as_deref(), &message.name).await?;
    Ok(proto::RunScheduleResponse {
        job: Some(made.into()),
    })
}

fn schedule_message(view: ScheduleView) -> proto::Schedule {
    let schedule = view.schedule;
    let missed = match schedule.missed {
        Missed::Skip => proto::Missed::Skip,
        Missed::Once => proto::Missed::Once,
        Missed::All { .. } => proto::Missed::All,
    };
    let (refused_at_ms, refused) = view.refused.map(|one| (one.at_ms, one.why)).unzip();
    proto::Schedule {
        name: schedule.name,
        tenant: schedule.tenant.to_string(),
        cron: schedule.cron,
        time_zone: schedule.time_zone,
        missed: missed.into(),
        paused: schedule.paused,
        queue: schedule.template.queue.to_string(),
        payload: Some(convert::body_message(&schedule.template.payload)),
        kind: schedule.template.kind.unwrap_or_default(),
        next_run_at_ms: view.next_run_ms,
        last_run_at_ms: view.last_run_ms,
        refused_at_ms,
        refused: refused.unwrap_or_default(),
    }
}

pub(super) async fn list_deliveries(
    api: &Api,
    headers: &HeaderMap,
    message: proto::ListDeliveriesRequest,
) -> Result<proto::ListDeliveriesResponse, Problem> {
    let principal = api.auth.principal(headers, Permission::Read).await?;
    let filter = DeliveryFilter {
        id: message.id.map(DeliveryId),
        job: message.job.map(job_id).transpose()?,
        state: delivery_state(message.state)?,
        since_ms: message.since_ms,
        ..DeliveryFilter::default()
    };
    let (tenant, queue) = (said(message.tenant), said(message.queue));
    let limit = Some(message.limit as usize).filter(|limit| *limit > 0);
    let limit = page_limit(limit, DELIVERIES_DEFAULT)?;
    let before = message.before.map(DeliveryId);
    let seen = api.handlers.seen_by(&principal);
    let of = (tenant.as_deref(), queue.as_deref());
    let page = seen.deliveries(filter, of, before, limit).await?;
    Ok(proto::ListDeliveriesResponse {
        deliveries: page.items.into_iter().map(delivery_message).collect(),
        next_before: page.next.map(|id| id.0),
    })
}

pub(super) async fn replay_deliveries(
    api: &Api,
    headers: &HeaderMap,
    message: proto::ReplayDeliveriesRequest,
) -> Result<proto::ReplayDeliveriesResponse, Problem> {
    let principal = api.auth.principal(headers, Permission::Enqueue).await?;
    let mut filter = DeliveryFilter {
        id: message.id.map(DeliveryId),
        job: message.job.map(job_id).transpose()?,
        state: delivery_state(message.state)?,
        since_ms: message.since_ms,
        ..DeliveryFilter::default()
    };
    let (tenant, queue) = (said(message.tenant), said(message.queue));
    let is_named = filter.id.is_some() || filter.job.is_some() || filter.state.is_some();
    if !is_named && queue.is_none() && filter.since_ms.is_none() {
        let detail = "say which deliveries: at least one of id, job, queue, state and since_ms";
        return Err(Problem::bad_request(detail));
    }
    if !is_named {
        // Delivered events are replayed only if requested explicitly.
        filter.state = Some(DeliveryState::GaveUp);
    }
    let of = (tenant.as_deref(), queue.as_deref());
    let replayed = api
        .handlers
        .seen_by(&principal)
        .replay(filter, of, REPLAY_MAX)
        .await?;
    Ok(proto::ReplayDeliveriesResponse {
        replayed: replayed as u64,
        more: replayed == REPLAY_MAX,
    })
}

fn delivery_state(number: i32) -> Result<Option<DeliveryState>, Problem> {
    match proto::DeliveryState::try_from(number) {
        Ok(proto::DeliveryState::Unspecified) => Ok(None),
        Ok(proto::DeliveryState::Pending) => Ok(Some(DeliveryState::Pending)),
        Ok(proto::DeliveryState::Delivered) => Ok(Some(DeliveryState::Delivered)),
        Ok(proto::DeliveryState::GaveUp) => Ok(Some(DeliveryState::GaveUp)),
        Err(_) => Err(Problem::bad_request("there is no such state of a delivery")),
    }
}

fn delivery_message(view: DeliveryView) -> proto::Delivery {
    let delivery = view.delivery;
    let state = match delivery.state {
        DeliveryState::Pending => proto::DeliveryState::Pending,
        DeliveryState::Delivered => proto::DeliveryState::Delivered,
        DeliveryState::GaveUp => proto::DeliveryState::GaveUp,
    };
    let is_pending = delivery.state == DeliveryState::Pending;
    let tries = view.tries.into_iter().map(|one| proto::DeliveryTry {
        number: one.number,
        at_ms: one.at_ms,
        latency_ms: ms(one.latency),
        status: one.status.unwrap_or(0).into(),
        error: one.error.unwrap_or_default(),
        reply: one.reply.into(),
    });
    proto::Delivery {
        id: delivery.id.0,
        job: delivery.job.get(),
        queue: delivery.queue.to_string(),
        tenant: delivery.tenant.to_string(),
        event: delivery.kind.code().into(),
        seq: delivery.seq,
        url: delivery.webhook.url,
        state: state.into(),
        created_at_ms: delivery.created_at_ms,
        next_try_at_ms: is_pending.then_some(delivery.next_try_at_ms),
        tries: tries.collect(),
    }
}
