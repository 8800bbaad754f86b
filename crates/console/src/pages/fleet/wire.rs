//! What `/v1/fleet` and its plan and events say, as far as the pages show it.

use serde::Deserialize;

/// The answer of `GET /v1/fleet`.
#[derive(Debug, Deserialize)]
pub(super) struct Fleet {
    #[serde(default)]
    pub(super) app: String,
    pub(super) instances: Vec<Instance>,
    pub(super) workers: Vec<Worker>,
    /// False from a failover of the store until the leases of before are over.
    pub(super) settled: bool,
    pub(super) manager: Manager,
}

#[derive(Debug, Deserialize)]
pub(super) struct Instance {
    pub(super) name: String,
    pub(super) state: InstanceState,
    pub(super) weight: u64,
    pub(super) capacity: Option<u64>,
    pub(super) zone: Option<String>,
    #[serde(default)]
    pub(super) labels: Vec<String>,
    pub(super) since_ms: i64,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(super) enum InstanceState {
    Live,
    Draining,
    Leaving,
    Dead,
}

#[derive(Debug, Deserialize)]
pub(super) struct Worker {
    pub(super) id: String,
    pub(super) state: WorkerState,
    #[serde(default)]
    pub(super) removing: bool,
    pub(super) instance: Option<String>,
    pub(super) epoch: u64,
    pub(super) why: String,
    pub(super) since_ms: i64,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(super) enum WorkerState {
    Pending,
    Assigned,
    Revoking,
}

impl Worker {
    pub(super) fn look(&self) -> Look {
        match self.state {
            _ if self.removing => Look::Removed,
            WorkerState::Pending => Look::Waiting,
            WorkerState::Assigned => Look::Placed,
            WorkerState::Revoking => Look::Stopping,
        }
    }
}

/// How a worker is shown.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Look {
    Placed,
    Stopping,
    Removed,
    Waiting,
}

impl Look {
    pub(super) const ALL: [Look; 4] = [Look::Placed, Look::Stopping, Look::Removed, Look::Waiting];

    pub(super) fn word(self) -> &'static str {
        match self {
            Look::Placed => "placed",
            Look::Stopping => "stopping, to move",
            Look::Removed => "stopping for good",
            Look::Waiting => "waiting for a place",
        }
    }

    pub(super) fn class(self) -> &'static str {
        match self {
            Look::Placed => "placed",
            Look::Stopping => "stopping",
            Look::Removed => "removed",
            Look::Waiting => "waiting",
        }
    }
}

/// How the manager of this server sees it.
#[derive(Debug, Deserialize)]
pub(super) struct Manager {
    pub(super) is_first_manager: Option<bool>,
    pub(super) unplaced: u64,
    pub(super) syncs: u64,
    pub(super) sync_failures: u64,
    pub(super) held: Option<Held>,
    pub(super) bounds: String,
}

/// Stops that are held until an operator confirms them.
#[derive(Debug, Deserialize)]
pub(super) struct Held {
    pub(super) digest: String,
    pub(super) stops: u64,
    pub(super) of: u64,
}

/// The answer of `GET /v1/fleet/plan`.
#[derive(Debug, Deserialize)]
pub(super) struct Plan {
    pub(super) steps: Vec<Step>,
    pub(super) unplaced: Vec<String>,
    pub(super) moves: u64,
    pub(super) lower_bound: u64,
    pub(super) spread_before: u64,
    pub(super) spread_after: u64,
}

#[derive(Debug, Deserialize)]
pub(super) struct Step {
    pub(super) worker: String,
    pub(super) from: Option<String>,
    pub(super) to: String,
}

/// The answer of `GET /v1/fleet/events`.
#[derive(Debug, Deserialize)]
pub(super) struct Events {
    pub(super) events: Vec<Event>,
}

#[derive(Debug, Deserialize)]
pub(super) struct Event {
    /// Milliseconds, a dash, and which of that millisecond.
    pub(super) id: String,
    pub(super) what: String,
    pub(super) worker: Option<String>,
    pub(super) instance: Option<String>,
    pub(super) why: String,
}

impl Event {
    pub(super) fn at_ms(&self) -> Option<i64> {
        self.id.split('-').next()?.parse().ok()
    }
}
