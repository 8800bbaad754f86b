//! Reports with a token that is not the running attempt's: repeats of what was taken, or too late.

use nagaya_jobs::error::{Error, LostWhy};
use nagaya_jobs::id::JobId;
use nagaya_jobs::job::Body;
use nagaya_jobs::limits::LATE_REPORTS_MAX;
use nagaya_jobs::state::{AttemptEnd, State};
use nagaya_jobs::token::Lease;
use nagaya_postgres_client::Session;

use crate::sql::{Queries, query};
use crate::step::{end_of, state_of};
use crate::store::Inner;

/// What was reported.
pub(crate) enum ReportKind<'a> {
    Complete(Option<&'a Body>),
    Fail(&'a str),
    Extend,
    Progress,
    Log,
}

impl ReportKind<'_> {
    fn name(&self) -> &'static str {
        match self {
            ReportKind::Complete(_) => "complete",
            ReportKind::Fail(_) => "fail",
            ReportKind::Extend => "extend",
            ReportKind::Progress => "progress",
            ReportKind::Log => "log",
        }
    }
}

impl Inner {
    /// Judges a report that was not taken: well when the same was taken before, else noted on the job.
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
        let row = session
            .row_opt(
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
        if let Some(row) = row {
            self.throughput
                .count(row.get(0), |throughput| throughput.late_reports += 1);
        }
        let state = self.states_with(session, &[lease.id]).await?.pop().flatten();
        Err(Error::LeaseLost { why, state })
    }

    /// Returns why the token is worth nothing, or nothing when the report repeats one that was taken.
    async fn judge(
        &self,
        session: &Session,
        lease: Lease,
        what: &ReportKind<'_>,
    ) -> Result<Option<LostWhy>, Error> {
        let attempt = i32::try_from(lease.attempt).unwrap_or(i32::MAX);
        let row = session
            .row_opt(
                query!(reports.find_attempt),
                &[&lease.id.get(), &attempt, &lease.nonce],
            )
            .await?;
        let Some(row) = row else {
            return Ok(Some(LostWhy::Unknown));
        };
        let same = |is: bool| if is { None } else { Some(LostWhy::Conflict) };
        Ok(match (end_of(row.get(0)), what) {
            (AttemptEnd::Succeeded, ReportKind::Complete(result)) => {
                // A job that ran again by hand has lost its result, and nobody can say whether it was the same.
                let kept: Option<bool> = row.get(2);
                let was = row.get::<_, Option<Vec<u8>>>(4).map(|bytes| Body {
                    content_type: row.get::<_, Option<&str>>(3).map(Into::into),
                    bytes: bytes.into(),
                });
                match kept {
                    Some(true) => same(was.as_ref() == *result),
                    _ => Some(LostWhy::Reported),
                }
            }
            (AttemptEnd::Failed, ReportKind::Fail(error)) => {
                same(row.get::<_, Option<&str>>(1) == Some(*error))
            }
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
        let numbers: Vec<i64> = ids.iter().map(|id| id.get()).collect();
        let rows = session.rows(query!(jobs.states), &[&numbers]).await?;
        let state = |code: i16| match code {
            1 => State::Scheduled,
            2 => State::Waiting,
            3 => State::Running,
            ended => state_of(ended),
        };
        Ok(rows
            .iter()
            .map(|row| row.get::<_, Option<i16>>(0).map(state))
            .collect())
    }
}
