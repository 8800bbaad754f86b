//! The calls of workers: claim, report, heartbeat.

use axum::extract::State;
use axum::http::StatusCode;
use axum::response::{IntoResponse, Response};
use nagaya_jobs::JobId;
use nagaya_jobs::limits::ERROR_BYTES_MAX;
use nagaya_jobs::request::{ClaimRequest, Completion, Failure, LogReport, ProgressReport};
use nagaya_jobs::token::Lease;

use super::jobs::check_batch;
use crate::api::Api;
use crate::auth::{Permission, Principal};
use crate::call::{Call, ok, parse};
use crate::problem::Problem;
use crate::wire::lease::LostLease;
use crate::wire::new_job::client_queue;
use crate::wire::work::{
    Claim, ClaimAny, Claimed, ClaimedJobs, Complete, CompleteMany, CompletedJob, Fail, FailMany, FailedJob,
    Log, Progress, ReportOutcome, ReportOutcomes, bounded_wait, check_holding, claim_max,
};

pub(super) async fn claim(State(api): State<Api>, call: Call) -> Result<Response, Problem> {
    let principal = call.principal(&api, Permission::Work).await?;
    let queue = client_queue(call.part("queue"))?;
    principal.check_queue(&queue)?;
    let body = call.json(&api).await?;
    let form: Claim<'_> = parse(&body)?;
    let request = ClaimRequest {
        worker: form.worker.into_owned(),
        queues: vec![queue],
        tenant: principal.seeing(form.tenant.as_deref())?,
        max: claim_max(form.max)?,
        lease: form.timeout_seconds.map(|seconds| seconds.0),
    };
    let wait = bounded_wait(form.wait_seconds, api.config.wait_max);
    given(&api, &principal, request, wait, form.holding).await
}

pub(super) async fn claim_any(State(api): State<Api>, call: Call) -> Result<Response, Problem> {
    let principal = call.principal(&api, Permission::Work).await?;
    let body = call.json(&api).await?;
    let form: ClaimAny<'_> = parse(&body)?;
    if !(1..=64).contains(&form.queues.len()) {
        return Err(Problem::bad_request("queues must name 1 to 64 queues"));
    }
    let mut queues = Vec::with_capacity(form.queues.len());
    for name in &form.queues {
        let queue = client_queue(name)?;
        principal.check_queue(&queue)?;
        queues.push(queue);
    }
    let request = ClaimRequest {
        worker: form.worker.into_owned(),
        queues,
        tenant: principal.seeing(form.tenant.as_deref())?,
        max: claim_max(form.max)?,
        lease: form.timeout_seconds.map(|seconds| seconds.0),
    };
    let wait = bounded_wait(form.wait_seconds, api.config.wait_max);
    given(&api, &principal, request, wait, form.holding).await
}

async fn given(
    api: &Api,
    principal: &Principal,
    request: ClaimRequest,
    wait: std::time::Duration,
    holding: Vec<String>,
) -> Result<Response, Problem> {
    check_holding(holding.len())?;
    let claim = api.handlers.claim_holding(request, wait, holding);
    let (jobs, lost) = api.while_valid(principal, claim).await?;
    Ok(ok(&ClaimedJobs {
        jobs: jobs.iter().map(Claimed::from).collect(),
        lost: lost.into_iter().map(LostLease::from).collect(),
    }))
}

pub(super) async fn complete(State(api): State<Api>, call: Call) -> Result<Response, Problem> {
    call.principal(&api, Permission::Work).await?;
    let id = call.id()?;
    let body = call.json(&api).await?;
    let form: Complete<'_> = parse(&body)?;
    let report = Completion {
        result: form.result(&body)?,
        lease: api.handlers.lease(&form.token, Some(id))?,
    };
    let completed = api.handlers.complete(report).await?;
    Ok(ok(&CompletedJob::of(id, completed)))
}

pub(super) async fn fail(State(api): State<Api>, call: Call) -> Result<Response, Problem> {
    call.principal(&api, Permission::Work).await?;
    let id = call.id()?;
    let body = call.json(&api).await?;
    let form: Fail<'_> = parse(&body)?;
    let report = Failure {
        lease: api.handlers.lease(&form.token, Some(id))?,
        terms: form.terms(),
        error: cut(form.error, ERROR_BYTES_MAX),
    };
    let failed = api.handlers.fail(report).await?;
    Ok(ok(&FailedJob::of(id, failed)))
}

pub(super) async fn complete_many(State(api): State<Api>, call: Call) -> Result<Response, Problem> {
    call.principal(&api, Permission::Work).await?;
    let body = call.json(&api).await?;
    let forms: CompleteMany<'_> = parse(&body)?;
    check_batch(&api, forms.jobs.len())?;
    let mut leases = Vec::with_capacity(forms.jobs.len());
    let mut reports = Vec::with_capacity(forms.jobs.len());
    for form in &forms.jobs {
        let result = form.result(&body)?;
        api.handlers.check_result(result.as_ref())?;
        let lease = api.handlers.lease(&form.token, None).ok();
        leases.push(lease);
        reports.extend(lease.map(|lease| Completion { lease, result }));
    }
    let answers = api.handlers.complete_many(reports).await?;
    let outcomes = answers.into_iter().map(|answer| answer.map_err(Problem::from));
    let outcomes = joined(leases, outcomes.collect());
    let jobs = outcomes.iter().map(|outcome| match outcome {
        Ok((id, completed)) => ReportOutcome::Completed(CompletedJob::of(*id, *completed)),
        Err(problem) => ReportOutcome::Problem {
            error: problem.document(),
        },
    });
    Ok(ok(&ReportOutcomes { jobs: jobs.collect() }))
}

pub(super) async fn fail_many(State(api): State<Api>, call: Call) -> Result<Response, Problem> {
    call.principal(&api, Permission::Work).await?;
    let body = call.json(&api).await?;
    let forms: FailMany<'_> = parse(&body)?;
    check_batch(&api, forms.jobs.len())?;
    let mut leases = Vec::with_capacity(forms.jobs.len());
    let mut reports = Vec::with_capacity(forms.jobs.len());
    for form in forms.jobs {
        let lease = api.handlers.lease(&form.token, None).ok();
        leases.push(lease);
        reports.extend(lease.map(|lease| Failure {
            lease,
            terms: form.terms(),
            error: cut(form.error, ERROR_BYTES_MAX),
        }));
    }
    let answers = api.handlers.fail_many(reports).await?;
    let outcomes = answers.into_iter().map(|answer| answer.map_err(Problem::from));
    let outcomes = joined(leases, outcomes.collect());
    let jobs = outcomes.iter().map(|outcome| match outcome {
        Ok((id, failed)) => ReportOutcome::Failed(FailedJob::of(*id, *failed)),
        Err(problem) => ReportOutcome::Problem {
            error: problem.document(),
        },
    });
    Ok(ok(&ReportOutcomes { jobs: jobs.collect() }))
}

/// Merges the store's answers with the errors for unreadable tokens, in the order of the request.
pub(super) fn joined<T>(
    leases: Vec<Option<Lease>>,
    answers: Vec<Result<T, Problem>>,
) -> Vec<Result<(JobId, T), Problem>> {
    let mut answers = answers.into_iter();
    let outcome = |lease: Option<Lease>| match (lease, lease.and_then(|_| answers.next())) {
        (Some(lease), Some(answer)) => answer.map(|answer| (lease.id, answer)),
        _ => Err(Problem::foreign_token()),
    };
    leases.into_iter().map(outcome).collect()
}

pub(super) async fn progress(State(api): State<Api>, call: Call) -> Result<Response, Problem> {
    call.principal(&api, Permission::Work).await?;
    let id = call.id()?;
    let body = call.json(&api).await?;
    let form: Progress<'_> = parse(&body)?;
    let report = ProgressReport {
        progress: form.progress()?,
        lease: api.handlers.lease(&form.token, Some(id))?,
    };
    api.handlers.progress(report).await?;
    Ok(StatusCode::NO_CONTENT.into_response())
}

pub(super) async fn log(State(api): State<Api>, call: Call) -> Result<Response, Problem> {
    call.principal(&api, Permission::Work).await?;
    let id = call.id()?;
    let body = call.json(&api).await?;
    let form: Log<'_> = parse(&body)?;
    let lines = log_lines(form.lines)?;
    let report = LogReport {
        lease: api.handlers.lease(&form.token, Some(id))?,
        lines,
    };
    api.handlers.log(report).await?;
    Ok(StatusCode::NO_CONTENT.into_response())
}

/// Validates and truncates log lines.
pub(crate) fn log_lines(lines: Vec<String>) -> Result<Vec<String>, Problem> {
    use nagaya_jobs::limits::{LOG_LINE_BYTES_MAX, LOG_LINES_MAX};
    match lines.len() as u64 {
        1..=LOG_LINES_MAX => Ok(lines
            .into_iter()
            .map(|line| cut(line, LOG_LINE_BYTES_MAX))
            .collect()),
        _ => Err(Problem::bad_request("lines must be 1 to 1000")),
    }
}

/// Truncates a text at a character boundary.
pub(crate) fn cut(mut text: String, bytes_max: usize) -> String {
    text.truncate(text.floor_char_boundary(bytes_max));
    text
}
