//! Transactions as they are put together, and the keys that they watch.

use std::sync::Arc;
use std::sync::atomic::AtomicBool;

use nagaya_resp::{ArgVec, Args, Out};

use crate::client::{Client, Watch};
use crate::command_table::Command;
use crate::db::Db;
use crate::executor::Core;
use crate::postponed::Postponed;
use crate::server::Server;
use crate::shard::{Busy, Scope, Shard};
use crate::spec::NO_MULTI;

impl Core<'_> {
    /// Queues a command of a client that is putting a transaction together; false when it is to run now.
    pub(crate) fn queue(
        &mut self,
        client: &mut Client,
        command: &'static Command,
        args: &Args<'_>,
        out: &mut Out,
    ) -> bool {
        if client.transaction.is_none() || runs_at_once(command) {
            return false;
        }
        let scope = self.scope(command, args, client);
        let Some(transaction) = &mut client.transaction else {
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
pub(crate) fn scope(client: &Client) -> Scope {
    let Some(transaction) = &client.transaction else {
        return Scope::None;
    };
    let watched = client.watch.as_ref().map_or(Scope::None, |watch| watch.scope);
    transaction.scope.map_or(watched, |scope| scope.join(watched))
}

/// Forgets all watched keys of a client, later when a slow script holds them. The caller holds no shard.
pub(crate) fn unwatch(server: &Server, client: &mut Client) {
    if let Some(watch) = client.watch.take() {
        forget_watch(server, watch);
    }
}

/// Takes a watch off its keys, later when a slow script holds them.
pub(crate) fn forget_watch(server: &Server, watch: Box<Watch>) {
    for key in &watch.keys {
        match server
            .keyspace
            .shards
            .lock_one(server.keyspace.shards.place(key).shard)
        {
            Ok(mut shard) => forget(&mut shard, key, &watch.changed),
            Err(Busy) => return server.postponed.put(Postponed::Unwatch(watch)),
        }
    }
}

/// Forgets all watched keys of a client. The caller holds their shards.
pub(crate) fn unwatch_locked(db: &mut Db<'_>, client: &mut Client) {
    let Some(watch) = client.watch.take() else { return };
    for key in &watch.keys {
        forget(db.shard_mut(key), key, &watch.changed);
    }
}

fn forget(shard: &mut Shard, key: &[u8], changed: &Arc<AtomicBool>) {
    if let Some(flags) = shard.watchers.get_mut(key) {
        flags.retain(|flag| !Arc::ptr_eq(flag, changed));
        if flags.is_empty() {
            shard.watchers.remove(key);
        }
    }
}
