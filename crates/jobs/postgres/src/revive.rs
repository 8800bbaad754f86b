//! Jobs that come back when one is retried: those that were cancelled because it had not succeeded.

use std::collections::{BTreeSet, VecDeque};

use nagaya_jobs::error::Error;
use nagaya_jobs::event::{EventData, EventKind};
use nagaya_jobs::id::JobId;
use nagaya_jobs::record::{self, JobOptions};
use nagaya_jobs::state::State;
use nagaya_postgres_client::{Param, Session};

use crate::rows::DoneRow;
use crate::sql::{Queries, query};
use crate::step::Step;
use crate::store::Inner;

/// Jobs that come back with one retry at most; the rest of a larger tree stays cancelled.
const REVIVALS_MAX: usize = 10_000;

impl Inner {
    /// Lets the jobs wait again that were cancelled because this one had not succeeded, and those that were
    /// cancelled because of them. Returns what they wait for.
    pub(crate) async fn revive(
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
        let Some(pending) = self.pending_again(session, id).await? else {
            return Ok(None);
        };
        let row = session
            .first(query!(done.take), &[&id.get()], DoneRow::read)
            .await?;
        let Some(row) = row else {
            return Ok(None);
        };
        let mut position = row.position()?;
        if let Some(key) = &position.options.unique_key {
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

    /// Returns what a cancelled job would wait for again; `None` when it stays cancelled.
    async fn pending_again(&self, session: &Session, id: JobId) -> Result<Option<Vec<JobId>>, Error> {
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
                let sql = query!(keys.is_unique_taken);
                session.scalar(sql, &[&id.get(), key]).await?
            }
        };
        Ok((!pending.is_empty() && !is_taken).then_some(pending))
    }
}

/// What a revived job waits for may have ended meanwhile, without having seen it. Returns whether something has.
pub(crate) async fn note_ended(session: &Session, waited_for: &BTreeSet<JobId>) -> Result<bool, Error> {
    let parents: Vec<i64> = waited_for.iter().map(|id| id.get()).collect();
    if parents.is_empty() {
        return Ok(false);
    }
    let sql = query!(waiting.insert_resolving_ended);
    Ok(session.run(sql, &[&parents]).await? > 0)
}
