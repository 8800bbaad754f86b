//! Cancellation by an operator.

use nagaya_jobs::error::Error;
use nagaya_jobs::id::JobId;
use nagaya_jobs::request::CancelRequest;
use nagaya_jobs::state::{AttemptEnd, State};
use nagaya_postgres_client::{Connection, Session};

use crate::constrained_enqueue::RUNS_MAX;
use crate::error::damaged;
use crate::rows::{PositionRow, RunningRow};
use crate::sql::{Queries, begin, commit, query};
use crate::step::{Ending, JobPosition, RunningJob, Step};
use crate::store::Inner;

impl Inner {
    pub(crate) async fn cancel(
        &self,
        requests: Vec<CancelRequest>,
    ) -> Result<Vec<Result<State, Error>>, Error> {
        let mut session = self.hot().await?;
        let mut answers = Vec::with_capacity(requests.len());
        let mut resolves = false;
        for request in requests {
            answers.push(self.cancel_one(&mut session, &request, &mut resolves).await);
        }
        drop(session);
        self.resolve_soon(resolves).await;
        Ok(answers)
    }

    async fn cancel_one(
        &self,
        session: &mut Connection,
        request: &CancelRequest,
        resolves: &mut bool,
    ) -> Result<State, Error> {
        let id = request.id;
        let reason = request
            .reason
            .as_deref()
            .map(|reason| reason.replace('\0', "\u{fffd}"));
        // A job that moves between tables may be missed; the next attempt finds it.
        for _ in 0..RUNS_MAX {
            let Some(state) = self.states_with(session, &[id]).await?.pop().flatten() else {
                return Err(Error::no_such("job", id));
            };
            match state {
                State::Cancelled => return Ok(State::Cancelled),
                State::Succeeded | State::Failed => return Err(Error::WrongState { id, state }),
                State::Scheduled | State::Waiting | State::Running => (),
            }
            let now_ms = self.time.now(session).await?;
            let transaction = begin(session).await?;
            let mut step = Step::new(self, &transaction, now_ms);
            let Some((position, was)) = withdraw(&mut step, &transaction, id, reason.as_deref()).await?
            else {
                continue;
            };
            let ending = Ending {
                state: State::Cancelled,
                success: None,
                error: reason.clone(),
                result: None,
            };
            step.end(position, ending).await?;
            let after_commit = step.finish().await?;
            commit(transaction).await?;
            *resolves |= after_commit.resolves;
            self.publish(after_commit);
            return Ok(was);
        }
        Err(Error::Busy)
    }
}

/// Removes a job from the table that it is in; `None` when no table shows it.
async fn withdraw(
    step: &mut Step<'_>,
    session: &Session,
    id: JobId,
    reason: Option<&str>,
) -> Result<Option<(JobPosition, State)>, Error> {
    let key = id.get();
    if let Some(row) = session
        .first(query!(running.take), &[&key], RunningRow::read)
        .await?
    {
        let job = RunningJob::of(row)?;
        step.record_attempt(&job, AttemptEnd::Cancelled, reason);
        step.withdrawn(id);
        step.release_slot(&job.position)?;
        return Ok(Some((job.position, State::Running)));
    }
    if let Some(row) = session
        .first(query!(ready.take), &[&key], PositionRow::read)
        .await?
    {
        let position = row.position()?;
        step.release_slot(&position)?;
        return Ok(Some((position, State::Waiting)));
    }
    if let Some(row) = session
        .first(query!(waiting.take_delayed), &[&key], PositionRow::read)
        .await?
    {
        return Ok(Some((row.position()?, State::Scheduled)));
    }
    let row = session
        .first(query!(waiting.take_blocked), &[&key], PositionRow::read)
        .await?;
    let Some(row) = row else { return Ok(None) };
    let position = row.position()?;
    if position.id != id {
        return Err(damaged(format!("job {id} was looked for, {} found", position.id)));
    }
    Ok(Some((position, State::Waiting)))
}
