//! COPY and MOVE: keys that go to another name or another database.

use nagaya_command_spec::error::CommandError;
use nagaya_exec::ctx::Ctx;
use nagaya_keyspace::db::Expiry;
use nagaya_keyspace::effects::same_tag;
use nagaya_keyspace::notify::Events;

type Reply = Result<(), CommandError>;

const SAME_OBJECT: &str = "source and destination objects are the same";

/// MOVE key db
pub(super) fn move_to(ctx: &mut Ctx<'_, '_>) -> Reply {
    let (key, from, to) = (ctx.key(1), ctx.db.database(), ctx.database(2)?);
    if from == to {
        return Err(CommandError::err(SAME_OBJECT));
    }
    let is_moved = ctx.db.exists(key) && !exists_in(ctx, to, key);
    if is_moved && let Some(entry) = ctx.db.take(key) {
        ctx.db.modified(key);
        ctx.db.effect(&[b"DEL", key]);
        let expiry = entry.expiry().map_or(Expiry::Clear, Expiry::At);
        ctx.db.select(to);
        ctx.db.set(key, entry.into_value(), expiry);
        ctx.db.modified(key);
        ctx.db.effect_state(key);
        for (database, event) in [(from, "move_from"), (to, "move_to")] {
            ctx.db.select(database);
            ctx.db.notify(Events::GENERIC, event, key);
        }
        ctx.db.select(from);
    }
    ctx.out.int(i64::from(is_moved));
    Ok(())
}

/// COPY source destination [DB destination-db] [REPLACE]
pub(super) fn copy(ctx: &mut Ctx<'_, '_>) -> Reply {
    let (from, to, home) = (ctx.key(1), ctx.key(2), ctx.db.database());
    let (mut replace, mut database) = (false, home);
    let mut at = 3;
    while at < ctx.args.len() {
        if ctx.is(at, "REPLACE") {
            replace = true;
            at += 1;
        } else if ctx.is(at, "DB") && at + 1 < ctx.args.len() {
            database = ctx.database(at + 1)?;
            at += 2;
        } else {
            return Err(CommandError::Syntax);
        }
    }
    if from == to && database == home {
        return Err(CommandError::err(SAME_OBJECT));
    }
    let Some(entry) = ctx.db.entry(from) else {
        ctx.out.int(0);
        return Ok(());
    };
    let value = entry.value().to_value();
    let expiry = entry.expiry().map_or(Expiry::Clear, Expiry::At);
    if !replace && exists_in(ctx, database, to) {
        ctx.out.int(0);
        return Ok(());
    }
    ctx.db.select(database);
    ctx.db.remove(to);
    ctx.db.set(to, value, expiry);
    ctx.db.notify(Events::GENERIC, "copy_to", to);
    ctx.db.modified(to);
    if database == home && same_tag(from, to) {
        ctx.db.effect(&[b"COPY", from, to, b"REPLACE"]);
    } else {
        ctx.db.effect_state(to);
    }
    ctx.db.select(home);
    ctx.out.int(1);
    Ok(())
}

fn exists_in(ctx: &mut Ctx<'_, '_>, database: usize, key: &[u8]) -> bool {
    let home = ctx.db.database();
    ctx.db.select(database);
    let exists = ctx.db.exists(key);
    ctx.db.select(home);
    exists
}
