//! XGROUP and XACK.

use nagaya_command_spec::error::CommandError;
use nagaya_exec::ctx::Ctx;
use nagaya_keyspace::db::ReadyKey;
use nagaya_keyspace::notify::Events;
use nagaya_store::stream::{ENTRIES_READ_UNKNOWN, Group, Stream, StreamId};

use super::format::{Reply, lossy, parse_id, parse_id_or_end, subcommand_syntax};

const KEY_MUST_EXIST: &str = "The XGROUP subcommand requires the key to exist. Note that for CREATE you may \
    want to use the MKSTREAM option to create an empty stream automatically.";

/// Options of CREATE and SETID.
struct Options {
    mkstream: bool,
    entries_read: i64,
}

fn parse_options(ctx: &Ctx<'_, '_>, creating: bool) -> Result<Options, CommandError> {
    let mut options = Options {
        mkstream: false,
        entries_read: ENTRIES_READ_UNKNOWN,
    };
    let mut at = 5;
    while at < ctx.args.len() {
        if creating && ctx.is(at, "MKSTREAM") {
            options.mkstream = true;
            at += 1;
        } else if ctx.is(at, "ENTRIESREAD") && at + 1 < ctx.args.len() {
            options.entries_read = ctx.int(at + 1)?;
            if options.entries_read < ENTRIES_READ_UNKNOWN {
                return Err(CommandError::err("value for ENTRIESREAD must be positive or -1"));
            }
            at += 2;
        } else {
            return Err(subcommand_syntax(ctx));
        }
    }
    Ok(options)
}

/// XGROUP CREATE key group id | $ [MKSTREAM] [ENTRIESREAD entries-read]
pub(super) fn create(ctx: &mut Ctx<'_, '_>) -> Reply {
    let (key, name) = (ctx.key(2), ctx.key(3));
    let options = parse_options(ctx, true)?;
    let last_in_stream = ctx.db.write::<Stream>(key)?.map(|stream| stream.last_id());
    if last_in_stream.is_none() && !options.mkstream {
        return Err(CommandError::err(KEY_MUST_EXIST));
    }
    if ctx.args.len() > 8 {
        return Err(subcommand_syntax(ctx));
    }
    let last_id = match ctx.key(4) {
        b"$" => last_in_stream.unwrap_or_default(),
        id => parse_id(id)?,
    };
    let made = ctx
        .db
        .write_or_create::<Stream>(key)?
        .create_group(name, last_id, options.entries_read);
    if last_in_stream.is_none() {
        ctx.db.modified(key);
    }
    if !made {
        return Err(CommandError::coded(
            "BUSYGROUP Consumer Group name already exists",
        ));
    }
    changed(ctx, key, "xgroup-create");
    ctx.out.ok();
    Ok(())
}

/// Finds the group that a subcommand names.
fn find<'d>(ctx: &'d mut Ctx<'_, '_>) -> Result<&'d mut Group, CommandError> {
    let (key, name) = (ctx.key(2), ctx.key(3));
    let stream = ctx
        .db
        .write::<Stream>(key)?
        .ok_or(CommandError::err(KEY_MUST_EXIST))?;
    stream.group_mut(name).ok_or_else(|| no_such_group(name, key))
}

/// What to say about a group that is not there.
pub(super) fn no_such_group(name: &[u8], key: &[u8]) -> CommandError {
    let (name, key) = (lossy(name), lossy(key));
    CommandError::coded(format!(
        "NOGROUP No such consumer group '{name}' for key name '{key}'"
    ))
}

/// XGROUP SETID key group id | $ [ENTRIESREAD entries-read]
pub(super) fn set_id(ctx: &mut Ctx<'_, '_>) -> Reply {
    let key = ctx.key(2);
    let options = parse_options(ctx, false)?;
    find(ctx)?;
    if ctx.args.len() != 5 && ctx.args.len() != 7 {
        return Err(subcommand_syntax(ctx));
    }
    let last_id = match ctx.key(4) {
        b"$" => ctx.db.read::<Stream>(key)?.map_or(StreamId::MIN, Stream::last_id),
        id => parse_id_or_end(id, 0)?,
    };
    let group = find(ctx)?;
    group.last_id = last_id;
    group.entries_read = options.entries_read;
    changed(ctx, key, "xgroup-setid");
    ctx.out.ok();
    Ok(())
}

/// XGROUP DESTROY key group
pub(super) fn destroy(ctx: &mut Ctx<'_, '_>) -> Reply {
    let key = ctx.key(2);
    let stream = ctx
        .db
        .write::<Stream>(key)?
        .ok_or(CommandError::err(KEY_MUST_EXIST))?;
    let removed = stream.remove_group(ctx.args.get(3).unwrap_or_default());
    if removed {
        changed(ctx, key, "xgroup-destroy");
        // Those who wait as a part of the group learn that it is gone.
        if ctx.db.shard_mut(key).waiters.contains_key(key) {
            let (database, key) = (ctx.db.database(), key.to_vec());
            ctx.db.ready.push(ReadyKey { database, key });
        }
    }
    ctx.out.int(i64::from(removed));
    Ok(())
}

/// XGROUP CREATECONSUMER key group consumer
pub(super) fn create_consumer(ctx: &mut Ctx<'_, '_>) -> Reply {
    let (key, name, now_ms) = (ctx.key(2), ctx.key(4), ctx.db.now_ms());
    let made = find(ctx)?.create_consumer(name, now_ms).is_some();
    if made {
        ctx.effect_verbatim_now();
        changed(ctx, key, "xgroup-createconsumer");
    }
    ctx.out.int(i64::from(made));
    Ok(())
}

/// XGROUP DELCONSUMER key group consumer
pub(super) fn delete_consumer(ctx: &mut Ctx<'_, '_>) -> Reply {
    let (key, name) = (ctx.key(2), ctx.key(4));
    let pending = find(ctx)?.remove_consumer(name);
    if pending.is_some() {
        changed(ctx, key, "xgroup-delconsumer");
    }
    ctx.out.int(pending.unwrap_or(0) as i64);
    Ok(())
}

/// Redis counts changes of groups but does not tell watchers of the key about them.
fn changed(ctx: &mut Ctx<'_, '_>, key: &[u8], event: &str) {
    ctx.db.dirty += 1;
    ctx.db.notify(Events::STREAM, event, key);
}

/// XGROUP HELP
pub(super) fn help(ctx: &mut Ctx<'_, '_>) -> Reply {
    nagaya_exec::help::help(
        ctx,
        &[
            (
                "CREATE <key> <groupname> <id|$> [option]",
                &[
                    "Make a consumer group. Options:",
                    "MKSTREAM: make the stream if the key is missing.",
                    "ENTRIESREAD <count>: set how many entries the group has read.",
                ],
            ),
            (
                "CREATECONSUMER <key> <groupname> <consumer>",
                &["Make a consumer of a group."],
            ),
            (
                "DELCONSUMER <key> <groupname> <consumer>",
                &["Remove a consumer of a group."],
            ),
            ("DESTROY <key> <groupname>", &["Remove a group."]),
            (
                "SETID <key> <groupname> <id|$> [ENTRIESREAD <count>]",
                &["Set after which entry a group reads on, and how many it has read."],
            ),
        ],
    )
}

/// XACK key group id [id ...]
pub(super) fn xack(ctx: &mut Ctx<'_, '_>) -> Reply {
    let key = ctx.key(1);
    let name = ctx.key(2);
    let group = ctx
        .db
        .write::<Stream>(key)?
        .and_then(|stream| stream.group_mut(name));
    let Some(group) = group else {
        ctx.out.int(0);
        return Ok(());
    };
    let ids = ctx
        .args
        .iter()
        .skip(3)
        .map(parse_id)
        .collect::<Result<Vec<_>, _>>()?;
    let acknowledged = ids.into_iter().filter(|&id| group.acknowledge(id)).count();
    ctx.db.dirty += acknowledged as u64;
    ctx.out.int(acknowledged as i64);
    Ok(())
}
