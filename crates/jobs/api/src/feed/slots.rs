//! Who waits for which job.
//!
//! A slot also lists the newest positions of its job's events, so that a reader which slept through a million
//! events of others goes straight to its own.

use std::collections::{HashMap, VecDeque};
use std::sync::Arc;

use nagaya_jobs::JobId;
use parking_lot::Mutex;
use tokio::sync::Notify;
use tokio::sync::futures::Notified;

/// Positions that a slot lists.
const LISTED_MAX: usize = 32;

/// Jobs that are watched, each once, however many watch it.
#[derive(Clone, Default)]
pub(super) struct Slots(Arc<Mutex<Table>>);

#[derive(Default)]
struct Table {
    slots: HashMap<JobId, Slot>,
    /// Every event up to here has been noted in the slots that were there.
    noted: u64,
}

struct Slot {
    changed: Arc<Notify>,
    watchers: usize,
    /// All positions of the job after `floor` that have been noted.
    listed: VecDeque<u64>,
    floor: u64,
}

impl Slots {
    pub(super) fn watch(&self, job: JobId) -> JobChanges {
        let mut table = self.0.lock();
        let floor = table.noted;
        let slot = table.slots.entry(job).or_insert_with(|| Slot {
            changed: Arc::default(),
            watchers: 0,
            listed: VecDeque::new(),
            floor,
        });
        slot.watchers += 1;
        JobChanges {
            slots: self.clone(),
            job,
            changed: Arc::clone(&slot.changed),
        }
    }

    /// The log is followed from a new position on; what lies before was not noted.
    pub(super) fn begin(&self, at: u64) {
        let mut table = self.0.lock();
        table.noted = at;
        for slot in table.slots.values_mut() {
            slot.listed.clear();
            slot.floor = at;
            slot.changed.notify_waiters();
        }
    }

    /// Notes events, which reach up to `at`, and wakes those who watch their jobs.
    pub(super) fn note(&self, events: impl Iterator<Item = (JobId, u64)>, at: u64) {
        let mut table = self.0.lock();
        table.noted = at;
        if table.slots.is_empty() {
            return;
        }
        for (job, seq) in events {
            if let Some(slot) = table.slots.get_mut(&job) {
                if slot.listed.len() == LISTED_MAX {
                    slot.floor = slot.listed.pop_front().unwrap_or(slot.floor);
                }
                slot.listed.push_back(seq);
                slot.changed.notify_waiters();
            }
        }
    }

    /// Moves a reader's position up to just before its job's next event, where that is known.
    pub(super) fn skip(&self, job: JobId, position: u64) -> u64 {
        let table = self.0.lock();
        let Some(slot) = table.slots.get(&job).filter(|slot| position >= slot.floor) else {
            return position;
        };
        let next = slot.listed.iter().find(|seq| **seq > position);
        next.map_or(position, |seq| seq - 1)
    }

    pub(super) fn is_empty(&self) -> bool {
        self.0.lock().slots.is_empty()
    }
}

/// A watch on one job; ends when it is dropped.
pub(super) struct JobChanges {
    slots: Slots,
    job: JobId,
    changed: Arc<Notify>,
}

impl JobChanges {
    /// Resolves when something happens to the job after this was called, even before it is polled.
    pub(super) fn changed(&self) -> Notified<'_> {
        self.changed.notified()
    }
}

impl Drop for JobChanges {
    fn drop(&mut self) {
        let mut table = self.slots.0.lock();
        if let Some(slot) = table.slots.get_mut(&self.job) {
            slot.watchers -= 1;
            if slot.watchers == 0 {
                table.slots.remove(&self.job);
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
    async fn a_slot_lives_as_long_as_somebody_watches() {
        let slots = Slots::default();
        let (first, second) = (slots.watch(job()), slots.watch(job()));
        let (one, two) = (first.changed(), second.changed());
        slots.note([(job(), 1)].into_iter(), 1);
        one.await;
        two.await;
        drop(first);
        assert!(!slots.is_empty());
        drop(second);
        assert!(slots.is_empty());
    }

    #[test]
    fn a_reader_goes_straight_to_its_jobs_next_event() {
        let slots = Slots::default();
        slots.begin(100);
        let _watch = slots.watch(job());
        assert_eq!(slots.skip(job(), 100), 100, "nothing is known to have happened");
        slots.note([(job(), 5_000), (job(), 6_000)].into_iter(), 9_000);
        assert_eq!(slots.skip(job(), 100), 4_999);
        assert_eq!(slots.skip(job(), 5_000), 5_999);
        assert_eq!(slots.skip(job(), 6_000), 6_000);
        assert_eq!(slots.skip(job(), 50), 50, "what lies before was not noted");
        slots.begin(20_000);
        assert_eq!(slots.skip(job(), 6_000), 6_000, "something may have been missed");
    }

    #[test]
    fn a_long_list_forgets_its_beginning() {
        let slots = Slots::default();
        let _watch = slots.watch(job());
        slots.note((1..=100).map(|seq| (job(), seq * 10)), 1_000);
        assert_eq!(slots.skip(job(), 0), 0);
        assert_eq!(slots.skip(job(), 985), 989);
    }
}
