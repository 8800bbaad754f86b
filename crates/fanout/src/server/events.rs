//! A request read back as server-sent events: one event per endpoint once its outcome is known, then the end.

use std::collections::{BTreeSet, VecDeque};
use std::convert::Infallible;

use bytes::Bytes;
use futures_util::stream::{Stream, unfold};
use http::header::{CACHE_CONTROL, CONTENT_TYPE};
use http::{HeaderValue, Response};
use http_body::Frame;
use http_body_util::{BodyExt, Either, StreamBody};
use serde_json::{Value, json};

use super::Reply;
use crate::read_back::{Follower, names, show_one};
use crate::store::Stored;

pub(super) fn stream(follower: Follower, id: String, first: Stored) -> Reply {
    let events = Events {
        follower,
        id,
        told: BTreeSet::new(),
        queue: VecDeque::new(),
        ended: false,
    };
    let body = StreamBody::new(events.run(first)).boxed_unsync();
    let mut reply = Response::new(Either::Right(body));
    let headers = reply.headers_mut();
    headers.insert(CONTENT_TYPE, HeaderValue::from_static("text/event-stream"));
    headers.insert(CACHE_CONTROL, HeaderValue::from_static("no-store"));
    reply
}

struct Events {
    follower: Follower,
    id: String,
    told: BTreeSet<String>,
    queue: VecDeque<Bytes>,
    ended: bool,
}

impl Events {
    fn run(mut self, first: Stored) -> impl Stream<Item = Result<Frame<Bytes>, Infallible>> {
        self.tell(&first);
        unfold(self, |mut events| async move {
            let bytes = events.next().await?;
            Some((Ok(Frame::data(bytes)), events))
        })
    }

    async fn next(&mut self) -> Option<Bytes> {
        loop {
            if let Some(bytes) = self.queue.pop_front() {
                return Some(bytes);
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
                self.queue.push_back(event("answer", &shown));
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

    fn end(&mut self, name: &str, data: Value) {
        self.queue.push_back(event(name, &data));
        self.ended = true;
    }
}

/// JSON contains no raw line breaks, so one line of data is enough.
fn event(name: &str, data: &Value) -> Bytes {
    format!("event: {name}\ndata: {data}\n\n").into()
}
