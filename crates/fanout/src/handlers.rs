//! How many requests may be between arrival and reply.
//!
//! Fewer at a time are answered sooner, and no fewer in all: beyond what keeps the machine busy, further requests only
//! wait for each other. So the limit follows the time that replies take, as TCP follows the time of its packets:
//! while replies are quick it grows towards the configured one, when they take too long it shrinks in proportion.
//! "Too long" is told from the quickest reply of the last minute, so a store that is far away is no overload. The
//! endpoints' own times do not matter here, because the reply does not wait for them; a slow endpoint cannot shrink
//! what others get.
//!
//! Gradient2 of Netflix's concurrency-limits and Envoy's adaptive concurrency compare latencies in the same way. Both
//! measure whole requests to one upstream. Here one process does all the work of a request, and the reply is the part
//! of it that has a promise.

use std::time::Duration;

use tokio::time::Instant;

/// Replies are judged together that come within this time.
const WINDOW: Duration = Duration::from_millis(100);
/// Fewer replies than this tell nothing; the window goes on.
const REPLIES_MIN: u32 = 10;
/// How long the quickest reply is remembered: between one and two of these.
const MEMORY: Duration = Duration::from_secs(30);
/// The mean may be this many times the quickest reply ...
const SPREAD: u32 = 4;
/// ... and this long in any case.
const ALWAYS_FINE: Duration = Duration::from_millis(5);
/// The limit does not shrink below this.
const LIMIT_MIN: f64 = 8.0;
/// A window takes no more than this part of the limit away.
const SHRINK_MAX: f64 = 0.5;

/// The limit and what it follows.
#[derive(Debug)]
pub(crate) struct Handlers {
    max: f64,
    limit: f64,
    busy: usize,
    window: Window,
    quickest: Quickest,
}

#[derive(Debug)]
struct Window {
    began: Instant,
    replies: u32,
    sum: Duration,
    /// The most requests at a time.
    most: usize,
}

/// The quickest reply of the current half of the memory, and of the half before.
#[derive(Debug)]
struct Quickest {
    since: Instant,
    now: Duration,
    before: Duration,
}

impl Handlers {
    pub(crate) fn new(max: usize, now: Instant) -> Handlers {
        Handlers {
            max: max as f64,
            limit: max as f64,
            busy: 0,
            window: Window::new(now),
            quickest: Quickest {
                since: now,
                now: Duration::MAX,
                before: Duration::MAX,
            },
        }
    }

    /// Counts a request in, unless there are too many.
    pub(crate) fn enter(&mut self) -> bool {
        self.window.most = self.window.most.max(self.busy + 1);
        if self.busy as f64 >= self.limit.floor() {
            return false;
        }
        self.busy += 1;
        true
    }

    /// Counts a request out that was not replied to: it was refused, or its client has gone.
    pub(crate) fn leave(&mut self) {
        self.busy -= 1;
    }

    /// Counts a request out whose reply took this long.
    pub(crate) fn replied(&mut self, took: Duration, now: Instant) {
        self.busy -= 1;
        self.quickest.learn(took, now);
        self.window.replies += 1;
        self.window.sum += took;
        let is_over = now.saturating_duration_since(self.window.began) >= WINDOW;
        if is_over && self.window.replies >= REPLIES_MIN {
            self.judge();
            self.window = Window::new(now);
            self.window.most = self.busy;
        }
    }

    fn judge(&mut self) {
        let mean = self.window.sum / self.window.replies;
        let fine = (self.quickest.get() * SPREAD).max(ALWAYS_FINE);
        if mean > fine {
            let factor = (fine.as_secs_f64() / mean.as_secs_f64()).max(SHRINK_MAX);
            // What is not used is no limit.
            let used = self.limit.min(self.window.most as f64);
            self.limit = (used * factor).max(LIMIT_MIN).min(self.max);
        } else if self.window.most as f64 >= self.limit.floor() {
            self.limit = (self.limit + self.limit.sqrt()).min(self.max);
        }
    }

    /// Returns the limit at the moment.
    pub(crate) fn limit(&self) -> usize {
        self.limit as usize
    }

    pub(crate) fn busy(&self) -> usize {
        self.busy
    }
}

impl Window {
    fn new(now: Instant) -> Window {
        Window {
            began: now,
            replies: 0,
            sum: Duration::ZERO,
            most: 0,
        }
    }
}

impl Quickest {
    fn learn(&mut self, took: Duration, now: Instant) {
        if now.saturating_duration_since(self.since) >= MEMORY {
            (self.since, self.before, self.now) = (now, self.now, took);
        }
        self.now = self.now.min(took);
    }

    fn get(&self) -> Duration {
        self.now.min(self.before)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MS: Duration = Duration::from_millis(1);

    /// A machine that replies to so many requests a second, each in a millisecond at least.
    struct Machine {
        handlers: Handlers,
        now: Instant,
        rate: f64,
        least: Duration,
    }

    impl Machine {
        fn new(rate: f64, least: Duration) -> Machine {
            let now = Instant::now();
            Machine {
                handlers: Handlers::new(1024, now),
                now,
                rate,
                least,
            }
        }

        /// Lets requests come for some time, `factor` times as many as can be replied to; returns the share that was
        /// replied to of what could be, and the last reply's time.
        fn run(&mut self, factor: f64, lasts: Duration) -> (f64, Duration) {
            let (step, begin) = (Duration::from_micros(500), self.now);
            let (mut coming, mut replied, mut credit) = (0.0, 0.0, 0.0);
            let mut waiting: std::collections::VecDeque<Instant> = std::collections::VecDeque::new();
            let mut last = Duration::ZERO;
            while self.now < begin + lasts {
                self.now += step;
                coming += self.rate * factor * step.as_secs_f64();
                while coming >= 1.0 {
                    coming -= 1.0;
                    if self.handlers.enter() {
                        waiting.push_back(self.now);
                    }
                }
                let done = self.rate * step.as_secs_f64();
                credit = (credit + done).min(4.0 + done);
                while credit >= 1.0 && waiting.front().is_some_and(|came| self.now >= *came + self.least) {
                    credit -= 1.0;
                    replied += 1.0;
                    last = self.now - waiting.pop_front().unwrap();
                    self.handlers.replied(last, self.now);
                }
            }
            waiting.iter().for_each(|_| self.handlers.leave());
            (replied / (self.rate * lasts.as_secs_f64()), last)
        }
    }

    #[tokio::test(start_paused = true)]
    async fn below_the_capacity_nobody_is_turned_away() {
        let mut machine = Machine::new(4000.0, MS);
        let (share, took) = machine.run(0.7, Duration::from_secs(5));
        assert!(share > 0.69, "{share}");
        assert!(took < 3 * MS, "{took:?}");
        assert_eq!(machine.handlers.limit(), 1024);
    }

    #[tokio::test(start_paused = true)]
    async fn overload_keeps_replies_quick_and_the_machine_busy() {
        for factor in [1.5, 2.0, 5.0, 20.0] {
            let mut machine = Machine::new(4000.0, MS);
            machine.run(factor, Duration::from_secs(3));
            let (share, took) = machine.run(factor, Duration::from_secs(5));
            assert!(share > 0.9, "{factor}: {share}");
            assert!(took < 10 * MS, "{factor}: {took:?}");
        }
    }

    #[tokio::test(start_paused = true)]
    async fn the_limit_grows_back_after_an_overload() {
        let mut machine = Machine::new(4000.0, MS);
        machine.run(5.0, Duration::from_secs(5));
        assert!(machine.handlers.limit() < 64, "{}", machine.handlers.limit());
        machine.rate = 40_000.0;
        let (share, _) = machine.run(0.9, Duration::from_secs(10));
        assert!(share > 0.85, "{share}");
    }

    #[tokio::test(start_paused = true)]
    async fn a_store_that_is_far_away_is_no_overload() {
        let mut machine = Machine::new(4000.0, 20 * MS);
        let (share, _) = machine.run(0.9, Duration::from_secs(5));
        assert!(share > 0.88, "{share}");
        assert_eq!(machine.handlers.limit(), 1024);
    }

    #[tokio::test(start_paused = true)]
    async fn some_requests_are_always_let_in() {
        let mut handlers = Handlers::new(1024, Instant::now());
        let mut now = Instant::now();
        for took in std::iter::once(MS).chain([900 * MS; 1000]) {
            now += 50 * MS;
            assert!(handlers.enter());
            handlers.replied(took, now);
        }
        assert!(handlers.limit() >= 8);
    }
}
