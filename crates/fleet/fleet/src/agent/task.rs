//! One copy of a worker: its task starts it and ends only when nothing of it is running. Starting it again takes a new
//! epoch, so it is a new task.
//!
//! A worker that fails, hangs or crash-loops does not delay the others: it releases its start slot when it is
//! up, or when its start takes too long.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use nagaya_redis_client::Backoff;
use tokio::sync::{Semaphore, mpsc, oneshot, watch};

use super::runner::{Attempt, Ended, Identity, Question, Runner, StopSignal};
use crate::name::WorkerId;
use crate::store::{Reported, Store};
use nagaya_clock::{BootTime, Clock, SystemClock};

/// Questions that may be queued for one worker.
const QUESTIONS_QUEUED_MAX: usize = 16;
/// Stands for "no limit": tokio's timers accept nothing longer.
const NO_LIMIT: Duration = Duration::from_secs(365 * 24 * 3600);

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
    /// A worker that has been up for this long is healthy.
    pub healthy_after: Duration,
    /// The failures of one that has been up for this long are forgotten.
    pub forget_after: Duration,
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
            healthy_after: Duration::from_secs(2),
            forget_after: Duration::from_secs(60),
            failures_max: 5,
        }
    }
}

/// How a worker does on this agent.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Health {
    /// Not up, or not long enough.
    Starting,
    Healthy,
    /// Failed since it was healthy last: waits for its next start, or is at it.
    Failing {
        failures: u32,
        reason: String,
    },
    /// In a crash loop, and restarted rarely.
    Quarantined {
        failures: u32,
        reason: String,
    },
}

impl Health {
    /// Returns its name, as it is stored and shown.
    pub fn as_str(&self) -> &'static str {
        match self {
            Health::Starting => "starting",
            Health::Healthy => "healthy",
            Health::Failing { .. } => "failing",
            Health::Quarantined { .. } => "quarantined",
        }
    }
}

/// The reported state of one worker on this agent.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct WorkerStatus {
    pub epoch: u64,
    pub health: Health,
    pub since_ms: u64,
}

impl WorkerStatus {
    /// Returns it as a heartbeat says it.
    pub(super) fn to_report(&self) -> Reported {
        let (failures, reason) = match &self.health {
            Health::Starting | Health::Healthy => (0, String::new()),
            Health::Failing { failures, reason } | Health::Quarantined { failures, reason } => {
                (*failures, reason.clone())
            }
        };
        Reported {
            epoch: self.epoch,
            state: self.health.as_str(),
            failures,
            reason,
        }
    }
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
    stop: watch::Sender<Option<BootTime>>,
    lease: watch::Sender<BootTime>,
    config_name: watch::Sender<String>,
    pub(super) questions: mpsc::Sender<Question>,
}

impl Handle {
    pub(super) fn stop(&self, kill_at: BootTime) {
        self.stop.send_replace(Some(kill_at));
    }

    /// Lets the worker run until a later moment.
    pub(super) fn renew(&self, until: BootTime) {
        self.lease.send_if_modified(|lease| {
            let is_later = until > *lease;
            *lease = until.max(*lease);
            is_later
        });
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
    until: BootTime,
) -> (Handle, impl Future<Output = Ended> + Send) {
    let (stop, stop_signal) = watch::channel(None);
    let (lease, deadline) = watch::channel(until);
    let (config_name, names) = watch::channel(config_name);
    let (questions, asked) = mpsc::channel(QUESTIONS_QUEUED_MAX);
    let handle = Handle {
        stop,
        lease,
        config_name,
        questions,
    };
    let task = Task {
        shared,
        identity,
        stop: StopSignal(stop_signal),
        lease: deadline,
        questions: asked,
    };
    (handle, task.run(names))
}

struct Task {
    shared: Shared,
    identity: Identity,
    stop: StopSignal,
    lease: watch::Receiver<BootTime>,
    questions: mpsc::Receiver<Question>,
}

impl Task {
    async fn run(mut self, names: watch::Receiver<String>) -> Ended {
        // Reads with retries: a config that cannot be read delays this worker alone.
        let Some(first) = self.first_config().await else {
            return Ended::Stopped;
        };
        let (sender, mut config) = watch::channel(first);
        let feeding = feed(
            self.shared.store.clone(),
            self.identity.worker.clone(),
            names,
            sender,
        );
        tokio::select! {
            ended = self.attempt(&mut config) => ended,
            () = feeding => unreachable!("feeding goes on for ever"),
        }
    }

    async fn first_config(&mut self) -> Option<Arc<[u8]>> {
        let limits = self.shared.limits;
        let mut backoff = Backoff::new(limits.backoff_first, limits.backoff_max);
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

    async fn attempt(&mut self, config: &mut watch::Receiver<Arc<[u8]>>) -> Ended {
        let limits = self.shared.limits;
        let slots = self.shared.slots.clone();
        let mut slot = tokio::select! {
            _ = self.stop.ordered() => return Ended::Stopped,
            slot = slots.acquire_owned() => slot.ok(),
        };
        let (started, mut is_up) = oneshot::channel();
        let attempt = Attempt {
            identity: &self.identity,
            config,
            stop: &mut self.stop,
            lease: &mut self.lease,
            questions: &mut self.questions,
            started: Box::new(move || {
                let _ = started.send(());
            }),
        };
        let running = self.shared.runner.attempt(attempt);
        tokio::pin!(running);
        let wait = tokio::time::sleep(limits.start_limit);
        tokio::pin!(wait);
        let mut was_up = false;
        loop {
            tokio::select! {
                ended = &mut running => return ended,
                up = &mut is_up, if !was_up => {
                    was_up = true;
                    slot.take();
                    // Dropped unused, it is not up and will not be.
                    let healthy_after = if up.is_ok() { limits.healthy_after } else { NO_LIMIT };
                    wait.as_mut().reset(tokio::time::Instant::now() + healthy_after);
                }
                () = &mut wait => {
                    slot.take();
                    wait.as_mut().reset(tokio::time::Instant::now() + NO_LIMIT);
                    if was_up {
                        show(&self.shared.statuses, &self.identity.worker, self.identity.epoch, Health::Healthy);
                    }
                }
            }
        }
    }
}

/// Records how a worker does.
pub(super) fn show(
    statuses: &Mutex<BTreeMap<WorkerId, WorkerStatus>>,
    worker: &WorkerId,
    epoch: u64,
    health: Health,
) {
    let status = WorkerStatus {
        epoch,
        health,
        since_ms: SystemClock.unix_ms().unsigned_abs(),
    };
    let mut statuses = statuses.lock().expect("nothing panics here");
    statuses.insert(worker.clone(), status);
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
