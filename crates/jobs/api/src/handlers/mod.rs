//! The operations that REST and gRPC share: single-item calls on the batch service, with validation.

mod change;
mod leases;
mod search;
mod seen;
mod waiting;

use std::sync::Arc;
use std::time::Duration;

use nagaya_jobs::job::{Body, check_lease};
use nagaya_jobs::limits::KEY_BYTES_MAX;
use nagaya_jobs::request::{ClaimRequest, Completed, Completion, Failed, Failure, LogReport, ProgressReport};
use nagaya_jobs::service::{Claimed, Jobs};
use nagaya_jobs::store::JobStore;
use nagaya_jobs::token::Lease;
use nagaya_jobs::{Error, JobId, NewJob, QueueName};
use tracing::Instrument;

pub(crate) use leases::Lost;
pub(crate) use seen::{Seen, page_limit};
pub(crate) use waiting::{Awaited, is_done};

use crate::feed::Feed;
use crate::traced::Attempts;

/// Outcomes of attempts, in their spans.
const SUCCEEDED: &str = "succeeded";
const FAILED: &str = "failed";

/// The service, and the feed of its events.
pub(crate) struct JobsHandlers {
    jobs: Jobs,
    feed: Feed,
    attempts: Attempts,
}

impl JobsHandlers {
    pub(crate) fn new(jobs: Jobs) -> JobsHandlers {
        let feed = Feed::start(jobs.clone());
        JobsHandlers {
            jobs,
            feed,
            attempts: Attempts::default(),
        }
    }

    /// The store itself. Private: see [`seen`].
    fn store(&self) -> &Arc<dyn JobStore> {
        self.jobs.store()
    }

    /// Validates a registration.
    pub(crate) fn check(&self, job: &NewJob) -> Result<(), Error> {
        job.check(&self.jobs.config().limits)
    }

    /// Claims jobs, waiting for some if there are none. Empty when the wait is over.
    pub(crate) async fn claim(&self, request: ClaimRequest, wait: Duration) -> Result<Vec<Claimed>, Error> {
        check_text("worker", &request.worker)?;
        request
            .lease
            .map_or(Ok(()), |lease| check_lease("timeout", lease))?;
        let worker = request.worker.clone();
        let mut claimed = self.jobs.claim(request, wait).await?;
        for one in &mut claimed {
            self.attempts.begin(one, &worker);
        }
        Ok(claimed)
    }

    /// Parses the token of a report. It must belong to the job, if one is named.
    pub(crate) fn lease(&self, token: &str, id: Option<JobId>) -> Result<Lease, Error> {
        self.jobs.lease(token, id)
    }

    pub(crate) fn check_result(&self, result: Option<&Body>) -> Result<(), Error> {
        let bytes_max = self.jobs.config().limits.result_bytes_max;
        let bytes = result.map_or(0, |result| result.bytes.len());
        if bytes <= bytes_max {
            result.map_or(Ok(()), |result| result.check("result"))
        } else {
            Err(Error::TooLarge {
                what: "result",
                bytes,
                bytes_max,
            })
        }
    }

    pub(crate) async fn complete(&self, report: Completion) -> Result<Completed, Error> {
        let lease = report.lease;
        let span = self.attempts.report(&lease);
        let done = one(self.jobs.complete(vec![report]).instrument(span).await?)?;
        self.attempts.end(&lease, SUCCEEDED);
        Ok(done)
    }

    pub(crate) async fn complete_many(
        &self,
        reports: Vec<Completion>,
    ) -> Result<Vec<Result<Completed, Error>>, Error> {
        let leases: Vec<Lease> = reports.iter().map(|report| report.lease).collect();
        let done = self.jobs.complete(reports).await?;
        self.end_all(&leases, &done, SUCCEEDED);
        Ok(done)
    }

    pub(crate) async fn fail(&self, report: Failure) -> Result<Failed, Error> {
        let lease = report.lease;
        let span = self.attempts.report(&lease);
        let done = one(self.jobs.fail(vec![report]).instrument(span).await?)?;
        self.attempts.end(&lease, FAILED);
        Ok(done)
    }

    fn end_all<T>(&self, leases: &[Lease], done: &[Result<T, Error>], outcome: &'static str) {
        for (lease, _) in leases.iter().zip(done).filter(|(_, done)| done.is_ok()) {
            self.attempts.end(lease, outcome);
        }
    }

    pub(crate) async fn fail_many(&self, reports: Vec<Failure>) -> Result<Vec<Result<Failed, Error>>, Error> {
        let leases: Vec<Lease> = reports.iter().map(|report| report.lease).collect();
        let done = self.jobs.fail(reports).await?;
        self.end_all(&leases, &done, FAILED);
        Ok(done)
    }

    pub(crate) async fn progress(&self, report: ProgressReport) -> Result<(), Error> {
        one(self.jobs.progress(vec![report]).await?)
    }

    pub(crate) async fn log(&self, report: LogReport) -> Result<(), Error> {
        one(self.jobs.log(vec![report]).await?)
    }
}

/// Unwraps the result of a batch of one.
fn one<T>(mut answers: Vec<Result<T, Error>>) -> Result<T, Error> {
    match answers.pop() {
        Some(answer) => answer,
        None => Err(Error::Failed("the store gave no answer".into())),
    }
}

/// Validates a name that is part of a path, such as a queue's.
pub(crate) fn check_name(name: &str) -> Result<(), Error> {
    let why = "must have 1 to 128 letters, digits, '.', '_', '-' or ':', and not only dots";
    QueueName::new(name)
        .map(drop)
        .map_err(|_| Error::invalid("name", why))
}

/// Validates a display name.
pub(crate) fn check_text(field: &'static str, text: &str) -> Result<(), Error> {
    if text.is_empty() || text.len() > KEY_BYTES_MAX {
        return Err(Error::invalid(field, "must have 1 to 256 bytes"));
    }
    if text.chars().any(char::is_control) {
        Err(Error::invalid(field, "must not hold control characters"))
    } else {
        Ok(())
    }
}
