//! Maintenance tasks, one per file.
//!
//! Any server may run them; two that do share the work. A task runs when the store says that something is due,
//! when it is notified, and at least once per [`REST_MAX`].

mod dependents;
mod due_mover;
mod expiry_sweeper;
mod retention;
mod schedule_clock;

use std::future::Future;
use std::sync::Arc;
use std::time::Duration;

use nagaya_threads::vital;
use tokio::sync::Notify;
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

use super::Config;
use crate::clock::span;
use crate::error::Error;
use crate::request::NextTimes;
use crate::store::{JobStore, Maintenance};

pub use schedule_clock::{ScheduleClock, fire_due};

/// Longest pause between two runs: bounds the delay of work that no notification announced.
const REST_MAX: Duration = Duration::from_secs(1);
/// Shortest pause, so that work that cannot be done does not keep a core busy.
const REST_MIN: Duration = Duration::from_millis(2);
/// Pause after a failure of the store.
const REST_AFTER_ERROR: Duration = Duration::from_millis(500);
/// Rows per run: few enough that a claim does not wait long behind it.
const SWEEP_ROWS_MAX: usize = 256;

pub(super) struct MaintenanceTasks {
    scheduled: Arc<Notify>,
}

impl MaintenanceTasks {
    pub(super) fn start(
        store: &Arc<dyn JobStore>,
        config: &Config,
        shutdown: &CancellationToken,
        tasks: &TaskTracker,
    ) -> MaintenanceTasks {
        let scheduled = Arc::new(Notify::new());
        let maintenance = MaintenanceTasks {
            scheduled: Arc::clone(&scheduled),
        };
        if !config.upkeep {
            return maintenance;
        }
        let interval = |name, nudge| Interval {
            name,
            store: store.clone(),
            shutdown: shutdown.clone(),
            nudge,
        };
        let quiet = || Arc::new(Notify::new());
        tasks.spawn(vital(
            "jobs expiry sweeper",
            expiry_sweeper::run(interval("expiry sweeper", quiet())),
        ));
        tasks.spawn(vital(
            "jobs due mover",
            due_mover::run(interval("due mover", scheduled)),
        ));
        tasks.spawn(vital(
            "jobs dependents",
            dependents::run(interval("dependents", quiet())),
        ));
        tasks.spawn(vital(
            "jobs schedule clock",
            schedule_clock::run(interval("schedule clock", quiet()), store.clone()),
        ));
        tasks.spawn(vital(
            "jobs retention",
            retention::run(interval("retention", quiet()), config.events_retention),
        ));
        maintenance
    }

    /// Wakes the task that moves due jobs: a job may be due earlier than its last look said.
    pub(super) fn wake_due_mover(&self) {
        self.scheduled.notify_one();
    }
}

/// The interval at which one task runs.
struct Interval {
    name: &'static str,
    store: Arc<dyn Maintenance>,
    shutdown: CancellationToken,
    nudge: Arc<Notify>,
}

impl Interval {
    /// Repeats runs until the server shuts down. A run returns whether more work is left.
    async fn repeat<'a, F, R>(&'a self, next: fn(&NextTimes) -> Option<i64>, sweep: F)
    where
        F: Fn(&'a dyn Maintenance) -> R,
        R: Future<Output = Result<bool, Error>>,
    {
        while !self.shutdown.is_cancelled() {
            let rest = match sweep(&*self.store).await {
                Ok(true) => Duration::ZERO,
                Ok(false) => self.rest(next).await,
                Err(error) => {
                    if !self.shutdown.is_cancelled() {
                        tracing::warn!(task = self.name, %error, "maintenance of jobs failed, will try again");
                    }
                    REST_AFTER_ERROR
                }
            };
            if rest.is_zero() {
                tokio::task::yield_now().await;
                continue;
            }
            tokio::select! {
                () = self.shutdown.cancelled() => return,
                () = self.nudge.notified() => (),
                () = tokio::time::sleep(rest) => (),
            }
        }
    }

    /// Returns how long nothing is due.
    async fn rest(&self, next: fn(&NextTimes) -> Option<i64>) -> Duration {
        let times = async { Ok::<_, Error>((self.store.next_times().await?, self.store.now_ms().await?)) };
        match times.await {
            Ok((times, now_ms)) => match next(&times) {
                Some(at_ms) => span(at_ms - now_ms).clamp(REST_MIN, REST_MAX),
                None => REST_MAX,
            },
            Err(_) => REST_AFTER_ERROR,
        }
    }
}
