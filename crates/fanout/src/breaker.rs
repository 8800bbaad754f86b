//! A circuit breaker: stops sending to an endpoint that is down, and detects when it is back.
//!
//! *Closed*: everything passes. After a number of failures in a row it is *open*: nothing passes for a pause.
//! Then one request at a time passes as a probe. Success closes the breaker; failure opens it again for twice
//! the pause, up to a limit. A request that was sent before the breaker opened and fails later changes
//! nothing, because it reports the same outage.

use std::time::Duration;

use tokio::time::Instant;

/// Upper bound for the pause between two probes.
const PAUSE_MAX: Duration = Duration::from_secs(30);

#[derive(Debug)]
pub(crate) struct Breaker {
    /// Failures in a row that open it; 0 disables the breaker.
    failures_max: u32,
    first_pause: Duration,
    state: State,
}

#[derive(Debug)]
enum State {
    Closed { failures: u32 },
    Open { until: Instant, pause: Duration },
    Probing { pause: Duration },
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
    pub(crate) fn new(failures_max: u32, first_pause: Duration) -> Breaker {
        Breaker {
            failures_max,
            first_pause,
            state: State::Closed { failures: 0 },
        }
    }

    pub(crate) fn pass(&mut self, now: Instant) -> Pass {
        match self.state {
            State::Closed { .. } => Pass::Normal,
            State::Open { until, pause } if now >= until => {
                self.state = State::Probing { pause };
                Pass::Probe
            }
            State::Open { .. } | State::Probing { .. } => Pass::No,
        }
    }

    /// Records the outcome of a request. `None` means that it never reached the endpoint.
    pub(crate) fn book(&mut self, pass: Pass, failed: Option<bool>, now: Instant) {
        match (&mut self.state, pass, failed) {
            (_, _, Some(false)) => self.state = State::Closed { failures: 0 },
            (State::Closed { failures }, _, Some(true)) if self.failures_max > 0 => {
                *failures += 1;
                if *failures >= self.failures_max {
                    self.open(now, self.first_pause);
                }
            }
            (State::Probing { pause }, Pass::Probe, Some(true)) => {
                let pause = (*pause * 2).min(PAUSE_MAX);
                self.open(now, pause);
            }
            (State::Probing { pause }, Pass::Probe, None) => {
                let pause = *pause;
                self.state = State::Open { until: now, pause };
            }
            (State::Closed { .. } | State::Open { .. } | State::Probing { .. }, _, _) => (),
        }
    }

    pub(crate) fn is_open(&self) -> bool {
        !matches!(self.state, State::Closed { .. })
    }

    /// Returns the name of the state, for display.
    pub(crate) fn word(&self) -> &'static str {
        match self.state {
            State::Closed { .. } => "closed",
            State::Open { .. } => "open",
            State::Probing { .. } => "probing",
        }
    }

    fn open(&mut self, now: Instant, pause: Duration) {
        let until = now + pause;
        self.state = State::Open { until, pause };
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const S: Duration = Duration::from_secs(1);

    #[tokio::test(start_paused = true)]
    async fn failures_in_a_row_open_it_and_one_probe_closes_it() {
        let now = Instant::now();
        let mut breaker = Breaker::new(3, S);
        for failed in [true, true, false, true, true] {
            breaker.book(Pass::Normal, Some(failed), now);
            assert_eq!(breaker.pass(now), Pass::Normal);
        }
        breaker.book(Pass::Normal, Some(true), now);
        assert!(breaker.is_open());
        assert_eq!(breaker.pass(now + S / 2), Pass::No);
        assert_eq!(breaker.pass(now + S), Pass::Probe);
        assert_eq!(breaker.pass(now + S), Pass::No, "one probe at a time");
        breaker.book(Pass::Probe, Some(false), now + S);
        assert_eq!(breaker.pass(now + S), Pass::Normal);
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
