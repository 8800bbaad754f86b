//! The pool of numbers in Redis.
//!
//! The keys are yaraus's: `NS:ids` (a sorted set, score = end of the reservation in Unix seconds),
//! `NS:clients` (holders), `NS:stats` (counters and the range), so a live pool can be shared
//! or taken over. Further state of this protocol is in `NS:leases`. Every change is one
//! atomic script, on the server's clock.

mod admin;
mod error;
mod grant;
mod member;
mod report;
mod scripts;

use std::sync::Arc;
use std::time::Duration;

use nagaya_redis_client::{Client, Connection, Frame, Topology, reply};

pub use admin::{Freed, NewPool};
pub use error::Error;
pub use grant::{Extension, GetAnswer, GetCall, Grant, HolderId, Phase, Refusal, Released};
pub use member::{BadMember, Member};
pub use report::{Entry, Report, Stats, list_table, stats_table};

/// The namespace of yaraus when its URL names none.
pub const DEFAULT_NAMESPACE: &str = "yaraus";

/// One pool in one Redis.
#[derive(Clone, Debug)]
pub struct Pool {
    client: Arc<Client>,
    namespace: String,
    keys: Keys,
}

#[derive(Clone, Debug)]
struct Keys {
    ids: String,
    clients: String,
    stats: String,
    leases: String,
}

impl Pool {
    /// Opens the pool that the client's URL names with `ns`. Nothing is connected yet.
    pub fn new(client: Arc<Client>) -> Result<Pool, Error> {
        let namespace = client.url().namespace.clone();
        let namespace = namespace.unwrap_or_else(|| DEFAULT_NAMESPACE.to_owned());
        let key = |name: &str| format!("{namespace}:{name}");
        let keys = Keys {
            ids: key("ids"),
            clients: key("clients"),
            stats: key("stats"),
            leases: key("leases"),
        };
        let slot = |key: &str| nagaya_redis_client::slot::of_key(key.as_bytes());
        let together = slot(&keys.ids) == slot(&keys.clients) && slot(&keys.ids) == slot(&keys.leases);
        if matches!(client.url().topology, Topology::Cluster { .. }) && !together {
            return Err(Error::NamespaceWithoutTag { namespace });
        }
        Ok(Pool {
            client,
            namespace,
            keys,
        })
    }

    pub fn namespace(&self) -> &str {
        &self.namespace
    }

    pub fn client(&self) -> &Arc<Client> {
        &self.client
    }

    async fn connection(&self) -> Result<Connection, Error> {
        Ok(self.client.connection(self.keys.ids.as_bytes()).await?)
    }

    /// Lets the client learn from a failed call where the servers are now.
    async fn noted<T>(&self, result: Result<T, Error>) -> Result<T, Error> {
        if let Err(Error::Redis(error)) = &result {
            self.client.note(error).await;
        }
        result
    }
}

/// Formats seconds with six decimals, as the scripts do.
fn seconds(duration: Duration) -> String {
    format!("{}.{:06}", duration.as_secs(), duration.subsec_micros())
}

/// Formats whole milliseconds, rounded up, as the scripts compare them.
fn millis(duration: Duration) -> String {
    duration.as_nanos().div_ceil(1_000_000).to_string()
}

/// Returns the wall clock, for scripts on a Redis that does not let them read its own.
fn caller_now() -> String {
    let since = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH);
    seconds(since.unwrap_or_default())
}

/// Returns the first word of a script's answer and what follows it.
fn status(reply: &Frame) -> (String, &[Frame]) {
    match reply::items(reply) {
        [status, rest @ ..] => (reply::text(status).unwrap_or_default(), rest),
        [] => (String::new(), &[]),
    }
}

fn text_at(items: &[Frame], at: usize) -> String {
    items.get(at).and_then(reply::text).unwrap_or_default()
}
