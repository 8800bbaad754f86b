//! The state of the fleet as tables and JSON.

use comfy_table::{Table, presets};
use nagaya_clock::{Clock, SystemClock};
use serde_json::{Value, json};

use crate::name::{InstanceName, WorkerId};
use crate::plan::{PlanCost, Step};
use crate::protocol::{Care, Rebalance, fleet_of};
use crate::store::{FleetSnapshot, Place};

/// Instances and workers at one moment.
#[derive(Clone, Debug)]
pub struct Status {
    snapshot: FleetSnapshot,
    care: Care,
}

impl Status {
    /// `snapshot` must have been read with its workers.
    pub fn new(mut snapshot: FleetSnapshot) -> Status {
        let (health, avoided) = snapshot.health.take().unwrap_or_default();
        Status {
            snapshot,
            care: Care { health, avoided },
        }
    }

    fn places(&self) -> impl Iterator<Item = (&WorkerId, &Place)> {
        self.snapshot.places.iter().flatten()
    }

    /// Formats two tables: instances, then workers.
    pub fn to_table(&self) -> String {
        let mut instances = new_table(&[
            "INSTANCE", "STATE", "WORKERS", "WEIGHT", "CAPACITY", "ZONE", "LABELS", "SINCE",
        ]);
        for (name, record) in &self.snapshot.instances {
            let labels: Vec<&str> = record.capabilities.labels.iter().map(String::as_str).collect();
            instances.add_row([
                name.to_string(),
                record.state.as_str().to_owned(),
                record.count.to_string(),
                record.capabilities.weight.to_string(),
                text(record.capabilities.capacity),
                text(record.capabilities.zone.as_ref()),
                labels.join(","),
                moment(record.since_ms),
            ]);
        }
        let mut workers = new_table(&["WORKER", "STATE", "HEALTH", "INSTANCE", "EPOCH", "WHY", "SINCE"]);
        for (worker, place) in self.places() {
            let state = if place.remove {
                "removing"
            } else {
                place.state.as_str()
            };
            workers.add_row([
                worker.to_string(),
                state.to_owned(),
                self.health_cell(worker, place),
                text(place.owner.as_ref()),
                place.epoch.to_string(),
                place.why.clone(),
                moment(place.since_ms),
            ]);
        }
        format!("{instances}\n\n{workers}\n")
    }

    /// Formats how a worker does, and why it does not do well.
    fn health_cell(&self, worker: &WorkerId, place: &Place) -> String {
        match self.care.of(worker, place) {
            None => "-".to_owned(),
            Some(health) if health.is_failing() => {
                format!("{} ({}x: {})", health.state, health.failures, health.reason)
            }
            Some(health) => health.state.clone(),
        }
    }

    fn health_json(&self, worker: &WorkerId, place: &Place) -> Value {
        self.care.of(worker, place).map_or(Value::Null, |health| {
            json!({
                "state": health.state, "failures": health.failures, "reason": health.reason,
                "since_ms": health.since_ms,
            })
        })
    }

    pub fn to_json(&self) -> Value {
        let instances = self.snapshot.instances.iter().map(|(name, record)| {
            json!({
                "name": name.as_str(), "state": record.state.as_str(), "workers": record.count,
                "weight": record.capabilities.weight, "capacity": record.capabilities.capacity,
                "zone": record.capabilities.zone, "labels": record.capabilities.labels,
                "incarnation": record.inc, "since_ms": record.since_ms,
            })
        });
        let workers = self.places().map(|(worker, place)| {
            json!({
                "id": worker.as_str(), "state": place.state.as_str(), "removing": place.remove,
                "instance": place.owner.as_ref().map(InstanceName::as_str), "epoch": place.epoch,
                "why": place.why, "since_ms": place.since_ms,
                "health": self.health_json(worker, place),
                "avoids": self.care.avoided.get(worker).into_iter().flatten().map(InstanceName::as_str)
                    .collect::<Vec<_>>(),
            })
        });
        json!({
            "instances": instances.collect::<Vec<_>>(),
            "workers": workers.collect::<Vec<_>>(),
            "unreadable": self.snapshot.unreadable,
            "settled": self.snapshot.settled == self.snapshot.run,
        })
    }

    /// Returns what a rebalance would do now.
    pub fn plan(&self, rebalance: Rebalance) -> PlanReport {
        let places = self.snapshot.places.clone().unwrap_or_default();
        let (fleet, names, ids) = fleet_of(
            &self.snapshot.instances,
            &places,
            &self.care,
            rebalance.per_zone_max,
        );
        let plan = fleet.plan();
        let steps = plan.steps.iter().map(|step| match *step {
            Step::Place { worker, to } => (ids[worker].clone(), None, names[to].clone()),
            Step::Move { worker, from, to } => {
                (ids[worker].clone(), Some(names[from].clone()), names[to].clone())
            }
        });
        PlanReport {
            steps: steps.collect(),
            unplaced: plan.unplaced.iter().map(|at| ids[*at].clone()).collect(),
            cost: plan.cost,
        }
    }
}

/// A plan with names: worker, origin (`None` if it waits) and destination.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PlanReport {
    pub steps: Vec<(WorkerId, Option<InstanceName>, InstanceName)>,
    pub unplaced: Vec<WorkerId>,
    pub cost: PlanCost,
}

impl PlanReport {
    pub fn to_table(&self) -> String {
        let mut table = new_table(&["WORKER", "FROM", "TO"]);
        for (worker, from, to) in &self.steps {
            table.add_row([worker.to_string(), text(from.as_ref()), to.to_string()]);
        }
        let cost = self.cost;
        let mut shown = format!(
            "{table}\nmoves {} (no plan that ends as even needs fewer than {}), spread {} -> {}\n",
            cost.moves, cost.lower_bound, cost.spread_before, cost.spread_after
        );
        for worker in &self.unplaced {
            shown.push_str(&format!("{worker} fits nowhere\n"));
        }
        shown
    }

    pub fn to_json(&self) -> Value {
        let steps = self.steps.iter().map(|(worker, from, to)| {
            let from = from.as_ref().map(InstanceName::as_str);
            json!({"worker": worker.as_str(), "from": from, "to": to.as_str()})
        });
        let unplaced: Vec<&str> = self.unplaced.iter().map(WorkerId::as_str).collect();
        json!({
            "steps": steps.collect::<Vec<_>>(), "unplaced": unplaced,
            "moves": self.cost.moves, "lower_bound": self.cost.lower_bound,
            "spread_before": self.cost.spread_before, "spread_after": self.cost.spread_after,
        })
    }
}

pub(crate) fn new_table(header: &[&str]) -> Table {
    let mut table = Table::new();
    table.load_style(presets::NOTHING);
    table.set_header(header);
    table
}

/// Formats the history, one event per line.
pub fn events_table(events: &[Value]) -> String {
    let mut table = new_table(&["ID", "WHAT", "WORKER", "INSTANCE", "EPOCH", "WHY"]);
    for event in events {
        let cell = |name: &str| match &event[name] {
            Value::String(text) => text.clone(),
            Value::Null => "-".to_owned(),
            other => other.to_string(),
        };
        table.add_row(["id", "what", "worker", "instance", "epoch", "why"].map(cell));
    }
    format!("{table}\n")
}

fn text<T: ToString>(value: Option<T>) -> String {
    value.map_or_else(|| "-".to_owned(), |value| value.to_string())
}

/// Formats how long ago a moment was, short enough for a table.
fn moment(since_ms: u64) -> String {
    let seconds = SystemClock.unix_ms().unsigned_abs().saturating_sub(since_ms) / 1000;
    match seconds {
        0..120 => format!("{seconds}s"),
        120..7200 => format!("{}m", seconds / 60),
        7200..172_800 => format!("{}h", seconds / 3600),
        _ => format!("{}d", seconds / 86_400),
    }
}
