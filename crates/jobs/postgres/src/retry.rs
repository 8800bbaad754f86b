//! Retries of ended jobs by an operator.

use nagaya_jobs::error::Error;
use nagaya_jobs::event::{EventData, EventKind};
use nagaya_jobs::id::JobId;
use nagaya_jobs::record;
use nagaya_jobs::state::{State, Tries};
use nagaya_postgres_client::Connection;

use crate::revive::note_ended;
use crate::rows::{DoneRow, unsigned_32};
use crate::sql::{Queries, begin, commit, query};
use crate::step::{PastAttempt, Step};
use crate::store::Inner;

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
        *resolves |= note_ended(session, &waited_for).await?;
        Ok(())
    }
}
