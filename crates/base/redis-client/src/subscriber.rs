//! Pub/Sub that survives its connection and reports gaps.
//!
//! Redis keeps no message for a disconnected subscriber. So after every break the user gets
//! [`Event::Gap`] once the subscription is restored: from there on nothing is missed, and what happened
//! before has to be looked up.

use std::sync::Arc;
use std::time::Duration;

use nagaya_net::Backoff;
use nagaya_resp::{Frame, encode_request};
use nagaya_threads::vital;
use tokio::io::AsyncWriteExt;
use tokio::sync::mpsc;
use tokio::task::JoinHandle;

use crate::client::Client;
use crate::error::Error;
use crate::reply;
use crate::wire::{ReadError, Wire};

/// Messages that may wait for a slow user. Beyond it reading stops, and in the end Redis closes the
/// connection, which the user sees as a gap.
const EVENTS_QUEUED_MAX: usize = 1024;
/// The interval of pings on a silent connection.
const PING_EVERY: Duration = Duration::from_secs(5);
const FIRST_WAIT: Duration = Duration::from_millis(50);
const WAIT_MAX: Duration = Duration::from_secs(2);

/// The channels and patterns to subscribe to.
#[derive(Clone, Debug, Default)]
pub struct Topics {
    pub channels: Vec<String>,
    pub patterns: Vec<String>,
}

/// What a subscriber receives.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Event {
    /// The subscription is established for the first time.
    Ready,
    /// It is restored after a break: messages may have been missed.
    Gap,
    Message {
        channel: String,
        payload: Vec<u8>,
    },
}

/// A running subscription; dropping it ends it.
#[derive(Debug)]
pub struct Subscriber {
    events: mpsc::Receiver<Event>,
    task: JoinHandle<()>,
}

impl Subscriber {
    /// Subscribes, now and after every break, until dropped. Must run inside a tokio runtime.
    pub fn start(client: Arc<Client>, topics: Topics) -> Subscriber {
        let (sender, events) = mpsc::channel(EVENTS_QUEUED_MAX);
        let task = tokio::spawn(vital("redis subscriber", listen(client, topics, sender)));
        Subscriber { events, task }
    }

    /// Waits for the next event. Cancel safe.
    pub async fn next(&mut self) -> Event {
        match self.events.recv().await {
            Some(event) => event,
            // The task ends only when its user is gone.
            None => std::future::pending().await,
        }
    }
}

impl Drop for Subscriber {
    fn drop(&mut self) {
        self.task.abort();
    }
}

async fn listen(client: Arc<Client>, topics: Topics, events: mpsc::Sender<Event>) {
    let mut backoff = Backoff::new(FIRST_WAIT, WAIT_MAX);
    let mut first = true;
    while !events.is_closed() {
        let error = match client.subscriber_wire().await {
            Ok(wire) => {
                let mut session = Session {
                    client: &client,
                    topics: &topics,
                    events: &events,
                };
                session.run(wire, &mut first, &mut backoff).await
            }
            Err(error) => error,
        };
        client.note(&error).await;
        tracing::debug!(error = error.chain(), "subscription lost");
        tokio::time::sleep(backoff.next_wait()).await;
    }
}

struct Session<'a> {
    client: &'a Client,
    topics: &'a Topics,
    events: &'a mpsc::Sender<Event>,
}

impl Session<'_> {
    async fn run(&mut self, mut wire: Wire, first: &mut bool, backoff: &mut Backoff) -> Error {
        let closed = |address: &str, reason: String| Error::Closed {
            address: address.to_owned(),
            reason,
        };
        let mut request = Vec::new();
        for (command, names) in [
            ("SUBSCRIBE", &self.topics.channels),
            ("PSUBSCRIBE", &self.topics.patterns),
        ] {
            if !names.is_empty() {
                let args: Vec<&[u8]> = [command]
                    .into_iter()
                    .chain(names.iter().map(String::as_str))
                    .map(str::as_bytes)
                    .collect();
                encode_request(&args, &mut request);
            }
        }
        let mut missing = self.topics.channels.len() + self.topics.patterns.len();
        let mut pinged = false;
        loop {
            if !request.is_empty() {
                if let Err(error) = wire.writer.write_all(&request).await {
                    return closed(&wire.address, error.to_string());
                }
                request.clear();
            }
            let patience = if missing > 0 || pinged {
                self.client.options().reply_limit
            } else {
                PING_EVERY
            };
            let frame = match tokio::time::timeout(patience, wire.reader.next()).await {
                Ok(Ok(frame)) => frame,
                Ok(Err(ReadError::Frame(source))) => {
                    let address = wire.address;
                    return Error::Protocol { address, source };
                }
                Ok(Err(error)) => return closed(&wire.address, error.to_string()),
                Err(_) if missing > 0 || pinged => {
                    let (address, what) = (wire.address, "a subscription");
                    return Error::TimedOut {
                        address,
                        what,
                        limit: patience,
                    };
                }
                Err(_) => {
                    encode_request(&[b"PING"], &mut request);
                    pinged = true;
                    continue;
                }
            };
            pinged = false;
            match read_event(&frame) {
                Told::Error(text) => return crate::wire::refused(&wire.address, &[b"SUBSCRIBE"], text),
                Told::Subscribed => {
                    missing = missing.saturating_sub(1);
                    if missing == 0 {
                        backoff.reset();
                        let event = if std::mem::take(first) {
                            Event::Ready
                        } else {
                            Event::Gap
                        };
                        self.tell(event).await;
                    }
                }
                Told::Message(event) => self.tell(event).await,
                Told::Nothing => (),
            }
        }
    }

    async fn tell(&self, event: Event) {
        // A user that is gone ends the task by its drop.
        let _ = self.events.send(event).await;
    }
}

enum Told<'a> {
    Subscribed,
    Message(Event),
    Error(&'a [u8]),
    Nothing,
}

fn read_event(frame: &Frame) -> Told<'_> {
    if let Frame::Error(text) = frame {
        return Told::Error(text);
    }
    let items = reply::items(frame);
    let kind = items.first().and_then(reply::bytes).unwrap_or_default();
    let (channel, payload) = match (kind, items) {
        (b"subscribe" | b"psubscribe", _) => return Told::Subscribed,
        (b"message", [_, channel, payload]) | (b"pmessage", [_, _, channel, payload]) => (channel, payload),
        _ => return Told::Nothing,
    };
    match (reply::text(channel), reply::bytes(payload)) {
        (Some(channel), Some(payload)) => {
            let payload = payload.to_vec();
            Told::Message(Event::Message { channel, payload })
        }
        _ => Told::Nothing,
    }
}
