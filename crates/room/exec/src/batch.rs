//! What surrounds the commands of a batch: the clock, the settings, the journal, expired keys.

use std::sync::atomic::Ordering;

use nagaya_keyspace::shard::LockScope;

use crate::deferred::Deferred;
use crate::executor::Executor;
use crate::session::{Caller, Session};

impl Executor<'_> {
    /// Reads the clock and the settings for the commands to come.
    pub fn begin_batch(&mut self) {
        self.timer.forget_end();
        self.turn.set_now(self.server.clock.unix_us());
        if self.server.config_version() != self.turn.config_version {
            self.take_config();
        }
        self.turn.acl_version = self.server.acl.version();
        self.look_at_memory();
        if self.server.deferred.is_any() && self.server.keyspace.shards.long_script().is_none() {
            self.catch_up();
        }
    }

    /// Notes whether memory is to be freed before the next request.
    pub(crate) fn look_at_memory(&mut self) {
        /// Requests of one batch that are served before memory is looked at again.
        const REQUESTS_PER_LOOK: u32 = 32;
        let is_short = self.turn.config.maxmemory > 0 && self.is_out_of_memory();
        self.turn.short_of_memory = is_short;
        self.turn.out_of_memory = is_short;
        self.turn.requests_to_look = REQUESTS_PER_LOOK;
    }

    /// Counts a request, and looks at memory again after some of them.
    #[inline]
    pub(crate) fn count_request(&mut self) {
        self.turn.requests_to_look = self.turn.requests_to_look.wrapping_sub(1);
        if self.turn.requests_to_look == 0 {
            self.look_at_memory();
        }
    }

    #[cold]
    pub fn is_out_of_memory(&self) -> bool {
        self.server.keyspace.is_out_of_memory(self.turn.config.maxmemory)
    }

    /// Does what had to wait for a slow script to end.
    #[cold]
    fn catch_up(&mut self) {
        for work in self.server.deferred.take() {
            match work {
                Deferred::Serve(key) => self.serve(vec![key]),
                Deferred::Forget(wait) => self.forget(&wait),
                Deferred::Unwatch(watch) => crate::transaction::forget_watch(self.server, watch),
            }
        }
    }

    /// Takes the settings in force.
    pub fn take_config(&mut self) {
        self.turn
            .take_config(self.server.config(), self.server.config_version());
        self.trim_tracking();
    }

    /// Returns whether replies have to wait for [`Executor::commit`].
    #[inline]
    pub fn wants_commit(&self) -> bool {
        self.server
            .journal()
            .is_some_and(|journal| journal.wants_commit())
    }

    /// Makes durable what the replies to come tell; false when that failed and they must not be sent.
    pub fn commit(&mut self) -> bool {
        let Some(journal) = self.server.journal() else {
            return true;
        };
        match journal.commit() {
            Ok(()) => true,
            Err(error) => {
                if self.server.journal_failure().is_none() {
                    tracing::error!(%error, "the journal failed, replies to writes are withheld");
                }
                self.server.fail_journal(error);
                false
            }
        }
    }

    /// Returns whether all that a client has written is durable, so that it can be answered though the journal
    /// has failed.
    pub fn is_durable(&self, session: &Session) -> bool {
        let journal = self.server.journal();
        journal.is_none_or(|journal| journal.is_durable(session.journal_position))
    }

    /// Removes some of the keys of one shard whose time has come; true when there may be more.
    pub fn expire_shard(&mut self, shard: usize, limit: usize) -> bool {
        if !self.server.active_expire.load(Ordering::Relaxed) || self.server.keyspace.pause.is_on() {
            return false;
        }
        let mut removed = 0;
        let done = self.with_db(LockScope::One(shard), Caller::default(), |_, db| {
            for space in db.data().databases.spaces() {
                db.enter_space(space);
                removed += db.expire_due(shard, limit - removed);
            }
        });
        // While a script is slow, its keys stay as they are.
        self.serve(done.unwrap_or_default());
        removed == limit
    }

    /// Notes how long a round of removing expired keys took (LATENCY).
    pub fn note_expire_cycle(&self, spent_us: u64) {
        self.server.latency.note(
            &self.turn.config,
            "expire-cycle",
            spent_us * 1000,
            self.turn.now_s,
        );
    }
}
