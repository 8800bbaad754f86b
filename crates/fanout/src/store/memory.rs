//! Keeps requests in this process, for a limited time and up to a limited size.
//!
//! All have the same lifetime, so the oldest always expires next, and a queue in the order of arrival is
//! enough.

use std::collections::{HashMap, VecDeque};
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use futures_util::future::BoxFuture;
use parking_lot::Mutex;
use tokio::time::Instant;

use super::{Batch, LATE_DETAIL, Record, Store, StoreError, Stored, Written};

/// Bytes of bodies kept at most; the oldest requests are evicted first.
const BYTES_MAX: usize = 256 << 20;
/// Approximate size of a request besides its bodies.
const REQUEST_BYTES: usize = 512;

pub struct MemoryStore {
    expire_in: Duration,
    inner: Mutex<Inner>,
}

#[derive(Default)]
struct Inner {
    requests: HashMap<Arc<str>, Kept>,
    oldest: VecDeque<(Instant, Arc<str>)>,
    bytes: usize,
}

struct Kept {
    stored: Stored,
    bytes: usize,
}

impl MemoryStore {
    pub fn new(expire_in: Duration) -> MemoryStore {
        MemoryStore {
            expire_in,
            inner: Mutex::default(),
        }
    }

    fn record_now(&self, record: &Record, now: Instant) {
        let stored = Stored {
            method: record.method.to_owned(),
            url: record.url.clone(),
            // We wrote it ourselves, so it parses.
            endpoints: serde_json::from_str(&record.endpoints).unwrap_or_default(),
            outcomes: record
                .shed
                .iter()
                .map(|(name, outcome)| (name.to_string(), outcome.clone()))
                .collect(),
            ..Stored::default()
        };
        let bytes = REQUEST_BYTES + record.url.len();
        let mut inner = self.inner.lock();
        inner.expire(now);
        inner.bytes += bytes;
        inner
            .requests
            .insert(Arc::clone(&record.id), Kept { stored, bytes });
        inner
            .oldest
            .push_back((now + self.expire_in, Arc::clone(&record.id)));
    }

    fn write_now(&self, batch: &Batch, now: Instant) -> Vec<Written> {
        let mut inner = self.inner.lock();
        inner.expire(now);
        let Inner { requests, bytes, .. } = &mut *inner;
        let Some(kept) = requests.get_mut(&batch.id) else {
            return vec![Written::Gone; batch.answers.len()];
        };
        let mut written = Vec::with_capacity(batch.answers.len());
        for answer in &batch.answers {
            let late = answer.body.is_some() && now > answer.by;
            let outcome = if late {
                answer.outcome.not_stored(LATE_DETAIL)
            } else {
                answer.outcome.clone()
            };
            kept.stored.outcomes.insert(answer.name.to_string(), outcome);
            if let Some(body) = answer.body.as_ref().filter(|_| !late) {
                kept.bytes += body.len();
                *bytes += body.len();
                // A copy: the bytes may be a small part of a large buffer, which would stay allocated.
                let body = Bytes::copy_from_slice(body);
                kept.stored.bodies.insert(answer.name.to_string(), body);
            }
            written.push(if late { Written::Late } else { Written::Stored });
        }
        kept.stored.complete_ms = batch.complete_ms.or(kept.stored.complete_ms);
        written
    }
}

impl Inner {
    fn expire(&mut self, now: Instant) {
        while let Some((until, id)) = self.oldest.front() {
            if *until > now && self.bytes <= BYTES_MAX {
                break;
            }
            if let Some(kept) = self.requests.remove(id) {
                self.bytes -= kept.bytes;
            }
            self.oldest.pop_front();
        }
    }
}

impl Store for MemoryStore {
    fn kind(&self) -> &'static str {
        "memory"
    }

    fn record<'a>(&'a self, record: &'a Record) -> BoxFuture<'a, Result<Option<u64>, StoreError>> {
        self.record_now(record, Instant::now());
        Box::pin(async { Ok(None) })
    }

    fn write<'a>(&'a self, batch: &'a Batch) -> BoxFuture<'a, Result<Vec<Written>, StoreError>> {
        let written = self.write_now(batch, Instant::now());
        Box::pin(async { Ok(written) })
    }

    fn read<'a>(&'a self, id: &'a str) -> BoxFuture<'a, Result<Option<Stored>, StoreError>> {
        let mut inner = self.inner.lock();
        inner.expire(Instant::now());
        let stored = inner.requests.get(id).map(|kept| kept.stored.clone());
        Box::pin(async { Ok(stored) })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn record(id: &str) -> Record {
        Record {
            id: id.into(),
            method: "GET",
            url: "/".into(),
            endpoints: "[\"a\"]".into(),
            shed: Vec::new(),
        }
    }

    #[tokio::test(start_paused = true)]
    async fn requests_expire_and_their_memory_is_given_back() {
        let store = MemoryStore::new(Duration::from_secs(1));
        store.record(&record("i")).await.unwrap();
        assert_eq!(store.read("i").await.unwrap().unwrap().endpoints, ["a"]);
        tokio::time::advance(Duration::from_secs(1)).await;
        assert!(store.read("i").await.unwrap().is_none());
        assert_eq!(store.inner.lock().bytes, 0);
        let batch = Batch {
            id: "i".into(),
            answers: Vec::new(),
            complete_ms: None,
        };
        assert!(store.write(&batch).await.unwrap().is_empty());
        assert!(store.read("i").await.unwrap().is_none(), "nothing comes back");
    }
}
