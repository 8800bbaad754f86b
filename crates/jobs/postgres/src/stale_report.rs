//! Reports whose token is not of the running attempt: repeats of accepted reports, or reports that came too
//! late.

use nagaya_jobs::error::{Error, LostWhy};
use nagaya_jobs::id::JobId;
use nagaya_jobs::job::Body;
use nagaya_jobs::limits::LATE_REPORTS_MAX;
use nagaya_jobs::state::{AttemptEnd, State};
use nagaya_jobs::token::Lease;
use nagaya_postgres_client::Session;

use crate::rows::PastAttemptRow;
use crate::sql::{Queries, query};
use crate::step::{end_of, state_of};
use crate::store::Inner;

/// The kind of a report.
pub(crate) enum ReportKind<'a> {
    Complete(Option<&'a Body>),
    Fail(&'a str),
    Extend,
    Release,
    Progress,
    Log,
}

impl ReportKind<'_> {
    fn name(&self) -> &'static str {
        match self {
            ReportKind::Complete(_) => "complete",
            ReportKind::Fail(_) => "fail",
            ReportKind::Extend => "extend",
            ReportKind::Release => "release",
            ReportKind::Progress => "progress",
            ReportKind::Log => "log",
        }
    }
}

impl Inner {
    /// Judges a report that was not accepted. A repeat of an accepted one is fine; any other is recorded on the
    /// job.
    pub(crate) async fn judge_stale(
        &self,
        session: &Session,
        lease: Lease,
        what: ReportKind<'_>,
        now_ms: i64,
    ) -> Result<(), Error> {
        let why = match self.judge(session, lease, &what).await? {
            None => return Ok(()),
            Some(why) => why,
        };
        let attempt = i32::try_from(lease.attempt).unwrap_or(i32::MAX);
        let kept = i64::try_from(LATE_REPORTS_MAX).unwrap_or(i64::MAX);
        session
            .run(
                query!(reports.insert_late_report),
                &[
                    &lease.id.get(),
                    &now_ms,
                    &attempt,
                    &what.name(),
                    &why.name(),
                    &kept,
                ],
            )
            .await?;
        let state = self.states_with(session, &[lease.id]).await?.pop().flatten();
        Err(Error::LeaseLost { why, state })
    }

    /// Returns why the token is invalid, or `None` when the report repeats an accepted one.
    pub(crate) async fn judge(
        &self,
        session: &Session,
        lease: Lease,
        what: &ReportKind<'_>,
    ) -> Result<Option<LostWhy>, Error> {
        let attempt = i32::try_from(lease.attempt).unwrap_or(i32::MAX);
        let row = session
            .first(
                query!(reports.find_attempt),
                &[&lease.id.get(), &attempt, &lease.nonce],
                PastAttemptRow::read,
            )
            .await?;
        let Some(row) = row else {
            return Ok(Some(LostWhy::Unknown));
        };
        let same = |is: bool| if is { None } else { Some(LostWhy::Conflict) };
        Ok(match (end_of(row.ending), what) {
            (AttemptEnd::Succeeded, ReportKind::Complete(result)) => {
                // A job that was retried by an operator has lost its result, so it cannot be compared.
                let was = row.result.map(|bytes| Body {
                    content_type: row.content_type.map(Into::into),
                    bytes: bytes.into(),
                });
                match row.is_result_kept {
                    Some(true) => same(was.as_ref() == *result),
                    _ => Some(LostWhy::Reported),
                }
            }
            (AttemptEnd::Failed, ReportKind::Fail(error)) => same(row.error.as_deref() == Some(*error)),
            (AttemptEnd::Succeeded | AttemptEnd::Failed, _) => Some(LostWhy::Reported),
            (AttemptEnd::LeaseLost, _) => Some(LostWhy::Expired),
            (AttemptEnd::Cancelled, _) => Some(LostWhy::Cancelled),
        })
    }

    pub(crate) async fn states_with(
        &self,
        session: &Session,
        ids: &[JobId],
    ) -> Result<Vec<Option<State>>, Error> {
        self.states_of(session, None, ids).await
    }

    /// Returns the states of a tenant's jobs, `None` for any others; or of all jobs.
    pub(crate) async fn states_of(
        &self,
        session: &Session,
        tenant: Option<i32>,
        ids: &[JobId],
    ) -> Result<Vec<Option<State>>, Error> {
        let numbers: Vec<i64> = ids.iter().map(|id| id.get()).collect();
        let codes: Vec<Option<i16>> = session.scalars(query!(jobs.states), &[&numbers, &tenant]).await?;
        let state = |code: i16| match code {
            1 => State::Scheduled,
            2 => State::Waiting,
            3 => State::Running,
            ended => state_of(ended),
        };
        Ok(codes.into_iter().map(|code| code.map(state)).collect())
    }
}
