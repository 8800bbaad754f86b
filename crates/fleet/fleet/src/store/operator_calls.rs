//! The store calls of operators and their tools: document 000's single operations, drains, events, and the
//! gate.

use nagaya_redis_client::{Client, reply};

use super::manager_calls::Install;
use super::record::{FleetSnapshot, InstanceState, PlaceState, write_constraints};
use super::{Error, Store, number_at, scripts, text_at};
use crate::manager::HeldStops;
use crate::name::{InstanceName, WorkerId};
use crate::plan::{Constraints, Fleet, Worker};

/// How often a decision is repeated because the placement changed meanwhile.
const TRIES_MAX: usize = 50;

/// How long a confirmation is valid, in milliseconds.
const CONFIRMED_MS: &str = "600000";

/// The answer of a gate.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Pass {
    Granted,
    /// A newer copy has already passed.
    Refused {
        newer_epoch: u64,
    },
}

/// One entry of the fleet's history.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct HistoryEvent {
    /// Its position in the history, to continue reading from.
    pub id: String,
    pub what: String,
    pub worker: Option<String>,
    pub instance: Option<String>,
    pub epoch: u64,
    pub why: String,
}

impl Store {
    /// Document 000's placement: creates a worker on the least busy instance. Returns that instance.
    pub async fn install(&self, install: &Install) -> Result<InstanceName, Error> {
        let worker = &install.worker;
        for _ in 0..TRIES_MAX {
            let snapshot = self.worker_snapshot(worker).await?;
            let Some(name) = choose(&snapshot, &install.constraints, None) else {
                return Err(Error::NoAcceptableWorker(worker.clone()));
            };
            let run = self.run().await?;
            let (inc, version) = (
                snapshot.instances[&name].inc.to_string(),
                snapshot.version.to_string(),
            );
            let (config, constraints) = (install.config_name(), write_constraints(&install.constraints));
            let words = [
                name.as_str(),
                &inc,
                &run,
                &version,
                worker.as_str(),
                &config,
                &constraints,
            ];
            let mut args: Vec<&[u8]> = words.iter().map(|word| word.as_bytes()).collect();
            args.push(&install.config);
            let reply = self.eval_at(&name, &scripts::INSTALL, &args).await?;
            match text_at(reply::items(&reply), 0).as_str() {
                "installed" => {
                    self.announce().await;
                    return Ok(name);
                }
                "ALREADY_INSTALLED" => return Err(Error::AlreadyInstalled(worker.clone())),
                _ => continue,
            }
        }
        Err(Error::Contended)
    }

    /// Document 000's update of a worker's config.
    pub async fn update(&self, install: &Install) -> Result<(), Error> {
        let snapshot = self.worker_snapshot(&install.worker).await?;
        if snapshot.places.is_none_or(|places| places.is_empty()) {
            return Err(Error::NotInstalled(install.worker.clone()));
        }
        self.put(std::slice::from_ref(install)).await?;
        self.announce().await;
        Ok(())
    }

    /// Removes one worker.
    pub async fn uninstall_one(&self, worker: &WorkerId) -> Result<(), Error> {
        if self.uninstall(std::slice::from_ref(worker)).await? == 0 {
            return Err(Error::NotInstalled(worker.clone()));
        }
        self.announce().await;
        Ok(())
    }

    /// Document 000's relocation of one worker: away from a dead instance, or from a live one if forced. A
    /// running copy is stopped before the next one starts. Returns the instance it moves to.
    pub async fn relocate(&self, worker: &WorkerId, force: bool) -> Result<InstanceName, Error> {
        for _ in 0..TRIES_MAX {
            let snapshot = self.worker_snapshot(worker).await?;
            let live = |record: &super::InstanceRecord| record.state == InstanceState::Live;
            if !snapshot.instances.values().any(live) {
                return Err(Error::NoAcceptableWorker(worker.clone()));
            }
            let place = snapshot.places.as_ref().and_then(|places| places.get(worker));
            let Some(place) = place.filter(|place| !place.remove) else {
                return Err(Error::NotInstalled(worker.clone()));
            };
            if place.owner.is_some() && !force {
                return Err(Error::NoNeedToRelocate(worker.clone()));
            }
            let Some(to) = choose(&snapshot, &place.constraints, place.owner.as_ref()) else {
                return Err(Error::NoOtherAcceptableWorker(worker.clone()));
            };
            let done = match place.state {
                PlaceState::Pending => {
                    let items = [(worker.clone(), place.epoch)];
                    let assigned = self
                        .assign(&to, snapshot.instances[&to].inc, "relocate", &items)
                        .await?;
                    assigned == Some(1)
                }
                PlaceState::Assigned => {
                    let items = [(worker.clone(), place.epoch, Some(to.clone()))];
                    self.revoke(snapshot.version, "relocate", &items).await? == Some(1)
                }
                PlaceState::Revoking => true,
            };
            if done {
                self.announce().await;
                return Ok(to);
            }
        }
        Err(Error::Contended)
    }

    /// Drains an instance, or undoes that. Returns how many workers it has.
    pub async fn drain(&self, name: &InstanceName, on: bool) -> Result<u64, Error> {
        let state = if on {
            InstanceState::Draining
        } else {
            InstanceState::Live
        };
        let left = self.set_state(name, "", state).await?;
        self.announce().await;
        left.ok_or_else(|| Error::UnknownInstance(name.clone()))
    }

    /// Returns the stops that wait for a confirmation.
    pub async fn held_stops(&self) -> Result<Option<HeldStops>, Error> {
        let key = format!("{}fleet:held", self.keys.prefix);
        let connection = self.connection().await?;
        let reply = connection.call(&["GET", &key]).await.map_err(Error::from);
        let shown = reply::text(&self.noted(reply).await?).unwrap_or_default();
        let words: Vec<&str> = shown.split(' ').collect();
        let [digest, stops, of] = words[..] else {
            return Ok(None);
        };
        let number = |word: &str| word.parse().unwrap_or(0);
        Ok(Some(HeldStops {
            digest: digest.to_owned(),
            stops: number(stops),
            of: number(of),
        }))
    }

    /// Confirms held stops. The next list that asks for exactly these stops applies them.
    pub async fn confirm_stops(&self, digest: &str) -> Result<(), Error> {
        let key = format!("{}fleet:confirmed", self.keys.prefix);
        let connection = self.connection().await?;
        let set = connection.call(&["SET", &key, digest, "PX", CONFIRMED_MS]).await;
        self.noted(set.map_err(Error::from)).await.map(drop)
    }

    /// Returns the history after an event, or its last `count` entries.
    pub async fn history(&self, after: Option<&str>, count: usize) -> Result<Vec<HistoryEvent>, Error> {
        let count = count.to_string();
        let from = after.map(|id| format!("({id}"));
        let events = &self.keys.app[4];
        let args: [&str; 6] = match &from {
            Some(from) => ["XRANGE", events, from, "+", "COUNT", &count],
            None => ["XREVRANGE", events, "+", "-", "COUNT", &count],
        };
        let connection = self.connection().await?;
        let reply = self
            .noted(connection.call(&args).await.map_err(Error::from))
            .await?;
        let mut history: Vec<HistoryEvent> = reply::items(&reply)
            .iter()
            .filter_map(|entry| {
                let [id, fields] = reply::items(entry) else {
                    return None;
                };
                let fields = reply::items(fields);
                let some = |at: usize| Some(text_at(fields, at)).filter(|text| text != "-");
                Some(HistoryEvent {
                    id: reply::text(id)?,
                    what: text_at(fields, 1),
                    worker: some(3),
                    instance: some(5),
                    epoch: number_at(fields, 7),
                    why: text_at(fields, 9),
                })
            })
            .collect();
        if after.is_none() {
            history.reverse();
        }
        Ok(history)
    }
}

/// Asks a gate in any Redis whether the copy with this epoch may act. Every downstream write that must not
/// come from an older copy has to pass one.
pub async fn pass_gate(client: &Client, gate: &str, epoch: u64) -> Result<Pass, Error> {
    let connection = client.connection(gate.as_bytes()).await?;
    let epoch = epoch.to_string();
    let reply = connection
        .eval(&scripts::GATE, &[gate.as_bytes()], &[epoch.as_bytes()])
        .await?;
    let items = reply::items(&reply);
    Ok(match number_at(items, 0) {
        1 => Pass::Granted,
        _ => Pass::Refused {
            newer_epoch: number_at(items, 1),
        },
    })
}

/// Returns the least busy live instance that satisfies the constraints.
fn choose(
    snapshot: &FleetSnapshot,
    constraints: &Constraints,
    except: Option<&InstanceName>,
) -> Option<InstanceName> {
    let names: Vec<&InstanceName> = snapshot.instances.keys().collect();
    let mut fleet = Fleet::default();
    for (at, (name, record)) in snapshot.instances.iter().enumerate() {
        let mut instance = record.to_plan(name);
        instance.accepts &= Some(name) != except && instance.labels.is_superset(&constraints.labels);
        fleet.instances.push(instance);
        fleet.workers.extend(vec![Worker::at(Some(at)); record.count]);
    }
    let at = crate::plan::least_busy(&fleet.instances, &fleet.counts(), None)?;
    Some(names[at].clone())
}
