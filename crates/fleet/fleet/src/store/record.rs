//! The stored records, one line of text each.

use std::collections::{BTreeMap, BTreeSet};

use crate::name::{InstanceName, WorkerId};
use crate::plan::{Constraints, Instance};

const NONE: &str = "-";

/// The state of an instance.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum InstanceState {
    Live,
    /// Drained by an operator; the instance stays.
    Draining,
    /// Emptied by a manager because many different workers failed on it.
    Cordoned,
    /// Shutting down; its record is removed with its last worker.
    Leaving,
    Dead,
}

impl InstanceState {
    pub fn as_str(self) -> &'static str {
        match self {
            InstanceState::Live => "live",
            InstanceState::Draining => "draining",
            InstanceState::Cordoned => "cordoned",
            InstanceState::Leaving => "leaving",
            InstanceState::Dead => "dead",
        }
    }

    pub(crate) fn parse(text: &str) -> Option<InstanceState> {
        use InstanceState::{Cordoned, Dead, Draining, Leaving, Live};
        [Live, Draining, Cordoned, Leaving, Dead]
            .into_iter()
            .find(|state| state.as_str() == text)
    }
}

/// What an instance offers, as stated at its join.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Capabilities {
    pub weight: u32,
    pub capacity: Option<u32>,
    pub zone: Option<String>,
    pub labels: BTreeSet<String>,
}

impl Default for Capabilities {
    fn default() -> Capabilities {
        Capabilities {
            weight: 1,
            capacity: None,
            zone: None,
            labels: BTreeSet::new(),
        }
    }
}

/// An instance as stored.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct InstanceRecord {
    pub state: InstanceState,
    /// The incarnation: which life of the instance this is.
    pub inc: u64,
    /// Changes with every heartbeat.
    pub beat: u64,
    /// The token of the process that holds the name.
    pub token: String,
    /// Earlier processes with this name that may still run workers.
    pub before: Vec<String>,
    pub list_version: u64,
    pub count: usize,
    pub capabilities: Capabilities,
    pub since_ms: u64,
}

impl InstanceRecord {
    pub(crate) fn parse(line: &str) -> Option<InstanceRecord> {
        let words: Vec<&str> = line.split(' ').collect();
        let [
            state,
            inc,
            beat,
            token,
            before,
            version,
            count,
            weight,
            capacity,
            zone,
            labels,
            since,
        ] = words[..]
        else {
            return None;
        };
        Some(InstanceRecord {
            state: InstanceState::parse(state)?,
            inc: inc.parse().ok()?,
            beat: beat.parse().ok()?,
            token: token.to_owned(),
            before: read_tokens(before),
            list_version: version.parse().ok()?,
            count: count.parse().ok()?,
            capabilities: Capabilities {
                weight: weight.parse().ok()?,
                capacity: some(capacity).map(str::parse).transpose().ok()?,
                zone: some(zone).map(str::to_owned),
                labels: read_labels(labels),
            },
            since_ms: since.parse().ok()?,
        })
    }

    /// Returns the instance as the planner sees it.
    pub fn to_plan(&self, name: &InstanceName) -> Instance {
        Instance {
            name: name.to_string(),
            weight: self.capabilities.weight,
            capacity: self.capabilities.capacity,
            zone: self.capabilities.zone.clone(),
            labels: self.capabilities.labels.clone(),
            accepts: self.state == InstanceState::Live,
        }
    }
}

/// The state of a worker's placement.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum PlaceState {
    /// Waits for a place.
    Pending,
    Assigned,
    /// Its owner was asked to stop it.
    Revoking,
}

impl PlaceState {
    pub fn as_str(self) -> &'static str {
        match self {
            PlaceState::Pending => "pending",
            PlaceState::Assigned => "assigned",
            PlaceState::Revoking => "revoking",
        }
    }

    pub(crate) fn parse(text: &str) -> Option<PlaceState> {
        use PlaceState::{Assigned, Pending, Revoking};
        [Pending, Assigned, Revoking]
            .into_iter()
            .find(|state| state.as_str() == text)
    }
}

/// A worker's placement as stored.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Place {
    pub state: PlaceState,
    pub epoch: u64,
    pub run: String,
    /// Uninstalled: the record is removed once the worker is stopped.
    pub remove: bool,
    /// Name of its config; changes with the config.
    pub config: String,
    pub constraints: Constraints,
    /// The instance it was asked to move to (`wish` in the scripts).
    pub next_owner: Option<InstanceName>,
    /// The reason for its current state.
    pub why: String,
    pub since_ms: u64,
    pub owner: Option<InstanceName>,
}

impl Place {
    pub(crate) fn parse(line: &str) -> Option<Place> {
        let words: Vec<&str> = line.split(' ').collect();
        let [
            state,
            epoch,
            run,
            remove,
            config,
            constraints,
            next_owner,
            why,
            since,
            owner,
        ] = words[..]
        else {
            return None;
        };
        let instance = |word| some(word).map(InstanceName::new).transpose().ok();
        Some(Place {
            state: PlaceState::parse(state)?,
            epoch: epoch.parse().ok()?,
            run: run.to_owned(),
            remove: remove == "1",
            config: config.to_owned(),
            constraints: read_constraints(constraints),
            next_owner: instance(next_owner)?,
            why: why.to_owned(),
            since_ms: since.parse().ok()?,
            owner: instance(owner)?,
        })
    }
}

/// How a worker does, as its instance says.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct WorkerHealth {
    pub instance: InstanceName,
    pub epoch: u64,
    /// `starting`, `healthy`, `failing` or `quarantined`.
    pub state: String,
    /// In a row.
    pub failures: u32,
    pub since_ms: u64,
    /// Of the last failure; empty if there was none.
    pub reason: String,
}

impl WorkerHealth {
    pub(crate) fn parse(line: &str) -> Option<WorkerHealth> {
        let mut words = line.splitn(6, ' ');
        Some(WorkerHealth {
            instance: InstanceName::new(words.next()?).ok()?,
            epoch: words.next()?.parse().ok()?,
            state: words.next()?.to_owned(),
            failures: words.next()?.parse().ok()?,
            since_ms: words.next()?.parse().ok()?,
            reason: words.next().unwrap_or_default().to_owned(),
        })
    }

    pub fn is_healthy(&self) -> bool {
        self.state == "healthy"
    }

    pub fn is_failing(&self) -> bool {
        matches!(self.state.as_str(), "failing" | "quarantined")
    }
}

/// Reads the instances that a worker is kept from.
pub(super) fn read_avoided(line: &str, now_ms: u64) -> BTreeSet<InstanceName> {
    let pairs = line.split(',').filter_map(|pair| pair.rsplit_once('@'));
    let held = pairs.filter(|(_, until)| until.parse::<u64>().is_ok_and(|until| until > now_ms));
    held.filter_map(|(name, _)| InstanceName::new(name).ok())
        .collect()
}

/// One worker in an instance's list.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Listed {
    pub epoch: u64,
    pub state: ListedState,
    pub config: String,
}

/// What the instance has to do with the worker.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum ListedState {
    Run,
    Stop,
    /// The record cannot be read: change nothing.
    Unknown,
}

pub type List = BTreeMap<WorkerId, Listed>;

/// The reply to a join.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Joined {
    pub inc: u64,
    /// The run under which all leases of earlier runs are known to be over.
    pub settled: String,
    /// Earlier processes with this name that may still run workers, as far as the store knows.
    pub before: Vec<String>,
    pub version: u64,
    pub list: List,
}

/// The reply to a heartbeat.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum Beat {
    /// This incarnation is over. Names the process that holds the name now, if any.
    Refused {
        state: Option<InstanceState>,
        token: String,
        inc: u64,
    },
    Alive {
        settled: String,
        version: u64,
        /// `None` if the caller already has the list of this version.
        list: Option<List>,
    },
}

/// Instances and workers at one moment.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub struct FleetSnapshot {
    pub run: String,
    /// A new value under the same run means that all data was lost.
    pub birth: String,
    pub settled: String,
    /// Lease and drift of the instances, as [`Timing::agreement`](crate::timing::Timing::agreement) writes
    /// them; empty if no instance ever joined.
    pub timing: String,
    pub version: u64,
    pub instances: BTreeMap<InstanceName, InstanceRecord>,
    /// `None` if not requested, or unchanged.
    pub places: Option<BTreeMap<WorkerId, Place>>,
    /// Workers whose records cannot be read. They count as installed and are left alone.
    pub unreadable: BTreeSet<String>,
    pub health_version: u64,
    /// How the workers do, and where they are not to run for a while; `None` if unchanged.
    pub health: Option<(BTreeMap<WorkerId, WorkerHealth>, Avoided)>,
}

/// The instances that workers are kept from because they failed there.
pub type Avoided = BTreeMap<WorkerId, BTreeSet<InstanceName>>;

pub(super) fn read_tokens(word: &str) -> Vec<String> {
    let tokens = some(word).into_iter().flat_map(|word| word.split(','));
    tokens.map(str::to_owned).collect()
}

pub(crate) fn write_labels(labels: &BTreeSet<String>) -> String {
    if labels.is_empty() {
        return NONE.to_owned();
    }
    labels.iter().map(String::as_str).collect::<Vec<_>>().join(",")
}

fn read_labels(word: &str) -> BTreeSet<String> {
    let labels = some(word).into_iter().flat_map(|word| word.split(','));
    labels
        .filter(|label| !label.is_empty())
        .map(str::to_owned)
        .collect()
}

pub(crate) fn write_constraints(constraints: &Constraints) -> String {
    match &constraints.group {
        None => write_labels(&constraints.labels),
        Some(group) => format!("{}/{group}", write_labels(&constraints.labels)),
    }
}

fn read_constraints(word: &str) -> Constraints {
    let (labels, group) = word.split_once('/').map_or((word, None), |(a, b)| (a, Some(b)));
    Constraints {
        labels: read_labels(labels),
        group: group.map(str::to_owned),
    }
}

pub(crate) fn write_option<T: ToString>(value: Option<T>) -> String {
    value.map_or_else(|| NONE.to_owned(), |value| value.to_string())
}

fn some(word: &str) -> Option<&str> {
    (word != NONE).then_some(word)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn constraints_survive_their_line() {
        for (labels, group) in [
            (vec![], None),
            (vec!["a", "b"], None),
            (vec!["a"], Some("g")),
            (vec![], Some("g")),
        ] {
            let labels = labels.into_iter().map(str::to_owned).collect();
            let group = group.map(str::to_owned);
            let constraints = Constraints { labels, group };
            assert_eq!(read_constraints(&write_constraints(&constraints)), constraints);
        }
    }

    #[test]
    fn lines_with_missing_words_are_not_records() {
        assert!(Place::parse("pending 5").is_none());
        assert!(InstanceRecord::parse("").is_none());
        let place = Place::parse("assigned 7 r 1 c - - join 9 i1").unwrap();
        assert!(place.remove && place.owner.is_some() && place.next_owner.is_none());
    }
}
