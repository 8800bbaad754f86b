//! The fleet in Redis: every change is one atomic script.
//!
//! Document 000's keys keep their meaning under `{APP}:`: `workers:NAME` is the list of an instance;
//! `slave:NAME:heartbeat` and `master:NAME:heartbeat` show which processes are alive. They are for readers
//! only. Decisions rest on four hashes, whose entries are told apart by incarnation, heartbeat number and
//! epoch, never by a time to live or a clock (see `lua/prelude.lua`).
//!
//! All keys of an app share a hash tag, and every script gets all its keys as arguments, so any Redis works
//! and no foreign key is touched.

mod agent_calls;
mod error;
mod manager_calls;
mod operator_calls;
mod record;
mod scripts;

use std::sync::Arc;

use nagaya_redis_client::{Client, Connection, Frame, Script, reply};

use crate::name::{AppName, InstanceName};

pub use agent_calls::{Pulse, Reported, Running};
pub use error::{Error, LogSeverity};
pub use manager_calls::{Install, Written};
pub use operator_calls::{HistoryEvent, Pass, pass_gate};
pub use record::{
    Avoided, Beat, Capabilities, FleetSnapshot, InstanceRecord, InstanceState, Joined, List, Listed,
    ListedState, Place, PlaceState, WorkerHealth,
};

/// Characters kept of each half of a run's name: 64 bits each, in hex.
const RUN_CHARS: usize = 16;

/// One app's fleet in one Redis. Clones share the connections.
#[derive(Clone, Debug)]
pub struct Store {
    client: Arc<Client>,
    app: AppName,
    keys: Arc<Keys>,
}

#[derive(Debug)]
struct Keys {
    prefix: String,
    app: [String; 7],
    managers: String,
    figures: String,
}

impl Store {
    /// Connects on the first call.
    pub fn new(client: Arc<Client>, app: AppName) -> Store {
        let prefix = format!("{{{app}}}:");
        let key = |name: &str| format!("{prefix}fleet:{name}");
        let names = [
            "instances",
            "places",
            "meta",
            "configs",
            "events",
            "health",
            "avoid",
        ];
        let keys = Keys {
            app: names.map(key),
            managers: key("managers"),
            figures: key("figures"),
            prefix,
        };
        Store {
            client,
            app,
            keys: Arc::new(keys),
        }
    }

    pub fn app(&self) -> &AppName {
        &self.app
    }

    pub fn client(&self) -> &Arc<Client> {
        &self.client
    }

    /// The channel that tells agents and managers to read the fleet again. Messages carry nothing else.
    pub fn wakeup_channel(&self) -> String {
        format!("{}fleet:look", self.keys.prefix)
    }

    /// The channel for questions to all instances.
    pub fn ask_channel(&self) -> String {
        format!("{}fleet:ask", self.keys.prefix)
    }

    /// The channel for the answers to one question.
    pub(crate) fn answer_channel(&self, question: &str) -> String {
        format!("{}fleet:answer:{question}", self.keys.prefix)
    }

    /// The key of a worker's gate, for downstream writes in the same Redis.
    pub fn gate_key(&self, worker: &str) -> String {
        format!("{}gate:{worker}", self.keys.prefix)
    }

    pub(crate) async fn publish(&self, channel: &str, payload: &[u8]) -> Result<(), Error> {
        let connection = self.connection().await?;
        let published = connection.call(&[b"PUBLISH", channel.as_bytes(), payload]).await;
        self.noted(published.map_err(Error::from)).await.map(drop)
    }

    /// Tells agents and managers to read the fleet again. Best effort: a subscriber that misses it reads at
    /// its next interval.
    pub async fn announce(&self) {
        if let Err(error) = self.publish(&self.wakeup_channel(), b"look").await {
            tracing::debug!(error = error.chain(), "announcement not sent");
        }
    }

    async fn connection(&self) -> Result<Connection, Error> {
        Ok(self.client.connection(self.keys.app[0].as_bytes()).await?)
    }

    /// Returns the run of the server behind the current connection.
    pub async fn run(&self) -> Result<String, Error> {
        let connection = self.connection().await?;
        let run = run_name(&connection).await.map_err(Error::from);
        self.noted(run).await
    }

    /// Runs a script on the app's keys.
    async fn eval(&self, script: &Script, args: &[&[u8]]) -> Result<Frame, Error> {
        let connection = self.connection().await?;
        let keys: Vec<&[u8]> = self.keys.app.iter().map(String::as_bytes).collect();
        self.noted(connection.eval(script, &keys, args).await.map_err(Error::from))
            .await
    }

    /// Runs a script on the keys of the app and of one instance.
    async fn eval_at(&self, name: &InstanceName, script: &Script, args: &[&[u8]]) -> Result<Frame, Error> {
        let connection = self.connection().await?;
        let keys = self.instance_keys(name);
        let keys: Vec<&[u8]> = keys.iter().map(String::as_bytes).collect();
        self.noted(connection.eval(script, &keys, args).await.map_err(Error::from))
            .await
    }

    fn instance_keys(&self, name: &InstanceName) -> Vec<String> {
        let prefix = &self.keys.prefix;
        let own = [
            format!("{prefix}workers:{name}"),
            format!("{prefix}slave:{name}:heartbeat"),
        ];
        self.keys.app.iter().cloned().chain(own).collect()
    }

    /// Passes a failed call's error to the client, which may learn from it where the servers are now.
    async fn noted<T>(&self, result: Result<T, Error>) -> Result<T, Error> {
        if let Err(Error::Redis(error)) = &result {
            self.client.note(error).await;
        }
        result
    }
}

async fn run_name(connection: &Connection) -> Result<String, nagaya_redis_client::Error> {
    let run = connection.run().await?;
    let part = |text: &str| text.chars().take(RUN_CHARS).collect::<String>();
    Ok(format!("{}:{}", part(&run.run_id), part(&run.replication_id)))
}

fn text_at(items: &[Frame], at: usize) -> String {
    items.get(at).and_then(reply::text).unwrap_or_default()
}

fn number_at(items: &[Frame], at: usize) -> u64 {
    items.get(at).and_then(reply::unsigned).unwrap_or(0)
}

fn items_at(items: &[Frame], at: usize) -> &[Frame] {
    items.get(at).map(reply::items).unwrap_or_default()
}

/// Encodes worker and epoch pairs for a script.
fn pairs_json<'a>(items: impl Iterator<Item = (&'a crate::name::WorkerId, u64)>) -> String {
    let items = items.map(|(worker, epoch)| serde_json::json!([worker.as_str(), epoch.to_string()]));
    serde_json::Value::Array(items.collect()).to_string()
}
