//! memcached over its text protocol: one key for the request, one for each answer.
//!
//! The keys of one request lie on several servers, chosen as serinin's clients choose. memcached has no
//! scripts, so a deadline cannot be checked where the write happens. Instead, an answer that is confirmed too
//! late is deleted at once, and one that was never confirmed is deleted before that server is used again.

mod node;
mod pick;
mod wire;

use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use futures_util::future::{BoxFuture, join_all};
use nagaya_clock::Clock;
use tokio::time::Instant;

use super::{Batch, LATE_DETAIL, Record, Store, StoreError, Stored, Written, go_json};
use crate::config::NodeChoice;
use crate::names::{self, COMPLETE, ENDPOINTS, OUTCOME_PREFIX};
use crate::outcome::Outcome;
use node::{Commands, Node};
use wire::Reply;

/// memcached reads a larger expiry as a date, in seconds.
const RELATIVE_SECONDS_MAX: u64 = 30 * 24 * 60 * 60;
/// Keys per `get`.
const KEYS_PER_GET: usize = 100;

pub struct MemcachedStore {
    nodes: Vec<Node>,
    choice: NodeChoice,
    expire_in: Duration,
    clock: Arc<dyn Clock>,
}

impl MemcachedStore {
    /// Creates the store. Connects on first use.
    pub fn new(
        addresses: &[String],
        choice: NodeChoice,
        expire_in: Duration,
        timeout: Duration,
        clock: Arc<dyn Clock>,
    ) -> MemcachedStore {
        let node = |address: &String| Node::new(address.clone(), timeout);
        MemcachedStore {
            nodes: addresses.iter().map(node).collect(),
            choice,
            expire_in,
            clock,
        }
    }

    /// Returns the expiry as memcached expects it: whole seconds, rounded up so that it is never zero and
    /// never too short, and as a date if it is long.
    fn expires(&self) -> u64 {
        let seconds = u64::try_from(self.expire_in.as_millis().div_ceil(1000)).unwrap_or(u64::MAX);
        match seconds.max(1) {
            seconds if seconds <= RELATIVE_SECONDS_MAX => seconds,
            seconds => (self.clock.unix_ms().unsigned_abs() / 1000)
                .saturating_add(seconds)
                .min(u64::from(u32::MAX >> 1)),
        }
    }

    fn commands(&self) -> Vec<Commands> {
        self.nodes.iter().map(|_| Commands::default()).collect()
    }

    /// Returns the server of a key. Keys that only we read lie with the request itself, so that a request needs no
    /// server but its own to be taken.
    fn node_of(&self, key: &str) -> usize {
        let placed_by = match key.split_once('.') {
            Some((id, name)) if names::is_ours(name) => id,
            _ => key,
        };
        pick::server_of(placed_by.as_bytes(), self.nodes.len(), self.choice)
    }

    /// Runs the commands of all servers concurrently. A server without commands is not contacted.
    async fn run_each(&self, commands: Vec<Commands>) -> Vec<Result<Vec<Reply>, StoreError>> {
        let runs = self
            .nodes
            .iter()
            .zip(commands)
            .map(|(node, commands)| async move {
                if commands.expected.is_empty() {
                    Ok(Vec::new())
                } else {
                    node.run(commands).await
                }
            });
        join_all(runs).await
    }

    /// As [`run_each`](MemcachedStore::run_each), but fails if any server fails.
    async fn run(&self, commands: Vec<Commands>) -> Result<Vec<Vec<Reply>>, StoreError> {
        self.run_each(commands).await.into_iter().collect()
    }

    async fn record_now(&self, record: &Record) -> Result<Option<u64>, StoreError> {
        let (id, expires) = (&record.id, self.expires());
        let mut commands = self.commands();
        let mut set = |key: String, value: &str| {
            commands[self.node_of(&key)].set(&key, expires, value.as_bytes());
        };
        set(id.to_string(), &go_json(id, record.method, &record.url));
        set(format!("{id}.{ENDPOINTS}"), &record.endpoints);
        for (name, outcome) in &record.shed {
            set(format!("{id}.{OUTCOME_PREFIX}{name}"), &outcome.to_json());
        }
        let replies = self.run(commands).await?;
        match replies.iter().flatten().find(|reply| !is_stored(reply)) {
            None => Ok(None),
            Some(reply) => Err(StoreError::Memcached {
                address: "one of the servers".to_owned(),
                reason: format!("the request was not stored: {reply:?}"),
            }),
        }
    }

    /// Writes bodies first, then outcomes: an outcome is only written once it is known.
    async fn write_now(&self, batch: &Batch) -> Result<Vec<Written>, StoreError> {
        let expires = self.expires();
        let mut written = self.write_bodies(batch, expires).await?;
        let mut commands = self.commands();
        let mut places = Vec::with_capacity(batch.answers.len());
        for (answer, written) in batch.answers.iter().zip(&written) {
            let outcome = match written {
                Written::Late => answer.outcome.not_stored(LATE_DETAIL),
                Written::Refused => answer.outcome.not_stored("memcached has no room for it"),
                Written::Stored | Written::Gone | Written::Unreached => answer.outcome.clone(),
            };
            if matches!(written, Written::Late | Written::Refused) {
                let key = format!("{}.{}", batch.id, answer.name);
                commands[self.node_of(&key)].delete(&key);
            }
            let key = format!("{}.{OUTCOME_PREFIX}{}", batch.id, answer.name);
            let at = self.node_of(&key);
            if *written != Written::Unreached {
                commands[at].set(&key, expires, outcome.to_json().as_bytes());
            }
            places.push(at);
        }
        if let Some(ms) = batch
            .complete_ms
            .filter(|_| !written.contains(&Written::Unreached))
        {
            let key = format!("{}.{COMPLETE}", batch.id);
            commands[self.node_of(&key)].set(&key, expires, ms.to_string().as_bytes());
        }
        let replies = self.run_each(commands).await;
        for (written, at) in written.iter_mut().zip(places) {
            if replies[at].is_err() {
                *written = Written::Unreached;
            }
        }
        Ok(written)
    }

    async fn write_bodies(&self, batch: &Batch, expires: u64) -> Result<Vec<Written>, StoreError> {
        let mut commands = self.commands();
        // Which reply of which server says whether a body is stored.
        let mut places = Vec::with_capacity(batch.answers.len());
        for answer in &batch.answers {
            places.push(answer.body.as_ref().map(|body| {
                let key = format!("{}.{}", batch.id, answer.name);
                let at = self.node_of(&key);
                commands[at].set(&key, expires, body);
                (at, commands[at].expected.len() - 1)
            }));
        }
        let replies = self.run_each(commands).await;
        if replies.iter().all(Result::is_err) {
            return replies
                .into_iter()
                .collect::<Result<Vec<_>, _>>()
                .map(|_| Vec::new());
        }
        let now = Instant::now();
        let reply =
            |at: usize, index: usize| replies[at].as_ref().ok().and_then(|replies| replies.get(index));
        let written = batch
            .answers
            .iter()
            .zip(places)
            .map(|(answer, place)| match place {
                None => Written::Stored,
                Some((at, index)) => match reply(at, index) {
                    None => Written::Unreached,
                    Some(reply) if !is_stored(reply) => Written::Refused,
                    Some(_) if now > answer.by => Written::Late,
                    Some(_) => Written::Stored,
                },
            });
        Ok(written.collect())
    }

    async fn get(&self, keys: &[String]) -> Result<Vec<(String, Bytes)>, StoreError> {
        let mut by_node: Vec<Vec<String>> = vec![Vec::new(); self.nodes.len()];
        for key in keys {
            by_node[self.node_of(key)].push(key.clone());
        }
        let mut commands = self.commands();
        for (commands, keys) in commands.iter_mut().zip(&by_node) {
            keys.chunks(KEYS_PER_GET).for_each(|keys| commands.get(keys));
        }
        let replies = self.run(commands).await?;
        let values = replies.into_iter().flatten().flat_map(|reply| match reply {
            Reply::Values(values) => values,
            Reply::Line(_) => Vec::new(),
        });
        Ok(values.collect())
    }

    async fn read_now(&self, id: &str) -> Result<Option<Stored>, StoreError> {
        let [request, endpoints, complete] = [
            id.to_owned(),
            format!("{id}.{ENDPOINTS}"),
            format!("{id}.{COMPLETE}"),
        ];
        let mut stored = Stored::default();
        let mut found = false;
        for (key, value) in self.get(&[request, endpoints, complete]).await? {
            let unreadable = |_| StoreError::Unreadable { what: key.clone() };
            match key.strip_prefix(id) {
                Some("") => {
                    let request: RequestJson = serde_json::from_slice(&value).map_err(unreadable)?;
                    found = request._id == id;
                    (stored.method, stored.url) = (request._method, request._url);
                }
                Some(key) if key.ends_with(ENDPOINTS) => {
                    stored.endpoints = serde_json::from_slice(&value).unwrap_or_default();
                }
                _ => stored.complete_ms = String::from_utf8_lossy(&value).parse().ok(),
            }
        }
        if !found {
            return Ok(None);
        }
        let keys: Vec<String> = stored
            .endpoints
            .iter()
            .flat_map(|name| [format!("{id}.{name}"), format!("{id}.{OUTCOME_PREFIX}{name}")])
            .collect();
        for (key, value) in self.get(&keys).await? {
            let Some(name) = key.strip_prefix(id).and_then(|rest| rest.strip_prefix('.')) else {
                continue;
            };
            match name.strip_prefix(OUTCOME_PREFIX) {
                Some(name) => {
                    let what = || StoreError::Unreadable { what: key.clone() };
                    let outcome = Outcome::from_json(&value).ok_or_else(what)?;
                    stored.outcomes.insert(name.to_owned(), outcome);
                }
                None => drop(stored.bodies.insert(name.to_owned(), value)),
            }
        }
        Ok(Some(stored))
    }
}

/// The request as serinin stores it.
#[derive(serde::Deserialize)]
struct RequestJson {
    _id: String,
    _method: String,
    _url: String,
}

fn is_stored(reply: &Reply) -> bool {
    matches!(reply, Reply::Line(line) if line == "STORED")
}

impl Store for MemcachedStore {
    fn kind(&self) -> &'static str {
        "memcached"
    }

    fn record<'a>(&'a self, record: &'a Record) -> BoxFuture<'a, Result<Option<u64>, StoreError>> {
        Box::pin(self.record_now(record))
    }

    fn write<'a>(&'a self, batch: &'a Batch) -> BoxFuture<'a, Result<Vec<Written>, StoreError>> {
        Box::pin(self.write_now(batch))
    }

    fn read<'a>(&'a self, id: &'a str) -> BoxFuture<'a, Result<Option<Stored>, StoreError>> {
        Box::pin(self.read_now(id))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use nagaya_clock::ManualClock;

    #[test]
    fn a_request_is_taken_by_one_server_and_answers_lie_where_serinin_looks() {
        let addresses = ["a:1".to_owned(), "b:2".to_owned(), "c:3".to_owned()];
        let second = Duration::from_secs(1);
        let clock = Arc::new(ManualClock::at_unix_ms(0));
        let store = MemcachedStore::new(&addresses, NodeChoice::Crc32, second, second, clock);
        let mut spread = 0;
        for id in (0..100).map(|id| id.to_string()) {
            let own = store.node_of(&id);
            for name in [ENDPOINTS, COMPLETE, "_outcome:dst1"] {
                assert_eq!(store.node_of(&format!("{id}.{name}")), own, "{name}");
            }
            for name in ["dst1", "_own", "a._complete"] {
                let key = format!("{id}.{name}");
                let expected = pick::server_of(key.as_bytes(), 3, NodeChoice::Crc32);
                assert_eq!(store.node_of(&key), expected);
                spread += usize::from(expected != own);
            }
        }
        assert!(spread > 100, "{spread}");
    }

    #[test]
    fn expiries_are_whole_seconds_and_dates_beyond_30_days() {
        let expires = |expire_in| {
            let clock = Arc::new(ManualClock::at_unix_ms(1_700_000_000_000));
            let second = Duration::from_secs(1);
            MemcachedStore::new(&[], NodeChoice::Crc32, expire_in, second, clock).expires()
        };
        let day = Duration::from_secs(86_400);
        assert_eq!(expires(Duration::from_millis(1)), 1);
        assert_eq!(expires(Duration::from_millis(500)), 1);
        assert_eq!(expires(Duration::from_millis(1001)), 2);
        assert_eq!(expires(30 * day), 2_592_000);
        assert_eq!(expires(31 * day), 1_700_000_000 + 31 * 86_400);
        assert_eq!(expires(Duration::ZERO), 1);
    }
}
