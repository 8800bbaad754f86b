//! Server-sent events, and the messages about a request that is read back.

use std::collections::{BTreeSet, VecDeque};
use std::convert::Infallible;

use bytes::Bytes;
use futures_util::stream::unfold;
use http::header::{CACHE_CONTROL, CONTENT_TYPE};
use http::{HeaderValue, Response};
use http_body::Frame;
use http_body_util::{BodyExt, Either, StreamBody};
use serde_json::{Value, json};

use super::Reply;
use super::told::{Source, Told};
use crate::read_back::{Follower, names, show_one};
use crate::store::Stored;

/// Sends messages as events until the last.
pub(super) fn stream(source: Source) -> Reply {
    let events = unfold(source, |mut source| async move {
        let Told { name, data } = source.next().await?;
        // The data is on one line.
        let bytes = Bytes::from(format!("event: {name}\ndata: {data}\n\n"));
        Some((Ok::<_, Infallible>(Frame::data(bytes)), source))
    });
    let mut reply = Response::new(Either::Right(StreamBody::new(events).boxed_unsync()));
    let headers = reply.headers_mut();
    headers.insert(CONTENT_TYPE, HeaderValue::from_static("text/event-stream"));
    headers.insert(CACHE_CONTROL, HeaderValue::from_static("no-store"));
    reply
}

/// A request in the store as messages: one per endpoint once its outcome is known, then the end.
pub(super) struct Events {
    follower: Follower,
    id: String,
    told: BTreeSet<String>,
    queue: VecDeque<Told>,
    ended: bool,
}

impl Events {
    pub(super) fn new(follower: Follower, id: String, first: &Stored) -> Events {
        let mut events = Events {
            follower,
            id,
            told: BTreeSet::new(),
            queue: VecDeque::new(),
            ended: false,
        };
        events.tell(first);
        events
    }

    pub(super) async fn next(&mut self) -> Option<Told> {
        loop {
            if let Some(told) = self.queue.pop_front() {
                return Some(told);
            }
            if self.ended {
                return None;
            }
            if !self.follower.wait().await {
                self.end("timeout", json!({"request_id": self.id}));
                continue;
            }
            match self.follower.poll_store().await {
                Ok(Some(stored)) => self.tell(&stored),
                Ok(None) => self.end("gone", json!({"request_id": self.id})),
                Err(error) => {
                    let told = json!({"request_id": self.id, "detail": error.chain()});
                    self.end("error", told);
                }
            }
        }
    }

    /// Queues events for what is new since the last read.
    fn tell(&mut self, stored: &Stored) {
        for name in names(stored) {
            if self.told.contains(&name) {
                continue;
            }
            if let Some(mut shown) = show_one(&name, stored) {
                shown["endpoint"] = Value::String(name.clone());
                self.queue.push_back(Told::new("answer", &shown));
                self.told.insert(name);
            }
        }
        if stored.is_complete() {
            self.end(
                "complete",
                json!({"request_id": self.id, "ms": stored.complete_ms}),
            );
        }
    }

    fn end(&mut self, name: &'static str, data: Value) {
        self.queue.push_back(Told::new(name, &data));
        self.ended = true;
    }
}
