//! What the agent remembers about workers that failed: how often, and when to try again.

use std::collections::BTreeMap;

use nagaya_clock::BootTime;
use nagaya_redis_client::Backoff;

use super::task::{Health, Limits};
use crate::name::WorkerId;

/// The failures of the workers of one agent.
#[derive(Debug)]
pub(super) struct Care {
    limits: Limits,
    failed: BTreeMap<WorkerId, Failed>,
}

#[derive(Debug)]
struct Failed {
    /// In a row.
    failures: u32,
    reason: String,
    config: String,
    backoff: Backoff,
}

/// The copy that a task runs.
pub(super) struct Begun {
    pub(super) worker: WorkerId,
    pub(super) epoch: u64,
    pub(super) config: String,
    pub(super) at: BootTime,
}

impl Care {
    pub(super) fn new(limits: Limits) -> Care {
        Care {
            limits,
            failed: BTreeMap::new(),
        }
    }

    /// Returns how a worker does that is about to be started.
    pub(super) fn before_start(&mut self, worker: &WorkerId, config: &str) -> Health {
        // A new config may have mended it.
        if self
            .failed
            .get(worker)
            .is_some_and(|failed| failed.config != config)
        {
            self.failed.remove(worker);
        }
        self.failed
            .get(worker)
            .map_or(Health::Starting, |failed| failed.health(self.limits))
    }

    /// Records a failure of a copy. Returns when to try again.
    pub(super) fn failed(&mut self, begun: &Begun, now: BootTime, reason: String) -> (BootTime, Health) {
        let (limits, worker) = (self.limits, &begun.worker);
        if now.since(begun.at) >= limits.forget_after {
            self.failed.remove(worker);
        }
        let failed = self.failed.entry(worker.clone()).or_insert_with(|| Failed {
            failures: 0,
            reason: String::new(),
            config: String::new(),
            backoff: Backoff::new(limits.backoff_first, limits.backoff_max),
        });
        failed.failures += 1;
        failed.reason = reason;
        failed.config.clone_from(&begun.config);
        (now + failed.backoff.next_wait(), failed.health(limits))
    }

    /// Forgets the workers that are not this agent's any more.
    pub(super) fn keep(&mut self, is_own: impl Fn(&WorkerId) -> bool) {
        self.failed.retain(|worker, _| is_own(worker));
    }
}

impl Failed {
    fn health(&self, limits: Limits) -> Health {
        let (failures, reason) = (self.failures, self.reason.clone());
        if failures >= limits.failures_max {
            Health::Quarantined { failures, reason }
        } else {
            Health::Failing { failures, reason }
        }
    }
}
