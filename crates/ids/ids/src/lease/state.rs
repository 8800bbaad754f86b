//! The rules of the lease as a state machine, without I/O and without a clock of its own.
//!
//! The driver executes what [`LeaseState::next`] returns, and reports the outcome with the moments at
//! which the request was sent and its answer was processed. The rules:
//!
//! - The window is counted from the *sending* of the last confirmed request, so that it ends before
//!   another holder that got the number in the meantime may begin.
//! - Before a number that another holder may still use, the holder waits W from the *receipt* of the
//!   grant and then renews once more. Only a renewal sent after the wait opens the window, because only
//!   it proves that the grant was not lost in the meantime. W is the driver's: it depends on the pool.
//! - No number is used before the holder's own clock has passed the times that were used with it.
//! - The run of the server is compared with the one of the last confirmed answer. Under another run
//!   the record may be an older copy that lacks a later holder. A holder with an unbroken window knows
//!   that there is none and continues; any other holder asks for a number again.

use crate::lease::timing::Timing;
use crate::pool::{Phase, Refusal};
use nagaya_clock::BootTime;

/// The part of a grant that the rules depend on.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Held<R> {
    pub number: u64,
    pub fence: u64,
    pub at_once: bool,
    pub run: R,
}

/// What the driver has to do.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum LeaseAction {
    Get,
    Extend(Phase),
    /// Nothing before this moment.
    WaitUntil(BootTime),
    /// Another process of the same name has taken over. Asking again would take the number from it.
    GiveUp,
}

/// When a request was sent and when its answer was processed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Times {
    pub sent: BootTime,
    pub received: BootTime,
}

/// What has to pass before the first use of a granted number.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Opening {
    /// W: the wait for another holder, unless the number is granted at once.
    pub delay: std::time::Duration,
    /// When the holder's clock has passed every time that was used with the number.
    pub floor_passed: BootTime,
}

/// The outcome of a renewal.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum Renewal<R> {
    Confirmed {
        run_changed: bool,
        run: R,
    },
    Refused(Refusal),
    /// No answer, an error, or too few replicas: it may have been executed or not.
    Unknown,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash)]
enum State<R> {
    Seeking {
        not_before: BootTime,
    },
    /// The number is held in the pool and must not be used yet.
    Waiting {
        held: Held<R>,
        opens_after: BootTime,
        renew_at: BootTime,
    },
    /// The number may be used until `until`; after that it may open again.
    Open {
        held: Held<R>,
        until: BootTime,
        renew_at: BootTime,
    },
    GivenUp,
}

/// The state of one holder. `R` is the server's run.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct LeaseState<R> {
    timing: Lengths,
    state: State<R>,
}

/// The durations that the rules need, in a form that can be hashed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
struct Lengths {
    use_for: std::time::Duration,
    interval: std::time::Duration,
}

impl<R: Clone + PartialEq> LeaseState<R> {
    pub fn new(timing: &Timing) -> LeaseState<R> {
        LeaseState {
            timing: Lengths {
                use_for: timing.use_for,
                interval: timing.interval,
            },
            state: State::Seeking {
                not_before: BootTime::ZERO,
            },
        }
    }

    /// Returns what to do at `now`.
    pub fn next(&self, now: BootTime) -> LeaseAction {
        match &self.state {
            State::GivenUp => LeaseAction::GiveUp,
            State::Seeking { not_before } if now >= *not_before => LeaseAction::Get,
            State::Seeking { not_before } => LeaseAction::WaitUntil(*not_before),
            State::Waiting {
                opens_after,
                renew_at,
                ..
            } => {
                if now < *renew_at.min(opens_after) {
                    LeaseAction::WaitUntil(*renew_at.min(opens_after))
                } else if now >= *opens_after && now >= *renew_at {
                    LeaseAction::Extend(Phase::DelayOver)
                } else if now >= *opens_after {
                    // A failed renewal is repeated at its own interval.
                    LeaseAction::WaitUntil(*renew_at)
                } else {
                    LeaseAction::Extend(Phase::Waiting)
                }
            }
            State::Open { until, renew_at, .. } => {
                if now < *renew_at {
                    LeaseAction::WaitUntil(*renew_at)
                } else if now < *until {
                    LeaseAction::Extend(Phase::InUse)
                } else {
                    LeaseAction::Extend(Phase::Lapsed)
                }
            }
        }
    }

    /// Records that a number was granted and confirmed.
    pub fn granted(&mut self, held: Held<R>, opening: Opening, times: Times) {
        let Lengths { use_for, interval } = self.timing;
        let others_gone = if held.at_once {
            times.received
        } else {
            times.received + opening.delay
        };
        let opens_after = others_gone.max(opening.floor_passed);
        self.state = if held.at_once && opens_after == times.received {
            State::Open {
                held,
                until: times.sent + use_for,
                renew_at: times.sent + interval,
            }
        } else {
            State::Waiting {
                held,
                opens_after,
                renew_at: (times.sent + interval).min(opens_after),
            }
        };
    }

    /// Records that no number was granted; the next try is at `not_before`.
    pub fn not_granted(&mut self, not_before: BootTime) {
        self.state = State::Seeking { not_before };
    }

    /// Records the outcome of a renewal: `phase` is what it was sent as, `retry_at` the next try if it failed.
    pub fn renewed(&mut self, phase: Phase, renewal: Renewal<R>, times: Times, retry_at: BootTime) {
        let Lengths { use_for, interval } = self.timing;
        let seek = State::Seeking {
            not_before: BootTime::ZERO,
        };
        match (&mut self.state, renewal) {
            (State::Seeking { .. } | State::GivenUp, _) => (),
            (_, Renewal::Refused(Refusal::Robbed { same_name: true })) => self.state = State::GivenUp,
            (_, Renewal::Refused(_)) => self.state = seek,
            (State::Waiting { renew_at, .. } | State::Open { renew_at, .. }, Renewal::Unknown) => {
                *renew_at = retry_at;
            }
            (
                State::Waiting {
                    held,
                    opens_after,
                    renew_at,
                },
                Renewal::Confirmed { run_changed, run },
            ) => {
                if run_changed || run != held.run {
                    self.state = seek;
                } else if phase == Phase::DelayOver {
                    self.state = State::Open {
                        held: held.clone(),
                        until: times.sent + use_for,
                        renew_at: times.sent + interval,
                    };
                } else {
                    *renew_at = (times.sent + interval).min(*opens_after);
                }
            }
            (
                State::Open {
                    held,
                    until,
                    renew_at,
                },
                Renewal::Confirmed { run_changed, run },
            ) => {
                let unbroken = times.received < *until;
                if (run_changed || run != held.run) && !unbroken {
                    self.state = seek;
                } else {
                    held.run = run;
                    *until = times.sent + use_for;
                    *renew_at = times.sent + interval;
                }
            }
        }
    }

    /// Returns the number that is held in the pool, whether it may be used or not.
    pub fn held(&self) -> Option<&Held<R>> {
        match &self.state {
            State::Waiting { held, .. } | State::Open { held, .. } => Some(held),
            State::Seeking { .. } | State::GivenUp => None,
        }
    }

    /// Returns the number that may be used, and until when.
    pub fn window(&self) -> Option<(&Held<R>, BootTime)> {
        match &self.state {
            State::Open { held, until, .. } => Some((held, *until)),
            _ => None,
        }
    }

    /// Returns the end of the wait for the first use, during that wait.
    pub fn opens_after(&self) -> Option<BootTime> {
        match &self.state {
            State::Waiting { opens_after, .. } => Some(*opens_after),
            _ => None,
        }
    }
}

#[cfg(test)]
#[path = "state_tests.rs"]
mod tests;
