//! What a holder does next: the rules of the lease, without I/O and without a clock of its own.
//!
//! The driver asks [`Machine::next`], does it, and reports back with the moments at which the
//! request was sent and its answer was processed. The rules:
//!
//! - The window is counted from the *sending* of the last confirmed request, so that it ends before
//!   anybody who took the number meanwhile may begin.
//! - A number that somebody else may still be using is first waited for, W from the *receipt* of the
//!   grant, and then renewed once more: only a renewal sent after the wait opens the window, because
//!   only it proves that the grant was not lost in the meantime.
//! - The run of the server is compared with the one of the last confirmed answer. Under another run
//!   the record may be an older copy, and a later holder may be forgotten in it. Whoever has an
//!   unbroken window knows that there is none and goes on; everybody else asks again.

use crate::lease::timing::Timing;
use crate::pool::{Phase, Refusal};
use nagaya_clock::BootTime;

/// The part of a grant that the rules look at.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Held<R> {
    pub number: u64,
    pub fence: u64,
    pub at_once: bool,
    pub run: R,
}

/// What to do now.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Step {
    Get,
    Extend(Phase),
    /// Nothing before this moment.
    WaitUntil(BootTime),
    /// Another process of our own name has taken over. Asking again would rob it in turn.
    GiveUp,
}

/// When a request was sent and its answer was looked at.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Times {
    pub sent: BootTime,
    pub received: BootTime,
}

/// How a renewal ended, as far as the rules are concerned.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum Renewal<R> {
    Confirmed {
        run_changed: bool,
        run: R,
    },
    Refused(Refusal),
    /// No answer, an error, or too few replicas: it may have run or not.
    Unknown,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash)]
enum State<R> {
    Seeking {
        not_before: BootTime,
    },
    /// The number is ours in the pool and must not be used yet.
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
pub struct Machine<R> {
    timing: Lengths,
    state: State<R>,
}

/// The lengths that the rules need, in a form that can be hashed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
struct Lengths {
    use_for: std::time::Duration,
    interval: std::time::Duration,
    delay: std::time::Duration,
}

impl<R: Clone + PartialEq> Machine<R> {
    pub fn new(timing: &Timing) -> Machine<R> {
        Machine {
            timing: Lengths {
                use_for: timing.use_for,
                interval: timing.interval,
                delay: timing.delay,
            },
            state: State::Seeking {
                not_before: BootTime::ZERO,
            },
        }
    }

    /// What to do at `now`.
    pub fn next(&self, now: BootTime) -> Step {
        match &self.state {
            State::GivenUp => Step::GiveUp,
            State::Seeking { not_before } if now >= *not_before => Step::Get,
            State::Seeking { not_before } => Step::WaitUntil(*not_before),
            State::Waiting {
                opens_after,
                renew_at,
                ..
            } => {
                if now < *renew_at.min(opens_after) {
                    Step::WaitUntil(*renew_at.min(opens_after))
                } else if now >= *opens_after && now >= *renew_at {
                    Step::Extend(Phase::DelayOver)
                } else if now >= *opens_after {
                    // A failed try is repeated at its own pace.
                    Step::WaitUntil(*renew_at)
                } else {
                    Step::Extend(Phase::Waiting)
                }
            }
            State::Open { until, renew_at, .. } => {
                if now < *renew_at {
                    Step::WaitUntil(*renew_at)
                } else if now < *until {
                    Step::Extend(Phase::InUse)
                } else {
                    Step::Extend(Phase::Lapsed)
                }
            }
        }
    }

    /// A number was granted and confirmed.
    pub fn granted(&mut self, held: Held<R>, times: Times) {
        let Lengths {
            use_for,
            interval,
            delay,
        } = self.timing;
        self.state = if held.at_once {
            State::Open {
                held,
                until: times.sent + use_for,
                renew_at: times.sent + interval,
            }
        } else {
            let opens_after = times.received + delay;
            State::Waiting {
                held,
                opens_after,
                renew_at: (times.sent + interval).min(opens_after),
            }
        };
    }

    /// No number came of asking; try again at `not_before`.
    pub fn not_granted(&mut self, not_before: BootTime) {
        self.state = State::Seeking { not_before };
    }

    /// A renewal ended; `phase` is what it was sent as, `retry_at` when to try again if it failed.
    pub fn renewed(&mut self, phase: Phase, renewal: Renewal<R>, times: Times, retry_at: BootTime) {
        let Lengths {
            use_for, interval, ..
        } = self.timing;
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

    /// The number that is ours in the pool, used or not.
    pub fn held(&self) -> Option<&Held<R>> {
        match &self.state {
            State::Waiting { held, .. } | State::Open { held, .. } => Some(held),
            State::Seeking { .. } | State::GivenUp => None,
        }
    }

    /// The number that may be used, and until when.
    pub fn window(&self) -> Option<(&Held<R>, BootTime)> {
        match &self.state {
            State::Open { held, until, .. } => Some((held, *until)),
            _ => None,
        }
    }

    /// When the wait for the first use is over, if we are in it.
    pub fn opens_after(&self) -> Option<BootTime> {
        match &self.state {
            State::Waiting { opens_after, .. } => Some(*opens_after),
            _ => None,
        }
    }
}

#[cfg(test)]
#[path = "machine_tests.rs"]
mod tests;
