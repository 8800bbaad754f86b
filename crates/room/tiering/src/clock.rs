//! Time, as something that is handed in.

use std::time::Duration;

/// A source of time for the runners. What decides is given the time as an argument.
pub trait Clock: Send + Sync + 'static {
    /// Returns the monotonic time since a start of its own. Only differences mean anything.
    fn now(&self) -> Duration;

    /// Returns the wall clock as Unix milliseconds. For people and statistics; no decision rests on it.
    fn unix_ms(&self) -> i64;

    /// Blocks the thread for a while.
    fn sleep(&self, time: Duration);
}
