//! The store calls of an agent.

use std::collections::BTreeMap;
use std::time::Duration;

use nagaya_redis_client::{Frame, Need, reply};

use super::record::{
    Beat, Capabilities, InstanceState, Joined, List, Listed, ListedState, read_tokens, write_labels,
    write_option,
};
use super::{Error, Store, items_at, number_at, pairs_json, run_name, scripts, text_at};
use crate::name::{InstanceName, WorkerId};
use crate::timing::Timing;

/// Running workers, with their epochs.
pub type Running = BTreeMap<WorkerId, u64>;

/// What a heartbeat says.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub struct Pulse {
    pub inc: u64,
    /// Run and list version of the caller's last confirmed reply.
    pub run: String,
    pub version: Option<u64>,
    /// What runs; sent if the run is another one.
    pub running: Running,
    /// Workers whose last copy has ended and that are to be started again, with the epochs they had. Each gets a new
    /// one, in the list of the reply.
    pub again: Running,
    /// All earlier processes with this name are over.
    pub waited: bool,
    /// How workers do whose health has changed since the last confirmed heartbeat.
    pub health: BTreeMap<WorkerId, Reported>,
}

/// How one copy does.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Reported {
    pub epoch: u64,
    /// `starting`, `healthy`, `failing` or `quarantined`.
    pub state: &'static str,
    pub failures: u32,
    pub reason: String,
}

impl Store {
    /// Begins a new incarnation. Returns it with the run that answered. Refused while instances that are not
    /// dead have another lease or drift: then no manager could know how long to wait for which instance.
    pub async fn join(
        &self,
        name: &InstanceName,
        token: &str,
        capabilities: &Capabilities,
        timing: &Timing,
    ) -> Result<(String, Joined), Error> {
        let run = self.run().await?;
        let (weight, capacity) = (
            capabilities.weight.max(1).to_string(),
            write_option(capabilities.capacity),
        );
        let (zone, labels) = (
            write_option(capabilities.zone.as_ref()),
            write_labels(&capabilities.labels),
        );
        let shown_ms = timing.shown_for.as_millis().max(1).to_string();
        let wanted = timing.agreement();
        let args = [
            name.as_str(),
            token,
            &run,
            &weight,
            &capacity,
            &zone,
            &labels,
            &shown_ms,
            &wanted,
        ];
        let reply = self
            .eval_at(name, &scripts::JOIN, &args.map(str::as_bytes))
            .await?;
        let items = reply::items(&reply);
        if text_at(items, 0).is_empty() {
            let agreed = text_at(items, 1);
            return Err(Error::OtherTiming { wanted, agreed });
        }
        let joined = Joined {
            inc: number_at(items, 0),
            settled: text_at(items, 1),
            before: read_tokens(&text_at(items, 2)),
            version: number_at(items, 3),
            list: read_list(items_at(items, 4)),
        };
        Ok((run, joined))
    }

    /// Renews the lease. It counts only if the required number of replicas has it. The returned run is that
    /// of the server that answered.
    pub async fn heartbeat(
        &self,
        name: &InstanceName,
        pulse: &Pulse,
        shown_for: Duration,
        need: Need,
    ) -> Result<(String, Beat), Error> {
        let connection = self.connection().await?;
        let run = self
            .noted(run_name(&connection).await.map_err(Error::from))
            .await?;
        let (inc, shown_ms) = (pulse.inc.to_string(), shown_for.as_millis().max(1).to_string());
        let new_run = run != pulse.run;
        let known = pulse
            .version
            .filter(|_| !new_run)
            .map_or_else(String::new, |version| version.to_string());
        let running = if new_run {
            running_json(&pulse.running)
        } else {
            String::new()
        };
        let again = if pulse.again.is_empty() {
            String::new()
        } else {
            running_json(&pulse.again)
        };
        let waited = if pulse.waited { "1" } else { "" };
        let health = health_json(&pulse.health);
        let args = [
            name.as_str(),
            &inc,
            &run,
            &known,
            &running,
            &shown_ms,
            waited,
            &again,
            &health,
        ];
        let keys = self.instance_keys(name);
        let keys: Vec<&[u8]> = keys.iter().map(String::as_bytes).collect();
        let answer = connection
            .write_and_wait(&scripts::HEARTBEAT, &keys, &args.map(str::as_bytes), need)
            .await;
        let answer = self.noted(answer.map_err(Error::from)).await?;
        Ok((run, read_beat(&answer.reply)))
    }

    /// Acknowledges stops. Returns whether the instance has left as a result.
    pub async fn stopped(&self, name: &InstanceName, inc: u64, stopped: &Running) -> Result<bool, Error> {
        let items = pairs_json(stopped.iter().map(|(worker, epoch)| (worker, *epoch)));
        let inc = inc.to_string();
        let args = [name.as_str(), &inc, &items];
        let reply = self
            .eval_at(name, &scripts::STOPPED, &args.map(str::as_bytes))
            .await?;
        Ok(number_at(reply::items(&reply), 2) == 1)
    }

    /// Begins to leave. Returns how many workers must be stopped first, or `None` if this incarnation is
    /// over.
    pub async fn leave(&self, name: &InstanceName, inc: u64) -> Result<Option<u64>, Error> {
        self.set_state(name, &inc.to_string(), InstanceState::Leaving)
            .await
    }

    pub(super) async fn set_state(
        &self,
        name: &InstanceName,
        inc: &str,
        state: InstanceState,
    ) -> Result<Option<u64>, Error> {
        let args = [name.as_str(), inc, state.as_str()];
        let reply = self
            .eval_at(name, &scripts::LEAVE, &args.map(str::as_bytes))
            .await?;
        let items = reply::items(&reply);
        Ok((text_at(items, 0) == "leaving").then(|| number_at(items, 1)))
    }

    /// Adds to the recorded time that workers of this app ran past their leases.
    pub async fn add_overrun(&self, overrun: Duration) -> Result<(), Error> {
        let overrun_ms = overrun.as_millis().max(1).to_string();
        let connection = self.connection().await?;
        let args = ["HINCRBY", &self.keys.figures, "overrun_ms", &overrun_ms];
        let added = connection.call(&args).await.map_err(Error::from);
        self.noted(added).await.map(drop)
    }

    /// Returns the configs of workers, byte for byte. Workers without one are left out.
    pub async fn configs(&self, workers: &[WorkerId]) -> Result<BTreeMap<WorkerId, Vec<u8>>, Error> {
        if workers.is_empty() {
            return Ok(BTreeMap::new());
        }
        let mut args: Vec<&[u8]> = vec![b"HMGET", self.keys.app[3].as_bytes()];
        args.extend(workers.iter().map(|worker| worker.as_str().as_bytes()));
        let connection = self.connection().await?;
        let reply = self
            .noted(connection.call(&args).await.map_err(Error::from))
            .await?;
        let found = workers.iter().zip(reply::items(&reply));
        Ok(found
            .filter_map(|(worker, config)| Some((worker.clone(), reply::bytes(config)?.to_vec())))
            .collect())
    }
}

fn running_json(running: &Running) -> String {
    let pairs = running
        .iter()
        .map(|(worker, epoch)| (worker.to_string(), serde_json::Value::from(epoch.to_string())));
    serde_json::Value::Object(pairs.collect()).to_string()
}

/// Longest reason that is stored, in characters.
const REASON_CHARS_MAX: usize = 200;

fn health_json(health: &BTreeMap<WorkerId, Reported>) -> String {
    if health.is_empty() {
        return String::new();
    }
    let entries = health.iter().map(|(worker, one)| {
        let reason: String = one
            .reason
            .chars()
            .map(|letter| if letter.is_control() { ' ' } else { letter })
            .take(REASON_CHARS_MAX)
            .collect();
        let value = serde_json::json!([one.epoch.to_string(), one.state, one.failures.to_string(), reason]);
        (worker.to_string(), value)
    });
    serde_json::Value::Object(entries.collect()).to_string()
}

fn read_beat(reply: &Frame) -> Beat {
    let items = reply::items(reply);
    match text_at(items, 0).as_str() {
        "same" | "list" => Beat::Alive {
            settled: text_at(items, 1),
            version: number_at(items, 2),
            list: items.get(3).map(|list| read_list(reply::items(list))),
        },
        _ => Beat::Refused {
            state: InstanceState::parse(&text_at(items, 1)),
            token: text_at(items, 2),
            inc: number_at(items, 3),
        },
    }
}

fn read_list(flat: &[Frame]) -> List {
    let mut list = List::new();
    for entry in flat.chunks_exact(4) {
        // Every stored worker name passed validation.
        let Ok(worker) = WorkerId::new(&text_at(entry, 0)) else {
            continue;
        };
        let state = match text_at(entry, 2).as_str() {
            "assigned" => ListedState::Run,
            "revoking" => ListedState::Stop,
            _ => ListedState::Unknown,
        };
        let listed = Listed {
            epoch: number_at(entry, 1),
            state,
            config: text_at(entry, 3),
        };
        list.insert(worker, listed);
    }
    list
}
