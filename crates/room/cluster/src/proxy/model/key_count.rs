//! The number of keys in both tiers, as it was counted last.
//!
//! A count reads the whole list of tags, so an INFO that did not ask for the keyspace by name takes a recent
//! one: some clients send INFO with every connection they open.

use parking_lot::Mutex;

/// How long a count is good enough for an INFO about everything, and how long one may be under way before
/// another is begun.
const RECENT_US: u64 = 10_000_000;

/// The last count, shared by all workers.
#[derive(Default)]
pub(crate) struct KeyCount {
    last: Mutex<Last>,
}

#[derive(Default)]
struct Last {
    count: Option<u64>,
    /// When the count was begun that is under way or came last.
    asked_us: Option<u64>,
}

impl KeyCount {
    pub(crate) fn set(&self, count: u64) {
        self.last.lock().count = Some(count);
    }

    /// Returns a recent count; without one the caller is to count anew.
    pub(crate) fn recent(&self, now_us: u64) -> Option<u64> {
        let mut last = self.last.lock();
        let is_recent = last.asked_us.is_some_and(|at_us| now_us < at_us + RECENT_US);
        if is_recent && last.count.is_some() {
            return last.count;
        }
        last.asked_us = Some(now_us);
        None
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_count_serves_for_a_while_and_one_caller_refreshes_it() {
        let counted = KeyCount::default();
        assert_eq!(counted.recent(0), None);
        assert_eq!(counted.recent(1), None, "nothing was counted yet");
        counted.set(7);
        assert_eq!(counted.recent(RECENT_US), Some(7));
        assert_eq!(counted.recent(1 + RECENT_US), None, "the first one counts");
        assert_eq!(
            counted.recent(2 + RECENT_US),
            Some(7),
            "the others take the old one"
        );
    }
}
