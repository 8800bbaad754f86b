//! The right to make ids with a number, and its limits in time.
//!
//! The lease hands out a [`Permit`] per grant; the generator asks it before every batch, in this
//! order and in no other:
//!
//! 1. fix the ids' times by the id clock: above [`Permit::floor_ms`] and above the last one issued;
//! 2. *then* read the boot clock and [`check`](Permit::check): the window must be open, and no fixed
//!    time may lie above the returned ceiling;
//! 3. [`note_issued`](Permit::note_issued) the highest time;
//! 4. return the ids.
//!
//! Checking the window first and reading the id clock second is wrong: a process frozen in between
//! would stamp ids with a time that belongs to the next holder.

use std::time::Duration;

use nagaya_clock::BootTime;

/// The right to make ids with one worker number, for as long as one grant lasts.
///
/// A permit never comes back to life: after [`Stop::Lost`] the holder hands out another one, which
/// may be for another number.
pub trait Permit: Send + Sync + 'static {
    /// Returns the number that no other holder may use at the same time.
    fn worker(&self) -> u64;

    /// Rises with every grant of a number, so that others can refuse ids of an earlier holder.
    fn fence(&self) -> u64;

    /// Unix milliseconds up to which ids may have been issued before this grant: every id's time
    /// must be greater.
    fn floor_ms(&self) -> u64;

    /// Checks that ids may be issued at `now`, which must have been read after the ids' times were.
    fn check(&self, now: BootTime) -> Result<Ceiling, Stop>;

    /// Records that ids with times up to `last_ms` are about to leave. Must be called before they
    /// do; once per millisecond is enough. Fails if the permit ended since it was checked, and
    /// then they must not leave.
    fn note_issued(&self, last_ms: u64) -> Result<(), Stop>;
}

/// The highest time an id may carry, in Unix milliseconds. It is stored with the lease, so that the
/// next holder starts above it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Ceiling {
    pub unix_ms: u64,
}

/// Why no id may be issued now.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Stop {
    /// The window is over and not yet renewed; it may open again for this permit.
    #[error("the lease of the number was not renewed for {late:?} past its end")]
    Late { late: Duration },
    /// The number is gone for good: released, robbed, or to be asked for again.
    #[error("the number is no longer ours")]
    Lost,
    /// The last issued time could not be written down.
    #[error("the last issued time could not be saved")]
    NotSaved,
}

/// A number given by the user (`--worker-id`): always open, and not checked for being used once.
#[derive(Clone, Copy, Debug)]
pub struct FixedPermit {
    worker: u64,
}

impl FixedPermit {
    pub fn new(worker: u64) -> FixedPermit {
        FixedPermit { worker }
    }
}

impl Permit for FixedPermit {
    fn worker(&self) -> u64 {
        self.worker
    }

    fn fence(&self) -> u64 {
        0
    }

    fn floor_ms(&self) -> u64 {
        0
    }

    fn check(&self, _now: BootTime) -> Result<Ceiling, Stop> {
        Ok(Ceiling { unix_ms: u64::MAX })
    }

    fn note_issued(&self, _last_ms: u64) -> Result<(), Stop> {
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_fixed_number_is_always_allowed() {
        let permit = FixedPermit::new(7);
        assert_eq!(permit.worker(), 7);
        assert_eq!(permit.check(BootTime::ZERO), Ok(Ceiling { unix_ms: u64::MAX }));
        assert_eq!(permit.note_issued(1), Ok(()));
    }
}
