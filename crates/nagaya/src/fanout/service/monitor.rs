//! serinin's counters as it logs them, at a fixed interval and from zero each time.

use std::sync::atomic::Ordering;
use std::time::Duration;

use nagaya_fanout::{Fanout, State};
use tracing::info;

/// What has been counted up to one moment.
#[derive(Clone, Copy, Default)]
struct Totals {
    accept: u64,
    fail: u64,
    timeout: u64,
}

impl Totals {
    /// serinin counts endpoints, not requests, and error pages as answers.
    fn of(fanout: &Fanout) -> Totals {
        let counts = fanout.counts();
        let sum = |states: &[State]| states.iter().map(|state| counts.outcome(*state)).sum();
        Totals {
            accept: counts.jobs.load(Ordering::Relaxed),
            fail: sum(&[State::Refused, State::TooLarge, State::Shed, State::StoreFailed]),
            timeout: sum(&[State::Timeout]),
        }
    }
}

/// Logs until dropped.
pub(super) async fn run(fanout: &Fanout, every: Duration) {
    let mut before = Totals::default();
    loop {
        let now = Totals::of(fanout);
        let (accept, fail) = (now.accept - before.accept, now.fail - before.fail);
        let timeout = now.timeout - before.timeout;
        let tasks = tokio::runtime::Handle::current().metrics().num_alive_tasks();
        let heap = nagaya_engine::used_bytes();
        // Tasks stand where goroutines did; their state is in the heap.
        info!("accept:{accept} fail:{fail} timeout:{timeout} goroutine:{tasks} heap:{heap} stack:0");
        before = now;
        tokio::time::sleep(every).await;
    }
}
