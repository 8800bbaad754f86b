//! Jobs: register, read, list, cancel, retry.

use std::time::Duration;

use axum::extract::State;
use axum::http::StatusCode;
use axum::response::Response;
use nagaya_jobs::limits::PAGE_MAX;
use nagaya_jobs::request::CancelRequest;
use nagaya_jobs::view::JobFilter;
use nagaya_jobs::{Error, JobId, QueueName, State as JobState};
use serde::Deserialize;

use super::search;
use crate::api::Api;
use crate::auth::{Permission, Principal};
use crate::call::{Call, answer, ok, parse, parse_if_any};
use crate::cursor;
use crate::problem::Problem;
use crate::traced;
use crate::wire::job::{Cancel, Changed, Job, JobPage, Line, Lines, ManyChanged, ManyFilter, Summary};
use crate::wire::new_job::{
    NewJob, NewJobs, Registered, RegisteredJobs, RegisteredOrProblem, State as StateName,
};
use crate::wire::scalar::{Number, Time, parse_wait};

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
    principal.check_queue(&job.queue)?;
    let registered = Registered::from(api.handlers.enqueue(job).await?);
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
    let mut outcomes = api.handlers.enqueue_many(jobs).await?;
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
    if !wait.is_zero() {
        seen(&api, &principal, id).await?;
        tokio::select! {
            result = api.handlers.wait_for_end(id, wait.min(api.config.wait_max)) => result?,
            () = api.closing.cancelled() => (),
        }
    }
    let found = api.handlers.read(id).await?;
    let found = found.filter(|(job, _)| may_see(&principal, job));
    let (job, why) = found.ok_or_else(|| Error::no_such("job", id))?;
    Ok(ok(&Job::of(&job, why.as_ref())))
}

fn may_see(principal: &Principal, job: &nagaya_jobs::view::JobView) -> bool {
    principal.sees(&job.summary.tenant) && principal.may_use(&job.summary.queue)
}

/// Checks that a job exists and that the caller may see it.
pub(crate) async fn seen(api: &Api, principal: &Principal, id: JobId) -> Result<(), Problem> {
    let job = api.handlers.store().read(vec![id]).await?.pop().flatten();
    if job.is_some_and(|job| may_see(principal, &job)) {
        Ok(())
    } else {
        Err(Error::no_such("job", id).into())
    }
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
    let filter = JobFilter {
        tenant: principal.seeing(query.tenant.as_deref())?,
        queue: readable_queue(&principal, query.queue.as_deref())?,
        states: states.collect::<Result<_, _>>()?,
        kind: query.kind,
        tag: query.tag,
        since_ms: time("since", query.since)?,
        before_ms: time("before", query.before)?,
    };
    let limit = page_limit(query.limit, PAGE_DEFAULT)?;
    let before = query.cursor.as_deref().map(cursor::read).transpose()?;
    let words = query.search.as_deref();
    let page = search::page(&**api.handlers.store(), filter, words, before, limit).await?;
    Ok(ok(&JobPage {
        jobs: page.items.iter().map(Summary::from).collect(),
        next_cursor: page.next.map(cursor::write),
    }))
}

pub(crate) fn page_limit(asked: Option<usize>, default: usize) -> Result<usize, Problem> {
    match asked.unwrap_or(default) {
        limit @ 1..=PAGE_MAX => Ok(limit),
        _ => Err(Problem::bad_request("limit must lie between 1 and 1000")),
    }
}

/// Returns the queue that a reader asks for. A token bound to queues must name one of them.
pub(crate) fn readable_queue(
    principal: &Principal,
    name: Option<&str>,
) -> Result<Option<QueueName>, Problem> {
    let Some(name) = name else {
        principal.check_all_queues()?;
        return Ok(None);
    };
    let queue = QueueName::new(name)?;
    principal.check_queue(&queue)?;
    Ok(Some(queue))
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
    seen(&api, &principal, id).await?;
    let lines = api.handlers.store().log_lines(id, after, limit).await?;
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
    seen(&api, &principal, id).await?;
    let was = cancel_one(&api, id, reason).await?;
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

pub(crate) async fn cancel_one(api: &Api, id: JobId, reason: Option<String>) -> Result<JobState, Problem> {
    let answers = api
        .handlers
        .store()
        .cancel(vec![CancelRequest { id, reason }])
        .await?;
    first(answers)
}

pub(super) async fn retry(State(api): State<Api>, call: Call) -> Result<Response, Problem> {
    let principal = call.principal(&api, Permission::Enqueue).await?;
    let id = call.id()?;
    call.json_if_any(&api).await?;
    seen(&api, &principal, id).await?;
    retry_one(&api, id).await?;
    Ok(ok(&Changed {
        id: Number(id),
        state: StateName::Waiting,
        was: None,
    }))
}

pub(crate) async fn retry_one(api: &Api, id: JobId) -> Result<(), Problem> {
    first(api.handlers.store().retry(vec![id]).await?)
}

fn first<T>(answers: Vec<Result<T, Error>>) -> Result<T, Problem> {
    let answer = answers.into_iter().next();
    Ok(answer.ok_or_else(|| Error::Failed("the store gave no answer".into()))??)
}

pub(super) async fn retry_many(State(api): State<Api>, call: Call) -> Result<Response, Problem> {
    let principal = call.principal(&api, Permission::Enqueue).await?;
    let body = call.json(&api).await?;
    let form: ManyFilter = parse(&body)?;
    check_reason(form.reason.as_deref())?;
    let ended = [JobState::Failed, JobState::Cancelled];
    let (ids, next_cursor) = matching(&api, &principal, &form, &ended).await?;
    let answers = api.handlers.store().retry(ids).await?;
    count(answers, next_cursor)
}

pub(super) async fn cancel_many(State(api): State<Api>, call: Call) -> Result<Response, Problem> {
    let principal = call.principal(&api, Permission::Enqueue).await?;
    let body = call.json(&api).await?;
    let form: ManyFilter = parse(&body)?;
    check_reason(form.reason.as_deref())?;
    let open = [JobState::Scheduled, JobState::Waiting, JobState::Running];
    let (ids, next_cursor) = matching(&api, &principal, &form, &open).await?;
    let requests = ids.into_iter().map(|id| CancelRequest {
        id,
        reason: form.reason.clone(),
    });
    let answers = api.handlers.store().cancel(requests.collect()).await?;
    count(answers, next_cursor)
}

/// Reads one page of the jobs that match a filter.
async fn matching(
    api: &Api,
    principal: &Principal,
    form: &ManyFilter,
    usual: &[JobState],
) -> Result<(Vec<JobId>, Option<String>), Problem> {
    let says_something = form.queue.is_some()
        || form.states.is_some()
        || form.kind.is_some()
        || form.tag.is_some()
        || form.search.is_some()
        || form.since.is_some()
        || form.before.is_some();
    if !says_something {
        return Err(Problem::bad_request("the filter must say at least one thing"));
    }
    let filter = JobFilter {
        tenant: principal.seeing(form.tenant.as_deref())?,
        queue: readable_queue(principal, form.queue.as_deref())?,
        states: match &form.states {
            Some(states) => states.iter().map(|state| (*state).into()).collect(),
            None => usual.to_vec(),
        },
        kind: form.kind.clone(),
        tag: form.tag.clone(),
        since_ms: form.since.map(|time| time.0),
        before_ms: form.before.map(|time| time.0),
    };
    let limit = page_limit(form.limit, PAGE_MAX)?;
    let before = form.cursor.as_deref().map(cursor::read).transpose()?;
    let words = form.search.as_deref();
    let page = search::page(&**api.handlers.store(), filter, words, before, limit).await?;
    let ids = page.items.iter().map(|job| job.id).collect();
    Ok((ids, page.next.map(cursor::write)))
}

fn count<T>(answers: Vec<Result<T, Error>>, next_cursor: Option<String>) -> Result<Response, Problem> {
    let (mut changed, mut refused) = (0, 0);
    for answer in answers {
        match answer {
            Ok(_) => changed += 1,
            Err(Error::WrongState { .. } | Error::NotFound { .. }) => refused += 1,
            Err(error) => return Err(error.into()),
        }
    }
    Ok(ok(&ManyChanged {
        changed,
        refused,
        next_cursor,
    }))
}
