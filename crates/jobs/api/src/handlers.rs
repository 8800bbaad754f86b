//! The operations that REST and gRPC share: single-item calls on the batch service, with validation.

use std::sync::Arc;
use std::time::Duration;

use nagaya_jobs::job::{Body, check_lease};
use nagaya_jobs::limits::KEY_BYTES_MAX;
use nagaya_jobs::queue::QueueSettings;
use nagaya_jobs::request::{
    ClaimRequest, Completed, Completion, Enqueued, Extension, Failed, Failure, LogReport, ProgressReport,
};
use nagaya_jobs::schedule::{Schedule, ScheduleView, Times};
use nagaya_jobs::service::{Claimed, Jobs};
use nagaya_jobs::store::JobStore;
use nagaya_jobs::token::Lease;
use nagaya_jobs::view::{Explanation, JobView};
use nagaya_jobs::{Error, JobId, NewJob, QueueName};
use tracing::Instrument;

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

    pub(crate) fn store(&self) -> &Arc<dyn JobStore> {
        self.jobs.store()
    }

    pub(crate) fn feed(&self) -> &Feed {
        &self.feed
    }

    pub(crate) async fn enqueue(&self, job: NewJob) -> Result<Enqueued, Error> {
        one(self.jobs.enqueue(vec![job]).await?)
    }

    /// Registers jobs; rejects the whole batch if one exceeds the limits.
    pub(crate) async fn enqueue_many(
        &self,
        jobs: Vec<NewJob>,
    ) -> Result<Vec<Result<Enqueued, Error>>, Error> {
        let limits = self.jobs.config().limits;
        jobs.iter().try_for_each(|job| job.check(&limits))?;
        self.jobs.enqueue(jobs).await
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
            Ok(())
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

    /// Extends a lease. Returns when it ends.
    pub(crate) async fn extend(&self, extension: Extension) -> Result<i64, Error> {
        extension
            .length
            .map_or(Ok(()), |length| check_lease("timeout", length))?;
        let (lease, length) = (extension.lease, extension.length);
        let until = one(self.jobs.extend(vec![extension]).await?)?;
        self.attempts.extend(&lease, length);
        Ok(until)
    }

    pub(crate) async fn progress(&self, report: ProgressReport) -> Result<(), Error> {
        one(self.jobs.progress(vec![report]).await?)
    }

    pub(crate) async fn log(&self, report: LogReport) -> Result<(), Error> {
        one(self.jobs.log(vec![report]).await?)
    }

    /// Reads a job, and the explanation of its state.
    pub(crate) async fn read(&self, id: JobId) -> Result<Option<(JobView, Option<Explanation>)>, Error> {
        let Some(job) = self.store().read(vec![id]).await?.pop().flatten() else {
            return Ok(None);
        };
        let explanation = if job.summary.state.has_ended() {
            Some(Explanation::Ended(job.summary.state))
        } else {
            self.store().explain(id).await?
        };
        Ok(Some((job, explanation)))
    }

    /// Waits until a job has ended or no longer exists, or until the wait is over.
    pub(crate) async fn wait_for_end(&self, id: JobId, wait: Duration) -> Result<(), Error> {
        self.jobs.wait_until_ended(id, wait).await.map(drop)
    }

    pub(crate) async fn put_queue(&self, name: QueueName, settings: QueueSettings) -> Result<(), Error> {
        settings.check()?;
        let is_http = |url: &str| url.starts_with("http://") || url.starts_with("https://");
        if settings.push.as_ref().is_some_and(|push| !is_http(&push.url)) {
            return Err(Error::invalid("push", "needs an http or https URL"));
        }
        self.store().put_queue(name, settings).await
    }

    pub(crate) async fn put_schedule(&self, schedule: Schedule) -> Result<ScheduleView, Error> {
        check_name(&schedule.name)?;
        Times::parse(&schedule.cron, &schedule.time_zone)?;
        self.check(&schedule.template)?;
        self.store().put_schedule(schedule).await
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
