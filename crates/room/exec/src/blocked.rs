//! Serves clients that wait for keys.
//!
//! A command that has to wait leaves a [`Waiter`] with each of its keys. A thread that
//! changes such a key runs the waiter's command on its behalf after its own,
//! longest waiting first, and mails the reply to its connection.

use std::sync::Arc;
use std::sync::atomic::Ordering;

use nagaya_connections::blocking::Wait;
use nagaya_connections::client::Message;
use nagaya_keyspace::db::{Db, ReadyKey};
use nagaya_keyspace::shard::{Busy, ShardGuard, Waiter};
use nagaya_resp::Out;
use nagaya_store::entry::Entry;

use crate::deferred::Deferred;
use crate::executor::Executor;
use crate::server::Server;
use crate::session::Session;

impl<'s> Executor<'s> {
    /// Ends a client's wait because its time is up; false when another thread is just trying to serve
    /// it. Then its reply comes as a message, or, when there was nothing for it, asking again works.
    pub fn time_out(&mut self, session: &mut Session, out: &mut Out) -> bool {
        let Some(wait) = session.blocked.clone() else {
            return false;
        };
        if !wait.claim() {
            return false;
        }
        self.forget(&wait);
        session.unblocked();
        wait.on_timeout.write(out);
        true
    }

    /// Leaves a wait with all its keys. The caller holds their shards.
    pub fn block(&mut self, session: &mut Session, wait: Wait, db: &mut Db<'s>) {
        let wait = Arc::new(wait);
        let mut keys: Vec<&Vec<u8>> = wait.keys.iter().collect();
        keys.sort_unstable();
        keys.dedup();
        for key in keys {
            let queue = db
                .shard_mut(key)
                .waiters
                .entry(key.clone().into_boxed_slice())
                .or_default();
            queue.push_back(Waiter {
                wait: Arc::clone(&wait),
                client: Arc::clone(&session.shared),
            });
        }
        *session.shared.blocked.lock() = Some(Arc::clone(&wait));
        session.blocked = Some(wait);
    }

    /// Takes a wait, already claimed, out of its keys' queues, later when a slow script holds them.
    pub fn forget(&self, wait: &Arc<Wait>) {
        for key in &wait.keys {
            let Ok(mut shard) = lock_key(self.server, wait.database, key) else {
                let later = Deferred::Forget(Arc::clone(wait));
                return self.server.deferred.put(later);
            };
            if let Some(queue) = shard.waiters.get_mut(key.as_slice()) {
                queue.retain(|other| !Arc::ptr_eq(&other.wait, wait));
                if queue.is_empty() {
                    shard.waiters.remove(key.as_slice());
                }
            }
        }
    }

    /// Runs the commands of clients that wait for the given keys, longest waiting first, until none of
    /// them can go on. Keys that a slow script holds are left for later.
    pub fn serve(&mut self, mut ready: Vec<ReadyKey>) {
        self.send_invalidations();
        let mut at = 0;
        while at < ready.len() {
            let key = std::mem::take(&mut ready[at].key);
            let database = ready[at].database;
            at += 1;
            let waiters: Vec<Waiter> = {
                let Ok(shard) = lock_key(self.server, database, &key) else {
                    let later = ReadyKey { database, key };
                    self.server.deferred.put(Deferred::Serve(later));
                    continue;
                };
                shard
                    .waiters
                    .get(key.as_slice())
                    .map_or(Vec::new(), |queue| queue.iter().cloned().collect())
            };
            for waiter in waiters {
                ready.extend(self.retry(&waiter, &key));
                self.send_invalidations();
            }
        }
    }

    /// Runs a waiter's command once more; returns the keys that this made ready.
    fn retry(&mut self, waiter: &Waiter, key: &[u8]) -> Vec<ReadyKey> {
        let wait = &waiter.wait;
        let mut session = Session::with_shared(Arc::clone(&waiter.client));
        session.woken_by = Some(key.to_vec());
        let args = wait.args.as_args();
        let scope = self.scope(wait.command, &args, &session);
        let mut out = Out::new(wait.proto);
        let mut served = false;
        let done = self.with_db(scope, session.caller(), |executor, db| {
            // What it waits for may have come by SWAPDB, and not be in memory.
            if db.is_any_cold() {
                db.load_in_place(key).ok();
            }
            let kind = db.peek(key).map(Entry::kind);
            let wakes = kind == Some(wait.wake_on) || wait.wake_on_loss;
            if !wakes || wait.is_claimed() {
                return;
            }
            // Claimed first, so that no timeout can answer the client while its command takes an
            // element; given back when there was still nothing to take.
            if waiter.client.is_gone() || !wait.claim() {
                return;
            }
            executor.call(&mut session, wait.command, args, db, &mut out);
            served = session.blocking_wait.take().is_none();
            if !served {
                wait.unclaim();
            }
        });
        // A disconnect that came meanwhile found the waiter claimed and left it to us.
        if !served && waiter.client.is_gone() && wait.claim() {
            self.forget(wait);
        }
        if self.journal.refused {
            self.refuse_unrecorded(wait.command, &mut out, 0);
        }
        if served {
            self.forget(wait);
            // Delivering a message orders this before its receipt.
            let position = self.journal.position;
            waiter.client.served_position.store(position, Ordering::Relaxed);
            waiter.client.deliver(Message::Unblocked(out.buf));
        }
        done.unwrap_or_else(|Busy| {
            let (database, key) = (wait.database, key.to_vec());
            let later = ReadyKey { database, key };
            self.server.deferred.put(Deferred::Serve(later));
            Vec::new()
        })
    }
}

/// Locks the shard of a key of a database.
///
/// The database's space is read before the lock is taken, and once more after it: SWAPDB holds every shard.
pub(crate) fn lock_key<'s>(server: &'s Server, database: usize, key: &[u8]) -> Result<ShardGuard<'s>, Busy> {
    let (shards, databases) = (&server.keyspace.shards, &server.keyspace.databases);
    let shard = shards.locate(key).shard;
    loop {
        let space = databases.space(database);
        let guard = shards.lock_one(shard, space)?;
        if databases.space(database) == space {
            return Ok(guard);
        }
    }
}
