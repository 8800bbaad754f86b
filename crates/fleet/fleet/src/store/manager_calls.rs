//! The store calls of a manager.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use nagaya_redis_client::{Frame, reply};
use serde_json::value::RawValue;
use sha1::{Digest, Sha1};

use super::record::{
    Avoided, FleetSnapshot, InstanceRecord, InstanceState, Place, WorkerHealth, read_avoided,
    write_constraints,
};
use super::{Error, Store, items_at, number_at, pairs_json, scripts, text_at};
use crate::name::{InstanceName, WorkerId};
use crate::plan::Constraints;

/// Workers written per script call. Bounds how long one call blocks Redis.
const BATCH_WORKERS: usize = 500;

/// The last of the entries that are kept of stops by lists.
const STOPS_KEPT: &str = "999";

/// A worker as the external list has it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Install {
    pub worker: WorkerId,
    /// Arbitrary bytes, passed to the worker unchanged.
    pub config: Vec<u8>,
    pub constraints: Constraints,
}

impl Install {
    /// Returns a name for the config. Two configs that mean the same in JSON have the same, whatever the order of their
    /// keys and the space between them.
    pub fn config_name(&self) -> String {
        match std::str::from_utf8(&self.config).ok().and_then(in_order) {
            Some(text) => name_of(text.as_bytes()),
            None => name_of(&self.config),
        }
    }

    /// Returns whether a stored name is this config's. Earlier versions named the bytes as they are.
    pub fn has_config_name(&self, name: &str) -> bool {
        name == self.config_name() || name == name_of(&self.config)
    }
}

/// The first 8 bytes of a SHA-1, in hex.
fn name_of(bytes: &[u8]) -> String {
    let digest = Sha1::digest(bytes);
    digest.iter().take(8).map(|byte| format!("{byte:02x}")).collect()
}

/// Returns JSON without white space and with the keys of objects in order. Numbers stay as they are written.
fn in_order(json: &str) -> Option<String> {
    let raw: &RawValue = serde_json::from_str(json).ok()?;
    let raw = raw.get();
    match raw.as_bytes().first()? {
        b'{' => {
            let fields: BTreeMap<String, &RawValue> = serde_json::from_str(raw).ok()?;
            let fields = fields.iter().map(|(name, value)| {
                let name = serde_json::Value::from(name.as_str());
                Some(format!("{name}:{}", in_order(value.get())?))
            });
            Some(format!("{{{}}}", fields.collect::<Option<Vec<_>>>()?.join(",")))
        }
        b'[' => {
            let items: Vec<&RawValue> = serde_json::from_str(raw).ok()?;
            let items = items.iter().map(|item| in_order(item.get()));
            Some(format!("[{}]", items.collect::<Option<Vec<_>>>()?.join(",")))
        }
        b'"' => {
            let text: String = serde_json::from_str(raw).ok()?;
            Some(serde_json::Value::from(text).to_string())
        }
        _ => Some(raw.to_owned()),
    }
}

/// What a write of workers changed.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Written {
    pub created: u64,
    pub updated: u64,
    /// Workers that were uninstalled, not stopped yet, and are wanted again.
    pub taken_back: u64,
}

impl Store {
    /// Reads all instances, and all workers unless the placement still has the version that the caller knows.
    /// One round trip.
    pub async fn snapshot(&self, known_version: Option<u64>) -> Result<FleetSnapshot, Error> {
        self.snapshot_since(known_version, None).await
    }

    /// [`Store::snapshot`], with the health of the workers only if it has another version, too.
    pub async fn snapshot_since(
        &self,
        known_version: Option<u64>,
        known_health: Option<u64>,
    ) -> Result<FleetSnapshot, Error> {
        let text = |version: Option<u64>| version.map_or_else(String::new, |version| version.to_string());
        self.read_snapshot(&["*", "", &text(known_version), &text(known_health)])
            .await
    }

    /// Keeps workers from the instances on which they failed, for a while.
    pub async fn avoid(
        &self,
        pairs: &[(WorkerId, InstanceName)],
        for_how_long: Duration,
    ) -> Result<(), Error> {
        let items = pairs
            .iter()
            .map(|(worker, name)| serde_json::json!([worker.as_str(), name.as_str()]));
        let items = serde_json::Value::Array(items.collect()).to_string();
        let avoid_ms = for_how_long.as_millis().to_string();
        let args = [avoid_ms.as_bytes(), items.as_bytes()];
        self.eval(&scripts::AVOID, &args).await.map(drop)
    }

    /// Empties an incarnation on which many workers fail. Returns how many it has, or `None` if it is not live.
    pub async fn cordon(&self, name: &InstanceName, inc: u64) -> Result<Option<u64>, Error> {
        self.set_state(name, &inc.to_string(), InstanceState::Cordoned)
            .await
    }

    /// Reads all instances and one worker.
    pub async fn worker_snapshot(&self, worker: &WorkerId) -> Result<FleetSnapshot, Error> {
        self.read_snapshot(&["1", worker.as_str(), "", ""]).await
    }

    async fn read_snapshot(&self, args: &[&str; 4]) -> Result<FleetSnapshot, Error> {
        let run = self.run().await?;
        let reply = self.eval(&scripts::LOOK, &args.map(str::as_bytes)).await?;
        Ok(parse_snapshot(run, reply::items(&reply)))
    }

    /// Declares an incarnation dead if its heartbeat is still this one. Returns how many workers wait for a
    /// place as a result.
    pub async fn declare_dead(&self, name: &InstanceName, inc: u64, beat: u64) -> Result<Option<u64>, Error> {
        let (inc, beat) = (inc.to_string(), beat.to_string());
        let args = [name.as_str(), &inc, &beat];
        let reply = self
            .eval_at(name, &scripts::DEAD, &args.map(str::as_bytes))
            .await?;
        let items = reply::items(&reply);
        Ok((text_at(items, 0) == "declared").then(|| number_at(items, 1)))
    }

    /// Removes the record of a dead incarnation.
    pub async fn forget(&self, name: &InstanceName, inc: u64) -> Result<(), Error> {
        let inc = inc.to_string();
        let args = [name.as_str(), &inc];
        self.eval(&scripts::FORGET, &args.map(str::as_bytes))
            .await
            .map(drop)
    }

    /// Records that all leases of earlier runs are over.
    pub async fn settle(&self, run: &str, birth: &str) -> Result<(), Error> {
        let args = [run.as_bytes(), birth.as_bytes()];
        self.eval(&scripts::SETTLE, &args).await.map(drop)
    }

    /// Assigns waiting workers to an incarnation. Returns how many it got, or `None` if the incarnation is
    /// over.
    pub async fn assign(
        &self,
        name: &InstanceName,
        inc: u64,
        why: &str,
        workers: &[(WorkerId, u64)],
    ) -> Result<Option<u64>, Error> {
        let run = self.run().await?;
        let inc = inc.to_string();
        let mut assigned = 0;
        for batch in workers.chunks(BATCH_WORKERS) {
            let items = pairs_json(batch.iter().map(|(worker, epoch)| (worker, *epoch)));
            let args = [name.as_str(), &inc, &run, why, &items];
            let reply = self
                .eval_at(name, &scripts::ASSIGN, &args.map(str::as_bytes))
                .await?;
            let items = reply::items(&reply);
            if text_at(items, 0) != "assigned" {
                return Ok(None);
            }
            assigned += number_at(items, 1);
        }
        Ok(Some(assigned))
    }

    /// Asks owners to stop workers. Returns how many, or `None` if the placement has changed since the
    /// decision.
    pub async fn revoke(
        &self,
        version: u64,
        why: &str,
        workers: &[(WorkerId, u64, Option<InstanceName>)],
    ) -> Result<Option<u64>, Error> {
        let items = workers.iter().map(|(worker, epoch, next_owner)| {
            let next_owner = next_owner.as_ref().map_or("-", InstanceName::as_str);
            serde_json::json!([worker.as_str(), epoch.to_string(), next_owner])
        });
        let items = serde_json::Value::Array(items.collect()).to_string();
        let version = version.to_string();
        let args = [version.as_str(), why, &items];
        let reply = self.eval(&scripts::REVOKE, &args.map(str::as_bytes)).await?;
        let items = reply::items(&reply);
        Ok((text_at(items, 0) == "revoked").then(|| number_at(items, 1)))
    }

    /// Creates workers, or updates existing ones.
    pub async fn put(&self, installs: &[Install]) -> Result<Written, Error> {
        let run = self.run().await?;
        let mut written = Written::default();
        for batch in installs.chunks(BATCH_WORKERS) {
            let items = batch.iter().map(|install| {
                serde_json::json!([
                    install.worker.as_str(),
                    install.config_name(),
                    write_constraints(&install.constraints),
                    install.config.len(),
                ])
            });
            let items = serde_json::Value::Array(items.collect()).to_string();
            let configs: Vec<u8> = batch
                .iter()
                .flat_map(|install| install.config.iter().copied())
                .collect();
            let reply = self
                .eval(&scripts::PUT, &[run.as_bytes(), items.as_bytes(), &configs])
                .await?;
            let items = reply::items(&reply);
            written.created += number_at(items, 0);
            written.updated += number_at(items, 1);
            written.taken_back += number_at(items, 2);
        }
        Ok(written)
    }

    /// Uninstalls workers. Returns how many of them existed.
    pub async fn uninstall(&self, workers: &[WorkerId]) -> Result<u64, Error> {
        let mut known = 0;
        for batch in workers.chunks(BATCH_WORKERS) {
            let names: Vec<&str> = batch.iter().map(WorkerId::as_str).collect();
            let names = serde_json::json!(names).to_string();
            let reply = self.eval(&scripts::UNINSTALL, &[names.as_bytes()]).await?;
            let items = reply::items(&reply);
            known += number_at(items, 0) + number_at(items, 1);
        }
        Ok(known)
    }

    /// Publishes which stops wait for a confirmation, if any.
    pub(crate) async fn show_held(&self, held: Option<&crate::manager::HeldStops>) -> Result<(), Error> {
        let key = format!("{}fleet:held", self.keys.prefix);
        let connection = self.connection().await?;
        let shown = match held {
            None => connection.call(&["DEL", &key]).await,
            Some(held) => {
                let shown = format!("{} {} {}", held.digest, held.stops, held.of);
                connection.call(&["SET", &key, &shown]).await
            }
        };
        self.noted(shown.map_err(Error::from)).await.map(drop)
    }

    /// Returns the digest of the stops that an operator has confirmed.
    pub(crate) async fn confirmed_stops(&self) -> Result<Option<String>, Error> {
        let key = format!("{}fleet:confirmed", self.keys.prefix);
        let connection = self.connection().await?;
        let reply = connection.call(&["GET", &key]).await.map_err(Error::from);
        Ok(reply::text(&self.noted(reply).await?))
    }

    /// Returns how many workers lists have stopped, by any manager, in a time that ends now.
    pub(crate) async fn recent_stops(&self, now_ms: u64, window: Duration) -> Result<usize, Error> {
        let key = format!("{}fleet:stops", self.keys.prefix);
        let connection = self.connection().await?;
        let reply = connection.call(&["LRANGE", &key, "0", "-1"]).await;
        let reply = self.noted(reply.map_err(Error::from)).await?;
        let window_ms = u64::try_from(window.as_millis()).unwrap_or(u64::MAX);
        let entries = reply::items(&reply).iter().filter_map(reply::text);
        let counts = entries.filter_map(|entry| {
            let (at_ms, count) = entry.split_once(' ')?;
            let at_ms: u64 = at_ms.parse().ok()?;
            (at_ms.saturating_add(window_ms) > now_ms).then(|| count.parse::<usize>().ok())?
        });
        Ok(counts.sum())
    }

    /// Remembers that a list has stopped workers; confirmed ones count no more, nor do those before.
    pub(crate) async fn note_stops(&self, now_ms: u64, count: usize, confirmed: bool) -> Result<(), Error> {
        let key = format!("{}fleet:stops", self.keys.prefix);
        let connection = self.connection().await?;
        let noted = if confirmed {
            connection.call(&["DEL", &key]).await
        } else {
            let entry = format!("{now_ms} {count}");
            connection.call(&["LPUSH", &key, &entry]).await
        };
        self.noted(noted.map_err(Error::from)).await?;
        let trimmed = connection.call(&["LTRIM", &key, "0", STOPS_KEPT]).await;
        self.noted(trimmed.map_err(Error::from)).await.map(drop)
    }

    /// Returns how long workers of this app ran past their leases, by their agents' clocks. Two copies can
    /// only have run within this time.
    pub async fn overrun(&self) -> Result<Duration, Error> {
        let connection = self.connection().await?;
        let args = ["HGET", &self.keys.figures, "overrun_ms"];
        let reply = self
            .noted(connection.call(&args).await.map_err(Error::from))
            .await?;
        Ok(Duration::from_millis(reply::unsigned(&reply).unwrap_or(0)))
    }

    /// Writes a manager's heartbeat. Returns the number of other managers.
    pub async fn manager_beat(&self, name: &InstanceName, shown_for: Duration) -> Result<u64, Error> {
        self.manager_call(name, shown_for.as_millis().max(1)).await
    }

    pub async fn manager_leave(&self, name: &InstanceName) -> Result<(), Error> {
        self.manager_call(name, 0).await.map(drop)
    }

    async fn manager_call(&self, name: &InstanceName, shown_ms: u128) -> Result<u64, Error> {
        let connection = self.connection().await?;
        let heartbeat = format!("{}master:{name}:heartbeat", self.keys.prefix);
        let keys = [self.keys.managers.as_bytes(), heartbeat.as_bytes()];
        let shown_ms = shown_ms.to_string();
        let args = [name.as_str().as_bytes(), shown_ms.as_bytes()];
        let reply = connection.eval(&scripts::MANAGER, &keys, &args).await;
        let reply = self.noted(reply.map_err(Error::from)).await?;
        Ok(reply::unsigned(&reply).unwrap_or(0))
    }
}

fn parse_health(items: &[Frame]) -> (BTreeMap<WorkerId, WorkerHealth>, Avoided) {
    let now_ms = number_at(items, 11);
    let pairs = |at: usize| {
        let pairs = items_at(items, at).chunks_exact(2);
        pairs.filter_map(|pair| Some((WorkerId::new(&text_at(pair, 0)).ok()?, text_at(pair, 1))))
    };
    let health = pairs(9).filter_map(|(worker, line)| Some((worker, WorkerHealth::parse(&line)?)));
    let avoided = pairs(10).map(|(worker, line)| (worker, read_avoided(&line, now_ms)));
    (health.collect(), avoided.collect())
}

fn parse_snapshot(run: String, items: &[Frame]) -> FleetSnapshot {
    let mut snapshot = FleetSnapshot {
        run,
        settled: text_at(items, 0),
        version: number_at(items, 1),
        birth: text_at(items, 5),
        timing: text_at(items, 6),
        health_version: number_at(items, 7),
        ..FleetSnapshot::default()
    };
    if number_at(items, 8) == 1 {
        snapshot.health = Some(parse_health(items));
    }
    for pair in items_at(items, 2).chunks_exact(2) {
        let (name, line) = (text_at(pair, 0), text_at(pair, 1));
        match (InstanceName::new(&name), InstanceRecord::parse(&line)) {
            (Ok(name), Some(record)) => {
                snapshot.instances.insert(name, record);
            }
            _ => tracing::warn!(name, "unreadable record of an instance"),
        }
    }
    if number_at(items, 3) == 0 {
        return snapshot;
    }
    let mut unreadable = BTreeSet::new();
    let places = items_at(items, 4).chunks_exact(2).filter_map(|pair| {
        let (worker, line) = (text_at(pair, 0), text_at(pair, 1));
        let read = WorkerId::new(&worker).ok().zip(Place::parse(&line));
        if read.is_none() {
            tracing::warn!(worker, "unreadable record of a worker");
            unreadable.insert(worker);
        }
        read
    });
    snapshot.places = Some(places.collect());
    snapshot.unreadable = unreadable;
    snapshot
}

#[cfg(test)]
mod tests {
    use super::*;

    fn named(config: &str) -> String {
        let install = Install {
            worker: WorkerId::new("w").unwrap(),
            config: config.into(),
            constraints: Constraints::default(),
        };
        assert!(install.has_config_name(&install.config_name()));
        assert!(install.has_config_name(&name_of(config.as_bytes())));
        install.config_name()
    }

    #[test]
    fn configs_that_mean_the_same_have_one_name() {
        let one = r#"{"id":"a","x":{"p":[1,2.50],"q":"\u00e9"},"n":1234567890123456789012}"#;
        let same = r#" { "n":1234567890123456789012, "x" : {"q":"é", "p":[ 1, 2.50 ]}, "id":"a" } "#;
        assert_eq!(named(one), named(same));
        for other in [
            r#"{"id":"a","x":{"p":[2.50,1],"q":"\u00e9"},"n":1234567890123456789012}"#,
            r#"{"id":"a","x":{"p":[1,2.50],"q":"\u00e9"},"n":1234567890123456789013}"#,
            r#"{"id":"a","x":{"p":["1",2.50],"q":"\u00e9"},"n":1234567890123456789012}"#,
            "no json",
            "",
        ] {
            assert_ne!(named(one), named(other), "{other}");
        }
        assert_ne!(named("no json"), named("no  json"));
    }
}
