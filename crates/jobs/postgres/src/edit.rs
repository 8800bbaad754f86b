//! Changes and removal of jobs by an operator.

use nagaya_jobs::clock::span_ms;
use nagaya_jobs::error::Error;
use nagaya_jobs::id::JobId;
use nagaya_jobs::request::Edit;
use nagaya_jobs::state::State;
use nagaya_postgres_client::{Connection, Param, Session};

use crate::constrained_enqueue::RUNS_MAX;
use crate::rows::PositionRow;
use crate::sql::{Queries, begin, commit, query};
use crate::step::{JobPosition, Step};
use crate::store::Inner;

impl Inner {
    pub(crate) async fn edit(&self, edits: Vec<Edit>) -> Result<Vec<Result<(), Error>>, Error> {
        let mut session = self.hot().await?;
        let mut answers = Vec::with_capacity(edits.len());
        for edit in edits {
            answers.push(self.edit_one(&mut session, &edit).await);
        }
        Ok(answers)
    }

    async fn edit_one(&self, session: &mut Connection, edit: &Edit) -> Result<(), Error> {
        let id = edit.id;
        // A job that moves between tables may be missed; the next attempt finds it.
        for _ in 0..RUNS_MAX {
            let Some(state) = self.states_with(session, &[id]).await?.pop().flatten() else {
                return Err(Error::no_such("job", id));
            };
            if !matches!(state, State::Scheduled | State::Waiting) {
                return Err(Error::WrongState { id, state });
            }
            let now_ms = self.time.now(session).await?;
            let transaction = begin(session).await?;
            let mut step = Step::new(self, &transaction, now_ms);
            if !move_job(&mut step, &transaction, edit).await? {
                continue;
            }
            // Last, because a ready job is found by the rank in its row.
            write_job(&transaction, edit).await?;
            let after_commit = step.finish().await?;
            commit(transaction).await?;
            self.publish(after_commit);
            return Ok(());
        }
        Err(Error::Busy)
    }

    pub(crate) async fn remove(&self, ids: Vec<JobId>) -> Result<Vec<Result<(), Error>>, Error> {
        // The dependents of an ending have to know of it first.
        self.resolve_dependents(ids.len()).await?;
        let session = self.cool().await?;
        let mut answers = Vec::with_capacity(ids.len());
        for id in ids {
            let removed: i64 = session
                .scalar(query!(done.remove), &[&[id.get()].as_slice()])
                .await?;
            answers.push(match removed {
                0 => match self.states_with(&session, &[id]).await?.pop().flatten() {
                    None => Err(Error::no_such("job", id)),
                    // Its dependents wait to be told.
                    Some(state) if state.has_ended() => Err(Error::Busy),
                    Some(state) => Err(Error::WrongState { id, state }),
                },
                _ => Ok(()),
            });
        }
        Ok(answers)
    }
}

async fn write_job(session: &Session, edit: &Edit) -> Result<(), Error> {
    let rank = edit.priority.map(|priority| -priority);
    let retries = edit
        .max_retries
        .map(|retries| i32::try_from(retries).unwrap_or(i32::MAX - 1));
    let payload = edit.payload.as_ref();
    let values: [Param<'_>; 6] = [
        &edit.id.get(),
        &rank,
        &edit.timeout.map(span_ms),
        &retries,
        &payload.and_then(|body| body.content_type.as_deref()),
        &payload.map(|body| body.bytes.as_ref()),
    ];
    session.run(query!(jobs.edit), &values).await?;
    Ok(())
}

/// Takes a job out of the table that it waits in and puts it where it belongs now, or changes its row there.
/// Returns whether it was found.
async fn move_job(step: &mut Step<'_>, session: &Session, edit: &Edit) -> Result<bool, Error> {
    let key = edit.id.get();
    let changed = |mut position: JobPosition| {
        position.rank = edit.priority.map_or(position.rank, |priority| -priority);
        if let Some(retries) = edit.max_retries {
            let last = i32::try_from(retries).unwrap_or(i32::MAX - 1) + 1;
            position.attempt_max = last.max(position.attempt + 1);
        }
        position
    };
    let ready = session
        .first(query!(ready.take), &[&key], PositionRow::read)
        .await?;
    if let Some(row) = ready {
        let position = row.position()?;
        step.release_slot(&position)?;
        step.place(changed(position), edit.run_at_ms.unwrap_or(0)).await?;
        return Ok(true);
    }
    if let Some(run_at_ms) = edit.run_at_ms {
        let sql = query!(waiting.take_delayed);
        if let Some(row) = session.first(sql, &[&key], PositionRow::read).await? {
            step.place(changed(row.position()?), run_at_ms).await?;
            return Ok(true);
        }
    }
    let rank = edit.priority.map(|priority| -priority);
    let last = edit
        .max_retries
        .map(|retries| i32::try_from(retries).unwrap_or(i32::MAX - 1) + 1);
    let delayed = session
        .run(query!(waiting.edit_delayed), &[&key, &rank, &last])
        .await?;
    if delayed > 0 {
        return Ok(true);
    }
    let values: [Param<'_>; 4] = [&key, &rank, &last, &edit.run_at_ms];
    Ok(session.run(query!(waiting.edit_blocked), &values).await? > 0)
}
