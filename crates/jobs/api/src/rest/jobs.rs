//! Jobs: register, read, list, cancel, retry.

use std::time::Duration;

use axum::extract::State;
use axum::http::StatusCode;
use axum::response::{IntoResponse, Response};
use nagaya_jobs::State as JobState;
use nagaya_jobs::limits::PAGE_MAX;
use nagaya_jobs::service::WaitFor;
use nagaya_jobs::view::JobFilter;
use serde::Deserialize;

use crate::api::Api;
use crate::auth::Permission;
use crate::call::{Call, answer, ok, parse, parse_if_any};
use crate::cursor;
use crate::handlers::{is_done, page_limit};
use crate::problem::Problem;
use crate::traced;
use crate::wire::change::EditJob;
use crate::wire::job::{Cancel, Changed, Job, JobPage, Line, Lines, Summary};
use crate::wire::new_job::{
    NewJob, NewJobs, Registered, RegisteredJobs, RegisteredOrProblem, State as StateName,
};
use crate::wire::scalar::{Number, Time, parse_wait};
use crate::wire::wait::{Wait, WaitedJob, WaitedJobs};
use crate::wire::work::bounded_wait;

/// Jobs per page by default.
const PAGE_DEFAULT: usize = 100;

pub(super) async fn register(State(api): State<Api>, call: Call) -> Result<Response, Problem> {
    let principal = call.principal(&api, Permission::Enqueue).await?;
    let trace = traced::of_request(call.headers());
    let body = call.json(&api).await?;
    let form: NewJob<'_> = parse(&body)?;
    let tenant = principal.acting_for(form.tenant())?;
    let mut job = form.into_job(tenant, &body)?;
    traced::adopt(&mut job, trace.as_ref());
    let registered = Registered::from(api.handlers.seen_by(&principal).enqueue(job).await?);
    Ok(answer(StatusCode::CREATED, &registered))
}

pub(super) async fn register_many(State(api): State<Api>, call: Call) -> Result<Response, Problem> {
    let principal = call.principal(&api, Permission::Enqueue).await?;
    let trace = traced::of_request(call.headers());
    let body = call.json(&api).await?;
    let forms: NewJobs<'_> = parse(&body)?;
    check_batch(&api, forms.jobs.len())?;
    let mut jobs = Vec::with_capacity(forms.jobs.len());
    for (at, form) in forms.jobs.into_iter().enumerate() {
        let job = principal
            .acting_for(form.tenant())
            .and_then(|tenant| form.into_job(tenant, &body));
        let job = job.and_then(|mut job| {
            traced::adopt(&mut job, trace.as_ref());
            principal.check_queue(&job.queue)?;
            api.handlers.check(&job)?;
            Ok(job)
        });
        jobs.push(job.map_err(|problem| Problem {
            detail: format!("job {at} of the batch: {}", problem.detail),
            ..problem
        })?);
    }
    let mut outcomes = api.handlers.seen_by(&principal).enqueue_many(jobs).await?;
    if outcomes.iter().all(Result::is_err)
        && let Some(Err(error)) = outcomes.pop()
    {
        return Err(error.into());
    }
    let outcomes: Vec<Result<_, Problem>> = outcomes
        .into_iter()
        .map(|outcome| outcome.map_err(Problem::from))
        .collect();
    let jobs = outcomes.iter().map(|outcome| match outcome {
        Ok(enqueued) => RegisteredOrProblem::Registered(Registered::from(enqueued.clone())),
        Err(problem) => RegisteredOrProblem::Problem {
            error: problem.document(),
        },
    });
    Ok(answer(
        StatusCode::CREATED,
        &RegisteredJobs { jobs: jobs.collect() },
    ))
}

pub(super) fn check_batch(api: &Api, length: usize) -> Result<(), Problem> {
    match length {
        0 => Err(Problem::bad_request("jobs must not be empty")),
        length if length > api.config.batch_max => {
            let detail = format!("a batch may have {} jobs at most", api.config.batch_max);
            Err(Problem::bad_request(detail))
        }
        _ => Ok(()),
    }
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct ReadQuery {
    wait: Option<String>,
}

pub(super) async fn read(State(api): State<Api>, call: Call) -> Result<Response, Problem> {
    let principal = call.principal(&api, Permission::Read).await?;
    let id = call.id()?;
    let query: ReadQuery = call.query()?;
    let wait = query.wait.as_deref().map_or(Ok(Duration::ZERO), |text| {
        parse_wait(text).ok_or_else(|| Problem::bad_request("wait must be a length of time like 30s"))
    })?;
    let seen = api.handlers.seen_by(&principal);
    if !wait.is_zero() {
        let ended = seen.wait_for_end(id, wait.min(api.config.wait_max));
        tokio::select! {
            result = api.while_valid(&principal, ended) => result?,
            () = api.closing.cancelled() => (),
        }
    }
    let (job, why) = seen.read(id).await?;
    Ok(ok(&Job::of(&job, why.as_ref())))
}

/// Waits for several jobs.
pub(super) async fn wait(State(api): State<Api>, call: Call) -> Result<Response, Problem> {
    let principal = call.principal(&api, Permission::Read).await?;
    let body = call.json(&api).await?;
    let form: Wait = parse(&body)?;
    let (ids, until) = (form.jobs(), form.until.into());
    let seen = api.handlers.seen_by(&principal);
    let awaited = seen.awaited(&ids).await?;
    // Those that are gone count as ended.
    let is_met = until == WaitFor::Any && awaited.len() < ids.len();
    let wait = bounded_wait(form.wait_seconds, api.config.wait_max);
    if !wait.is_zero() && !is_met {
        let ended = seen.wait_for_ends(&awaited, until, wait);
        tokio::select! {
            result = api.while_valid(&principal, ended) => result?,
            () = api.closing.cancelled() => (),
        }
    }
    let jobs = seen.stand(&ids, form.results).await?;
    Ok(ok(&WaitedJobs {
        done: is_done(&jobs, until),
        jobs: jobs.iter().map(WaitedJob::from).collect(),
    }))
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct ListQuery {
    queue: Option<String>,
    state: Option<String>,
    kind: Option<String>,
    tag: Option<String>,
    since: Option<String>,
    before: Option<String>,
    cursor: Option<String>,
    limit: Option<usize>,
    search: Option<String>,
    tenant: Option<String>,
}

pub(super) async fn list(State(api): State<Api>, call: Call) -> Result<Response, Problem> {
    let principal = call.principal(&api, Permission::Read).await?;
    let query: ListQuery = call.query()?;
    let states = query.state.iter().flat_map(|list| list.split(',')).map(|name| {
        JobState::named(name).ok_or_else(|| Problem::bad_request(format!("there is no state {name:?}")))
    });
    let time = |field: &str, text: Option<String>| match text {
        None => Ok(None),
        Some(text) => Time::parse(&text)
            .map(|time| Some(time.0))
            .ok_or_else(|| Problem::bad_request(format!("{field} must be a time like 2026-11-15T09:00:00Z"))),
    };
    let seen = api.handlers.seen_by(&principal);
    let filter = JobFilter {
        states: states.collect::<Result<_, _>>()?,
        kind: query.kind,
        tag: query.tag,
        since_ms: time("since", query.since)?,
        before_ms: time("before", query.before)?,
        ..seen.filter(query.tenant.as_deref(), query.queue.as_deref())?
    };
    let limit = page_limit(query.limit, PAGE_DEFAULT)?;
    let before = query.cursor.as_deref().map(cursor::read).transpose()?;
    let page = seen.list(filter, query.search.as_deref(), before, limit).await?;
    Ok(ok(&JobPage {
        jobs: page.items.iter().map(Summary::from).collect(),
        next_cursor: page.next.map(cursor::write),
    }))
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct LogQuery {
    after: Option<u64>,
    limit: Option<usize>,
}

pub(super) async fn log_lines(State(api): State<Api>, call: Call) -> Result<Response, Problem> {
    let principal = call.principal(&api, Permission::Read).await?;
    let id = call.id()?;
    let query: LogQuery = call.query()?;
    let limit = page_limit(query.limit, PAGE_MAX)?;
    let after = query.after.unwrap_or(0);
    if i64::try_from(after).is_err() {
        return Err(Problem::bad_request("after is past any line's number"));
    }
    let lines = api
        .handlers
        .seen_by(&principal)
        .log_lines(id, after, limit)
        .await?;
    Ok(ok(&Lines {
        lines: lines.iter().map(Line::from).collect(),
    }))
}

pub(super) async fn cancel(State(api): State<Api>, call: Call) -> Result<Response, Problem> {
    let principal = call.principal(&api, Permission::Enqueue).await?;
    let id = call.id()?;
    let body = call.json_if_any(&api).await?;
    let Cancel { reason } = parse_if_any(&body)?;
    check_reason(reason.as_deref())?;
    let was = api.handlers.seen_by(&principal).cancel(id, reason).await?;
    Ok(ok(&Changed {
        id: Number(id),
        state: StateName::Cancelled,
        was: Some(was.into()),
    }))
}

/// Longest reason of a cancellation, in bytes.
const REASON_BYTES_MAX: usize = 4 << 10;

pub(crate) fn check_reason(reason: Option<&str>) -> Result<(), Problem> {
    if reason.is_none_or(|reason| reason.len() <= REASON_BYTES_MAX) {
        Ok(())
    } else {
        Err(Problem::bad_request("reason may have 4096 bytes"))
    }
}

pub(super) async fn retry(State(api): State<Api>, call: Call) -> Result<Response, Problem> {
    let principal = call.principal(&api, Permission::Enqueue).await?;
    let id = call.id()?;
    call.json_if_any(&api).await?;
    api.handlers.seen_by(&principal).retry(id).await?;
    Ok(ok(&Changed {
        id: Number(id),
        state: StateName::Waiting,
        was: None,
    }))
}

pub(super) async fn edit(State(api): State<Api>, call: Call) -> Result<Response, Problem> {
    let principal = call.principal(&api, Permission::Enqueue).await?;
    let id = call.id()?;
    let body = call.json(&api).await?;
    let form: EditJob<'_> = parse(&body)?;
    let seen = api.handlers.seen_by(&principal);
    seen.edit(form.into_edit(id, &body)?).await?;
    Ok(StatusCode::NO_CONTENT.into_response())
}

pub(super) async fn delete(State(api): State<Api>, call: Call) -> Result<Response, Problem> {
    let principal = call.principal(&api, Permission::Enqueue).await?;
    let id = call.id()?;
    api.handlers.seen_by(&principal).remove(id).await?;
    Ok(StatusCode::NO_CONTENT.into_response())
}
