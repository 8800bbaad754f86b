//! Leases given back and extended together, waiting for several jobs, and the server's version.

use std::time::Duration;

use axum::http::HeaderMap;
use nagaya_jobs::job::check_lease;
use nagaya_jobs::request::{Extension, Release, Released};
use nagaya_jobs::service::WaitFor;

use super::convert;
use super::unary::{check_batch, joined, lease, split};
use crate::api::Api;
use crate::auth::Permission;
use crate::handlers::{Awaited, Lost, is_done};
use crate::problem::Problem;
use crate::proto::{
    self, ExtendBatchRequest, ExtendBatchResponse, ExtendRequest, ExtendResponse, GetVersionRequest,
    GetVersionResponse, LostLease, ReleaseBatchRequest, ReleaseBatchResponse, ReleaseRequest,
    ReleaseResponse, WaitRequest, WaitResponse, extend_batch_response, release_batch_response, wait_response,
};
use crate::rest::VERSION;

impl From<Released> for ReleaseResponse {
    fn from(released: Released) -> ReleaseResponse {
        let (state, run_at_ms) = match released {
            Released::Waiting => (proto::State::Waiting, None),
            Released::Scheduled { at_ms } => (proto::State::Scheduled, Some(at_ms)),
        };
        ReleaseResponse {
            state: state.into(),
            run_at_ms,
        }
    }
}

impl From<Lost> for LostLease {
    fn from(lost: Lost) -> LostLease {
        LostLease {
            token: lost.token,
            id: lost.id.map_or(0, |id| id.get()),
            reason: lost.why.name().into(),
        }
    }
}

impl From<Awaited> for wait_response::Job {
    fn from(job: Awaited) -> wait_response::Job {
        let state = job.state.map(convert::state_message).unwrap_or_default();
        wait_response::Job {
            id: job.id.get(),
            state: state.into(),
            result: job.result.as_ref().map(convert::body_message),
            error: job.error.unwrap_or_default(),
            left_out: job.is_left_out,
        }
    }
}

fn extension(api: &Api, message: &ExtendRequest) -> Result<Extension, Problem> {
    let length = convert::span(message.timeout_ms);
    length.map_or(Ok(()), |length| check_lease("timeout", length))?;
    Ok(Extension {
        lease: lease(api, &message.token)?,
        length,
    })
}

pub(super) async fn extend_batch(
    api: &Api,
    headers: &HeaderMap,
    message: ExtendBatchRequest,
) -> Result<ExtendBatchResponse, Problem> {
    use extend_batch_response::{Item, item::Outcome};
    api.auth.principal(headers, Permission::Work).await?;
    check_batch(api, message.leases.len())?;
    let (extensions, refused) = split(message.leases.iter().map(|lease| extension(api, lease)));
    let answers = api.handlers.extend_many(extensions).await?;
    let items = joined(refused, answers).into_iter().map(|outcome| Item {
        outcome: Some(match outcome {
            Ok(lease_expires_at_ms) => Outcome::Done(ExtendResponse { lease_expires_at_ms }),
            Err(problem) => Outcome::Problem(problem.into()),
        }),
    });
    Ok(ExtendBatchResponse {
        leases: items.collect(),
    })
}

fn read_release(api: &Api, message: &ReleaseRequest) -> Result<Release, Problem> {
    Ok(Release {
        lease: lease(api, &message.token)?,
        delay: Duration::from_millis(message.delay_ms),
    })
}

pub(super) async fn release(
    api: &Api,
    headers: &HeaderMap,
    message: ReleaseRequest,
) -> Result<ReleaseResponse, Problem> {
    api.auth.principal(headers, Permission::Work).await?;
    released(api, message).await
}

pub(super) async fn released(api: &Api, message: ReleaseRequest) -> Result<ReleaseResponse, Problem> {
    let release = read_release(api, &message)?;
    Ok(api.handlers.release(release).await?.into())
}

pub(super) async fn release_batch(
    api: &Api,
    headers: &HeaderMap,
    message: ReleaseBatchRequest,
) -> Result<ReleaseBatchResponse, Problem> {
    use release_batch_response::{Item, item::Outcome};
    api.auth.principal(headers, Permission::Work).await?;
    check_batch(api, message.leases.len())?;
    let (releases, refused) = split(message.leases.iter().map(|lease| read_release(api, lease)));
    let answers = api.handlers.release_many(releases).await?;
    let items = joined(refused, answers).into_iter().map(|outcome| Item {
        outcome: Some(match outcome {
            Ok(released) => Outcome::Done(released.into()),
            Err(problem) => Outcome::Problem(problem.into()),
        }),
    });
    Ok(ReleaseBatchResponse {
        leases: items.collect(),
    })
}

pub(super) async fn wait(
    api: &Api,
    headers: &HeaderMap,
    message: WaitRequest,
) -> Result<WaitResponse, Problem> {
    let principal = api.auth.principal(headers, Permission::Read).await?;
    let ids = message.ids.iter().map(|id| convert::job_id(*id));
    let ids = ids.collect::<Result<Vec<_>, _>>()?;
    let until = if message.any { WaitFor::Any } else { WaitFor::All };
    let wait = Duration::from_millis(message.wait_ms).min(api.config.wait_max);
    let seen = api.handlers.seen_by(&principal);
    let awaited = seen.awaited(&ids).await?;
    // Those that are gone count as ended.
    let is_met = until == WaitFor::Any && awaited.len() < ids.len();
    if !wait.is_zero() && !is_met {
        let ended = seen.wait_for_ends(&awaited, until, wait);
        tokio::select! {
            result = api.while_valid(&principal, ended) => result?,
            () = api.closing.cancelled() => (),
        }
    }
    let jobs = seen.stand(&ids, message.results).await?;
    Ok(WaitResponse {
        done: is_done(&jobs, until),
        jobs: jobs.into_iter().map(Into::into).collect(),
    })
}

pub(super) async fn get_version(
    api: &Api,
    headers: &HeaderMap,
    _message: GetVersionRequest,
) -> Result<GetVersionResponse, Problem> {
    api.auth.principal(headers, Permission::Any).await?;
    Ok(GetVersionResponse {
        version: VERSION.into(),
    })
}
