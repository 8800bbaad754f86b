//! Waiting for a condition by asking again, with a deadline.

use std::thread;
use std::time::{Duration, Instant};

const PAUSE: Duration = Duration::from_millis(10);

/// Waits until `condition` holds; panics naming `what` when `limit` has passed.
#[track_caller]
pub fn until(what: &str, limit: Duration, mut condition: impl FnMut() -> bool) {
    value(what, limit, || condition().then_some(()));
}

/// Waits until `probe` gives a value and returns it; panics naming `what` when
/// `limit` has passed.
#[track_caller]
pub fn value<T>(what: &str, limit: Duration, probe: impl FnMut() -> Option<T>) -> T {
    match poll(limit, probe) {
        Some(found) => found,
        None => panic!("waited {limit:?} in vain: {what}"),
    }
}

/// Asks `probe` until it gives a value or `limit` has passed. The probe runs at
/// least once, and once more after the limit.
pub(crate) fn poll<T>(limit: Duration, mut probe: impl FnMut() -> Option<T>) -> Option<T> {
    let deadline = now() + limit;
    loop {
        let last = now() >= deadline;
        if let Some(found) = probe() {
            return Some(found);
        }
        if last {
            return None;
        }
        thread::sleep(PAUSE);
    }
}

/// The kit waits for other processes, so it reads the real clock, here only.
#[expect(
    clippy::disallowed_methods,
    reason = "other processes do not follow an injected clock"
)]
pub(crate) fn now() -> Instant {
    Instant::now()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_condition_that_already_holds_is_not_waited_for() {
        until("always true", Duration::ZERO, || true);
    }

    #[test]
    #[should_panic(expected = "in vain: the moon")]
    fn a_condition_that_never_holds_panics_with_its_name() {
        until("the moon", Duration::from_millis(1), || false);
    }
}
