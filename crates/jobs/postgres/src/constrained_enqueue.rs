//! Registrations with constraints: keys that are held, unique keys, dependencies, concurrency keys, and queues
//! with a depth limit. Each is one transaction.

use nagaya_jobs::error::Error;
use nagaya_jobs::event::EventKind;
use nagaya_jobs::id::JobId;
use nagaya_jobs::request::{Enqueued, FoundBy};
use nagaya_jobs::state::State;
use nagaya_postgres_client::{Connection, Kind, Session, scalar};

use crate::enqueue::Draft;
use crate::error::store_error;
use crate::flags;
use crate::rows::{IdempotencyRow, unsigned};
use crate::sql::query;
use crate::step::{JobPosition, Step, state_of};
use crate::store::Inner;
use crate::throughput::Count;

/// Attempts of a transaction that conflicts with another one.
pub(crate) const RUNS_MAX: usize = 5;

impl Inner {
    pub(crate) async fn enqueue_constrained(
        &self,
        session: &mut Connection,
        mut draft: Draft,
        now_ms: i64,
        resolves: &mut bool,
    ) -> Result<Enqueued, Error> {
        for _ in 0..RUNS_MAX {
            match self.try_constrained(session, &draft, now_ms).await {
                Ok(answer) => {
                    if answer.found_by.is_none() && !draft.job.depends_on.is_empty() {
                        *resolves |= self.catch_up(session, &draft).await;
                    }
                    return Ok(answer);
                }
                // Another registration took the key or the id meanwhile; the next attempt finds it.
                Err(fault) if fault.is_worth_another_run() => draft.id = self.draw(now_ms + 1),
                Err(fault) => return Err(fault.into()),
            }
        }
        Err(Error::Busy)
    }

    async fn try_constrained(
        &self,
        session: &mut Connection,
        draft: &Draft,
        now_ms: i64,
    ) -> Result<Enqueued, Fault> {
        let transaction = session.transaction().await?;
        let mut step = Step::new(self, &transaction, now_ms);
        let answer = self.register(&mut step, draft).await?;
        let after_commit = step.finish().await?;
        transaction.commit().await?;
        self.publish(after_commit);
        Ok(answer)
    }

    /// Registers a job as part of a step.
    pub(crate) async fn register(&self, step: &mut Step<'_>, draft: &Draft) -> Result<Enqueued, Fault> {
        let (session, now_ms) = (step.session, step.now_ms);
        let replaces = match self.find_by_key(session, draft, now_ms).await? {
            Found::Job(found) => return Ok(found),
            Found::Nothing { stale_key_of } => stale_key_of,
        };
        if let Some(depth_max) = draft.queue.settings.depth_max {
            let row = session
                .query_one(
                    query!(queues.unstarted),
                    &[&draft.queue.id, &i64::try_from(depth_max).unwrap_or(i64::MAX)],
                )
                .await?;
            let unstarted = unsigned(scalar(&row));
            if unstarted + step.registered(draft.queue.id) >= depth_max {
                return Err(Fault::Item(Error::QueueFull {
                    queue: draft.queue.name.clone(),
                    depth_max,
                }));
            }
        }
        let parents = self.pending_parents(session, draft).await?;
        if !self
            .insert_constrained(session, draft, &parents, replaces, now_ms)
            .await?
        {
            return Err(Fault::KeyTaken);
        }
        let state = if parents.is_empty() {
            draft.state(now_ms)
        } else {
            State::Waiting
        };
        self.settle(step, draft, parents.len()).await?;
        Ok(Enqueued {
            id: draft.id,
            state,
            found_by: None,
        })
    }

    /// Inserts a job whose row is written into its table, and writes its event.
    pub(crate) async fn settle(
        &self,
        step: &mut Step<'_>,
        draft: &Draft,
        parents: usize,
    ) -> Result<(), Error> {
        let position = JobPosition {
            id: draft.id,
            queue: draft.queue.id,
            tenant: draft.tenant.id,
            rank: draft.rank(),
            attempt: 0,
            attempt_max: draft.max_retries + 1,
            flags: draft.flags,
            options: draft.options.clone(),
        };
        step.count(&position, Count::Enqueued);
        step.event(&position, EventKind::Enqueued, None).await?;
        if position.flags & flags::CONCURRENCY != 0 {
            step.set_limit(&position)?;
        }
        match parents {
            0 => step.place(position, draft.run_at_ms).await,
            pending => {
                let pending = i32::try_from(pending).unwrap_or(i32::MAX);
                step.wait_for_dependencies(&position, pending, draft.run_at_ms);
                Ok(())
            }
        }
    }

    /// Finds an earlier registration under one of the job's keys.
    async fn find_by_key(&self, session: &Session, draft: &Draft, now_ms: i64) -> Result<Found, Fault> {
        let (queue, tenant) = (draft.queue.id, draft.tenant.id);
        let (mut found, mut stale_key_of, mut ended) = (None, None, None);
        if let Some(key) = draft.key() {
            let sql = query!(keys.find_idempotency);
            let row = session.query_opt(sql, &[&queue, &tenant, &key, &now_ms]).await?;
            let row = row.as_ref().map(IdempotencyRow::read);
            stale_key_of = row.as_ref().map(|row| row.id);
            let live = row.filter(|row| row.is_live);
            ended = live.as_ref().and_then(|row| row.ended).map(state_of);
            let differs = live.as_ref().and_then(|row| row.fingerprint.as_deref());
            let differs = differs.is_some_and(|known| draft.fingerprint().is_some_and(|own| own != known));
            found = live.and_then(|row| Some((JobId::new(row.id)?, FoundBy::IdempotencyKey)));
            if let Some((id, _)) = found.filter(|_| differs) {
                return Err(Fault::Item(Error::KeyReused { id }));
            }
        }
        if let (None, Some(key)) = (found, &draft.job.unique_key) {
            let sql = query!(keys.find_unique);
            let row = session.query_opt(sql, &[&queue, &tenant, key]).await?;
            found = row.and_then(|row| Some((JobId::new(scalar(&row))?, FoundBy::UniqueKey)));
        }
        let Some((id, found_by)) = found else {
            return Ok(Found::Nothing { stale_key_of });
        };
        // A job that is gone has left its ending with its idempotency key.
        let state = self.states_with(session, &[id]).await?.pop().flatten();
        Ok(match state.or(ended) {
            None => Found::Nothing { stale_key_of },
            Some(state) => Found::Job(Enqueued {
                id,
                state,
                found_by: Some(found_by),
            }),
        })
    }

    /// Returns the jobs that have not ended. Fails for unknown jobs, among them those of other tenants, and for
    /// those that failed or were cancelled.
    async fn pending_parents(&self, session: &Session, draft: &Draft) -> Result<Vec<JobId>, Fault> {
        let ids = &draft.job.depends_on[..];
        let states = if ids.is_empty() {
            Vec::new()
        } else {
            self.states_of(session, Some(draft.tenant.id), ids).await?
        };
        let mut parents = Vec::new();
        for (&id, state) in ids.iter().zip(states) {
            match state {
                None => return Err(Fault::Item(Error::DependencyUnknown { id })),
                Some(state @ (State::Failed | State::Cancelled)) => {
                    return Err(Fault::Item(Error::DependencyFailed { id, state }));
                }
                Some(State::Succeeded) => (),
                Some(_) => parents.push(id),
            }
        }
        parents.sort();
        parents.dedup();
        Ok(parents)
    }

    /// Writes the rows. Returns whether the job got its key.
    async fn insert_constrained(
        &self,
        session: &Session,
        draft: &Draft,
        parents: &[JobId],
        replaces: Option<i64>,
        now_ms: i64,
    ) -> Result<bool, nagaya_postgres_client::Error> {
        let parents: Vec<i64> = parents.iter().map(|id| id.get()).collect();
        let row = session
            .query_one(
                query!(jobs.insert),
                &[
                    &draft.id.get(),
                    &draft.queue.id,
                    &draft.tenant.id,
                    &draft.job.kind,
                    &draft.rank(),
                    &now_ms,
                    &draft.lease_ms,
                    &draft.max_retries,
                    &draft.options.write(),
                    &draft.job.payload.content_type.as_deref(),
                    &draft.job.payload.bytes.as_ref(),
                    &draft.key(),
                    &draft.key_expires_ms,
                    &draft.job.unique_key,
                    &parents,
                    &replaces,
                    &draft.fingerprint(),
                ],
            )
            .await?;
        Ok(scalar(&row))
    }

    /// A dependency may have ended between the read and the commit, and could not see the new job. Notes such
    /// endings, as maintenance does too. Returns whether there is one.
    async fn catch_up(&self, session: &Session, draft: &Draft) -> bool {
        let parents: Vec<i64> = draft.job.depends_on.iter().map(|id| id.get()).collect();
        let noted = session
            .execute(query!(waiting.insert_resolving_ended), &[&parents])
            .await;
        matches!(noted, Ok(1..))
    }
}

/// The result of a search for earlier registrations.
enum Found {
    Job(Enqueued),
    /// The job whose idempotency key has expired, if there is one.
    Nothing {
        stale_key_of: Option<i64>,
    },
}

/// Why a registration failed.
pub(crate) enum Fault {
    Item(Error),
    Store(nagaya_postgres_client::Error),
    /// Another registration was faster with the same key.
    KeyTaken,
}

impl Fault {
    pub(crate) fn is_worth_another_run(&self) -> bool {
        match self {
            Fault::Item(error) => matches!(error, Error::Busy),
            Fault::Store(error) => matches!(error.kind(), Kind::Conflict | Kind::UniqueViolation),
            Fault::KeyTaken => true,
        }
    }
}

impl From<Error> for Fault {
    fn from(error: Error) -> Fault {
        Fault::Item(error)
    }
}

impl From<nagaya_postgres_client::Error> for Fault {
    fn from(error: nagaya_postgres_client::Error) -> Fault {
        Fault::Store(error)
    }
}

impl From<Fault> for Error {
    fn from(fault: Fault) -> Error {
        match fault {
            Fault::Item(error) => error,
            Fault::Store(error) => store_error(error),
            Fault::KeyTaken => Error::Busy,
        }
    }
}
