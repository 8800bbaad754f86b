//! The answers that clients got, compared with the final state of the store.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Mutex, MutexGuard, PoisonError};

use nagaya_jobs::event::EventFilter;
use nagaya_jobs::store::{EventLog, JobReader};
use nagaya_jobs::token::Lease;
use nagaya_jobs::{JobId, State};
use nagaya_jobs_postgres::PgStore;

use super::assert_sound;

#[derive(Default)]
pub(super) struct Ledger(Mutex<Entries>);

#[derive(Default)]
struct Entries {
    /// By idempotency key.
    registered: BTreeMap<String, JobId>,
    /// Attempts that were handed out.
    claimed: BTreeSet<(JobId, u32)>,
    ended: BTreeMap<JobId, State>,
    repeats: usize,
}

impl Ledger {
    fn entries(&self) -> MutexGuard<'_, Entries> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Notes a registration. The same key is the same job, however often it is registered.
    pub(super) fn registered(&self, key: &str, id: JobId) {
        let before = self.entries().registered.insert(key.to_owned(), id);
        assert!(before.is_none_or(|before| before == id), "{key} was made twice");
    }

    /// Notes a claim. An attempt that is handed out twice would have two live tokens.
    pub(super) fn claimed(&self, lease: Lease) {
        let is_new = self.entries().claimed.insert((lease.id, lease.attempt));
        assert!(
            is_new,
            "attempt {} of {} was handed out twice",
            lease.attempt, lease.id
        );
    }

    pub(super) fn ended(&self, id: JobId, state: State) {
        let before = self.entries().ended.insert(id, state);
        assert_eq!(before, None, "{id} ended twice");
    }

    pub(super) fn repeated(&self) {
        self.entries().repeats += 1;
    }

    pub(super) fn ends(&self) -> usize {
        self.entries().ended.len()
    }

    pub(super) fn registrations(&self) -> usize {
        self.entries().registered.len()
    }

    pub(super) fn ids(&self) -> Vec<JobId> {
        self.entries().registered.values().copied().collect()
    }

    /// Compares with the store, when all jobs have ended.
    pub(super) async fn check(&self, store: &PgStore, max_retries: u32, jobs_in_store: usize) {
        assert_sound(store).await;
        let ids = self.ids();
        let distinct: BTreeSet<JobId> = ids.iter().copied().collect();
        assert_eq!(distinct.len(), ids.len(), "two keys gave one job");
        assert_eq!(jobs_in_store, ids.len(), "jobs that nobody was told of");
        let ended = self.entries().ended.clone();
        for chunk in ids.chunks(200) {
            for view in store.read(chunk.to_vec()).await.unwrap() {
                let view = view.expect("an acknowledged job is there");
                let (id, state) = (view.summary.id, view.summary.state);
                assert!(
                    matches!(state, State::Succeeded | State::Failed),
                    "{id} is {state}"
                );
                if let Some(told) = ended.get(&id) {
                    assert_eq!(state, *told, "the ending of {id} is lost");
                }
                assert!(view.attempts.len() <= max_retries as usize + 1, "{id}");
            }
        }
        let endings = endings(store).await;
        assert_eq!(endings.len(), ids.len(), "each job has its ending in the log");
        assert!(endings.values().all(|count| *count == 1), "an ending came twice");
        let entries = self.entries();
        eprintln!(
            "{} jobs, {} attempts, {} endings told, {} repeats",
            entries.registered.len(),
            entries.claimed.len(),
            entries.ended.len(),
            entries.repeats
        );
    }
}

/// Counts the endings in the log by job.
async fn endings(store: &PgStore) -> BTreeMap<JobId, usize> {
    let (mut after, mut endings) = (0, BTreeMap::new());
    loop {
        let page = store
            .events_after(after, EventFilter::default(), 500)
            .await
            .unwrap();
        for event in page.events.iter().filter(|event| event.kind.is_ending()) {
            *endings.entry(event.job).or_insert(0) += 1;
        }
        if page.next == after {
            return endings;
        }
        after = page.next;
    }
}
