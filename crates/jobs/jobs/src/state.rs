//! The states of a job, and what follows what.
//!
//! ```text
//! scheduled -> waiting -> running -> succeeded
//!     ^           ^          |  \--> failed
//!     |           |          |
//!     +-- retry --+----------+        any that has not ended -> cancelled
//! ```

use std::fmt;
use std::time::Duration;

use crate::backoff::Backoff;
use crate::clock::span_ms;
use crate::limits::SPAN_MAX;

/// The state of a job.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum State {
    /// Not due yet: registered for later, or between two attempts.
    Scheduled,
    /// Ready, or waiting for other jobs, for a slot of its concurrency key, or for its queue.
    Waiting,
    /// A worker holds it under a lease.
    Running,
    Succeeded,
    /// Out of attempts, or failed permanently.
    Failed,
    Cancelled,
}

impl State {
    pub const ALL: [State; 6] = [
        State::Scheduled,
        State::Waiting,
        State::Running,
        State::Succeeded,
        State::Failed,
        State::Cancelled,
    ];

    /// Returns the name on the wire.
    pub fn name(self) -> &'static str {
        match self {
            State::Scheduled => "scheduled",
            State::Waiting => "waiting",
            State::Running => "running",
            State::Succeeded => "succeeded",
            State::Failed => "failed",
            State::Cancelled => "cancelled",
        }
    }

    pub fn named(name: &str) -> Option<State> {
        State::ALL.into_iter().find(|state| state.name() == name)
    }

    /// Returns whether the job has ended.
    pub fn has_ended(self) -> bool {
        matches!(self, State::Succeeded | State::Failed | State::Cancelled)
    }
}

impl fmt::Display for State {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.write_str(self.name())
    }
}

/// How an attempt ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum AttemptEnd {
    Succeeded,
    /// The worker reported a failure.
    Failed,
    /// The lease expired.
    LeaseLost,
    Cancelled,
}

impl AttemptEnd {
    pub const ALL: [AttemptEnd; 4] = [
        AttemptEnd::Succeeded,
        AttemptEnd::Failed,
        AttemptEnd::LeaseLost,
        AttemptEnd::Cancelled,
    ];

    pub fn name(self) -> &'static str {
        match self {
            AttemptEnd::Succeeded => "succeeded",
            AttemptEnd::Failed => "failed",
            AttemptEnd::LeaseLost => "lease_lost",
            AttemptEnd::Cancelled => "cancelled",
        }
    }

    pub fn named(name: &str) -> Option<AttemptEnd> {
        AttemptEnd::ALL.into_iter().find(|end| end.name() == name)
    }
}

/// What follows an attempt that did not succeed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Next {
    /// The job is ready again at once.
    Waiting,
    /// The job is scheduled for this time, Unix milliseconds.
    Scheduled {
        at_ms: i64,
    },
    Failed,
}

/// The attempts of a job so far and how many there may be.
///
/// Attempts are numbered from 1 through the job's whole life. A retry by hand raises the last number allowed;
/// nothing else does.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Tries {
    pub attempt: u32,
    /// The number of the last attempt allowed.
    pub attempt_max: u32,
}

impl Tries {
    /// A job that was never tried.
    pub fn fresh(max_retries: u32) -> Tries {
        Tries {
            attempt: 0,
            attempt_max: max_retries.saturating_add(1),
        }
    }

    /// Grants all attempts once more.
    pub fn renewed(self, max_retries: u32) -> Tries {
        Tries {
            attempt: self.attempt,
            attempt_max: self.attempt.saturating_add(max_retries).saturating_add(1),
        }
    }

    /// Takes the newest attempt back: the next one has its number again.
    pub fn given_back(self) -> Tries {
        Tries {
            attempt: self.attempt.saturating_sub(1),
            ..self
        }
    }

    pub fn are_over(self) -> bool {
        self.attempt >= self.attempt_max
    }
}

/// A failure as its worker reported it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct FailureTerms {
    /// Another attempt would fail too; no retry.
    pub permanent: bool,
    /// The worker asks for this wait instead of the job's backoff.
    pub retry_after: Option<Duration>,
}

/// Returns what follows a reported failure. `random` lies in 0..1.
pub fn after_failure(tries: Tries, terms: FailureTerms, backoff: Backoff, now_ms: i64, random: f64) -> Next {
    if terms.permanent || tries.are_over() {
        return Next::Failed;
    }
    let delay = match terms.retry_after {
        Some(delay) => delay.min(SPAN_MAX),
        None => backoff.delay(tries.attempt, random),
    };
    match span_ms(delay) {
        0 => Next::Waiting,
        ms => Next::Scheduled { at_ms: now_ms + ms },
    }
}

/// Returns what follows an expired lease. There is no backoff: the lease itself was wait enough.
pub fn after_expiry(tries: Tries) -> Next {
    if tries.are_over() {
        Next::Failed
    } else {
        Next::Waiting
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const FIXED: Backoff = Backoff::Fixed {
        delay: Duration::from_secs(2),
    };

    fn tries(attempt: u32) -> Tries {
        Tries {
            attempt,
            ..Tries::fresh(5)
        }
    }

    #[test]
    fn the_first_attempt_and_five_retries_then_it_is_over() {
        let terms = FailureTerms::default();
        for attempt in 1..=5 {
            let next = after_failure(tries(attempt), terms, FIXED, 100, 0.5);
            assert_eq!(next, Next::Scheduled { at_ms: 2_100 });
            assert_eq!(after_expiry(tries(attempt)), Next::Waiting);
        }
        assert_eq!(after_failure(tries(6), terms, FIXED, 100, 0.5), Next::Failed);
        assert_eq!(after_expiry(tries(6)), Next::Failed);
    }

    #[test]
    fn a_permanent_failure_skips_the_retries() {
        let terms = FailureTerms {
            permanent: true,
            retry_after: Some(Duration::from_secs(1)),
        };
        assert_eq!(after_failure(tries(1), terms, FIXED, 0, 0.5), Next::Failed);
    }

    #[test]
    fn a_worker_may_ask_for_a_wait_of_its_own() {
        let wait = |seconds| FailureTerms {
            permanent: false,
            retry_after: Some(Duration::from_secs(seconds)),
        };
        let next = |seconds| after_failure(tries(1), wait(seconds), FIXED, 0, 0.5);
        assert_eq!(next(9), Next::Scheduled { at_ms: 9_000 });
        assert_eq!(next(0), Next::Waiting);
    }

    #[test]
    fn a_retry_by_hand_gives_all_attempts_again() {
        let renewed = tries(6).renewed(5);
        assert_eq!((renewed.attempt, renewed.attempt_max), (6, 12));
        assert!(!renewed.are_over());
    }

    #[test]
    fn names_lead_back_to_their_states() {
        for state in State::ALL {
            assert_eq!(State::named(state.name()), Some(state));
        }
        assert_eq!(State::named("ready"), None);
    }
}
