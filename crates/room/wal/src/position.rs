//! Places in the log.

use std::fmt;

/// A place in the log: a count of bytes that only grows, across segments and restarts.
///
/// A record is named by the position of its end, so "everything up to `p`" includes it.
/// Positions of different records differ, but not by the length of the records alone.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Position(pub u64);

impl Position {
    /// Before every record of a log that was never told to start higher.
    pub const ZERO: Position = Position(0);
}

impl fmt::Display for Position {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(out)
    }
}
