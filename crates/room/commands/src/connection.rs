//! Connections come and go.

use std::sync::atomic::Ordering;

use crate::client::Client;
use crate::client_tracking as tracking;
use crate::executor::Core;

impl Core<'_> {
    /// Makes a new connection known to the others.
    pub fn connect(&mut self, client: &Client) {
        client
            .shared
            .connected_s
            .store(self.turn.now_s, Ordering::Relaxed);
        client.shared.active_s.store(self.turn.now_s, Ordering::Relaxed);
        self.server.subscribers.clients.add(&client.shared);
    }

    /// Cleans up after a connection that is gone.
    pub fn disconnect(&mut self, client: &mut Client) {
        client.shared.mark_gone();
        self.server.subscribers.clients.remove(client.id());
        self.server.monitors.leave(&client.shared);
        if let Some(wait) = client.blocked.take()
            && wait.claim()
        {
            self.forget(&wait);
        }
        crate::transaction_state::unwatch(self.server, client);
        client.leave_account();
        crate::pubsub::unsubscribe_all(&self.server.subscribers.pubsub, client);
        tracking::disable(&self.server.subscribers.tracking, client);
        self.server.subscribers.clients.remove(client.id());
    }
}
