//! All keys of a database, or of every database, go at once.

use nagaya_connections::client::Message;

use crate::db::Db;
use crate::keyspace::FREE_EFFORT_MAX;
use crate::reclaim::Reclaimable;

impl Db<'_> {
    /// Removes every key of every database; returns how many there were.
    pub fn flush_all(&mut self) -> usize {
        let home = self.database();
        let mut removed = 0;
        for space in self.data().databases.spaces() {
            self.enter_space(space);
            removed += self.remove_all();
        }
        self.select(home);
        self.notify_flushed();
        if let Some(tiering) = self.tiering {
            removed += tiering.cold_keys() as usize;
            tiering.flushed();
        }
        self.dirty += removed as u64;
        removed
    }

    /// Removes every key of the selected database; returns how many there were.
    pub fn flush(&mut self) -> usize {
        let mut removed = self.remove_all();
        self.notify_flushed();
        if let Some(tiering) = self.tiering {
            removed += tiering.cold_keys_of(self.space()) as usize;
            tiering.space_flushed(self.space());
        }
        self.dirty += removed as u64;
        removed
    }

    /// Returns whether no database but the selected one may have keys, wherever they are.
    pub fn others_are_empty(&self) -> bool {
        let others = self
            .data()
            .databases
            .spaces()
            .filter(|space| *space != self.space());
        let is_cold = |space| {
            self.tiering
                .is_some_and(|tiering| tiering.cold_keys_of(space) > 0)
        };
        let mut others = others.into_iter();
        others.all(|space| {
            let mut shards = 0..self.data().shards.count();
            !is_cold(space) && shards.all(|shard| self.locked.is_empty(shard, space))
        })
    }

    fn remove_all(&mut self) -> usize {
        let mut removed = 0;
        for shard in 0..self.data().shards.count() {
            let watched = self.watched_and_there(shard);
            let held = self.locked.get_mut(shard, self.space());
            let keys = held.keys.take_all();
            for waiter in held.tiers.clear() {
                waiter.deliver(Message::Resume(None));
            }
            removed += keys.len();
            if keys.len() > FREE_EFFORT_MAX {
                let count = keys.len();
                self.data().reclaim(Reclaimable::Keys(keys), count);
            }
            watched.iter().for_each(|key| self.touch(key));
        }
        removed
    }

    /// Returns the keys of a shard that somebody watches or waits for and that are there, in memory or not.
    fn watched_and_there(&mut self, shard: usize) -> Vec<Box<[u8]>> {
        let held = self.locked.get(shard, self.space());
        let mut watched: Vec<Box<[u8]>> = held.watchers.keys().chain(held.waiters.keys()).cloned().collect();
        // One that cannot be read counts as there: a transaction more is given up.
        watched.retain(|key| self.load_in_place(key).is_err() || self.exists(key));
        watched
    }

    fn notify_flushed(&mut self) {
        if self.subscribers.tracking.is_active() && !self.replaying {
            let (subscribers, runs) = (self.subscribers, self.client_id);
            subscribers
                .tracking
                .flushed(&subscribers.clients, runs, &mut self.changes);
        }
    }
}
