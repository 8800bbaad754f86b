//! Follows the log for all who read it.
//!
//! One task reads what is new and wakes those whose filter it may concern; they then read from the store by
//! their own cursor. So ten thousand readers of single jobs cost nothing while other jobs run, a slow reader
//! holds nothing up, and none can miss an event: what it has not read is still in the log.

use std::sync::Arc;
use std::time::Duration;

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

/// Events that the task reads at a time.
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
        tasks.spawn(run(store, Arc::clone(wakeups), config.poll, shutdown.clone()));
        EventReader {
            wakeups: Arc::clone(wakeups),
            poll: config.poll,
            shutdown: shutdown.clone(),
        }
    }

    /// Waits until a job has ended, the time is over, or the server goes down.
    pub(super) async fn wait_until_ended(
        &self,
        store: &dyn JobReader,
        id: JobId,
        wait: Duration,
    ) -> Result<Option<State>, Error> {
        let until = Instant::now() + wait;
        let filter = EventFilter {
            job: Some(id),
            ..EventFilter::default()
        };
        // The place is taken before the first look, so that nothing falls between.
        let wakeup = self.wakeups.wait_for(&filter);
        loop {
            let state = store.states(vec![id]).await?.into_iter().next().flatten();
            let over = Instant::now() >= until || self.shutdown.is_cancelled();
            if over || state.is_none_or(State::has_ended) {
                return Ok(state);
            }
            // Looking now and then as well: news are hints.
            let look = until.min(Instant::now() + self.poll * 4);
            timeout_at(look, wakeup.wake.notified()).await.ok();
        }
    }
}

async fn run(store: Arc<dyn EventLog>, wakeups: Arc<Wakeups>, poll: Duration, shutdown: CancellationToken) {
    let mut head = wakeups.head();
    let mut after = *head.borrow_and_update();
    loop {
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
            Err(error) => tracing::warn!(%error, "the log of events could not be read"),
        }
        tokio::select! {
            () = shutdown.cancelled() => return,
            // A server of another process may have written.
            _ = timeout(poll, head.changed()) => (),
        }
    }
}

/// What a reader of the log comes to.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Step {
    Events(Vec<Event>),
    /// Events up to here were cut off before they were read. Look at the jobs themselves; then go on.
    Gap {
        trimmed: u64,
    },
    /// Nothing came in time.
    Nothing,
}

/// A reader of the log with a cursor of its own.
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

    /// The position up to which everything has been read, also what the filter left out.
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
