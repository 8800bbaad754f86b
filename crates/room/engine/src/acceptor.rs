//! Accepts connections and distributes them over the I/O threads.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use nagaya_reactor::{Listener, Transport, Waker, accept_loop};

use crate::engine::Shared;
use crate::inbox::{Inbox, Item};

const TOO_MANY: &[u8] = b"-ERR max number of clients reached\r\n";

/// Accepts until `stop` is set. `waker` ends the wait then.
pub(crate) fn run(
    shared: &Shared,
    listeners: &[Listener],
    inboxes: &[Arc<Inbox>],
    waker: &Waker,
    stop: &AtomicBool,
) {
    let mut next = inboxes.iter().cycle();
    accept_loop(listeners, stop, waker, |mut transport| {
        if shared.connections.load(Ordering::Relaxed) >= shared.max_clients() {
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
