//! One worker's task: starts the worker, restarts it when it fails, and ends only when nothing of it is
//! running.
//!
//! A worker that fails, hangs or crash-loops does not delay the others: it releases its start slot when it is
//! up, or when its start takes too long.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use nagaya_redis_client::Backoff;
use tokio::sync::{Semaphore, mpsc, watch};

use super::runner::{Attempt, Ended, Identity, Question, Runner, StopSignal};
use crate::name::WorkerId;
use crate::store::Store;
use nagaya_clock::{Clock, SystemClock, boot_now};

/// Questions that may be queued for one worker.
const QUESTIONS_QUEUED_MAX: usize = 16;

/// Limits that protect workers from each other.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Limits {
    /// Workers that may be starting at the same time.
    pub starts_at_once: usize,
    /// A start that takes longer releases its slot to the next worker.
    pub start_limit: Duration,
    /// Delay after the first failure; doubles with every further one.
    pub backoff_first: Duration,
    pub backoff_max: Duration,
    /// A worker that ran for this long counts as healthy again.
    pub healthy_after: Duration,
    /// This many failures in a row are a crash loop, reported as quarantined.
    pub failures_max: u32,
}

impl Default for Limits {
    fn default() -> Limits {
        Limits {
            starts_at_once: 64,
            start_limit: Duration::from_secs(10),
            backoff_first: Duration::from_millis(500),
            backoff_max: Duration::from_secs(60),
            healthy_after: Duration::from_secs(60),
            failures_max: 5,
        }
    }
}

/// What a worker is doing on this agent.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Health {
    Starting,
    Running,
    /// Failed, and waiting for its next attempt.
    Waiting {
        failures: u32,
        reason: String,
    },
    /// In a crash loop, and restarted rarely.
    Quarantined {
        failures: u32,
        reason: String,
    },
    Stopping,
}

/// The reported state of one worker on this agent.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct WorkerStatus {
    pub epoch: u64,
    pub health: Health,
    pub since_ms: u64,
}

/// State shared by all workers of an agent.
#[derive(Clone)]
pub(super) struct Shared {
    pub(super) store: Store,
    pub(super) runner: Arc<dyn Runner>,
    pub(super) limits: Limits,
    pub(super) slots: Arc<Semaphore>,
    pub(super) statuses: Arc<Mutex<BTreeMap<WorkerId, WorkerStatus>>>,
}

/// The agent's handle on a worker's task.
#[derive(Debug)]
pub(super) struct Handle {
    stop: watch::Sender<Option<nagaya_clock::BootTime>>,
    config_name: watch::Sender<String>,
    pub(super) questions: mpsc::Sender<Question>,
}

impl Handle {
    pub(super) fn stop(&self, kill_at: nagaya_clock::BootTime) {
        self.stop.send_replace(Some(kill_at));
    }

    pub(super) fn update(&self, config_name: String) {
        self.config_name.send_replace(config_name);
    }
}

/// Prepares a worker's task. The caller spawns the returned future.
pub(super) fn prepare(
    shared: Shared,
    identity: Identity,
    config_name: String,
) -> (Handle, impl Future<Output = ()> + Send) {
    let (stop, stop_signal) = watch::channel(None);
    let (config_name, names) = watch::channel(config_name);
    let (questions, asked) = mpsc::channel(QUESTIONS_QUEUED_MAX);
    let handle = Handle {
        stop,
        config_name,
        questions,
    };
    let task = Task {
        shared,
        identity,
        stop: StopSignal(stop_signal),
        questions: asked,
        failures: 0,
    };
    (handle, task.run(names))
}

struct Task {
    shared: Shared,
    identity: Identity,
    stop: StopSignal,
    questions: mpsc::Receiver<Question>,
    failures: u32,
}

impl Task {
    async fn run(mut self, names: watch::Receiver<String>) {
        let limits = self.shared.limits;
        let mut backoff = Backoff::new(limits.backoff_first, limits.backoff_max);
        self.show(Health::Starting);
        // Reads with retries: a config that cannot be read delays this worker alone.
        if let Some(first) = self.first_config(&mut backoff).await {
            let (sender, mut config) = watch::channel(first);
            let feeding = feed(
                self.shared.store.clone(),
                self.identity.worker.clone(),
                names,
                sender,
            );
            tokio::select! {
                () = self.attempts(&mut config, &mut backoff) => (),
                () = feeding => unreachable!("feeding goes on for ever"),
            }
        }
        self.statuses().remove(&self.identity.worker);
    }

    async fn first_config(&mut self, backoff: &mut Backoff) -> Option<Arc<[u8]>> {
        loop {
            let worker = self.identity.worker.clone();
            let wanted = [worker];
            let reading = self.shared.store.configs(&wanted);
            let read = tokio::select! {
                _ = self.stop.ordered() => return None,
                read = reading => read,
            };
            match read {
                Ok(mut found) => return Some(found.remove(&wanted[0]).unwrap_or_default().into()),
                Err(error) => tracing::warn!(worker = %wanted[0], error = error.chain(), "config not read"),
            }
            tokio::select! {
                _ = self.stop.ordered() => return None,
                () = tokio::time::sleep(backoff.next_wait()) => (),
            }
        }
    }

    async fn attempts(&mut self, config: &mut watch::Receiver<Arc<[u8]>>, backoff: &mut Backoff) {
        backoff.reset();
        while !self.stop.is_ordered() {
            self.show(Health::Starting);
            let begun = boot_now();
            let reason = match self.attempt(config).await {
                Ended::Stopped => return,
                Ended::Restart => continue,
                Ended::Failed(reason) => reason,
            };
            if boot_now().since(begun) >= self.shared.limits.healthy_after {
                self.failures = 0;
                backoff.reset();
            }
            self.failures += 1;
            let failures = self.failures;
            tracing::warn!(worker = %self.identity.worker, failures, reason, "worker failed");
            self.show(if failures >= self.shared.limits.failures_max {
                Health::Quarantined { failures, reason }
            } else {
                Health::Waiting { failures, reason }
            });
            tokio::select! {
                _ = self.stop.ordered() => return,
                () = tokio::time::sleep(backoff.next_wait()) => (),
            }
        }
    }

    async fn attempt(&mut self, config: &mut watch::Receiver<Arc<[u8]>>) -> Ended {
        let slots = self.shared.slots.clone();
        let slot = tokio::select! {
            _ = self.stop.ordered() => return Ended::Stopped,
            slot = slots.acquire_owned() => slot.ok(),
        };
        let slot = Arc::new(Mutex::new(slot));
        let freed = slot.clone();
        let shared = self.shared.clone();
        let identity = self.identity.clone();
        let started = Box::new(move || {
            freed.lock().expect("nothing panics here").take();
            show(&shared, &identity, Health::Running);
        });
        let attempt = Attempt {
            identity: &self.identity,
            config,
            stop: &mut self.stop,
            questions: &mut self.questions,
            started,
        };
        let running = self.shared.runner.attempt(attempt);
        tokio::pin!(running);
        tokio::select! {
            ended = &mut running => return ended,
            () = tokio::time::sleep(self.shared.limits.start_limit) => (),
        }
        slot.lock().expect("nothing panics here").take();
        running.await
    }

    fn show(&self, health: Health) {
        show(&self.shared, &self.identity, health);
    }

    fn statuses(&self) -> std::sync::MutexGuard<'_, BTreeMap<WorkerId, WorkerStatus>> {
        self.shared.statuses.lock().expect("nothing panics here")
    }
}

fn show(shared: &Shared, identity: &Identity, health: Health) {
    let status = WorkerStatus {
        epoch: identity.epoch,
        health,
        since_ms: SystemClock.unix_ms().unsigned_abs(),
    };
    let mut statuses = shared.statuses.lock().expect("nothing panics here");
    statuses.insert(identity.worker.clone(), status);
}

/// Reads the config again whenever its name changes.
async fn feed(
    store: Store,
    worker: WorkerId,
    mut names: watch::Receiver<String>,
    configs: watch::Sender<Arc<[u8]>>,
) {
    let mut backoff = Backoff::new(Duration::from_millis(100), Duration::from_secs(2));
    names.mark_unchanged();
    loop {
        if names.changed().await.is_err() {
            std::future::pending::<()>().await;
        }
        loop {
            match store.configs(std::slice::from_ref(&worker)).await {
                Ok(mut found) => {
                    if let Some(config) = found.remove(&worker) {
                        configs.send_replace(config.into());
                    }
                    backoff.reset();
                    break;
                }
                Err(error) => tracing::warn!(%worker, error = error.chain(), "config not read"),
            }
            tokio::time::sleep(backoff.next_wait()).await;
        }
    }
}
