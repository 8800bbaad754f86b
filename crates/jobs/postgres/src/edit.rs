//! Changes and removal of jobs by an operator.

use nagaya_jobs::clock::span_ms;
use nagaya_jobs::error::Error;
use nagaya_jobs::id::JobId;
use nagaya_jobs::request::Edit;
use nagaya_jobs::state::State;
use nagaya_postgres_client::{Connection, Param, Session};

use crate::constrained_enqueue::RUNS_MAX;
use crate::names::Queue;
use crate::rows::{JobQueueRow, PositionRow, unsigned};
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
            let queue = match &edit.queue {
                Some(name) => Some(self.names.queue_or_make(session, name, now_ms).await?),
                None => None,
            };
            let transaction = begin(session).await?;
            let mut step = Step::new(self, &transaction, now_ms);
            if !move_job(&mut step, &transaction, edit, queue.as_deref()).await? {
                continue;
            }
            // Last, because a ready job is found by the queue and the rank in its row.
            write_job(&transaction, edit, queue.map(|queue| queue.id)).await?;
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

async fn write_job(session: &Session, edit: &Edit, queue: Option<i32>) -> Result<(), Error> {
    let rank = edit.priority.map(|priority| -priority);
    let retries = edit
        .max_retries
        .map(|retries| i32::try_from(retries).unwrap_or(i32::MAX - 1));
    let payload = edit.payload.as_ref();
    let values: [Param<'_>; 7] = [
        &edit.id.get(),
        &rank,
        &edit.timeout.map(span_ms),
        &retries,
        &payload.and_then(|body| body.content_type.as_deref()),
        &payload.map(|body| body.bytes.as_ref()),
        &queue,
    ];
    session.run(query!(jobs.edit), &values).await?;
    Ok(())
}

/// Checks that a queue takes a job of another one, and takes its unique key along.
async fn change_queue(session: &Session, id: JobId, was: &JobQueueRow, queue: &Queue) -> Result<(), Error> {
    if was.queue == queue.id {
        return Ok(());
    }
    if let Some(depth_max) = queue.settings.depth_max {
        let most = i64::try_from(depth_max).unwrap_or(i64::MAX);
        let unstarted: i64 = session
            .scalar(query!(queues.unstarted), &[&queue.id, &most])
            .await?;
        if unsigned(unstarted) >= depth_max {
            return Err(Error::QueueFull {
                queue: queue.name.clone(),
                depth_max,
            });
        }
    }
    if was.is_unique {
        let values: [Param<'_>; 2] = [&id.get(), &queue.id];
        if session.run(query!(keys.move_unique), &values).await? == 0 {
            return Err(Error::unique_key_held());
        }
    }
    Ok(())
}

/// Takes a job out of the table that it waits in and puts it where it belongs now, or changes its row there.
/// Returns whether it was found.
async fn move_job(
    step: &mut Step<'_>,
    session: &Session,
    edit: &Edit,
    queue: Option<&Queue>,
) -> Result<bool, Error> {
    let key = edit.id.get();
    if let Some(queue) = queue {
        let found = session
            .first(query!(jobs.queue), &[&key], JobQueueRow::read)
            .await?;
        let Some(was) = found else { return Ok(false) };
        change_queue(session, edit.id, &was, queue).await?;
    }
    let changed = |mut position: JobPosition| {
        position.queue = queue.map_or(position.queue, |queue| queue.id);
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
    if queue.is_some() {
        // The slots of a key are those of its queue.
        let sql = query!(waiting.take_held);
        if let Some(row) = session.first(sql, &[&key], PositionRow::read).await? {
            step.place(changed(row.position()?), edit.run_at_ms.unwrap_or(0))
                .await?;
            return Ok(true);
        }
    }
    let rank = edit.priority.map(|priority| -priority);
    let last = edit
        .max_retries
        .map(|retries| i32::try_from(retries).unwrap_or(i32::MAX - 1) + 1);
    let queue = queue.map(|queue| queue.id);
    let delayed = session
        .run(query!(waiting.edit_delayed), &[&key, &rank, &last, &queue])
        .await?;
    if delayed > 0 {
        return Ok(true);
    }
    let values: [Param<'_>; 5] = [&key, &rank, &last, &edit.run_at_ms, &queue];
    Ok(session.run(query!(waiting.edit_blocked), &values).await? > 0)
}
