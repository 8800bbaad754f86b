//! Changes of jobs: one by one, and of those that a listing showed.

use nagaya_jobs::request::{CancelRequest, Edit};
use nagaya_jobs::view::JobSummary;
use nagaya_jobs::{Error, JobId, State};

use super::{Seen, one};
use crate::problem::Problem;

impl Seen<'_> {
    pub(crate) async fn cancel(&self, id: JobId, reason: Option<String>) -> Result<State, Problem> {
        self.check_job(id).await?;
        Ok(one(self
            .store()
            .cancel(vec![CancelRequest { id, reason }])
            .await?)?)
    }

    /// Cancels jobs that a listing showed.
    pub(crate) async fn cancel_listed(
        &self,
        listed: &[JobSummary],
        reason: Option<&str>,
    ) -> Result<Vec<Result<State, Error>>, Problem> {
        let requests = listed.iter().map(|job| CancelRequest {
            id: job.id,
            reason: reason.map(str::to_owned),
        });
        Ok(self.store().cancel(requests.collect()).await?)
    }

    pub(crate) async fn retry(&self, id: JobId) -> Result<(), Problem> {
        self.check_job(id).await?;
        Ok(one(self.store().retry(vec![id]).await?)?)
    }

    /// Retries jobs that a listing showed.
    pub(crate) async fn retry_listed(
        &self,
        listed: &[JobSummary],
    ) -> Result<Vec<Result<(), Error>>, Problem> {
        let ids = listed.iter().map(|job| job.id).collect();
        Ok(self.store().retry(ids).await?)
    }

    /// Changes a job that has not started.
    pub(crate) async fn edit(&self, edit: Edit) -> Result<(), Problem> {
        self.check_edit(&edit)?;
        self.check_job(edit.id).await?;
        one(self.store().edit(vec![edit]).await?)?;
        self.handlers.jobs.wake_due_mover();
        Ok(())
    }

    /// Checks a change: its limits, and that the caller may use the queue that it moves the job to.
    pub(crate) fn check_edit(&self, edit: &Edit) -> Result<(), Problem> {
        edit.check(&self.handlers.jobs.config().limits)?;
        edit.queue
            .as_ref()
            .map_or(Ok(()), |queue| self.principal.check_queue(queue))
    }

    /// Changes jobs that a listing showed.
    pub(crate) async fn edit_listed(&self, edits: Vec<Edit>) -> Result<Vec<Result<(), Error>>, Problem> {
        edits.iter().try_for_each(|edit| self.check_edit(edit))?;
        let answers = self.store().edit(edits).await?;
        self.handlers.jobs.wake_due_mover();
        Ok(answers)
    }

    /// Removes jobs that a listing showed.
    pub(crate) async fn remove_listed(
        &self,
        listed: &[JobSummary],
    ) -> Result<Vec<Result<(), Error>>, Problem> {
        let ids = listed.iter().map(|job| job.id).collect();
        Ok(self.store().remove(ids).await?)
    }

    /// Removes a job that has ended.
    pub(crate) async fn remove(&self, id: JobId) -> Result<(), Problem> {
        self.check_job(id).await?;
        Ok(one(self.store().remove(vec![id]).await?)?)
    }
}
