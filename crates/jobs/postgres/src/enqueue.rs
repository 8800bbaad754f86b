//! Registration. Jobs without constraints are inserted by one statement, whatever their queues. The others
//! follow one by one ([`crate::constrained_enqueue`]).

use std::collections::{BTreeMap, HashSet};
use std::sync::Arc;

use nagaya_jobs::clock::span_ms;
use nagaya_jobs::error::Error;
use nagaya_jobs::id::JobId;
use nagaya_jobs::job::NewJob;
use nagaya_jobs::queue::EventDetail;
use nagaya_jobs::record::JobOptions;
use nagaya_jobs::request::Enqueued;
use nagaya_jobs::state::State;
use nagaya_postgres_client::{Connection, Kind, Session};

use crate::constrained_enqueue::Fault;
use crate::error::store_error;
use crate::flags;
use crate::names::{Queue, Tenant};
use crate::rows::EnqueuedRow;
use crate::sql::query;
use crate::step::Step;
use crate::store::Inner;

/// Attempts to draw ids. Two servers with the same number may draw the same id; the next draw resolves it.
const DRAWS_MAX: usize = 8;

/// Whether the statement that inserts jobs also inserts them into the table where they wait, and writes their
/// events.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Placement {
    Immediate,
    /// The rest of the transaction does so.
    Deferred,
}

/// A registration with all values of its rows.
pub(crate) struct Draft {
    pub(crate) id: JobId,
    pub(crate) queue: Arc<Queue>,
    pub(crate) tenant: Arc<Tenant>,
    pub(crate) options: JobOptions,
    pub(crate) flags: i16,
    pub(crate) lease_ms: i64,
    pub(crate) max_retries: i32,
    /// 0 means now.
    pub(crate) run_at_ms: i64,
    pub(crate) key_expires_ms: i64,
    pub(crate) job: NewJob,
}

impl Draft {
    pub(crate) fn rank(&self) -> i16 {
        -self.job.priority
    }

    pub(crate) fn key(&self) -> Option<&str> {
        self.job.idempotency.as_ref().map(|one| one.key.as_str())
    }

    pub(crate) fn fingerprint(&self) -> Option<&[u8]> {
        let idempotency = self.job.idempotency.as_ref()?;
        idempotency.fingerprint.as_ref().map(|hash| &hash[..])
    }

    pub(crate) fn is_logged(&self) -> bool {
        self.queue.settings.events == EventDetail::All
    }

    /// Returns whether the job has no constraints.
    fn is_plain(&self) -> bool {
        self.job.unique_key.is_none()
            && self.job.depends_on.is_empty()
            && self.job.concurrency.is_none()
            && self.queue.settings.depth_max.is_none()
    }

    /// Returns whether a concurrency key is its only constraint.
    fn is_placed(&self) -> bool {
        self.job.concurrency.is_some()
            && self.job.unique_key.is_none()
            && self.job.depends_on.is_empty()
            && self.queue.settings.depth_max.is_none()
    }

    pub(crate) fn state(&self, now_ms: i64) -> State {
        if self.run_at_ms > now_ms {
            State::Scheduled
        } else {
            State::Waiting
        }
    }
}

impl Inner {
    pub(crate) async fn enqueue(&self, jobs: Vec<NewJob>) -> Result<Vec<Result<Enqueued, Error>>, Error> {
        let mut session = self.hot().await?;
        self.names.refresh(&session).await?;
        let now_ms = self.time.now(&session).await?;
        let mut drafts = Vec::with_capacity(jobs.len());
        for job in jobs {
            drafts.push(self.draft(&session, job, now_ms).await?);
        }
        let mut answers: Vec<Option<Result<Enqueued, Error>>> = drafts.iter().map(|_| None).collect();
        let plain: Vec<usize> = (0..drafts.len()).filter(|at| drafts[*at].is_plain()).collect();
        let mut made = self.enqueue_plain(&session, &mut drafts, &plain, now_ms).await?;
        self.publish_enqueued(&drafts, &made, now_ms);
        let placed: Vec<usize> = (0..drafts.len()).filter(|at| drafts[*at].is_placed()).collect();
        match self.enqueue_placed(&mut session, &drafts, &placed, now_ms).await {
            Ok(more) => made.extend(more),
            // They are retried one by one.
            Err(fault) if fault.is_worth_another_run() => (),
            Err(fault) => {
                let error = Error::from(fault);
                for at in placed {
                    answers[at] = Some(Err(error.again()));
                }
            }
        }
        for (draft, answer) in drafts.iter().zip(&mut answers) {
            if made.contains(&draft.id) {
                *answer = Some(Ok(Enqueued {
                    id: draft.id,
                    state: draft.state(now_ms),
                    found_by: None,
                }));
            }
        }
        // A repeat and the first registration may be in one call, so the rest is registered in order.
        let mut all = Vec::with_capacity(drafts.len());
        let mut resolves = false;
        for (draft, answer) in drafts.into_iter().zip(answers) {
            all.push(match answer {
                Some(answer) => answer,
                None => {
                    self.enqueue_constrained(&mut session, draft, now_ms, &mut resolves)
                        .await
                }
            });
        }
        drop(session);
        self.resolve_soon(resolves).await;
        Ok(all)
    }

    pub(crate) async fn draft(&self, session: &Session, job: NewJob, now_ms: i64) -> Result<Draft, Error> {
        let queue = self.names.queue_or_make(session, &job.queue, now_ms).await?;
        let tenant = self.names.tenant_or_make(session, &job.tenant, now_ms).await?;
        let options = JobOptions::of(&job, &queue.settings);
        let flag = |is: bool, flag: i16| if is { flag } else { 0 };
        let window = job.idempotency.as_ref().and_then(|one| one.window);
        Ok(Draft {
            id: self.draw(now_ms),
            flags: flag(job.unique_key.is_some(), flags::UNIQUE)
                | flag(job.concurrency.is_some(), flags::CONCURRENCY)
                | flag(job.webhook.is_some(), flags::WEBHOOK)
                | flag(job.retention.is_some(), flags::RETENTION),
            lease_ms: span_ms(job.timeout.unwrap_or(queue.settings.lease)),
            max_retries: i32::try_from(job.max_retries.unwrap_or(queue.settings.max_retries))
                .unwrap_or(i32::MAX - 1),
            run_at_ms: job.run_at_ms.filter(|at_ms| *at_ms > now_ms).unwrap_or(0),
            key_expires_ms: now_ms + span_ms(window.unwrap_or(queue.settings.idempotency_window)),
            options,
            queue,
            tenant,
            job,
        })
    }

    /// Returns the ids of the jobs that were registered: all except those whose key is held.
    async fn enqueue_plain(
        &self,
        session: &Session,
        drafts: &mut [Draft],
        plain: &[usize],
        now_ms: i64,
    ) -> Result<HashSet<JobId>, Error> {
        if plain.is_empty() {
            return Ok(HashSet::new());
        }
        for _ in 0..DRAWS_MAX {
            let chosen: Vec<&Draft> = plain.iter().map(|at| &drafts[*at]).collect();
            let error = match self
                .insert_rows(session, &chosen, now_ms, Placement::Immediate)
                .await
            {
                Ok(made) => return Ok(made),
                Err(error) => error,
            };
            let ids_met =
                error.kind() == Kind::UniqueViolation && error.constraint() == Some("jobs_job_pkey");
            if !ids_met {
                return Err(store_error(error));
            }
            for at in plain {
                // Another millisecond has its own range of ids.
                drafts[*at].id = self.draw(now_ms + 1);
            }
        }
        Err(Error::Busy)
    }

    /// Registers jobs with a concurrency key: rows first, then the slots, in one transaction for all of them.
    /// Returns the ids of those that were registered.
    async fn enqueue_placed(
        &self,
        session: &mut Connection,
        drafts: &[Draft],
        placed: &[usize],
        now_ms: i64,
    ) -> Result<HashSet<JobId>, Fault> {
        if placed.is_empty() {
            return Ok(HashSet::new());
        }
        let chosen: Vec<&Draft> = placed.iter().map(|at| &drafts[*at]).collect();
        let transaction = session.transaction().await?;
        let made = self
            .insert_rows(&transaction, &chosen, now_ms, Placement::Deferred)
            .await?;
        let mut step = Step::new(self, &transaction, now_ms);
        for draft in chosen.iter().filter(|one| made.contains(&one.id)) {
            self.settle(&mut step, draft, 0).await?;
        }
        let after_commit = step.finish().await?;
        transaction.commit().await?;
        self.publish(after_commit);
        Ok(made)
    }

    async fn insert_rows(
        &self,
        session: &Session,
        drafts: &[&Draft],
        now_ms: i64,
        placement: Placement,
    ) -> Result<HashSet<JobId>, nagaya_postgres_client::Error> {
        let ids: Vec<i64> = drafts.iter().map(|one| one.id.get()).collect();
        let queues: Vec<i32> = drafts.iter().map(|one| one.queue.id).collect();
        let tenants: Vec<i32> = drafts.iter().map(|one| one.tenant.id).collect();
        let kinds: Vec<Option<&str>> = drafts.iter().map(|one| one.job.kind.as_deref()).collect();
        let ranks: Vec<i16> = drafts.iter().map(|one| one.rank()).collect();
        let has_places = placement == Placement::Immediate;
        let run_ats: Vec<Option<i64>> = drafts
            .iter()
            .map(|one| has_places.then_some(one.run_at_ms))
            .collect();
        let leases: Vec<i64> = drafts.iter().map(|one| one.lease_ms).collect();
        let retries: Vec<i32> = drafts.iter().map(|one| one.max_retries).collect();
        let options: Vec<Option<String>> = drafts.iter().map(|one| one.options.write()).collect();
        let types: Vec<Option<&str>> = drafts
            .iter()
            .map(|one| one.job.payload.content_type.as_deref())
            .collect();
        let payloads: Vec<&[u8]> = drafts.iter().map(|one| one.job.payload.bytes.as_ref()).collect();
        let flags: Vec<i16> = drafts.iter().map(|one| one.flags).collect();
        let keys: Vec<Option<&str>> = drafts.iter().map(|one| one.key()).collect();
        let expiries: Vec<i64> = drafts.iter().map(|one| one.key_expires_ms).collect();
        let fingerprints: Vec<Option<&[u8]>> = drafts.iter().map(|one| one.fingerprint()).collect();
        let logged: Vec<bool> = drafts.iter().map(|one| has_places && one.is_logged()).collect();
        let rows = session
            .query(
                query!(jobs.enqueue),
                &[
                    &now_ms,
                    &ids,
                    &queues,
                    &tenants,
                    &kinds,
                    &ranks,
                    &run_ats,
                    &leases,
                    &retries,
                    &options,
                    &types,
                    &payloads,
                    &flags,
                    &keys,
                    &expiries,
                    &logged,
                    &fingerprints,
                ],
            )
            .await?;
        let made: Vec<EnqueuedRow> = rows.iter().map(EnqueuedRow::read).collect();
        if let Some(row) = made.first() {
            self.notify_logged(row.head);
        }
        Ok(made.iter().filter_map(|row| JobId::new(row.id)).collect())
    }

    /// Counts the registered jobs and notifies about the queues that have new ones.
    fn publish_enqueued(&self, drafts: &[Draft], made: &HashSet<JobId>, now_ms: i64) {
        let mut ready = BTreeMap::new();
        for draft in drafts.iter().filter(|one| made.contains(&one.id)) {
            if draft.state(now_ms) == State::Waiting {
                self.note_ready(draft.queue.id, draft.tenant.id, draft.rank());
                let lowest = ready.entry(draft.queue.name.clone()).or_insert(i16::MAX);
                *lowest = draft.rank().min(*lowest);
            }
        }
        self.notify_ready(&ready);
    }
}
