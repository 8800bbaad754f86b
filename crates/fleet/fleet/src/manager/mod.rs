//! The manager: keeps the fleet in line with the external list and as even as possible. Any number of
//! managers may run: the store refuses a decision based on a placement that another manager has changed.

mod reconcile;
mod service;
mod source;

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use tokio::sync::{Notify, watch};
use tokio_util::sync::CancellationToken;

use crate::name::{InstanceName, WorkerId};
use crate::plan::PlanCost;
use crate::protocol::{Care, Rebalance};
use crate::store::{Place, Store};
use crate::timing::Timing;

pub use reconcile::{Difference, HeldStops, MassStopGuard, difference};
pub use source::{HttpSource, Listing, Source, SourceError};

/// Configuration of a manager.
#[derive(Clone, Debug)]
pub struct ManagerOptions {
    pub name: InstanceName,
    /// Without a source, the manager only watches and places.
    pub source: Option<Source>,
    pub source_interval: Duration,
    /// Delay after a list that could not be read.
    pub source_retry: Duration,
    pub timing: Timing,
    pub rebalance: Rebalance,
    pub mass_stop_guard: MassStopGuard,
    /// How long the records of dead instances are kept for operators.
    pub forget_after: Duration,
}

impl ManagerOptions {
    pub fn new(name: InstanceName) -> ManagerOptions {
        ManagerOptions {
            name,
            source: None,
            source_interval: Duration::from_secs(60),
            source_retry: Duration::from_secs(3),
            timing: Timing::default(),
            rebalance: Rebalance::default(),
            mass_stop_guard: MassStopGuard::default(),
            forget_after: Duration::from_secs(3600),
        }
    }
}

/// How many workers are in which state, as their instances say. Those that wait for a place are in none.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct HealthCounts {
    pub starting: usize,
    pub healthy: usize,
    pub failing: usize,
    pub quarantined: usize,
}

impl HealthCounts {
    pub(crate) fn of(care: &Care, places: &BTreeMap<WorkerId, Place>) -> HealthCounts {
        let mut counts = HealthCounts::default();
        for health in places.iter().filter_map(|(worker, place)| care.of(worker, place)) {
            match health.state.as_str() {
                "healthy" => counts.healthy += 1,
                "failing" => counts.failing += 1,
                "quarantined" => counts.quarantined += 1,
                _ => counts.starting += 1,
            }
        }
        counts
    }
}

/// What a manager reports about itself and the fleet.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ManagerStatus {
    /// Whether no other manager had a heartbeat when this one started; `None` before it is ready.
    pub is_first_manager: Option<bool>,
    pub workers: usize,
    pub live_instances: usize,
    /// Workers that fit on no instance.
    pub unplaced: usize,
    pub cost: PlanCost,
    pub health: HealthCounts,
    /// Instances that a manager has emptied because many different workers failed on them.
    pub cordoned: Vec<InstanceName>,
    /// Stops that wait for a confirmation.
    pub held: Option<HeldStops>,
    /// Objects of the last list that could not be used.
    pub left_out: usize,
    /// Lists read and applied so far, and lists that could not be read.
    pub syncs: u64,
    pub sync_failures: u64,
    pub assigned_total: u64,
    pub revoked_total: u64,
    pub deaths_total: u64,
    /// Worker-seconds without a running copy, as seen by this manager: from the last heartbeat after a crash,
    /// and while workers waited for a place.
    pub dark: Duration,
    /// Worker-seconds past a lease, as reported by agents. Two copies can only have run within this time.
    pub double_run: Duration,
}

/// A cheap handle on a running manager.
#[derive(Clone, Debug)]
pub struct ManagerHandle {
    trigger: Arc<Notify>,
    status: watch::Sender<ManagerStatus>,
}

impl Default for ManagerHandle {
    fn default() -> ManagerHandle {
        ManagerHandle {
            trigger: Arc::default(),
            status: watch::Sender::new(ManagerStatus::default()),
        }
    }
}

impl ManagerHandle {
    /// Requests an immediate read of the external list, as the webhook does. A trigger during a read causes
    /// one more read.
    pub fn trigger(&self) {
        self.trigger.notify_one();
    }

    pub fn status(&self) -> watch::Receiver<ManagerStatus> {
        self.status.subscribe()
    }

    /// Waits until the manager has seen the fleet. Returns whether it was the first manager.
    pub async fn ready(&self) -> bool {
        let mut status = self.status.subscribe();
        let ready = status.wait_for(|status| status.is_first_manager.is_some()).await;
        // The sender lives in this handle, so the wait cannot fail.
        ready.is_ok_and(|status| status.is_first_manager == Some(true))
    }
}

/// Runs a manager until `shutdown` is cancelled. Errors are logged and retried.
pub async fn run(store: Store, options: ManagerOptions, handle: ManagerHandle, shutdown: CancellationToken) {
    service::Service::new(store, options, handle).run(shutdown).await;
}
