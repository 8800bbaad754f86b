//! SWAPDB: two databases exchange their keys, wherever those are.

use std::sync::atomic::Ordering;

use crate::db::{Db, ReadyKey};

impl Db<'_> {
    /// Exchanges the keys of two databases. Those who wait for or watch keys stay with the numbers that they know.
    /// Needs every shard.
    pub fn swap_databases(&mut self, first: usize, second: usize) {
        if first == second {
            return;
        }
        let (home, databases) = (self.database(), &self.data().databases);
        let (one, other) = (databases.space(first), databases.space(second));
        for space in [one, other] {
            self.enter_space(space);
            self.break_watches([one, other]);
        }
        self.locked.swap_clients(one, other);
        databases.swap(first, second);
        for database in [first, second] {
            self.select(database);
            self.ready_all();
        }
        self.select(home);
        self.dirty += 1;
    }

    /// Notifies the transactions that watch a key of the selected database which is in one of two spaces.
    fn break_watches(&mut self, spaces: [usize; 2]) {
        let home = self.space();
        for shard in 0..self.data().shards.count() {
            let watched: Vec<Box<[u8]>> = self.held(shard).watchers.keys().cloned().collect();
            for key in watched {
                let is_there = spaces.map(|space| {
                    self.enter_space(space);
                    // One that cannot be read counts as there: a transaction more is given up.
                    let is_unknown = self.load_in_place(&key).is_err();
                    let location = self.locate(&key);
                    // Past its time it is not there, and is no change for those who get it by the exchange.
                    self.drop_if_expired(&key, location);
                    is_unknown || self.peek_expired(&key).is_some()
                });
                self.enter_space(home);
                if is_there.contains(&true)
                    && let Some(flags) = self.held(shard).watchers.get(&key)
                {
                    flags.iter().for_each(|flag| flag.store(true, Ordering::Release));
                }
            }
        }
    }

    /// Lets everybody who waits for a key of the selected database look again.
    fn ready_all(&mut self) {
        let database = self.database();
        for shard in 0..self.data().shards.count() {
            let awaited: Vec<Vec<u8>> = self.held(shard).waiters.keys().map(|key| key.to_vec()).collect();
            let awaited = awaited.into_iter().map(|key| ReadyKey { database, key });
            self.ready.extend(awaited);
        }
    }
}
