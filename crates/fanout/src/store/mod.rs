//! The stores of requests and answers, behind one trait.
//!
//! serinin's readers find what they expect: the request's own three fields, and a field (or key) per endpoint
//! with the body as received. Ours stand beside them under names that begin with `_`, which those readers
//! ignore: the endpoints' names, an outcome for each, and a marker once nothing more will come.

mod discard;
mod memcached;
mod memory;
mod open;
mod redis;

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use futures_util::future::BoxFuture;
use tokio::time::Instant;

use crate::outcome::Outcome;

pub use discard::DiscardStore;
pub use memcached::MemcachedStore;
pub use memory::MemoryStore;
pub use open::open_store;
pub use redis::RedisStore;

/// A request as stored before anything is sent.
#[derive(Clone, Debug)]
pub struct Record {
    pub id: Arc<str>,
    pub method: &'static str,
    /// Path and query, as requested by the client.
    pub url: String,
    /// The names of all endpoints as a JSON list.
    pub endpoints: Arc<str>,
    /// Endpoints that will not be contacted.
    pub shed: Vec<(Arc<str>, Outcome)>,
}

/// The result of one endpoint.
#[derive(Clone, Debug)]
pub struct Answer {
    pub name: Arc<str>,
    pub outcome: Outcome,
    /// The body, if it is to be kept.
    pub body: Option<Bytes>,
    /// The deadline for storing it.
    pub by: Instant,
    /// The same deadline on the store's clock, if the store reported its time.
    pub by_store_ms: Option<u64>,
}

/// Answers of one request that finished together.
#[derive(Clone, Debug)]
pub struct Batch {
    pub id: Arc<str>,
    pub answers: Vec<Answer>,
    /// Set if nothing more will come: milliseconds since the request arrived.
    pub complete_ms: Option<u64>,
}

/// What happened to one answer of a batch.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Written {
    Stored,
    /// It came too late and is recorded as such.
    Late,
    /// The request no longer exists: expired, deleted or lost.
    Gone,
    /// The store has no room for a value of this size.
    Refused,
    /// The part of the store that holds the key was unreachable; worth a retry.
    Unreached,
}

/// A request as read back.
#[derive(Clone, Debug, Default)]
pub struct Stored {
    pub method: String,
    pub url: String,
    pub endpoints: Vec<String>,
    pub outcomes: BTreeMap<String, Outcome>,
    pub bodies: BTreeMap<String, Bytes>,
    pub complete_ms: Option<u64>,
}

impl Stored {
    /// Returns whether nothing more will come: the request is marked so, or all endpoints are accounted for
    /// and only the marker was lost.
    pub fn is_complete(&self) -> bool {
        let all_known = || self.endpoints.iter().all(|name| self.outcomes.contains_key(name));
        self.complete_ms.is_some() || (!self.endpoints.is_empty() && all_known())
    }
}

/// Why a store call failed.
#[derive(Debug, thiserror::Error)]
pub enum StoreError {
    #[error("{0}")]
    Redis(#[from] nagaya_redis_client::Error),
    #[error("memcached at {address}: {reason}")]
    Memcached { address: String, reason: String },
    #[error("the store did not answer within {limit:?}")]
    TimedOut { limit: Duration },
    #[error("what is stored for this request cannot be read: {what}")]
    Unreadable { what: String },
}

impl StoreError {
    /// Returns whether the same call may succeed soon without any change.
    pub fn is_retryable(&self) -> bool {
        match self {
            StoreError::Redis(error) => error.is_retryable(),
            StoreError::Memcached { .. } | StoreError::TimedOut { .. } => true,
            StoreError::Unreadable { .. } => false,
        }
    }

    /// Formats the error with its causes on one line.
    pub fn chain(&self) -> String {
        match self {
            StoreError::Redis(error) => error.chain(),
            other => other.to_string(),
        }
    }
}

/// A store of requests and answers. Calls are idempotent.
pub trait Store: Send + Sync + 'static {
    /// Returns the kind of store, for metrics and display.
    fn kind(&self) -> &'static str;

    /// Stores a request with its expiry atomically. Returns the store's clock, if it has one.
    fn record<'a>(&'a self, record: &'a Record) -> BoxFuture<'a, Result<Option<u64>, StoreError>>;

    /// Stores answers, each atomically, in the order of the batch. An answer past its deadline is not stored
    /// but recorded as late. No key is ever left without an expiry.
    fn write<'a>(&'a self, batch: &'a Batch) -> BoxFuture<'a, Result<Vec<Written>, StoreError>>;

    /// Tells the subscribers of a channel; a store without channels tells nobody.
    fn publish<'a>(&'a self, _channel: &'a str, _message: &'a str) -> BoxFuture<'a, Result<(), StoreError>> {
        Box::pin(async { Ok(()) })
    }

    /// Reads a request and its answers so far; `None` if it does not exist.
    fn read<'a>(&'a self, id: &'a str) -> BoxFuture<'a, Result<Option<Stored>, StoreError>>;
}

/// The recorded detail of an answer that came too late.
pub(crate) const LATE_DETAIL: &str = "the store wrote it after the deadline";

/// Formats the request as serinin's JSON, which is Go's: `&`, `<` and `>` are escaped, too.
pub(crate) fn go_json(id: &str, method: &str, url: &str) -> String {
    let quoted = |text: &str| {
        let json = serde_json::to_string(text).expect("text is always JSON");
        json.replace('&', "\\u0026")
            .replace('<', "\\u003c")
            .replace('>', "\\u003e")
            .replace('\u{2028}', "\\u2028")
            .replace('\u{2029}', "\\u2029")
            .replace("\\b", "\\u0008")
            .replace("\\f", "\\u000c")
    };
    let (id, method, url) = (quoted(id), quoted(method), quoted(url));
    format!("{{\"_id\":{id},\"_method\":{method},\"_url\":{url}}}")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_request_is_written_as_go_would() {
        assert_eq!(
            go_json("i", "GET", "/p?a=1&b=<\"\\>"),
            r#"{"_id":"i","_method":"GET","_url":"/p?a=1\u0026b=\u003c\"\\\u003e"}"#
        );
    }
}
