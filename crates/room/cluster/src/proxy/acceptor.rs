//! Accepts clients and deals them out to the workers.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use nagaya_reactor::{Listener, Transport, Waker, accept_loop};

use super::env::Shared;
use super::inbox::{Inbox, Item};

const TOO_MANY: &[u8] = b"-ERR max number of clients reached\r\n";

/// Accepts until told to stop. `waker` ends the wait then.
pub(crate) fn run(
    shared: &Shared,
    listeners: &[Listener],
    inboxes: &[Arc<Inbox>],
    waker: &Waker,
    stop: &AtomicBool,
) {
    let mut next = inboxes.iter().cycle();
    accept_loop(listeners, stop, waker, |mut transport| {
        let clients_max = shared.server.config().maxclients as usize;
        if shared.connections.load(Ordering::Relaxed) >= clients_max {
            shared
                .server
                .subscribers
                .clients
                .rejected
                .fetch_add(1, Ordering::Relaxed);
            transport.write(TOO_MANY).ok();
            return;
        }
        if let Some(inbox) = next.next() {
            admit(shared, transport, inbox);
        }
    });
}

fn admit(shared: &Shared, transport: Transport, inbox: &Inbox) {
    shared.connections.fetch_add(1, Ordering::Relaxed);
    let id = shared.next_client_id.fetch_add(1, Ordering::Relaxed);
    inbox.push(Item::Connection(id, Box::new(transport)));
}
