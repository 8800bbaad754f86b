//! Leases: extended and given back, one by one and together.

use axum::extract::State;
use axum::response::Response;
use nagaya_jobs::job::check_lease;
use nagaya_jobs::request::{Extension, Release as ReleaseRequest};

use super::jobs::check_batch;
use super::work::joined;
use crate::api::Api;
use crate::auth::Permission;
use crate::call::{Call, ok, parse};
use crate::problem::Problem;
use crate::wire::lease::{
    Extend, ExtendMany, ExtendOutcome, ExtendOutcomes, Extended, Release, ReleaseMany, ReleaseOutcome,
    ReleaseOutcomes, ReleasedJob,
};
use crate::wire::scalar::{Number, Time};

pub(super) async fn extend(State(api): State<Api>, call: Call) -> Result<Response, Problem> {
    call.principal(&api, Permission::Work).await?;
    let id = call.id()?;
    let body = call.json(&api).await?;
    let form: Extend<'_> = parse(&body)?;
    let extension = Extension {
        lease: api.handlers.lease(&form.token, Some(id))?,
        length: form.timeout_seconds.map(|seconds| seconds.0),
    };
    let until_ms = api.handlers.extend(extension).await?;
    Ok(ok(&Extended {
        id: Number(id),
        lease_expires_at: Time(until_ms),
    }))
}

pub(super) async fn extend_many(State(api): State<Api>, call: Call) -> Result<Response, Problem> {
    call.principal(&api, Permission::Work).await?;
    let body = call.json(&api).await?;
    let forms: ExtendMany<'_> = parse(&body)?;
    check_batch(&api, forms.jobs.len())?;
    let mut leases = Vec::with_capacity(forms.jobs.len());
    let mut extensions = Vec::with_capacity(forms.jobs.len());
    for form in &forms.jobs {
        let length = form.timeout_seconds.map(|seconds| seconds.0);
        length.map_or(Ok(()), |length| check_lease("timeout", length))?;
        let lease = api.handlers.lease(&form.token, None).ok();
        leases.push(lease);
        extensions.extend(lease.map(|lease| Extension { lease, length }));
    }
    let answers = api.handlers.extend_many(extensions).await?;
    let outcomes = answers.into_iter().map(|answer| answer.map_err(Problem::from));
    let outcomes = joined(leases, outcomes.collect());
    let jobs = outcomes.iter().map(|outcome| match outcome {
        Ok((id, until_ms)) => ExtendOutcome::Extended(Extended {
            id: Number(*id),
            lease_expires_at: Time(*until_ms),
        }),
        Err(problem) => ExtendOutcome::Problem {
            error: problem.document(),
        },
    });
    Ok(ok(&ExtendOutcomes { jobs: jobs.collect() }))
}

pub(super) async fn release(State(api): State<Api>, call: Call) -> Result<Response, Problem> {
    call.principal(&api, Permission::Work).await?;
    let id = call.id()?;
    let body = call.json(&api).await?;
    let form: Release<'_> = parse(&body)?;
    let release = ReleaseRequest {
        lease: api.handlers.lease(&form.token, Some(id))?,
        delay: form.delay(),
    };
    let released = api.handlers.release(release).await?;
    Ok(ok(&ReleasedJob::of(id, released)))
}

pub(super) async fn release_many(State(api): State<Api>, call: Call) -> Result<Response, Problem> {
    call.principal(&api, Permission::Work).await?;
    let body = call.json(&api).await?;
    let forms: ReleaseMany<'_> = parse(&body)?;
    check_batch(&api, forms.jobs.len())?;
    let mut leases = Vec::with_capacity(forms.jobs.len());
    let mut releases = Vec::with_capacity(forms.jobs.len());
    for form in &forms.jobs {
        let lease = api.handlers.lease(&form.token, None).ok();
        leases.push(lease);
        releases.extend(lease.map(|lease| ReleaseRequest {
            lease,
            delay: form.delay(),
        }));
    }
    let answers = api.handlers.release_many(releases).await?;
    let outcomes = answers.into_iter().map(|answer| answer.map_err(Problem::from));
    let outcomes = joined(leases, outcomes.collect());
    let jobs = outcomes.iter().map(|outcome| match outcome {
        Ok((id, released)) => ReleaseOutcome::Released(ReleasedJob::of(*id, *released)),
        Err(problem) => ReleaseOutcome::Problem {
            error: problem.document(),
        },
    });
    Ok(ok(&ReleaseOutcomes { jobs: jobs.collect() }))
}
