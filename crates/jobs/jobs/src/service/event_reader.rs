//! Reads the log and wakes its followers.
//!
//! One task reads new events and wakes the followers whose filter may match; each then reads from the store
//! with its own cursor. So ten thousand readers of single jobs cost nothing while other jobs run. A slow reader
//! blocks no other. No reader can miss an event: what it has not read is still in the log. While nobody follows, the
//! log is not read: a follower registers before it reads for itself, so what comes later is read here.

use std::sync::Arc;
use std::time::Duration;

use nagaya_threads::vital;
use tokio::time::{Instant, timeout, timeout_at};
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

use super::Config;
use super::wakeups::{WakeupGuard, Wakeups};
use crate::error::Error;
use crate::event::{Event, EventFilter};
use crate::id::JobId;
use crate::state::State;
use crate::store::{EventLog, JobReader};

/// Events per read of the task.
const PAGE: usize = 1_000;

pub(super) struct EventReader {
    wakeups: Arc<Wakeups>,
    poll: Duration,
    shutdown: CancellationToken,
}

impl EventReader {
    pub(super) fn start(
        store: Arc<dyn EventLog>,
        wakeups: &Arc<Wakeups>,
        config: &Config,
        shutdown: &CancellationToken,
        tasks: &TaskTracker,
    ) -> EventReader {
        let reading = run(store, Arc::clone(wakeups), config.poll, shutdown.clone());
        tasks.spawn(vital("jobs events", reading));
        EventReader {
            wakeups: Arc::clone(wakeups),
            poll: config.poll,
            shutdown: shutdown.clone(),
        }
    }

    /// Waits until jobs have ended, the wait is over, or the server shuts down. Returns their states then; `None` for
    /// a job that does not exist, which counts as ended.
    pub(super) async fn wait_until_ended(
        &self,
        store: &dyn JobReader,
        ids: &[JobId],
        until: WaitFor,
        wait: Duration,
    ) -> Result<Vec<Option<State>>, Error> {
        let wait_end = Instant::now() + wait;
        // Registered before the first read, so that no event falls between.
        let wakeup = self.wakeups.wait_for_jobs(ids);
        let mut states = vec![None; ids.len()];
        let mut open: Vec<usize> = (0..ids.len()).collect();
        loop {
            let asked = open.iter().map(|at| ids[*at]).collect();
            for (at, state) in open.iter().zip(store.states(asked).await?) {
                states[*at] = state;
            }
            open.retain(|at| states[*at].is_some_and(|state| !state.has_ended()));
            let is_met = match until {
                WaitFor::Any => open.len() < ids.len(),
                WaitFor::All => open.is_empty(),
            };
            if is_met || Instant::now() >= wait_end || self.shutdown.is_cancelled() {
                return Ok(states);
            }
            // Polls as well, because notifications are only hints.
            let look = wait_end.min(Instant::now() + self.poll * 4);
            timeout_at(look, wakeup.wake.notified()).await.ok();
        }
    }
}

/// Which of several jobs are waited for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum WaitFor {
    Any,
    All,
}

async fn run(store: Arc<dyn EventLog>, wakeups: Arc<Wakeups>, poll: Duration, shutdown: CancellationToken) {
    let mut head = wakeups.head();
    let mut after = *head.borrow_and_update();
    loop {
        if !wakeups.has_followers() {
            after = (*head.borrow_and_update()).max(after);
            wakeups.passed_on(after, after);
            tokio::select! {
                () = shutdown.cancelled() => return,
                () = wakeups.followed.notified() => (),
                _ = head.changed() => (),
            }
            continue;
        }
        match store.events_after(after, EventFilter::default(), PAGE).await {
            Ok(page) => {
                wakeups.wake_for(&page.events);
                let more = page.next > after;
                after = page.next.max(after);
                wakeups.passed_on(after, page.bounds.head);
                if more && page.events.len() >= PAGE {
                    continue;
                }
            }
            Err(error) => tracing::warn!(%error, "event log could not be read"),
        }
        tokio::select! {
            () = shutdown.cancelled() => return,
            // Another server may have written.
            _ = timeout(poll, head.changed()) => (),
        }
    }
}

/// The next step of a follower.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Step {
    Events(Vec<Event>),
    /// Events up to here were trimmed before they were read. Read the jobs themselves, then continue.
    Gap {
        trimmed: u64,
    },
    /// No event arrived in time.
    Nothing,
}

/// A reader of the log with its own cursor.
pub struct Follower {
    store: Arc<dyn EventLog>,
    wakeup: WakeupGuard,
    filter: EventFilter,
    after: u64,
    poll: Duration,
}

impl Follower {
    pub(super) fn new(
        store: Arc<dyn EventLog>,
        wakeups: &Arc<Wakeups>,
        after: u64,
        filter: EventFilter,
        poll: Duration,
    ) -> Follower {
        Follower {
            store,
            wakeup: wakeups.wait_for(&filter),
            filter,
            after,
            poll,
        }
    }

    /// The position up to which everything was read, including what the filter left out.
    pub fn position(&self) -> u64 {
        self.after
    }

    /// Returns the next events, up to `limit`; waits for them up to `wait`.
    ///
    /// Cancel safe: what a dropped call had read is read again.
    pub async fn next(&mut self, limit: usize, wait: Duration) -> Result<Step, Error> {
        let until = Instant::now() + wait;
        loop {
            let page = self
                .store
                .events_after(self.after, self.filter.clone(), limit)
                .await?;
            if page.has_gap(self.after) {
                self.after = page.bounds.trimmed;
                return Ok(Step::Gap {
                    trimmed: page.bounds.trimmed,
                });
            }
            let moved = page.next > self.after;
            self.after = self.after.max(page.next);
            if !page.events.is_empty() {
                return Ok(Step::Events(page.events));
            }
            if moved && self.after < page.bounds.head {
                continue;
            }
            if Instant::now() >= until {
                return Ok(Step::Nothing);
            }
            let look = until.min(Instant::now() + self.poll * 20);
            timeout_at(look, self.wakeup.wake.notified()).await.ok();
        }
    }
}
