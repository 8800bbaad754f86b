//! What is due at which time.

use std::collections::BTreeSet;

/// Keys ordered by the time they are due, in any unit of the caller's. A key may have several times.
pub struct Timers<T, K> {
    due: BTreeSet<(T, K)>,
}

impl<T, K> Default for Timers<T, K> {
    fn default() -> Self {
        Timers { due: BTreeSet::new() }
    }
}

impl<T: Ord + Copy, K: Ord + Copy> Timers<T, K> {
    pub fn set(&mut self, at: T, key: K) {
        self.due.insert((at, key));
    }

    pub fn cancel(&mut self, at: T, key: K) {
        self.due.remove(&(at, key));
    }

    /// Returns the earliest time.
    #[inline]
    pub fn next(&self) -> Option<T> {
        self.due.first().map(|(at, _)| *at)
    }

    /// Removes and returns the earliest timer if it is due.
    #[inline]
    pub fn pop_due(&mut self, now: T) -> Option<(T, K)> {
        if self.next()? > now {
            return None;
        }
        self.due.pop_first()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn timers_come_in_order_once_they_are_due() {
        let mut timers = Timers::default();
        timers.set(20, "b");
        timers.set(10, "c");
        timers.set(10, "a");
        timers.set(15, "d");
        timers.cancel(15, "d");
        assert_eq!(timers.next(), Some(10));
        assert_eq!(timers.pop_due(9), None);
        assert_eq!(timers.pop_due(10), Some((10, "a")));
        assert_eq!(timers.pop_due(30), Some((10, "c")));
        assert_eq!(timers.pop_due(30), Some((20, "b")));
        assert_eq!(timers.pop_due(30), None);
    }
}
