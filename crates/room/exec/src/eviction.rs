//! Removes keys when `maxmemory` is reached and the policy allows it.
//!
//! As in Redis the choice is by sampling: of a few random keys the one that the
//! policy likes least goes, until memory suffices. Each shard is locked only
//! while one key is chosen and removed, and the removed value is freed at once,
//! since its memory is what is wanted.

use nagaya_keyspace::shard::LockScope;
use nagaya_keyspace::victim::Order;
use nagaya_resp::Args;
use nagaya_store::rng::with_thread_rng;

use crate::dispatch::{may_need_memory, resolve};
use crate::executor::Executor;
use crate::session::{Caller, Session};

/// Keys removed for one request at most, so that its client does not wait for long. As in Redis the request is then
/// served all the same: it is refused only when nothing is left to remove.
const KEYS_PER_REQUEST_MAX: usize = 1000;

/// How long a request waits for memory before it is refused.
const STARVING_MS_MAX: i64 = 5_000;

impl Executor<'_> {
    /// Removes keys, if `maxmemory` is exceeded and the policy allows it. Called now and then.
    pub fn relieve_memory(&mut self) {
        if self.turn.short_of_memory {
            self.free_memory();
        }
    }

    /// Removes keys until memory suffices or none is left to remove; returns whether it removed any.
    ///
    /// Under the policy `noeviction`, saved tags go to the cold tier instead: clients cannot observe it,
    /// so no event is published.
    #[cold]
    pub fn free_memory(&mut self) -> bool {
        let policy = self.turn.config.maxmemory_policy;
        if policy == "noeviction" {
            self.server
                .keyspace
                .evict_until_enough(self.turn.config.maxmemory);
            self.turn.short_of_memory = self.is_out_of_memory();
            self.turn.out_of_memory = self.turn.short_of_memory;
            return false;
        }
        let before = self.stats.keyspace.evicted_keys.get();
        self.turn.out_of_memory = !self.evict_enough(policy);
        self.stats.keyspace.evicted_keys.get() > before
    }

    /// Lets a client wait whose request needs memory, when saving would free some; false when it has
    /// waited for long enough or saving would not help.
    #[cold]
    pub fn waits_for_memory(&mut self, session: &mut Session, args: &Args<'_>) -> bool {
        let Some(tiering) = self.server.keyspace.tiering_for_memory() else {
            return false;
        };
        let needs = resolve(&self.server.registry.table, args)
            .is_ok_and(|command| may_need_memory(&self.server.scripts, session, command, args));
        let now_ms = self.now_ms();
        if !needs || session.waited_ms(now_ms) > STARVING_MS_MAX {
            return false;
        }
        if !self.server.keyspace.has_unsaved() {
            // The save may have ended since memory was last looked at: what it saved can go now.
            self.free_memory();
            return false;
        }
        (tiering.save_soon)();
        tiering.wait_for_memory(&session.shared);
        true
    }

    /// Removes keys until memory suffices, or enough for one request; false when none is left to remove.
    fn evict_enough(&mut self, policy: &str) -> bool {
        let order = match policy.rsplit('-').next() {
            Some("random") => Order::Any,
            Some("ttl") => Order::SoonestExpiry,
            _ => Order::LeastRecent,
        };
        let only_volatile = policy.starts_with("volatile");
        let shards = self.server.keyspace.shards.count();
        let (mut shard, mut empty_in_a_row) = (with_thread_rng(|rng| rng.below(shards)), 0);
        for _ in 0..KEYS_PER_REQUEST_MAX {
            while !self.evict_from(shard, order, only_volatile) {
                empty_in_a_row += 1;
                if empty_in_a_row > shards {
                    return false;
                }
                shard = (shard + 1) % shards;
            }
            empty_in_a_row = 0;
            shard = (shard + 1) % shards;
            if !self.is_out_of_memory() {
                self.turn.short_of_memory = false;
                return true;
            }
        }
        // There is more to remove, and the next requests do it.
        true
    }

    /// Removes one key of a shard; false when there is none to remove.
    fn evict_from(&mut self, shard: usize, order: Order, only_volatile: bool) -> bool {
        let samples = self.turn.config.maxmemory_samples.max(1);
        let mut evicted = false;
        let done = self.with_db(LockScope::One(shard), Caller::default(), |executor, db| {
            if let Some(key) = db.choose_victim(shard, samples, order, only_volatile) {
                evicted = db.evict(&key);
                executor.stats.keyspace.evicted_keys.add(u64::from(evicted));
            }
        });
        // Those who wait for a removed key are told once no slow script is in the way.
        self.serve(done.unwrap_or_default());
        evicted
    }
}
