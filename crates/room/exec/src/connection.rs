//! Connections come and go.

use std::sync::atomic::Ordering;

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
