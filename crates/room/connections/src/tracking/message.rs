//! The invalidation messages and who gets them.

use std::sync::Arc;

use nagaya_resp::{Out, Proto};

use crate::client::{Client, Message};
use crate::registry::ClientRegistry;
use crate::tracking::tracker::Tracker;

/// The channel on which RESP2 connections hear of invalidations that are redirected to them.
const CHANNEL: &str = "__redis__:invalidate";

/// What is no longer valid.
#[derive(Clone, Copy)]
pub(crate) enum Invalid<'a> {
    Keys(&'a [&'a [u8]]),
    /// All keys, after a flush.
    Everything,
}

/// Sends one invalidation to any number of clients, encoded once per protocol.
pub(crate) struct Sender<'a> {
    clients: &'a ClientRegistry,
    invalid: Invalid<'a>,
    encoded: [Option<Arc<[u8]>>; 2],
}

impl<'a> Sender<'a> {
    pub(crate) fn new(clients: &'a ClientRegistry, invalid: Invalid<'a>) -> Sender<'a> {
        Sender {
            clients,
            invalid,
            encoded: [None, None],
        }
    }

    /// Sends to a client, or to the one it redirects to; tells the client when that one is gone.
    pub(crate) fn send(&mut self, tracker: &Tracker) {
        match tracker.redirect() {
            0 if tracker.client.proto() == Proto::Resp3 => self.deliver(&tracker.client),
            // A RESP2 connection has no room for messages between its replies.
            0 => (),
            redirect => match self.clients.find(redirect) {
                Some(client) if !client.is_gone() => {
                    let subscribed = !client.subscription_counts().is_empty();
                    if client.proto() == Proto::Resp3 || subscribed {
                        self.deliver(&client);
                    }
                }
                _ => report_broken(tracker, redirect),
            },
        }
    }

    fn deliver(&mut self, client: &Client) {
        let (proto, invalid) = (client.proto(), self.invalid);
        let slot = &mut self.encoded[usize::from(proto == Proto::Resp3)];
        let bytes = slot.get_or_insert_with(|| encode(proto, invalid));
        client.deliver(Message::Push(Arc::clone(bytes)));
    }
}

fn report_broken(tracker: &Tracker, redirect: u64) {
    tracker.mark_broken();
    if tracker.client.proto() == Proto::Resp3 {
        let mut out = Out::new(Proto::Resp3);
        out.push(2);
        out.bulk_str("tracking-redir-broken");
        out.int(redirect as i64);
        tracker.client.deliver(Message::Push(out.buf.into()));
    }
}

fn encode(proto: Proto, invalid: Invalid<'_>) -> Arc<[u8]> {
    let mut out = Out::new(proto);
    match proto {
        Proto::Resp3 => {
            out.push(2);
            out.bulk_str("invalidate");
        }
        Proto::Resp2 => {
            out.array(3);
            out.bulk_str("message");
            out.bulk_str(CHANNEL);
        }
    }
    match invalid {
        Invalid::Everything => out.nil(),
        Invalid::Keys(keys) => {
            out.array(keys.len());
            keys.iter().for_each(|key| out.bulk(key));
        }
    }
    out.buf.into()
}
