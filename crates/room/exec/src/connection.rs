//! Connections come and go.

use std::sync::atomic::Ordering;

use nagaya_connections::client::Client;

use crate::executor::Executor;
use crate::session::Session;
use crate::tracking;

impl Executor<'_> {
    /// Makes a new connection known to the others.
    pub fn connect(&mut self, session: &Session) {
        session
            .shared
            .connected_s
            .store(self.turn.now_s, Ordering::Relaxed);
        session.shared.active_s.store(self.turn.now_s, Ordering::Relaxed);
        self.server.subscribers.clients.add(&session.shared);
    }

    /// Notes how much memory a connection takes, where the settings bound that, and closes the largest ones when
    /// it is too much together.
    #[inline]
    pub fn note_client_memory(&self, session: &Session, buffer_bytes: usize) {
        if let Some(bytes_max) = self.turn.config.client_bytes_max() {
            let clients = &self.server.subscribers.clients;
            let queued = session.shared.queued_bytes.load(Ordering::Relaxed);
            clients.note_memory(&session.shared, size_of::<Client>() + queued + buffer_bytes);
            clients.evict(bytes_max);
        }
    }

    /// Cleans up after a connection that is gone.
    pub fn disconnect(&mut self, session: &mut Session) {
        session.shared.mark_gone();
        // First, so that no thread finds it in the registry while the rest is taken apart.
        self.server.subscribers.clients.remove(session.id());
        self.server.monitors.leave(&session.shared);
        if let Some(wait) = session.blocked.take()
            && wait.claim()
        {
            self.forget(&wait);
        }
        crate::transaction::unwatch(self.server, session);
        session.leave_account();
        crate::subscriptions::unsubscribe_all(&self.server.subscribers.pubsub, session);
        tracking::disable(&self.server.subscribers.tracking, session);
    }
}
