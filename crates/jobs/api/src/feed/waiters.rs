//! The readers that wait for single jobs.
//!
//! Each entry also lists the newest positions of its job's events, so that a reader that was idle during a
//! million events of other jobs skips straight to its own.

use std::collections::{HashMap, VecDeque};
use std::sync::Arc;

use nagaya_jobs::JobId;
use parking_lot::Mutex;
use tokio::sync::Notify;
use tokio::sync::futures::Notified;

/// Positions listed per job.
const LISTED_MAX: usize = 32;

/// The watched jobs, with one entry each for any number of watchers.
#[derive(Clone, Default)]
pub(super) struct JobWaiters(Arc<Mutex<Table>>);

#[derive(Default)]
struct Table {
    waiters: HashMap<JobId, WatchedJob>,
    /// Every event up to here was recorded in the entries that existed.
    noted: u64,
}

struct WatchedJob {
    changed: Arc<Notify>,
    watchers: usize,
    /// The recorded positions of the job after `floor`, complete.
    listed: VecDeque<u64>,
    floor: u64,
}

impl JobWaiters {
    pub(super) fn watch(&self, job: JobId) -> JobChanges {
        let mut table = self.0.lock();
        let floor = table.noted;
        let entry = table.waiters.entry(job).or_insert_with(|| WatchedJob {
            changed: Arc::default(),
            watchers: 0,
            listed: VecDeque::new(),
            floor,
        });
        entry.watchers += 1;
        JobChanges {
            waiters: self.clone(),
            job,
            changed: Arc::clone(&entry.changed),
        }
    }

    /// Restarts recording at a new position; events before it were not recorded.
    pub(super) fn begin(&self, at: u64) {
        let mut table = self.0.lock();
        table.noted = at;
        for entry in table.waiters.values_mut() {
            entry.listed.clear();
            entry.floor = at;
            entry.changed.notify_waiters();
        }
    }

    /// Records events up to position `at` and wakes the watchers of their jobs.
    pub(super) fn note(&self, events: impl Iterator<Item = (JobId, u64)>, at: u64) {
        let mut table = self.0.lock();
        table.noted = at;
        if table.waiters.is_empty() {
            return;
        }
        for (job, seq) in events {
            if let Some(entry) = table.waiters.get_mut(&job) {
                if entry.listed.len() == LISTED_MAX {
                    entry.floor = entry.listed.pop_front().unwrap_or(entry.floor);
                }
                entry.listed.push_back(seq);
                entry.changed.notify_waiters();
            }
        }
    }

    /// Advances a reader's position to just before its job's next event, if that is known.
    pub(super) fn skip(&self, job: JobId, position: u64) -> u64 {
        let table = self.0.lock();
        let Some(entry) = table.waiters.get(&job).filter(|entry| position >= entry.floor) else {
            return position;
        };
        let next = entry.listed.iter().find(|seq| **seq > position);
        next.map_or(position, |seq| seq - 1)
    }

    pub(super) fn is_empty(&self) -> bool {
        self.0.lock().waiters.is_empty()
    }
}

/// A watch on one job; dropping it unregisters.
pub(super) struct JobChanges {
    waiters: JobWaiters,
    job: JobId,
    changed: Arc<Notify>,
}

impl JobChanges {
    /// Resolves when an event of the job occurs after this call, even before the future is polled.
    pub(super) fn changed(&self) -> Notified<'_> {
        self.changed.notified()
    }
}

impl Drop for JobChanges {
    fn drop(&mut self) {
        let mut table = self.waiters.0.lock();
        if let Some(entry) = table.waiters.get_mut(&self.job) {
            entry.watchers -= 1;
            if entry.watchers == 0 {
                table.waiters.remove(&self.job);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn job() -> JobId {
        JobId::new(7).unwrap()
    }

    #[tokio::test]
    async fn an_entry_lives_as_long_as_a_reader_watches() {
        let waiters = JobWaiters::default();
        let (first, second) = (waiters.watch(job()), waiters.watch(job()));
        let (one, two) = (first.changed(), second.changed());
        waiters.note([(job(), 1)].into_iter(), 1);
        one.await;
        two.await;
        drop(first);
        assert!(!waiters.is_empty());
        drop(second);
        assert!(waiters.is_empty());
    }

    #[test]
    fn a_reader_goes_straight_to_its_jobs_next_event() {
        let waiters = JobWaiters::default();
        waiters.begin(100);
        let _watch = waiters.watch(job());
        assert_eq!(waiters.skip(job(), 100), 100, "nothing is known to have happened");
        waiters.note([(job(), 5_000), (job(), 6_000)].into_iter(), 9_000);
        assert_eq!(waiters.skip(job(), 100), 4_999);
        assert_eq!(waiters.skip(job(), 5_000), 5_999);
        assert_eq!(waiters.skip(job(), 6_000), 6_000);
        assert_eq!(waiters.skip(job(), 50), 50, "what lies before was not noted");
        waiters.begin(20_000);
        assert_eq!(
            waiters.skip(job(), 6_000),
            6_000,
            "something may have been missed"
        );
    }

    #[test]
    fn a_long_list_forgets_its_beginning() {
        let waiters = JobWaiters::default();
        let _watch = waiters.watch(job());
        waiters.note((1..=100).map(|seq| (job(), seq * 10)), 1_000);
        assert_eq!(waiters.skip(job(), 0), 0);
        assert_eq!(waiters.skip(job(), 985), 989);
    }
}
