//! Leases: extended, given back, and looked at.

use std::collections::HashSet;

use nagaya_jobs::clock::span_ms;
use nagaya_jobs::error::{Error, LostWhy};
use nagaya_jobs::event::{EventData, EventKind};
use nagaya_jobs::record;
use nagaya_jobs::request::{Extension, Release, Released};
use nagaya_jobs::token::Lease;

use crate::report::BATCH_MAX;
use crate::rows::{ExtendedRow, LeaseRow};
use crate::sql::{Queries, begin, commit, query};
use crate::stale_report::ReportKind;
use crate::step::{RunningJob, Step};
use crate::store::Inner;

/// The columns of leases, in the order of their ids, which statements search.
struct Columns {
    ids: Vec<i64>,
    nonces: Vec<i64>,
    attempts: Vec<i32>,
}

impl Columns {
    /// The leases must be in the order of their ids.
    fn of<'a>(leases: impl Iterator<Item = &'a Lease>) -> Columns {
        let mut columns = Columns {
            ids: Vec::new(),
            nonces: Vec::new(),
            attempts: Vec::new(),
        };
        for lease in leases {
            columns.ids.push(lease.id.get());
            columns.nonces.push(lease.nonce);
            columns
                .attempts
                .push(i32::try_from(lease.attempt).unwrap_or(i32::MAX));
        }
        columns
    }
}

/// Returns the length of the longest beginning that names each job once and fits into one statement: what a second
/// item on a job does comes after the first.
fn distinct<T>(items: &[T], lease: impl Fn(&T) -> Lease) -> usize {
    let mut seen = HashSet::new();
    let fits = |item: &&T| seen.len() < BATCH_MAX && seen.insert(lease(item).id);
    items.iter().take_while(fits).count()
}

impl Inner {
    pub(crate) async fn extend(&self, extensions: Vec<Extension>) -> Result<Vec<Result<i64, Error>>, Error> {
        let session = self.hot().await?;
        let now_ms = self.time.now(&session).await?;
        let mut answers = Vec::with_capacity(extensions.len());
        let mut rest = &extensions[..];
        while !rest.is_empty() {
            let (batch, after) = rest.split_at(distinct(rest, |one| one.lease));
            rest = after;
            let mut sorted: Vec<&Extension> = batch.iter().collect();
            sorted.sort_by_key(|one| one.lease.id);
            let columns = Columns::of(sorted.iter().map(|one| &one.lease));
            let lengths: Vec<Option<i64>> = sorted.iter().map(|one| one.length.map(span_ms)).collect();
            let mut extended = session
                .all(
                    query!(running.extend),
                    &[
                        &now_ms,
                        &columns.ids,
                        &columns.nonces,
                        &columns.attempts,
                        &lengths,
                    ],
                    ExtendedRow::read,
                )
                .await?;
            extended.sort_unstable_by_key(|row| row.id);
            for one in batch {
                let found = extended.binary_search_by_key(&one.lease.id.get(), |row| row.id);
                answers.push(match found {
                    Ok(at) => Ok(extended[at].lease_until_ms),
                    Err(_) => Err(self.refuse(&session, one.lease, ReportKind::Extend, now_ms).await),
                });
            }
        }
        Ok(answers)
    }

    pub(crate) async fn release(
        &self,
        releases: Vec<Release>,
    ) -> Result<Vec<Result<Released, Error>>, Error> {
        let mut answers = Vec::with_capacity(releases.len());
        let mut rest = &releases[..];
        while !rest.is_empty() {
            let (batch, after) = rest.split_at(distinct(rest, |one| one.lease));
            rest = after;
            self.release_batch(batch, &mut answers).await?;
        }
        Ok(answers)
    }

    async fn release_batch(
        &self,
        batch: &[Release],
        answers: &mut Vec<Result<Released, Error>>,
    ) -> Result<(), Error> {
        let mut session = self.hot().await?;
        let now_ms = self.time.now(&session).await?;
        let leases: Vec<Lease> = batch.iter().map(|one| one.lease).collect();
        let transaction = begin(&mut session).await?;
        let mut step = Step::new(self, &transaction, now_ms);
        let mut taken = step.take_running(&leases).await?;
        let mut outcomes = Vec::with_capacity(batch.len());
        for release in batch {
            let at = taken.iter().position(|job| job.position.id == release.lease.id);
            let Some(job) = at.map(|at| taken.swap_remove(at)) else {
                outcomes.push(None);
                continue;
            };
            let released = Released::after(release.delay, now_ms);
            step.put_back(job, released).await?;
            outcomes.push(Some(released));
        }
        let after_commit = step.finish().await?;
        commit(transaction).await?;
        self.publish(after_commit);
        for (release, outcome) in batch.iter().zip(outcomes) {
            answers.push(match outcome {
                Some(released) => Ok(released),
                None => Err(self
                    .refuse(&session, release.lease, ReportKind::Release, now_ms)
                    .await),
            });
        }
        Ok(())
    }

    /// Returns why each lease holds no longer; `None` for those that hold.
    pub(crate) async fn lost(&self, leases: Vec<Lease>) -> Result<Vec<Option<LostWhy>>, Error> {
        let session = self.cool().await?;
        let mut sorted = leases.clone();
        sorted.sort_by_key(|lease| lease.id);
        sorted.dedup_by_key(|lease| lease.id);
        let ids: Vec<i64> = sorted.iter().map(|lease| lease.id.get()).collect();
        let running = session
            .all(query!(running.leases), &[&ids], LeaseRow::read)
            .await?;
        let running: HashSet<(i64, i32, i64)> = running
            .into_iter()
            .map(|row| (row.id, row.attempt, row.nonce))
            .collect();
        let mut answers = Vec::with_capacity(leases.len());
        for lease in leases {
            let attempt = i32::try_from(lease.attempt).unwrap_or(i32::MAX);
            answers.push(if running.contains(&(lease.id.get(), attempt, lease.nonce)) {
                None
            } else {
                self.judge(&session, lease, &ReportKind::Release).await?
            });
        }
        Ok(answers)
    }
}

impl Step<'_> {
    /// Puts a job back as if its attempt had not begun.
    async fn put_back(&mut self, job: RunningJob, released: Released) -> Result<(), Error> {
        let run_at_ms = match released {
            Released::Waiting => self.now_ms,
            Released::Scheduled { at_ms } => at_ms,
        };
        self.release_slot(&job.position)?;
        let data = record::write_event_data(&EventData::Retry {
            error: None,
            run_at_ms,
        });
        self.event(&job.position, EventKind::Released, data).await?;
        let mut position = job.position;
        position.attempt = position.attempt.saturating_sub(1);
        self.place(position, run_at_ms).await
    }
}
