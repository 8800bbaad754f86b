//! Where requests and their answers are kept, whatever it is.
//!
//! serinin's readers find what they know: the request's own three fields and a field (or key) per
//! endpoint with the body as it came. Ours stand beside them under names that begin with `_`, which
//! those readers ignore: the endpoints' names, an outcome for each, and a mark when nothing more comes.

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

/// A request as it is stored before anything is sent out.
#[derive(Clone, Debug)]
pub struct Record {
    pub id: Arc<str>,
    pub method: &'static str,
    /// Path and query, as the client asked.
    pub url: String,
    /// The names of all endpoints as a JSON list.
    pub endpoints: Arc<str>,
    /// Endpoints that will not be asked.
    pub shed: Vec<(Arc<str>, Outcome)>,
}

/// What is known of one endpoint when its part is over.
#[derive(Clone, Debug)]
pub struct Answer {
    pub name: Arc<str>,
    pub outcome: Outcome,
    /// The body, if it is to be kept.
    pub body: Option<Bytes>,
    /// When it must be stored.
    pub by: Instant,
    /// The same on the store's clock, if it told its own.
    pub by_store_ms: Option<u64>,
}

/// Answers of one request that finished together.
#[derive(Clone, Debug)]
pub struct Batch {
    pub id: Arc<str>,
    pub answers: Vec<Answer>,
    /// Nothing more will come, so many milliseconds after the request did.
    pub complete_ms: Option<u64>,
}

/// What became of one answer of a batch.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Written {
    Stored,
    /// It came too late and is recorded as such.
    Late,
    /// The request is not there any more: expired, removed or lost.
    Gone,
    /// The store has no room for a value like this.
    Refused,
    /// The part of the store that has it could not be reached; to be tried again.
    Unreached,
}

/// A request as it is read back.
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
    /// Whether nothing more will come: it is marked so, or all endpoints are accounted for and only the
    /// mark was lost.
    pub fn is_complete(&self) -> bool {
        let all_known = || self.endpoints.iter().all(|name| self.outcomes.contains_key(name));
        self.complete_ms.is_some() || (!self.endpoints.is_empty() && all_known())
    }
}

/// Why the store did not do what it was asked.
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
    /// Whether the same call may succeed soon without anybody changing anything.
    pub fn is_retryable(&self) -> bool {
        match self {
            StoreError::Redis(error) => error.is_retryable(),
            StoreError::Memcached { .. } | StoreError::TimedOut { .. } => true,
            StoreError::Unreadable { .. } => false,
        }
    }

    /// The error with its causes, on one line.
    pub fn chain(&self) -> String {
        match self {
            StoreError::Redis(error) => error.chain(),
            other => other.to_string(),
        }
    }
}

/// A place for requests and answers. Calls may run twice with the same result.
pub trait Store: Send + Sync + 'static {
    /// What it is, for metrics and people.
    fn kind(&self) -> &'static str;

    /// Stores a request with its expiry in one step. Returns the store's own clock, if it has one.
    fn record<'a>(&'a self, record: &'a Record) -> BoxFuture<'a, Result<Option<u64>, StoreError>>;

    /// Stores answers in one step each, in the order of the batch. An answer past its time is not stored
    /// but recorded as late; no key is ever left without an expiry.
    fn write<'a>(&'a self, batch: &'a Batch) -> BoxFuture<'a, Result<Vec<Written>, StoreError>>;

    /// Reads a request and what has been answered so far; nothing if it is not there.
    fn read<'a>(&'a self, id: &'a str) -> BoxFuture<'a, Result<Option<Stored>, StoreError>>;
}

/// What an answer that came too late is recorded as.
pub(crate) const LATE_DETAIL: &str = "the store wrote it after the deadline";

/// The request in serinin's JSON, which is Go's: `&`, `<` and `>` are escaped, too.
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
