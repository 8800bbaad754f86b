//! How many jobs wait and run, and how long another one would wait.
//!
//! A job that cannot be answered before its deadline is better refused at once than asked too late: it would take
//! the place of one that can be, and an endpoint that is asked too late looks broken. So the wait of a newcomer is
//! estimated by Little's law: the jobs that wait, times what one of them takes, shared by the places. What a job takes
//! is measured, so the estimate follows what the machine and the endpoint really do.

use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::time::Duration;

/// The measured time moves by one part in this many with each job, so it follows a change within some dozen jobs.
const WEIGHT: u64 = 16;

/// The jobs of one endpoint, or of all.
#[derive(Debug)]
pub(crate) struct Load {
    /// Jobs that may run at once.
    places: usize,
    /// Further jobs that may wait.
    queue: usize,
    /// Jobs that wait or run.
    jobs: AtomicUsize,
    /// What a job takes once its turn has come, in microseconds; 0 before the first.
    took_us: AtomicU64,
}

impl Load {
    pub(crate) fn new(places: usize, queue: usize) -> Load {
        Load {
            places: places.max(1),
            queue,
            jobs: AtomicUsize::new(0),
            took_us: AtomicU64::new(0),
        }
    }

    /// Counts a job in, if there is room for it.
    pub(crate) fn enter(&self) -> bool {
        let before = self.jobs.fetch_add(1, Ordering::Relaxed);
        let has_room = before < self.places.saturating_add(self.queue);
        if !has_room {
            self.leave();
        }
        has_room
    }

    pub(crate) fn leave(&self) {
        self.jobs.fetch_sub(1, Ordering::Relaxed);
    }

    /// Learns what a job took once its turn had come.
    pub(crate) fn learn(&self, took: Duration) {
        let took = u64::try_from(took.as_micros()).unwrap_or(u64::MAX).max(1);
        // Two that learn at once may lose one of the two; an average does not mind.
        let known = self.took_us.load(Ordering::Relaxed);
        let next = match known {
            0 => took,
            known => (known.saturating_mul(WEIGHT - 1).saturating_add(took) / WEIGHT).max(1),
        };
        self.took_us.store(next, Ordering::Relaxed);
    }

    /// Returns what a job takes once its turn has come; zero while nothing is known.
    pub(crate) fn took(&self) -> Duration {
        Duration::from_micros(self.took_us.load(Ordering::Relaxed))
    }

    /// Returns how long the jobs that are here keep another one waiting.
    pub(crate) fn wait(&self) -> Duration {
        let waiting = self.jobs().saturating_sub(self.places);
        let (waiting, places) = (u64::try_from(waiting), u64::try_from(self.places));
        let all_us = self
            .took_us
            .load(Ordering::Relaxed)
            .saturating_mul(waiting.unwrap_or(u64::MAX));
        Duration::from_micros(all_us / places.unwrap_or(u64::MAX))
    }

    pub(crate) fn jobs(&self) -> usize {
        self.jobs.load(Ordering::Relaxed)
    }
}

/// Returns whether a job with this window can be answered behind such a wait. Half of what the job itself does not
/// need is left for a wait that turns out longer than expected.
pub(crate) fn is_in_time(wait: Duration, took: Duration, window: Duration) -> bool {
    wait <= window.saturating_sub(took) / 2
}

#[cfg(test)]
mod tests {
    use super::*;

    const MS: Duration = Duration::from_millis(1);

    fn load_with(places: usize, jobs: usize, took: Duration) -> Load {
        let load = Load::new(places, usize::MAX);
        (0..jobs).for_each(|_| assert!(load.enter()));
        load.learn(took);
        load
    }

    #[test]
    fn the_wait_is_what_the_jobs_ahead_take_shared_by_the_places() {
        assert_eq!(load_with(10, 10, 20 * MS).wait(), Duration::ZERO);
        assert_eq!(load_with(10, 15, 20 * MS).wait(), 10 * MS);
        assert_eq!(load_with(10, 110, 20 * MS).wait(), 200 * MS);
        assert_eq!(Load::new(1, 9).wait(), Duration::ZERO);
    }

    #[test]
    fn what_a_job_takes_follows_what_it_took() {
        let load = Load::new(1, 0);
        load.learn(10 * MS);
        assert_eq!(load.took(), 10 * MS);
        (0..100).for_each(|_| load.learn(2 * MS));
        assert!(load.took() < 3 * MS, "{:?}", load.took());
    }

    #[test]
    fn jobs_without_a_chance_are_told_from_the_others() {
        assert!(
            is_in_time(Duration::ZERO, 500 * MS, 200 * MS),
            "nobody waits: ask"
        );
        assert!(is_in_time(90 * MS, 20 * MS, 200 * MS));
        assert!(!is_in_time(91 * MS, 20 * MS, 200 * MS));
        assert!(!is_in_time(MS, 199 * MS, 200 * MS));
    }

    #[test]
    fn there_is_room_for_places_and_queue_together() {
        let load = Load::new(1, 1);
        assert!(load.enter() && load.enter() && !load.enter());
        load.leave();
        assert!(load.enter());
        assert_eq!(load.jobs(), 2);
    }
}
