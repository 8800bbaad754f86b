//! Retries of ended jobs by an operator.

use std::collections::{BTreeSet, VecDeque};

use nagaya_jobs::error::Error;
use nagaya_jobs::event::{EventData, EventKind};
use nagaya_jobs::id::JobId;
use nagaya_jobs::record::{self, JobOptions};
use nagaya_jobs::state::{State, Tries};
use nagaya_postgres_client::{Connection, Param, Session};

use crate::rows::{DoneRow, unsigned_32};
use crate::sql::{Queries, begin, commit, query};
use crate::step::{PastAttempt, Step};
use crate::store::Inner;

/// Jobs that come back with one retry at most; the rest of a larger tree stays cancelled.
const REVIVALS_MAX: usize = 10_000;

impl Inner {
    pub(crate) async fn retry(&self, ids: Vec<JobId>) -> Result<Vec<Result<(), Error>>, Error> {
        let mut session = self.hot().await?;
        let mut answers = Vec::with_capacity(ids.len());
        let mut resolves = false;
        for id in ids {
            answers.push(self.retry_one(&mut session, id, &mut resolves).await);
        }
        drop(session);
        self.resolve_soon(resolves).await;
        Ok(answers)
    }

    async fn retry_one(&self, session: &mut Connection, id: JobId, resolves: &mut bool) -> Result<(), Error> {
        let now_ms = self.time.now(session).await?;
        let transaction = begin(session).await?;
        let row = transaction
            .first(query!(done.take), &[&id.get()], DoneRow::read)
            .await?;
        let Some(row) = row else {
            drop(transaction);
            return match self.states_with(session, &[id]).await?.pop().flatten() {
                None => Err(Error::no_such("job", id)),
                Some(state) => Err(Error::WrongState { id, state }),
            };
        };
        let mut position = row.position()?;
        if let Some(key) = &position.options.unique_key {
            let holder = transaction
                .scalar(
                    query!(keys.hold_unique),
                    &[&position.queue, &position.tenant, key, &id.get()],
                )
                .await?;
            if let Some(other) = JobId::new(holder).filter(|other| *other != id) {
                drop(transaction);
                let state = self.states_with(session, &[other]).await?.pop().flatten();
                return Err(Error::WrongState {
                    id: other,
                    state: state.unwrap_or(State::Waiting),
                });
            }
        }
        let mut step = Step::new(self, &transaction, now_ms);
        if let (Some(nonce), Some(worker), Some(started_ms)) = (row.nonce, row.worker, row.started_ms) {
            step.record_success(PastAttempt {
                id: id.get(),
                number: position.attempt,
                nonce,
                worker,
                started_ms,
                ended_ms: row.ended_ms,
                ending: 1,
                error: None,
            });
        }
        let data = EventData::Retry {
            error: None,
            run_at_ms: now_ms,
        };
        step.event(&position, EventKind::Retrying, record::write_event_data(&data))
            .await?;
        let attempt = u32::try_from(position.attempt).unwrap_or(0);
        let tries = Tries {
            attempt,
            attempt_max: attempt,
        };
        let renewed = tries.renewed(unsigned_32(row.max_retries));
        position.attempt_max = i32::try_from(renewed.attempt_max).unwrap_or(i32::MAX);
        step.place(position, now_ms).await?;
        transaction
            .run(query!(waiting.delete_revivals_of), &[&id.get()])
            .await?;
        let waited_for = self.revive(&mut step, &transaction, id).await?;
        let after_commit = step.finish().await?;
        commit(transaction).await?;
        self.publish(after_commit);
        // What a revived job waits for may have ended meanwhile, without having seen it.
        let parents: Vec<i64> = waited_for.iter().map(|id| id.get()).collect();
        if !parents.is_empty() {
            let sql = query!(waiting.insert_resolving_ended);
            *resolves |= session.run(sql, &[&parents]).await? > 0;
        }
        Ok(())
    }

    /// Lets the jobs wait again that were cancelled because this one had not succeeded, and those that were
    /// cancelled because of them. Returns what they wait for.
    async fn revive(
        &self,
        step: &mut Step<'_>,
        session: &Session,
        parent: JobId,
    ) -> Result<BTreeSet<JobId>, Error> {
        let mut waited_for = BTreeSet::new();
        let mut parents = VecDeque::from([parent]);
        let mut revived = 0;
        while let Some(parent) = parents.pop_front() {
            let children: Vec<i64> = session
                .scalars(query!(waiting.revivals), &[&parent.get()])
                .await?;
            for child in children.into_iter().filter_map(JobId::new) {
                if revived == REVIVALS_MAX {
                    return Ok(waited_for);
                }
                if let Some(pending) = self.revive_one(step, session, child).await? {
                    revived += 1;
                    waited_for.extend(pending);
                    parents.push_back(child);
                }
            }
        }
        Ok(waited_for)
    }

    /// Returns what the job waits for, when it waits again.
    async fn revive_one(
        &self,
        step: &mut Step<'_>,
        session: &Session,
        id: JobId,
    ) -> Result<Option<Vec<JobId>>, Error> {
        if self.states_with(session, &[id]).await?.pop().flatten() != Some(State::Cancelled) {
            return Ok(None);
        }
        let text: Option<String> = session.scalar(query!(jobs.options), &[&id.get()]).await?;
        let options = JobOptions::read(text.as_deref())?;
        let mut pending = Vec::new();
        let states = self.states_with(session, &options.depends_on).await?;
        for (parent, state) in options.depends_on.iter().zip(states) {
            match state {
                // One that is gone had succeeded: otherwise this job would have been cancelled because of it.
                None | Some(State::Succeeded) => (),
                Some(State::Failed | State::Cancelled) => {
                    let children = [id.get()];
                    let values: [Param<'_>; 2] = [&parent.get(), &children.as_slice()];
                    session.run(query!(waiting.insert_revivals), &values).await?;
                    return Ok(None);
                }
                Some(State::Scheduled | State::Waiting | State::Running) => pending.push(*parent),
            }
        }
        pending.sort();
        pending.dedup();
        let is_taken = match &options.unique_key {
            None => false,
            Some(key) => {
                session
                    .scalar(query!(keys.is_unique_taken), &[&id.get(), key])
                    .await?
            }
        };
        if pending.is_empty() || is_taken {
            return Ok(None);
        }
        let row = session
            .first(query!(done.take), &[&id.get()], DoneRow::read)
            .await?;
        let Some(row) = row else {
            return Ok(None);
        };
        let mut position = row.position()?;
        if let Some(key) = &options.unique_key {
            let values: [Param<'_>; 4] = [&position.queue, &position.tenant, key, &id.get()];
            let holder: i64 = session.scalar(query!(keys.hold_unique), &values).await?;
            if holder != id.get() {
                // Another registration was faster just now.
                return Err(Error::Busy);
            }
        }
        position.attempt = 0;
        position.attempt_max = row.max_retries.saturating_add(1);
        session
            .run(query!(waiting.delete_revivals_of), &[&id.get()])
            .await?;
        let parents: Vec<i64> = pending.iter().map(|id| id.get()).collect();
        session
            .run(query!(waiting.insert_dependencies), &[&id.get(), &parents])
            .await?;
        let data = EventData::Retry {
            error: None,
            run_at_ms: step.now_ms,
        };
        step.event(&position, EventKind::Retrying, record::write_event_data(&data))
            .await?;
        let count = i32::try_from(pending.len()).unwrap_or(i32::MAX);
        step.wait_for_dependencies(&position, count, 0);
        Ok(Some(pending))
    }
}
