//! The clients of one worker, and which of them have something to do.

use nagaya_reactor::{Key, Slab};

use super::Map;
use super::in_flight::Origin;
use super::session::{ReadPause, Session};

/// Unwritten reply bytes beyond which a client's further requests are not read.
pub(crate) const OUTPUT_SOFT_BYTES: usize = 1 << 20;

/// The sessions of a worker. One whose requests are being handled is taken out of its place meanwhile.
#[derive(Default)]
pub(crate) struct Sessions {
    places: Slab<Box<Session>>,
    by_id: Map<u64, Key>,
    /// Clients whose next request may be handled again.
    runnable: Vec<Key>,
    /// Clients with something to write.
    dirty: Vec<Key>,
}

impl Sessions {
    /// Reserves a place for a session; [`Sessions::add`] fills it.
    pub(crate) fn reserve(&mut self) -> Key {
        self.places.reserve()
    }

    pub(crate) fn add(&mut self, key: Key, session: Box<Session>) {
        self.by_id.insert(session.client.id(), key);
        self.places.put(key, session);
    }

    /// Gives up the place of a session that was taken out, or was never added.
    pub(crate) fn remove(&mut self, key: Key, id: u64) {
        self.by_id.remove(&id);
        self.places.remove(key);
    }

    #[inline]
    pub(crate) fn get(&self, key: Key) -> Option<&Session> {
        self.places.get(key).map(|session| &**session)
    }

    #[inline]
    pub(crate) fn get_mut(&mut self, key: Key) -> Option<&mut Session> {
        self.places.get_mut(key).map(|session| &mut **session)
    }

    /// Takes a session out; its place stays reserved.
    pub(crate) fn take(&mut self, key: Key) -> Option<Box<Session>> {
        self.places.take(key)
    }

    /// Puts a session back that has nothing to write.
    pub(crate) fn put(&mut self, key: Key, session: Box<Session>) {
        self.places.put(key, session);
    }

    /// Puts a session back and has it written to.
    pub(crate) fn put_back(&mut self, key: Key, session: Box<Session>) {
        self.put(key, session);
        self.mark(key);
    }

    /// Returns whether the client is still connected, in its place or taken out.
    pub(crate) fn is_live(&self, key: Key) -> bool {
        self.places.is_live(key)
    }

    /// Returns whether the receiver of a reply still exists, as far as sessions tell.
    pub(crate) fn awaits(&self, origin: Origin) -> bool {
        match origin {
            Origin::Client { client, .. } => self.is_live(client),
            _ => true,
        }
    }

    pub(crate) fn keys(&self) -> Vec<Key> {
        self.places.keys()
    }

    pub(crate) fn key_of(&self, id: u64) -> Option<Key> {
        self.by_id.get(&id).copied()
    }

    /// Returns whether a client belongs to this worker.
    pub(crate) fn serves(&self, id: u64) -> bool {
        self.by_id.contains_key(&id)
    }

    /// Has a session written to at the end of the turn.
    #[inline]
    pub(crate) fn mark(&mut self, key: Key) {
        if let Some(session) = self.places.get_mut(key)
            && !session.in_dirty
        {
            session.in_dirty = true;
            self.dirty.push(key);
        }
    }

    /// Ends the pause of a client; its next request is handled in this turn.
    pub(crate) fn release(&mut self, key: Key) {
        if let Some(session) = self.places.get_mut(key) {
            session.pause = ReadPause::None;
            self.runnable.push(key);
        }
    }

    /// Ends the pause of a client if the reason for it is gone.
    pub(crate) fn release_if_free(&mut self, key: Key, pipeline_max: usize) {
        let Some(session) = self.get(key) else {
            return;
        };
        let is_free = match session.pause {
            ReadPause::None | ReadPause::Busy | ReadPause::UntilNodes => false,
            ReadPause::UntilAnswered | ReadPause::Ordered => session.ring.is_empty(),
            ReadPause::Full => {
                session.ring.len() < pipeline_max / 2 && session.unwritten() < OUTPUT_SOFT_BYTES
            }
        };
        if is_free {
            self.release(key);
        }
    }

    /// Ends the pause of all clients that wait for the nodes to be known.
    pub(crate) fn release_those_without_nodes(&mut self) {
        for key in self.keys() {
            let session = self.get(key);
            if session.is_some_and(|session| session.pause == ReadPause::UntilNodes) {
                self.release(key);
            }
        }
    }

    /// Puts a reply into its place among those that a client is owed. Returns false if the session is taken
    /// out, so that the reply has to wait.
    #[inline]
    pub(crate) fn fill(&mut self, client: Key, place: u32, reply: &[u8], pipeline_max: usize) -> bool {
        let Some(session) = self.places.get_mut(client) else {
            return !self.is_live(client);
        };
        session.fill(place, reply);
        let is_paused = session.pause != ReadPause::None;
        if !session.in_dirty {
            session.in_dirty = true;
            self.dirty.push(client);
        }
        if is_paused {
            self.release_if_free(client, pipeline_max);
        }
        true
    }

    pub(crate) fn has_runnable(&self) -> bool {
        !self.runnable.is_empty()
    }

    pub(crate) fn take_runnable(&mut self) -> Vec<Key> {
        std::mem::take(&mut self.runnable)
    }

    pub(crate) fn has_dirty(&self) -> bool {
        !self.dirty.is_empty()
    }

    pub(crate) fn take_dirty(&mut self) -> Vec<Key> {
        std::mem::take(&mut self.dirty)
    }
}
