//! ROOM.STATUS, ROOM.TAGS, ROOM.WARM, ROOM.EVICT, ROOM.ERASE, ROOM.WAITCOLD.

use nagaya_command_spec::error::CommandError;
use nagaya_command_spec::spec::{
    ACCESS, Category, DELETE, FAST, KeyFlags, NO_MULTI, NOSCRIPT, READONLY, RM, RO, RW, TagSpec, UPDATE,
    WRITE, key, keys_to,
};
use nagaya_connections::cold_query::{ColdAnswer, ColdQuery};
use nagaya_exec::cold_ask::ask;
use nagaya_exec::ctx::Ctx;
use nagaya_exec::entry::{Entry, cmd};
use nagaya_keyspace::databases::tag_name;
use nagaya_keyspace::hash_tag::hash_tag;
use nagaya_keyspace::notify::Events;
use nagaya_keyspace::residency::evict::EvictionBlocker;
use nagaya_tiering::cold::{Status, TagRow};

use super::tags::tags;

type Reply = Result<(), CommandError>;

/// How long ROOM.EVICT waits for the tag to be saved.
const EVICT_WAIT_MS: i64 = 10_000;

const fn one_tag(flags: KeyFlags) -> TagSpec {
    TagSpec::Named {
        at: 1,
        to_end: false,
        flags,
    }
}

pub(crate) const COMMANDS: &[Entry] = &[
    cmd("ROOM.STATUS", 2, status)
        .flags(NOSCRIPT.and(NO_MULTI))
        .acl(Category::KEYSPACE.and(Category::READ))
        .tags(one_tag(RO.and(ACCESS)))
        .group("room")
        .since("7.0.0")
        .about("Tells where a tag is and what the cold tier has of it.", "O(1)"),
    cmd("ROOM.TAGS", -2, tags)
        .flags(NOSCRIPT.and(NO_MULTI))
        .acl(Category::KEYSPACE.and(Category::READ))
        .tags(TagSpec::Listed { after: "PREFIX" })
        .group("room")
        .since("7.0.0")
        .about(
            "Lists tags: those used last, the largest, or those whose names begin alike.",
            "O(N) for N looked at, which is bounded",
        ),
    cmd("ROOM.WARM", -2, warm)
        .flags(READONLY)
        .acl(Category::KEYSPACE)
        .group("room")
        .keys(&[keys_to(1, -1, 1, RO)])
        .tags(TagSpec::Named {
            at: 1,
            to_end: true,
            flags: RO.and(ACCESS),
        })
        .since("7.0.0")
        .about("Brings tags into memory.", "O(N) for N keys of the tags"),
    cmd("ROOM.EVICT", 2, evict)
        .flags(NOSCRIPT.and(NO_MULTI))
        .acl(Category::KEYSPACE.and(Category::WRITE))
        .tags(one_tag(RW.and(ACCESS).and(UPDATE)))
        .group("room")
        .since("7.0.0")
        .about(
            "Takes a tag out of memory once all of it is saved.",
            "O(N) for N keys of the tag",
        ),
    cmd("ROOM.ERASE", 2, erase)
        .flags(WRITE)
        .acl(Category::KEYSPACE.and(Category::DANGEROUS))
        .group("room")
        .keys(&[key(1, RM.and(DELETE))])
        .tags(one_tag(RM.and(DELETE)))
        .since("7.0.0")
        .about(
            "Removes all keys of a tag, wherever they are.",
            "O(N) for N keys of the tag",
        ),
    cmd("ROOM.WAITCOLD", -2, wait_cold)
        .flags(NOSCRIPT.and(FAST))
        .acl(Category::CONNECTION)
        .group("room")
        .since("7.0.0")
        .about(
            "Waits until the cold tier has everything this client, or anybody, has written.",
            "O(1)",
        ),
];

fn no_cold_tier() -> CommandError {
    CommandError::err("this engine has no cold tier")
}

/// ROOM.STATUS tag
fn status(ctx: &mut Ctx<'_, '_>) -> Reply {
    if ctx.db.tiering.is_none() {
        return Err(no_cold_tier());
    }
    let tag = hash_tag(ctx.key(1)).to_vec();
    let name = tag_name(ctx.db.space(), &tag).into_owned();
    let Some(answer) = ask(ctx, ColdQuery::Tag(name.clone()))? else {
        return Ok(());
    };
    let ColdAnswer::Tag(row) = answer else {
        return Err(CommandError::err("the answer is to another question"));
    };
    let memory = ctx.server().keyspace.residency(&name);
    let status = match (&memory.saved, &row) {
        (false, _) => Status::NeedSynced.name(),
        (true, _) if memory.resident && memory.keys > 0 => Status::Synced.name(),
        (true, Some(row)) if row.keys > 0 => Status::Cleaned.name(),
        (true, _) => "absent",
    };
    let at = |read: fn(&TagRow) -> Option<i64>| row.as_ref().and_then(read);
    let fields: [(&str, Option<i64>); 6] = [
        ("resident", Some(i64::from(memory.resident && memory.keys > 0))),
        ("hot_keys", Some(memory.keys as i64)),
        ("unsaved_keys", Some(memory.unsaved as i64)),
        ("cold_keys", at(|row| Some(row.keys as i64)).or(Some(0))),
        ("cold_bytes", at(|row| Some(row.bytes as i64)).or(Some(0))),
        ("saved_at_ms", at(|row| row.saved_at_ms)),
    ];
    ctx.out.map(fields.len() + 2);
    ctx.out.bulk(b"tag");
    ctx.out.bulk(&tag);
    ctx.out.bulk(b"status");
    ctx.out.bulk(status.as_bytes());
    for (name, value) in fields {
        ctx.out.bulk(name.as_bytes());
        match value {
            Some(value) => ctx.out.int(value),
            None => ctx.out.nil(),
        }
    }
    Ok(())
}

/// ROOM.WARM tag [tag ...]
fn warm(ctx: &mut Ctx<'_, '_>) -> Reply {
    // Its tags are its keys, so they were loaded before it ran.
    let mut warm = 0;
    for tag in ctx.args.iter().skip(1) {
        warm += i64::from(ctx.db.residency(hash_tag(tag)).keys > 0);
    }
    ctx.out.int(warm);
    Ok(())
}

/// ROOM.EVICT tag
fn evict(ctx: &mut Ctx<'_, '_>) -> Reply {
    let Some(tiering) = ctx.db.tiering else {
        return Err(no_cold_tier());
    };
    let tag = tag_name(ctx.db.space(), hash_tag(ctx.key(1)));
    let server = ctx.server();
    match server
        .keyspace
        .evict(server.keyspace.shards.shard_of_tag(&tag), &tag)
    {
        Ok(keys) => ctx.out.int(keys as i64),
        Err(EvictionBlocker::NotResident) => ctx.out.int(0),
        Err(EvictionBlocker::Pinned) => return Err(CommandError::err("this tag is pinned in memory")),
        Err(EvictionBlocker::Unsaved) => {
            if ctx.session.waited_ms(ctx.db.now_ms()) > EVICT_WAIT_MS {
                return Err(CommandError::err("the tag could not be saved in time, it stays"));
            }
            (tiering.save_soon)();
            ctx.session.query = Some(ColdQuery::Saved);
        }
    }
    Ok(())
}

/// ROOM.ERASE tag
fn erase(ctx: &mut Ctx<'_, '_>) -> Reply {
    if ctx.db.tiering.is_none() {
        return Err(no_cold_tier());
    }
    // The tag is its key, so all of it was loaded before this runs.
    let keys = ctx.db.keys_of_tag(hash_tag(ctx.key(1)));
    // Some may have other names than the braces let expect: `tag` itself, or `a{tag}b`.
    ctx.check_keys_of_tag(&keys)?;
    let mut removed = 0;
    for key in keys {
        if ctx.db.remove(&key) {
            ctx.db.notify(Events::GENERIC, "del", &key);
            ctx.db.modified(&key);
            ctx.db.effect(&[b"DEL", &key]);
            removed += 1;
        }
    }
    ctx.out.int(removed);
    Ok(())
}

/// ROOM.WAITCOLD milliseconds [ALL]
fn wait_cold(ctx: &mut Ctx<'_, '_>) -> Reply {
    let timeout_ms = ctx.int(1)?;
    let all = match ctx.args.len() {
        2 => false,
        3 if ctx.is(2, "ALL") => true,
        _ => return Err(CommandError::Syntax),
    };
    if timeout_ms < 0 {
        return Err(CommandError::err("timeout is negative"));
    }
    let Some(tiering) = ctx.db.tiering else {
        return Err(no_cold_tier());
    };
    if all && ctx.session.waiting_since_ms.is_none() {
        // From now on this client waits as if it had written all of it.
        let end = tiering.log_end();
        ctx.session.journal_position = ctx.session.journal_position.max(end);
    }
    let done = tiering.checkpoint() >= ctx.session.journal_position;
    let over = timeout_ms > 0 && ctx.session.waited_ms(ctx.db.now_ms()) >= timeout_ms;
    if done || over || ctx.session.nesting > 0 {
        ctx.out.int(i64::from(done));
    } else {
        (tiering.save_soon)();
        ctx.session.query = Some(ColdQuery::Saved);
    }
    Ok(())
}
