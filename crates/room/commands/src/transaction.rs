//! MULTI, EXEC, DISCARD, WATCH, UNWATCH.
//!
//! A transaction's commands are checked as they are queued and run at EXEC
//! under the locks of all their keys together with the watched ones, so that
//! no client sees half of it and no watched key changes between the check and the
//! first command.

use std::sync::Arc;
use std::sync::atomic::Ordering;

use nagaya_command_spec::error::CommandError;
use nagaya_command_spec::spec::{
    ALLOW_BUSY, Category, FAST, LOADING, NOSCRIPT, OWN_LOCKS, RO, SKIP_SLOWLOG, STALE, keys_to,
};
use nagaya_exec::ctx::Ctx;
use nagaya_exec::entry::{Entry, cmd};
use nagaya_exec::session::{Transaction, Watch};
use nagaya_exec::transaction::{unwatch, unwatch_locked};
use nagaya_keyspace::shard::LockScope;

pub(crate) const COMMANDS: &[Entry] = &[
    cmd("MULTI", 1, multi)
        .flags(NOSCRIPT.and(LOADING).and(STALE).and(FAST).and(ALLOW_BUSY))
        .acl(Category::TRANSACTION)
        .group("transactions")
        .since("1.2.0")
        .about(
            "Begins a transaction: later commands are queued until EXEC.",
            "O(1)",
        ),
    cmd("EXEC", 1, exec)
        .flags(NOSCRIPT.and(LOADING).and(STALE).and(SKIP_SLOWLOG).and(OWN_LOCKS))
        .acl(Category::TRANSACTION)
        .group("transactions")
        .since("1.2.0")
        .about("Runs all queued commands as one.", "Depends on the commands"),
    cmd("DISCARD", 1, discard)
        .flags(NOSCRIPT.and(LOADING).and(STALE).and(FAST).and(ALLOW_BUSY))
        .acl(Category::TRANSACTION)
        .group("transactions")
        .since("2.0.0")
        .about(
            "Drops the queued commands and ends the transaction.",
            "O(N) for N queued commands",
        ),
    cmd("WATCH", -2, watch)
        .flags(NOSCRIPT.and(LOADING).and(STALE).and(FAST).and(ALLOW_BUSY))
        .acl(Category::TRANSACTION)
        .group("transactions")
        .keys(&[keys_to(1, -1, 1, RO)])
        .since("2.2.0")
        .about(
            "Makes the next EXEC do nothing if one of these keys changes before it.",
            "O(1) per key",
        ),
    cmd("UNWATCH", 1, unwatch_command)
        .flags(NOSCRIPT.and(LOADING).and(STALE).and(FAST).and(ALLOW_BUSY))
        .acl(Category::TRANSACTION)
        .group("transactions")
        .since("2.2.0")
        .about("Forgets all watched keys.", "O(1)"),
];

/// MULTI
fn multi(ctx: &mut Ctx<'_, '_>) -> Result<(), CommandError> {
    if ctx.session.transaction.is_some() {
        return Err(CommandError::err("MULTI calls can not be nested"));
    }
    ctx.session.transaction = Some(Box::<Transaction>::default());
    ctx.out.ok();
    Ok(())
}

/// EXEC
fn exec(ctx: &mut Ctx<'_, '_>) -> Result<(), CommandError> {
    let Some(transaction) = ctx.session.transaction.take() else {
        return Err(CommandError::err("EXEC without MULTI"));
    };
    let changed = watched_key_changed(ctx);
    unwatch_locked(ctx.db, ctx.session);
    if transaction.broken {
        return Err(CommandError::coded(
            "EXECABORT Transaction discarded because of previous errors.",
        ));
    }
    if changed {
        ctx.out.nil_array();
        return Ok(());
    }
    ctx.out.array(transaction.commands.len());
    ctx.session.nesting += 1;
    for (command, args) in &transaction.commands {
        let args = args.as_args();
        match ctx.check_rights_at_exec(command, &args) {
            Ok(()) => ctx.call(command, args),
            Err(error) => ctx.out.error(&error.to_string()),
        }
    }
    ctx.session.nesting -= 1;
    Ok(())
}

/// Returns whether a watched key has changed; one that has expired since counts as changed.
fn watched_key_changed(ctx: &mut Ctx<'_, '_>) -> bool {
    let Some(watch) = &ctx.session.watch else {
        return false;
    };
    let home = ctx.db.database();
    for (database, key) in &watch.keys {
        // Looking is what makes an expired key leave, which raises the flag.
        ctx.db.select(*database);
        ctx.db.peek(key);
    }
    ctx.db.select(home);
    ctx.db.purge_expired();
    watch.changed.load(Ordering::Acquire)
}

/// DISCARD
fn discard(ctx: &mut Ctx<'_, '_>) -> Result<(), CommandError> {
    if ctx.session.transaction.take().is_none() {
        return Err(CommandError::err("DISCARD without MULTI"));
    }
    unwatch(ctx.server(), ctx.session);
    ctx.out.ok();
    Ok(())
}

/// WATCH key [key ...]
fn watch(ctx: &mut Ctx<'_, '_>) -> Result<(), CommandError> {
    if ctx.session.transaction.is_some() {
        return Err(CommandError::err("WATCH inside MULTI is not allowed"));
    }
    let shards = &ctx.server().keyspace.shards;
    let database = ctx.db.database();
    let watch = ctx.session.watch.get_or_insert_with(|| {
        Box::new(Watch {
            changed: Arc::default(),
            keys: Vec::new(),
            scope: LockScope::None,
        })
    });
    for at in 1..ctx.args.len() {
        let key = &ctx.args[at];
        if watch
            .keys
            .iter()
            .any(|known| (known.0, known.1.as_slice()) == (database, key))
        {
            continue;
        }
        // A key that is expired already is missing from the start; its removal is no change.
        ctx.db.peek(key);
        ctx.db.purge_expired();
        let flags = ctx.db.shard_mut(key).watchers.entry(key.into()).or_default();
        flags.push(Arc::clone(&watch.changed));
        watch.keys.push((database, key.to_vec()));
        let shard = shards.locate(key).shard;
        watch.scope = watch.scope.join(LockScope::One(shard));
    }
    ctx.out.ok();
    Ok(())
}

/// UNWATCH
fn unwatch_command(ctx: &mut Ctx<'_, '_>) -> Result<(), CommandError> {
    // Inside a transaction the shards of the watched keys are held already.
    if ctx.session.nesting > 0 {
        unwatch_locked(ctx.db, ctx.session);
    } else {
        unwatch(ctx.server(), ctx.session);
    }
    ctx.out.ok();
    Ok(())
}
