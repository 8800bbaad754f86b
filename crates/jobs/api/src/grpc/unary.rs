//! The unary equivalents of the REST calls.

use std::time::Duration;

use axum::http::HeaderMap;
use nagaya_jobs::limits::ERROR_BYTES_MAX;
use nagaya_jobs::request::{Completion, Extension, Failure, LogReport, ProgressReport};
use nagaya_jobs::state::FailureTerms;
use nagaya_jobs::token::Lease;
use nagaya_jobs::view::JobFilter;
use nagaya_jobs::{Error, QueueName};

use super::convert;
use crate::api::Api;
use crate::auth::{Permission, Principal};
use crate::cursor;
use crate::handlers::page_limit;
use crate::problem::{Problem, ProblemKind};
use crate::proto::{
    CancelRequest, CancelResponse, ClaimRequest, ClaimResponse, CompleteBatchRequest, CompleteBatchResponse,
    CompleteRequest, CompleteResponse, EnqueueBatchRequest, EnqueueBatchResponse, EnqueueRequest,
    EnqueueResponse, ExtendRequest, ExtendResponse, FailBatchRequest, FailBatchResponse, FailRequest,
    FailResponse, GetRequest, Job, ListQueuesRequest, ListQueuesResponse, ListRequest, ListResponse,
    LogRequest, LogResponse, PauseQueueRequest, PauseQueueResponse, ProgressRequest, ProgressResponse,
    RetryRequest, RetryResponse, complete_batch_response, enqueue_batch_response, fail_batch_response,
};
use crate::rest::{check_reason, cut, log_lines};
use crate::traced;
use crate::wire::new_job::client_queue;
use crate::wire::work::{check_holding, claim_max, progress as checked_progress};

pub(super) async fn enqueue(
    api: &Api,
    headers: &HeaderMap,
    message: EnqueueRequest,
) -> Result<EnqueueResponse, Problem> {
    let principal = api.auth.principal(headers, Permission::Enqueue).await?;
    let mut job = convert::new_job(&principal, message)?;
    traced::adopt(&mut job, traced::of_request(headers).as_ref());
    Ok(api.handlers.seen_by(&principal).enqueue(job).await?.into())
}

pub(super) async fn enqueue_batch(
    api: &Api,
    headers: &HeaderMap,
    message: EnqueueBatchRequest,
) -> Result<EnqueueBatchResponse, Problem> {
    use enqueue_batch_response::{Item, item::Outcome};
    let principal = api.auth.principal(headers, Permission::Enqueue).await?;
    check_batch(api, message.jobs.len())?;
    let trace = traced::of_request(headers);
    let jobs = message.jobs.into_iter().map(|job| {
        let mut job = convert::new_job(&principal, job)?;
        traced::adopt(&mut job, trace.as_ref());
        Ok::<_, Problem>(job)
    });
    let jobs = jobs.collect::<Result<_, _>>()?;
    let outcomes = api
        .handlers
        .seen_by(&principal)
        .enqueue_many(jobs)
        .await?
        .into_iter();
    let items = outcomes.map(|outcome| Item {
        outcome: Some(match outcome {
            Ok(enqueued) => Outcome::Job(enqueued.into()),
            Err(error) => Outcome::Problem(Problem::from(error).into()),
        }),
    });
    Ok(EnqueueBatchResponse {
        jobs: items.collect(),
    })
}

pub(super) fn check_batch(api: &Api, length: usize) -> Result<(), Problem> {
    if length <= api.config.batch_max {
        Ok(())
    } else {
        let detail = format!("a batch may have {} items at most", api.config.batch_max);
        Err(Problem::bad_request(detail))
    }
}

pub(super) async fn claim(
    api: &Api,
    headers: &HeaderMap,
    message: ClaimRequest,
) -> Result<ClaimResponse, Problem> {
    let principal = api.auth.principal(headers, Permission::Work).await?;
    let wait = Duration::from_millis(message.wait_ms).min(api.config.wait_max);
    let request = nagaya_jobs::request::ClaimRequest {
        worker: message.worker,
        queues: queues(&principal, &message.queues)?,
        tenant: principal.seeing(convert::said(message.tenant).as_deref())?,
        max: claim_max(Some(message.max.max(1) as usize))?,
        lease: convert::span(message.timeout_ms),
    };
    check_holding(message.holding.len())?;
    let claim = api.handlers.claim_holding(request, wait, message.holding);
    let (jobs, lost) = api.while_valid(&principal, claim).await?;
    Ok(ClaimResponse {
        jobs: jobs.into_iter().map(convert::claimed).collect(),
        lost: lost.into_iter().map(Into::into).collect(),
    })
}

/// Returns the named queues, if the worker may use them.
pub(super) fn queues(principal: &Principal, names: &[String]) -> Result<Vec<QueueName>, Problem> {
    if !(1..=64).contains(&names.len()) {
        return Err(Problem::bad_request("queues must name 1 to 64 queues"));
    }
    let queue = |name: &String| {
        let queue = client_queue(name)?;
        principal.check_queue(&queue)?;
        Ok(queue)
    };
    names.iter().map(queue).collect()
}

pub(super) fn lease(api: &Api, token: &str) -> Result<Lease, Problem> {
    Ok(api.handlers.lease(token, None)?)
}

pub(super) async fn extend(
    api: &Api,
    headers: &HeaderMap,
    message: ExtendRequest,
) -> Result<ExtendResponse, Problem> {
    api.auth.principal(headers, Permission::Work).await?;
    extended(api, message).await
}

pub(super) async fn extended(api: &Api, message: ExtendRequest) -> Result<ExtendResponse, Problem> {
    let extension = Extension {
        lease: lease(api, &message.token)?,
        length: convert::span(message.timeout_ms),
    };
    Ok(ExtendResponse {
        lease_expires_at_ms: api.handlers.extend(extension).await?,
    })
}

pub(super) async fn progress(
    api: &Api,
    headers: &HeaderMap,
    message: ProgressRequest,
) -> Result<ProgressResponse, Problem> {
    api.auth.principal(headers, Permission::Work).await?;
    progressed(api, message).await
}

pub(super) async fn progressed(api: &Api, message: ProgressRequest) -> Result<ProgressResponse, Problem> {
    let data = convert::said(message.data);
    if data
        .as_ref()
        .is_some_and(|data| serde_json::from_str::<serde::de::IgnoredAny>(data).is_err())
    {
        return Err(Problem::bad_request("data is not JSON"));
    }
    let report = ProgressReport {
        progress: checked_progress(message.progress, convert::said(message.message), data)?,
        lease: lease(api, &message.token)?,
    };
    api.handlers.progress(report).await?;
    Ok(ProgressResponse {})
}

pub(super) async fn log(api: &Api, headers: &HeaderMap, message: LogRequest) -> Result<LogResponse, Problem> {
    api.auth.principal(headers, Permission::Work).await?;
    logged(api, message).await
}

pub(super) async fn logged(api: &Api, message: LogRequest) -> Result<LogResponse, Problem> {
    let report = LogReport {
        lines: log_lines(message.lines)?,
        lease: lease(api, &message.token)?,
    };
    api.handlers.log(report).await?;
    Ok(LogResponse {})
}

pub(super) async fn complete(
    api: &Api,
    headers: &HeaderMap,
    message: CompleteRequest,
) -> Result<CompleteResponse, Problem> {
    api.auth.principal(headers, Permission::Work).await?;
    completed(api, message).await
}

pub(super) async fn completed(api: &Api, message: CompleteRequest) -> Result<CompleteResponse, Problem> {
    let report = completion(api, message)?;
    Ok(api.handlers.complete(report).await?.into())
}

fn completion(api: &Api, message: CompleteRequest) -> Result<Completion, Problem> {
    let result = convert::body(message.result, "result")?;
    api.handlers.check_result(result.as_ref())?;
    let lease = lease(api, &message.token)?;
    Ok(Completion { lease, result })
}

pub(super) async fn complete_batch(
    api: &Api,
    headers: &HeaderMap,
    message: CompleteBatchRequest,
) -> Result<CompleteBatchResponse, Problem> {
    use complete_batch_response::{Item, item::Outcome};
    api.auth.principal(headers, Permission::Work).await?;
    check_batch(api, message.reports.len())?;
    let read = message.reports.into_iter().map(|report| completion(api, report));
    let (reports, refused) = split(read);
    let answers = api.handlers.complete_many(reports).await?;
    let items = joined(refused, answers).into_iter().map(|outcome| Item {
        outcome: Some(match outcome {
            Ok(completed) => Outcome::Done(completed.into()),
            Err(problem) => Outcome::Problem(problem.into()),
        }),
    });
    Ok(CompleteBatchResponse {
        reports: items.collect(),
    })
}

pub(super) async fn fail(
    api: &Api,
    headers: &HeaderMap,
    message: FailRequest,
) -> Result<FailResponse, Problem> {
    api.auth.principal(headers, Permission::Work).await?;
    failed(api, message).await
}

pub(super) async fn failed(api: &Api, message: FailRequest) -> Result<FailResponse, Problem> {
    let report = failure(api, message)?;
    Ok(api.handlers.fail(report).await?.into())
}

fn failure(api: &Api, message: FailRequest) -> Result<Failure, Problem> {
    Ok(Failure {
        lease: lease(api, &message.token)?,
        error: cut(message.error, ERROR_BYTES_MAX),
        terms: FailureTerms {
            permanent: message.permanent,
            retry_after: convert::span(message.retry_after_ms),
        },
    })
}

pub(super) async fn fail_batch(
    api: &Api,
    headers: &HeaderMap,
    message: FailBatchRequest,
) -> Result<FailBatchResponse, Problem> {
    use fail_batch_response::{Item, item::Outcome};
    api.auth.principal(headers, Permission::Work).await?;
    check_batch(api, message.reports.len())?;
    let read = message.reports.into_iter().map(|report| failure(api, report));
    let (reports, refused) = split(read);
    let answers = api.handlers.fail_many(reports).await?;
    let outcomes = joined(refused, answers);
    let items = outcomes.into_iter().map(|outcome| Item {
        outcome: Some(match outcome {
            Ok(failed) => Outcome::Done(failed.into()),
            Err(problem) => Outcome::Problem(problem.into()),
        }),
    });
    Ok(FailBatchResponse {
        reports: items.collect(),
    })
}

/// Takes the reports that can be read, and the problems of the others, each in its place.
pub(super) fn split<R>(read: impl Iterator<Item = Result<R, Problem>>) -> (Vec<R>, Vec<Option<Problem>>) {
    let mut reports = Vec::new();
    let refused = read.map(|report| match report {
        Ok(report) => {
            reports.push(report);
            None
        }
        Err(problem) => Some(problem),
    });
    let refused = refused.collect();
    (reports, refused)
}

/// Merges the store's answers with the problems of unreadable reports, in the order of the request.
pub(super) fn joined<T>(
    refused: Vec<Option<Problem>>,
    answers: Vec<Result<T, Error>>,
) -> Vec<Result<T, Problem>> {
    let mut answers = answers.into_iter();
    let outcome = |refused: Option<Problem>| match refused {
        Some(problem) => Err(problem),
        None => match answers.next() {
            Some(answer) => answer.map_err(Problem::from),
            None => Err(Problem::new(ProblemKind::Internal, "the store gave no answer")),
        },
    };
    refused.into_iter().map(outcome).collect()
}

pub(super) async fn get(api: &Api, headers: &HeaderMap, message: GetRequest) -> Result<Job, Problem> {
    let principal = api.auth.principal(headers, Permission::Read).await?;
    let id = convert::job_id(message.id)?;
    let seen = api.handlers.seen_by(&principal);
    if message.wait_ms > 0 {
        let wait = Duration::from_millis(message.wait_ms).min(api.config.wait_max);
        tokio::select! {
            result = api.while_valid(&principal, seen.wait_for_end(id, wait)) => result?,
            () = api.closing.cancelled() => (),
        }
    }
    let (job, why) = seen.read(id).await?;
    Ok(convert::job(job, why))
}

pub(super) async fn list(
    api: &Api,
    headers: &HeaderMap,
    message: ListRequest,
) -> Result<ListResponse, Problem> {
    let principal = api.auth.principal(headers, Permission::Read).await?;
    let seen = api.handlers.seen_by(&principal);
    let (tenant, queue) = (convert::said(message.tenant), convert::said(message.queue));
    let filter = JobFilter {
        states: message
            .states
            .into_iter()
            .map(convert::state)
            .collect::<Result<_, _>>()?,
        kind: convert::said(message.kind),
        tag: convert::said(message.tag),
        ..seen.filter(tenant.as_deref(), queue.as_deref())?
    };
    let limit = Some(message.limit as usize).filter(|limit| *limit > 0);
    let limit = page_limit(limit, 100)?;
    let before = convert::said(message.cursor)
        .map(|text| cursor::read(&text))
        .transpose()?;
    let page = seen.list(filter, None, before, limit).await?;
    Ok(ListResponse {
        jobs: page.items.into_iter().map(convert::summary).collect(),
        next_cursor: page.next.map(cursor::write).unwrap_or_default(),
    })
}

pub(super) async fn cancel(
    api: &Api,
    headers: &HeaderMap,
    message: CancelRequest,
) -> Result<CancelResponse, Problem> {
    let principal = api.auth.principal(headers, Permission::Enqueue).await?;
    let id = convert::job_id(message.id)?;
    check_reason(Some(&message.reason))?;
    let seen = api.handlers.seen_by(&principal);
    let was = seen.cancel(id, convert::said(message.reason)).await?;
    Ok(CancelResponse {
        was: convert::state_message(was).into(),
    })
}

pub(super) async fn retry(
    api: &Api,
    headers: &HeaderMap,
    message: RetryRequest,
) -> Result<RetryResponse, Problem> {
    let principal = api.auth.principal(headers, Permission::Enqueue).await?;
    let id = convert::job_id(message.id)?;
    api.handlers.seen_by(&principal).retry(id).await?;
    Ok(RetryResponse {})
}

pub(super) async fn list_queues(
    api: &Api,
    headers: &HeaderMap,
    _message: ListQueuesRequest,
) -> Result<ListQueuesResponse, Problem> {
    let principal = api.auth.principal(headers, Permission::Read).await?;
    let queues = api.handlers.seen_by(&principal).queues().await?;
    Ok(ListQueuesResponse {
        queues: queues.iter().map(convert::queue).collect(),
    })
}

pub(super) async fn pause_queue(
    api: &Api,
    headers: &HeaderMap,
    message: PauseQueueRequest,
) -> Result<PauseQueueResponse, Problem> {
    let principal = api.auth.principal(headers, Permission::Admin).await?;
    let queue = QueueName::new(&message.queue)?;
    let seen = api.handlers.seen_by(&principal);
    seen.set_paused(queue, message.paused).await?;
    Ok(PauseQueueResponse {})
}
