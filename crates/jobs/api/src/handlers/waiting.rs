//! Waiting for several jobs.

use std::time::Duration;

use nagaya_jobs::job::Body;
use nagaya_jobs::service::WaitFor;
use nagaya_jobs::{JobId, State};

use super::Seen;
use crate::problem::Problem;

/// Jobs that one call may wait for.
pub(crate) const WAITED_MAX: usize = 256;
/// Jobs that are read at once: each may have a large payload.
const READ_AT_ONCE: usize = 16;
/// Bytes of results in one answer.
const RESULT_BYTES_MAX: usize = 16 << 20;

/// How one of the jobs stands that were waited for.
#[derive(Clone, Debug)]
pub(crate) struct Awaited {
    pub(crate) id: JobId,
    /// `None` when there is no such job.
    pub(crate) state: Option<State>,
    pub(crate) result: Option<Body>,
    pub(crate) error: Option<String>,
    /// The result was too much for one answer.
    pub(crate) is_left_out: bool,
}

impl Seen<'_> {
    /// Validates the jobs to wait for, and returns those of them that the caller sees.
    pub(crate) async fn awaited(&self, ids: &[JobId]) -> Result<Vec<JobId>, Problem> {
        if !(1..=WAITED_MAX).contains(&ids.len()) {
            return Err(Problem::bad_request("ids must be 1 to 256 jobs"));
        }
        let mut seen = Vec::with_capacity(ids.len());
        for part in ids.chunks(READ_AT_ONCE) {
            seen.extend(self.read_seen(part).await?.iter().map(|job| job.summary.id));
        }
        Ok(seen)
    }

    /// Waits until one or all of the jobs have ended, or until the wait is over.
    pub(crate) async fn wait_for_ends(
        &self,
        seen: &[JobId],
        until: WaitFor,
        wait: Duration,
    ) -> Result<(), Problem> {
        if seen.is_empty() {
            return Ok(());
        }
        let jobs = &self.handlers.jobs;
        Ok(jobs.wait_until_ended(seen, until, wait).await.map(drop)?)
    }

    /// Reads how jobs stand, in the order in which they were asked for.
    pub(crate) async fn stand(&self, ids: &[JobId], has_results: bool) -> Result<Vec<Awaited>, Problem> {
        let mut all = Vec::with_capacity(ids.len());
        let mut bytes_left = RESULT_BYTES_MAX;
        for part in ids.chunks(READ_AT_ONCE) {
            let jobs = self.read_seen(part).await?;
            for id in part {
                let job = jobs.iter().find(|job| job.summary.id == *id);
                let mut awaited = Awaited {
                    id: *id,
                    state: job.map(|job| job.summary.state),
                    result: None,
                    error: None,
                    is_left_out: false,
                };
                if let Some(job) = job.filter(|_| has_results) {
                    let bytes = job.result.as_ref().map_or(0, |result| result.bytes.len())
                        + job.summary.error.as_ref().map_or(0, String::len);
                    if bytes <= bytes_left {
                        bytes_left -= bytes;
                        awaited.result = job.result.clone();
                        awaited.error = job.summary.error.clone();
                    } else {
                        awaited.is_left_out = true;
                    }
                }
                all.push(awaited);
            }
        }
        Ok(all)
    }
}

/// Returns whether what was waited for has come. A job that is gone counts as ended.
pub(crate) fn is_done(jobs: &[Awaited], until: WaitFor) -> bool {
    let has_ended = |job: &Awaited| job.state.is_none_or(State::has_ended);
    match until {
        WaitFor::Any => jobs.iter().any(has_ended),
        WaitFor::All => jobs.iter().all(has_ended),
    }
}
