//! What a thread does ten times a second beside serving.

use nagaya_exec::executor::Executor;

use super::{EventLoop, TICK_MS};

impl<'s> EventLoop<'s> {
    /// Runs the periodic tasks, ten times a second.
    pub(super) fn tick(&self, core: &mut Executor<'s>) {
        let now_ms = core.now_ms();
        if now_ms < self.next_tick_ms.get() && now_ms + TICK_MS >= self.next_tick_ms.get() {
            return;
        }
        self.next_tick_ms.set(now_ms + TICK_MS);
        self.resume_postponed(core);
        self.close_idle(core);
        self.watch_buffers(core);
        if self.expires_keys {
            core.relieve_memory();
        }
        if self.expires_keys && !self.expire_keys(core) {
            // There are more: continue soon, but serve clients first.
            self.next_tick_ms.set(now_ms + TICK_MS / 10);
        }
    }

    /// Removes a bounded number of expired keys. Returns whether none is left.
    fn expire_keys(&self, core: &mut Executor<'s>) -> bool {
        const KEYS_PER_SHARD: usize = 64;
        let started_us = self.shared.server.clock.steady_us();
        let count = self.shared.server.keyspace.shards.count();
        let mut done_in_a_row = 0;
        while done_in_a_row < count {
            let shard = self.next_shard.get() % count;
            self.next_shard.set(shard + 1);
            let more = core.expire_shard(shard, KEYS_PER_SHARD);
            done_in_a_row = if more { 0 } else { done_in_a_row + 1 };
            let spent_us = self.shared.server.clock.steady_us() - started_us;
            if spent_us > 2_000 {
                core.note_expire_cycle(spent_us);
                return false;
            }
        }
        core.note_expire_cycle(self.shared.server.clock.steady_us() - started_us);
        true
    }

    fn resume_postponed(&self, core: &mut Executor<'s>) {
        let postponed = self
            .connections
            .borrow()
            .keys_where(|connection| connection.postponed && !connection.client.awaits_answer());
        for key in postponed {
            if let Some(mut connection) = self.take(key) {
                let next = connection.resume(core);
                self.settle(core, key, connection, next);
            }
        }
    }

    fn close_idle(&self, core: &mut Executor<'s>) {
        let idle_ms = i64::from(core.config().timeout) * 1000;
        if idle_ms == 0 {
            return;
        }
        let idle = self.connections.borrow().keys_where(|connection| {
            connection.active_ms + idle_ms < core.now_ms() && !connection.client.is_blocked()
        });
        for key in idle {
            if let Some(connection) = self.take(key) {
                self.close(core, key, connection);
            }
        }
    }

    /// Closes connections whose replies have waited for too long, although nothing happens on them, and takes stock
    /// of the memory of those that have done nothing since the settings bound it.
    fn watch_buffers(&self, core: &mut Executor<'s>) {
        let slow = self.connections.borrow().keys_where(|connection| {
            connection.note_memory(core);
            connection.is_slow(core.config(), core.now_ms())
        });
        for key in slow {
            if let Some(connection) = self.take(key) {
                self.close_slow(core, key, connection);
            }
        }
    }
}
