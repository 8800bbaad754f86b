//! How long jobs of a queue wait and run, computed from the most recently ended ones.

use axum::extract::State;
use axum::response::Response;
use nagaya_jobs::State as JobState;
use nagaya_jobs::view::{JobFilter, JobView};

use crate::api::Api;
use crate::auth::Permission;
use crate::call::{Call, ok};
use crate::problem::Problem;
use crate::wire::queue::{Latency, Spread};

/// Jobs sampled: enough for a 99th percentile, few enough to read within a request.
const SAMPLE: usize = 200;

pub(super) async fn latency(State(api): State<Api>, call: Call) -> Result<Response, Problem> {
    let principal = call.principal(&api, Permission::Read).await?;
    let queue = call.queue()?;
    let seen = api.handlers.seen_by(&principal);
    let filter = JobFilter {
        states: vec![JobState::Succeeded, JobState::Failed],
        ..seen.filter(None, Some(queue.as_str()))?
    };
    let page = seen.list(filter, None, None, SAMPLE).await?;
    let jobs = seen.read_listed(&page.items).await?;
    Ok(ok(&Latency {
        jobs: jobs.len(),
        wait_ms: spread(jobs.iter().filter_map(wait_ms).collect()),
        run_ms: spread(jobs.iter().filter_map(run_ms).collect()),
    }))
}

/// Returns the time from registration to the first start.
fn wait_ms(job: &JobView) -> Option<u64> {
    let first = job.attempts.first()?;
    u64::try_from(first.started_at_ms - job.summary.created_at_ms).ok()
}

/// Returns the duration of the last attempt.
fn run_ms(job: &JobView) -> Option<u64> {
    let last = job.attempts.last()?;
    u64::try_from(last.ended_at_ms? - last.started_at_ms).ok()
}

fn spread(mut values: Vec<u64>) -> Option<Spread> {
    values.sort_unstable();
    let at = |percent: usize| {
        let rank = (values.len() * percent).div_ceil(100).max(1);
        values.get(rank - 1).copied()
    };
    Some(Spread {
        p50: at(50)?,
        p90: at(90)?,
        p99: at(99)?,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn percentiles_are_values_that_were_measured() {
        let of = |values: Vec<u64>| spread(values).map(|one| (one.p50, one.p90, one.p99));
        assert_eq!(of(vec![]), None);
        assert_eq!(of(vec![7]), Some((7, 7, 7)));
        assert_eq!(of((1..=100).rev().collect()), Some((50, 90, 99)));
    }
}
