//! Transactions as they are put together, and the keys that they watch.

use std::sync::Arc;
use std::sync::atomic::AtomicBool;

use nagaya_command_spec::spec::NO_MULTI;
use nagaya_command_spec::table::Command;
use nagaya_keyspace::db::Db;
use nagaya_keyspace::shard::{Busy, LockScope, Shard};
use nagaya_resp::{ArgVec, Args, Out};

use crate::blocked::lock_key;
use crate::deferred::Deferred;
use crate::executor::Executor;
use crate::server::Server;
use crate::session::{Session, Watch};

impl Executor<'_> {
    /// Queues a command of a client that is putting a transaction together; false when it is to run now.
    pub fn queue(
        &mut self,
        session: &mut Session,
        command: &'static Command,
        args: &Args<'_>,
        out: &mut Out,
    ) -> bool {
        if session.transaction.is_none() || runs_at_once(command) {
            return false;
        }
        let scope = self.scope(command, args, session);
        let Some(transaction) = &mut session.transaction else {
            return false;
        };
        if command.spec.flags.has(NO_MULTI) {
            transaction.broken = true;
            out.error("ERR Command not allowed inside a transaction");
            return true;
        }
        transaction.scope = Some(transaction.scope.map_or(scope, |all| all.join(scope)));
        transaction.commands.push((command, ArgVec::from(args)));
        out.simple("QUEUED");
        true
    }
}

fn runs_at_once(command: &Command) -> bool {
    const NAMES: &[&str] = &["EXEC", "DISCARD", "MULTI", "WATCH", "QUIT", "RESET"];
    NAMES.contains(&command.spec.name)
}

/// Returns the shards that EXEC needs: those of the queued commands and of the watched keys.
pub fn scope(session: &Session) -> LockScope {
    let Some(transaction) = &session.transaction else {
        return LockScope::None;
    };
    let watched = session
        .watch
        .as_ref()
        .map_or(LockScope::None, |watch| watch.scope);
    transaction.scope.map_or(watched, |scope| scope.join(watched))
}

/// Forgets all watched keys of a client, later when a slow script holds them. The caller holds no shard.
pub fn unwatch(server: &Server, session: &mut Session) {
    if let Some(watch) = session.watch.take() {
        forget_watch(server, watch);
    }
}

/// Takes a watch off its keys, later when a slow script holds them.
pub fn forget_watch(server: &Server, watch: Box<Watch>) {
    for (database, key) in &watch.keys {
        match lock_key(server, *database, key) {
            Ok(mut shard) => forget(&mut shard, key, &watch.changed),
            Err(Busy) => return server.deferred.put(Deferred::Unwatch(watch)),
        }
    }
}

/// Forgets all watched keys of a client. The caller holds their shards.
pub fn unwatch_locked(db: &mut Db<'_>, session: &mut Session) {
    let Some(watch) = session.watch.take() else { return };
    let home = db.database();
    for (database, key) in &watch.keys {
        db.select(*database);
        forget(db.shard_mut(key), key, &watch.changed);
    }
    db.select(home);
}

fn forget(shard: &mut Shard, key: &[u8], changed: &Arc<AtomicBool>) {
    if let Some(flags) = shard.watchers.get_mut(key) {
        flags.retain(|flag| !Arc::ptr_eq(flag, changed));
        if flags.is_empty() {
            shard.watchers.remove(key);
        }
    }
}
