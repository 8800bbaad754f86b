//! The manager: keeps the fleet as the outside list says and as even as it can be. Any number may
//! run; what one decides on a placement that another has changed is refused by the store.

mod reconcile;
mod service;
mod source;

use std::sync::Arc;
use std::time::Duration;

use tokio::sync::{Notify, watch};
use tokio_util::sync::CancellationToken;

use crate::name::InstanceName;
use crate::plan::PlanCost;
use crate::protocol::Rebalance;
use crate::store::Store;
use crate::timing::Timing;

pub use reconcile::{Difference, HeldStops, MassStopGuard, difference};
pub use source::{HttpSource, Source, SourceError};

/// How a manager is set up.
#[derive(Clone, Debug)]
pub struct ManagerOptions {
    pub name: InstanceName,
    /// Without one the manager only watches and places.
    pub source: Option<Source>,
    pub source_interval: Duration,
    /// After a list that could not be read.
    pub source_retry: Duration,
    pub timing: Timing,
    pub rebalance: Rebalance,
    pub mass_stop_guard: MassStopGuard,
    /// How long the records of the dead are kept, for people to see.
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

/// What a manager knows of itself and of the fleet.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ManagerStatus {
    /// Whether no other manager had a heartbeat when this one started; none before it is ready.
    pub is_first_manager: Option<bool>,
    pub workers: usize,
    pub live_instances: usize,
    /// Workers that fit nowhere.
    pub unplaced: usize,
    pub cost: PlanCost,
    /// Stops that wait for a confirmation.
    pub held: Option<HeldStops>,
    /// Lists read and applied so far, and lists that could not be read.
    pub syncs: u64,
    pub sync_failures: u64,
    pub assigned_total: u64,
    pub revoked_total: u64,
    pub deaths_total: u64,
    /// Worker seconds without a running copy that this manager saw: after a crash from the last
    /// heartbeat on, and while workers waited for a place.
    pub dark: Duration,
    /// Worker seconds past a lease that agents told of; a second copy can have run in no other time.
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
    /// Has the outside list read now, as a webhook does. A trigger while a list is being read leads
    /// to one more reading.
    pub fn trigger(&self) {
        self.trigger.notify_one();
    }

    pub fn status(&self) -> watch::Receiver<ManagerStatus> {
        self.status.subscribe()
    }

    /// Waits until the manager has seen the fleet; tells whether it was the first.
    pub async fn ready(&self) -> bool {
        let mut status = self.status.subscribe();
        let ready = status.wait_for(|status| status.is_first_manager.is_some()).await;
        // The sender lives in this handle.
        ready.is_ok_and(|status| status.is_first_manager == Some(true))
    }
}

/// Runs a manager until `shutdown` is cancelled. Errors are logged and tried again.
pub async fn run(store: Store, options: ManagerOptions, handle: ManagerHandle, shutdown: CancellationToken) {
    service::Service::new(store, options, handle).run(shutdown).await;
}
