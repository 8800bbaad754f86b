//! A circuit breaker: stops sending to an endpoint that is down, and detects when it is back.
//!
//! *Closed*: everything passes. When most of the recent requests failed, and a number of them at least, it is
//! *open*: nothing passes for a pause. Then one request at a time passes as a probe. Success closes the breaker;
//! failure opens it again for twice the pause, up to a limit. A request that was sent before the breaker opened
//! and fails later changes nothing, because it reports the same outage.

use std::time::Duration;

use tokio::time::Instant;

/// Upper bound for the pause between two probes.
const PAUSE_MAX: Duration = Duration::from_secs(30);
/// Requests count for between one and two of these.
const RECENT: Duration = Duration::from_secs(5);

#[derive(Debug)]
pub(crate) struct Breaker {
    /// Recent failures that it takes to open it; 0 disables the breaker.
    failures_min: u32,
    first_pause: Duration,
    state: State,
}

#[derive(Debug)]
enum State {
    Closed(Recent),
    Open {
        until: Instant,
        pause: Duration,
        why: Tally,
    },
    Probing {
        pause: Duration,
        why: Tally,
    },
}

/// Requests, and how many of them failed.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Tally {
    pub requests: u32,
    pub failures: u32,
}

/// The requests of a short time, and of the same time before.
#[derive(Clone, Copy, Debug, Default)]
struct Recent {
    since: Option<Instant>,
    now: Tally,
    before: Tally,
}

impl Recent {
    fn count(&mut self, failed: bool, now: Instant) {
        let age = self.since.map(|since| now.saturating_duration_since(since));
        match age {
            Some(age) if age < RECENT => (),
            Some(age) if age < 2 * RECENT => {
                (self.since, self.before, self.now) = (Some(now), self.now, Tally::default())
            }
            _ => (self.since, self.before, self.now) = (Some(now), Tally::default(), Tally::default()),
        }
        self.now.requests = self.now.requests.saturating_add(1);
        self.now.failures = self.now.failures.saturating_add(u32::from(failed));
    }

    fn tally(&self) -> Tally {
        Tally {
            requests: self.now.requests.saturating_add(self.before.requests),
            failures: self.now.failures.saturating_add(self.before.failures),
        }
    }
}

/// How a request was let through.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Pass {
    Normal,
    /// The probe. Its outcome must be reported, or no further probe is let through.
    Probe,
    No,
}

impl Breaker {
    pub(crate) fn new(failures_min: u32, first_pause: Duration) -> Breaker {
        Breaker {
            failures_min,
            first_pause,
            state: State::Closed(Recent::default()),
        }
    }

    pub(crate) fn pass(&mut self, now: Instant) -> Pass {
        match self.state {
            State::Closed(_) => Pass::Normal,
            State::Open { until, pause, why } if now >= until => {
                self.state = State::Probing { pause, why };
                Pass::Probe
            }
            State::Open { .. } | State::Probing { .. } => Pass::No,
        }
    }

    /// Records the outcome of a request. `None` means that it never reached the endpoint.
    pub(crate) fn book(&mut self, pass: Pass, failed: Option<bool>, now: Instant) {
        match (&mut self.state, pass, failed) {
            (State::Closed(recent), _, Some(failed)) if self.failures_min > 0 => {
                recent.count(failed, now);
                let tally = recent.tally();
                let is_most = tally.failures > tally.requests / 2;
                if failed && is_most && tally.failures >= self.failures_min {
                    self.open(now, self.first_pause, tally);
                }
            }
            (State::Open { .. } | State::Probing { .. }, _, Some(false)) => {
                self.state = State::Closed(Recent::default());
            }
            (State::Probing { pause, why }, Pass::Probe, Some(true)) => {
                let (pause, why) = ((*pause * 2).min(PAUSE_MAX), *why);
                self.open(now, pause, why);
            }
            (State::Probing { pause, why }, Pass::Probe, None) => {
                let (pause, why) = (*pause, *why);
                self.state = State::Open {
                    until: now,
                    pause,
                    why,
                };
            }
            (State::Closed(_) | State::Open { .. } | State::Probing { .. }, _, _) => (),
        }
    }

    /// Returns what opened it, and how long until the next probe.
    pub(crate) fn why_open(&self, now: Instant) -> Option<(Tally, Duration)> {
        match self.state {
            State::Closed(_) => None,
            State::Open { until, why, .. } => Some((why, until.saturating_duration_since(now))),
            State::Probing { why, .. } => Some((why, Duration::ZERO)),
        }
    }

    pub(crate) fn is_open(&self) -> bool {
        !matches!(self.state, State::Closed(_))
    }

    /// Returns the name of the state, for display.
    pub(crate) fn word(&self) -> &'static str {
        match self.state {
            State::Closed(_) => "closed",
            State::Open { .. } => "open",
            State::Probing { .. } => "probing",
        }
    }

    fn open(&mut self, now: Instant, pause: Duration, why: Tally) {
        let until = now + pause;
        self.state = State::Open { until, pause, why };
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const S: Duration = Duration::from_secs(1);

    #[tokio::test(start_paused = true)]
    async fn when_most_fail_it_opens_and_one_probe_closes_it() {
        let now = Instant::now();
        let mut breaker = Breaker::new(3, S);
        for failed in [true, true, false, false] {
            breaker.book(Pass::Normal, Some(failed), now);
            assert_eq!(breaker.pass(now), Pass::Normal);
        }
        breaker.book(Pass::Normal, Some(true), now);
        assert!(breaker.is_open());
        let why = Tally {
            requests: 5,
            failures: 3,
        };
        assert_eq!(breaker.why_open(now), Some((why, S)));
        assert_eq!(breaker.pass(now + S / 2), Pass::No);
        assert_eq!(breaker.pass(now + S), Pass::Probe);
        assert_eq!(breaker.pass(now + S), Pass::No, "one probe at a time");
        breaker.book(Pass::Probe, Some(false), now + S);
        assert_eq!(breaker.pass(now + S), Pass::Normal);
    }

    #[tokio::test(start_paused = true)]
    async fn failures_among_many_successes_and_old_ones_do_not_open_it() {
        let mut now = Instant::now();
        let mut breaker = Breaker::new(3, S);
        for _ in 0..100 {
            for failed in [true, false, false] {
                breaker.book(Pass::Normal, Some(failed), now);
                assert!(!breaker.is_open());
            }
        }
        for _ in 0..100 {
            now += 2 * RECENT;
            breaker.book(Pass::Normal, Some(true), now);
            assert!(!breaker.is_open(), "one in a while");
        }
    }

    #[tokio::test(start_paused = true)]
    async fn failed_probes_double_the_pause_up_to_a_limit() {
        let mut now = Instant::now();
        let mut breaker = Breaker::new(1, S);
        breaker.book(Pass::Normal, Some(true), now);
        for pause in [1, 2, 4, 8, 16, 30, 30] {
            assert_eq!(breaker.pass(now + pause * S - S / 10), Pass::No, "{pause}");
            now += pause * S;
            assert_eq!(breaker.pass(now), Pass::Probe);
            breaker.book(Pass::Probe, Some(true), now);
        }
    }

    #[tokio::test(start_paused = true)]
    async fn a_probe_that_was_never_sent_is_tried_again_at_once() {
        let now = Instant::now();
        let mut breaker = Breaker::new(1, S);
        breaker.book(Pass::Normal, Some(true), now);
        assert_eq!(breaker.pass(now + S), Pass::Probe);
        breaker.book(Pass::Probe, None, now + S);
        assert_eq!(breaker.pass(now + S), Pass::Probe);
    }

    #[tokio::test(start_paused = true)]
    async fn late_failures_of_earlier_requests_change_nothing_while_it_is_open() {
        let now = Instant::now();
        let mut breaker = Breaker::new(1, S);
        breaker.book(Pass::Normal, Some(true), now);
        breaker.book(Pass::Normal, Some(true), now + S / 2);
        assert_eq!(breaker.pass(now + S), Pass::Probe);
        breaker.book(Pass::Normal, Some(true), now + S);
        assert_eq!(breaker.pass(now + S), Pass::No, "the probe is still out");
    }

    #[tokio::test(start_paused = true)]
    async fn zero_never_opens() {
        let now = Instant::now();
        let mut breaker = Breaker::new(0, S);
        for _ in 0..1000 {
            breaker.book(Pass::Normal, Some(true), now);
        }
        assert_eq!(breaker.pass(now), Pass::Normal);
    }
}
