//! Time as an argument.

use std::sync::atomic::{AtomicI64, Ordering};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

/// The clock of a store. All servers of one store go by one clock, so that a lease means the same to all.
pub trait Clock: Send + Sync + 'static {
    /// Returns the wall clock, Unix milliseconds.
    fn unix_ms(&self) -> i64;
}

/// The clock of the operating system.
#[derive(Clone, Copy, Debug, Default)]
pub struct SystemClock;

impl Clock for SystemClock {
    fn unix_ms(&self) -> i64 {
        let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
        i64::try_from(since.as_millis()).unwrap_or(i64::MAX)
    }
}

/// A clock that stands still until a test moves it.
#[derive(Debug)]
pub struct ManualClock(AtomicI64);

impl ManualClock {
    pub fn at(unix_ms: i64) -> ManualClock {
        ManualClock(AtomicI64::new(unix_ms))
    }

    pub fn advance(&self, by: Duration) {
        self.0.fetch_add(span_ms(by), Ordering::SeqCst);
    }

    /// Sets the time, forward or back, as an administrator may.
    pub fn set(&self, unix_ms: i64) {
        self.0.store(unix_ms, Ordering::SeqCst);
    }
}

impl Clock for ManualClock {
    fn unix_ms(&self) -> i64 {
        self.0.load(Ordering::SeqCst)
    }
}

/// Returns a length of time in whole milliseconds.
pub fn span_ms(span: Duration) -> i64 {
    i64::try_from(span.as_millis()).unwrap_or(i64::MAX / 4)
}

/// Returns the length of time of a number of milliseconds; zero for a negative number.
pub fn span(ms: i64) -> Duration {
    Duration::from_millis(u64::try_from(ms).unwrap_or(0))
}
