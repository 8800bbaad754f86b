//! Keys of any type.

use nagaya_command_spec::error::CommandError;
use nagaya_command_spec::spec::{
    ACCESS, ALL_SHARDS, ASKING, Begin, Category, DELETE, DENYOOM, FAST, Find, INCOMPLETE, INSERT, KeySpec,
    LOADING, MOVABLE_KEYS, OW, READONLY, RM, RO, RW, STALE, UPDATE, WRITE, key, keys_to,
};
use nagaya_exec::ctx::Ctx;
use nagaya_exec::entry::{Entry, cmd};
use nagaya_exec::help::container;
use nagaya_keyspace::db::Expiry;
use nagaya_keyspace::effects::same_tag;
use nagaya_keyspace::notify::Events;

mod databases;
mod dump;
mod expire;
mod object;
mod scan;
mod sort;

pub(crate) const COMMANDS: &[Entry] = &[
    keyspace("COPY", -3, databases::copy)
        .flags(WRITE.and(DENYOOM))
        .keys(&[key(1, RO.and(ACCESS)), key(2, OW.and(UPDATE))])
        .since("6.2.0")
        .about(
            "Copies a key's value and expiry to another key.",
            "O(N) for N elements, O(1) for strings",
        ),
    keyspace("DBSIZE", 1, dbsize)
        .flags(READONLY.and(FAST).and(ALL_SHARDS))
        .group("server")
        .about("Returns the number of keys.", "O(1)"),
    keyspace("DEL", -2, del)
        .flags(WRITE)
        .keys(&[keys_to(1, -1, 1, RM.and(DELETE))])
        .about("Removes keys.", "O(N) for N keys; large values are freed later"),
    keyspace("DUMP", 2, dump::dump)
        .flags(READONLY)
        .keys(&[key(1, RO.and(ACCESS))])
        .since("2.6.0")
        .about("Returns a value as bytes that RESTORE takes.", "O(N) for N bytes"),
    keyspace("EXISTS", -2, exists)
        .flags(READONLY.and(FAST))
        .keys(&[keys_to(1, -1, 1, RO)])
        .about("Counts how many of the keys exist.", "O(N) for N keys"),
    keyspace("EXPIRE", -3, expire::expire)
        .flags(WRITE.and(FAST))
        .keys(&[key(1, RW.and(UPDATE))])
        .about("Lets a key expire after some seconds.", "O(1)"),
    keyspace("EXPIREAT", -3, expire::expireat)
        .flags(WRITE.and(FAST))
        .keys(&[key(1, RW.and(UPDATE))])
        .since("1.2.0")
        .about("Lets a key expire at a time in Unix seconds.", "O(1)"),
    keyspace("EXPIRETIME", 2, expire::expiretime)
        .flags(READONLY.and(FAST))
        .keys(&[key(1, RO.and(ACCESS))])
        .since("7.0.0")
        .about("Returns when a key expires, in Unix seconds.", "O(1)"),
    keyspace("FLUSHALL", -1, flushall)
        .flags(WRITE.and(ALL_SHARDS))
        .acl(Category::KEYSPACE.and(Category::DANGEROUS))
        .group("server")
        .about(
            "Removes all keys of all databases.",
            "O(N) for N keys; large values are freed later",
        ),
    keyspace("FLUSHDB", -1, flushdb)
        .flags(WRITE.and(ALL_SHARDS))
        .acl(Category::KEYSPACE.and(Category::DANGEROUS))
        .group("server")
        .about(
            "Removes all keys of the database.",
            "O(N) for N keys; large values are freed later",
        ),
    keyspace("KEYS", 2, scan::keys)
        .flags(READONLY.and(ALL_SHARDS))
        .acl(Category::KEYSPACE.and(Category::DANGEROUS))
        .about(
            "Returns all keys that match a pattern.",
            "O(N) for N keys in the database",
        ),
    keyspace("MIGRATE", -6, migrate)
        .flags(WRITE.and(MOVABLE_KEYS))
        .acl(Category::KEYSPACE.and(Category::DANGEROUS))
        .keys(&[
            key(3, RW.and(ACCESS).and(DELETE)),
            KeySpec {
                flags: RW.and(ACCESS).and(DELETE).and(INCOMPLETE),
                begin: Begin::Keyword("KEYS", -2),
                find: Find::Range {
                    last: -1,
                    step: 1,
                    limit: 0,
                },
            },
        ])
        .since("2.6.0")
        .about("Would move keys to another server; refused.", "O(1)"),
    keyspace("MOVE", 3, databases::move_to)
        .flags(WRITE.and(FAST))
        .keys(&[key(1, RW.and(ACCESS).and(UPDATE))])
        .about("Moves a key to another database.", "O(1)"),
    keyspace("OBJECT", -2, container)
        .acl(Category(0))
        .subcommands(OBJECT)
        .since("2.2.3")
        .about(
            "Commands that look at how values are kept.",
            "Depends on the subcommand",
        ),
    keyspace("PERSIST", 2, expire::persist)
        .flags(WRITE.and(FAST))
        .keys(&[key(1, RW.and(UPDATE))])
        .since("2.2.0")
        .about("Takes the expiry off a key.", "O(1)"),
    keyspace("PEXPIRE", -3, expire::pexpire)
        .flags(WRITE.and(FAST))
        .keys(&[key(1, RW.and(UPDATE))])
        .since("2.6.0")
        .about("Lets a key expire after some milliseconds.", "O(1)"),
    keyspace("PEXPIREAT", -3, expire::pexpireat)
        .flags(WRITE.and(FAST))
        .keys(&[key(1, RW.and(UPDATE))])
        .since("2.6.0")
        .about("Lets a key expire at a time in Unix milliseconds.", "O(1)"),
    keyspace("PEXPIRETIME", 2, expire::pexpiretime)
        .flags(READONLY.and(FAST))
        .keys(&[key(1, RO.and(ACCESS))])
        .since("7.0.0")
        .about("Returns when a key expires, in Unix milliseconds.", "O(1)"),
    keyspace("PTTL", 2, expire::pttl)
        .flags(READONLY.and(FAST))
        .keys(&[key(1, RO.and(ACCESS))])
        .since("2.6.0")
        .about("Returns how long a key still lives, in milliseconds.", "O(1)"),
    keyspace("RANDOMKEY", 1, randomkey)
        .flags(READONLY.and(ALL_SHARDS))
        .about("Returns a key chosen at random.", "O(1)"),
    keyspace("RENAME", 3, rename)
        .flags(WRITE)
        .keys(&[key(1, RW.and(ACCESS).and(DELETE)), key(2, OW.and(UPDATE))])
        .about(
            "Gives a key another name, whatever that name held.",
            "O(1); large values are freed later",
        ),
    keyspace("RENAMENX", 3, renamenx)
        .flags(WRITE.and(FAST))
        .keys(&[key(1, RW.and(ACCESS).and(DELETE)), key(2, OW.and(INSERT))])
        .about("Gives a key another name if that name is free.", "O(1)"),
    keyspace("RESTORE", -4, dump::restore)
        .flags(WRITE.and(DENYOOM))
        .acl(Category::KEYSPACE.and(Category::DANGEROUS))
        .keys(&[key(1, OW.and(UPDATE))])
        .since("2.6.0")
        .about(
            "Makes a key from the bytes that DUMP gave.",
            "O(N) for N bytes, O(N*log(N)) for sorted sets",
        ),
    keyspace("RESTORE-ASKING", -4, dump::restore)
        .flags(WRITE.and(DENYOOM).and(ASKING))
        .acl(Category::KEYSPACE.and(Category::DANGEROUS))
        .group("server")
        .keys(&[key(1, OW.and(UPDATE))])
        .since("3.0.0")
        .about(
            "RESTORE as a cluster uses it while it moves keys.",
            "O(N) for N bytes",
        ),
    keyspace("SCAN", -2, scan::scan)
        .flags(READONLY.and(ALL_SHARDS))
        .since("2.8.0")
        .about(
            "Returns keys bit by bit, with a cursor to go on from.",
            "O(1) per call, O(N) for all N keys",
        ),
    keyspace("SORT", -2, sort::sort)
        .flags(WRITE.and(DENYOOM).and(MOVABLE_KEYS).and(ALL_SHARDS))
        .acl(SORTABLE)
        .keys(&[key(1, RO.and(ACCESS)), UNNAMED_KEYS, UNNAMED_TARGET])
        .more_keys(sort::store_keys)
        .about(
            "Sorts a list, set or sorted set and returns or stores the result.",
            "O(N+M*log(M)) for M sorted elements",
        ),
    keyspace("SORT_RO", -2, sort::sort_ro)
        .flags(READONLY.and(MOVABLE_KEYS).and(ALL_SHARDS))
        .acl(SORTABLE)
        .keys(&[key(1, RO.and(ACCESS)), UNNAMED_KEYS])
        .since("7.0.0")
        .about(
            "Sorts a list, set or sorted set and returns the result.",
            "O(N+M*log(M)) for M sorted elements",
        ),
    keyspace("TOUCH", -2, touch)
        .flags(READONLY.and(FAST))
        .keys(&[keys_to(1, -1, 1, RO)])
        .since("3.2.1")
        .about(
            "Counts how many of the keys exist, as a use of them.",
            "O(N) for N keys",
        ),
    keyspace("TTL", 2, expire::ttl)
        .flags(READONLY.and(FAST))
        .keys(&[key(1, RO.and(ACCESS))])
        .about("Returns how long a key still lives, in seconds.", "O(1)"),
    keyspace("TYPE", 2, type_of)
        .flags(READONLY.and(FAST))
        .keys(&[key(1, RO)])
        .about("Returns the type of a key's value.", "O(1)"),
    keyspace("UNLINK", -2, del)
        .flags(WRITE.and(FAST))
        .keys(&[keys_to(1, -1, 1, RM.and(DELETE))])
        .since("4.0.0")
        .about("Removes keys; their values are freed later.", "O(1) per key"),
];

const OBJECT: &[Entry] = &[
    keyspace("ENCODING", 3, object::encoding)
        .flags(READONLY)
        .keys(&[key(2, RO)])
        .since("2.2.3")
        .about("Names the form in which a value is kept.", "O(1)"),
    keyspace("FREQ", 3, object::freq)
        .flags(READONLY)
        .keys(&[key(2, RO)])
        .since("4.0.0")
        .about("Returns how often a key is used, on a logarithmic scale.", "O(1)"),
    keyspace("HELP", 2, object::help)
        .flags(LOADING.and(STALE))
        .since("6.2.0")
        .about("Lists the subcommands.", "O(1)"),
    keyspace("IDLETIME", 3, object::idletime)
        .flags(READONLY)
        .keys(&[key(2, RO)])
        .since("2.2.3")
        .about("Returns for how many seconds a key was not used.", "O(1)"),
    keyspace("REFCOUNT", 3, object::refcount)
        .flags(READONLY)
        .keys(&[key(2, RO)])
        .since("2.2.3")
        .about(
            "Returns how many references to a value Redis would count.",
            "O(1)",
        ),
];

const SORTABLE: Category = Category::SET
    .and(Category::SORTEDSET)
    .and(Category::LIST)
    .and(Category::DANGEROUS);
/// The keys that SORT's patterns lead to.
const UNNAMED_KEYS: KeySpec = KeySpec {
    flags: RO.and(ACCESS),
    begin: Begin::Unknown,
    find: Find::Unknown,
};
/// The key that SORT stores to.
const UNNAMED_TARGET: KeySpec = KeySpec {
    flags: OW.and(UPDATE),
    begin: Begin::Unknown,
    find: Find::Unknown,
};

const fn keyspace(name: &'static str, arity: i32, run: nagaya_exec::entry::Handler) -> Entry {
    cmd(name, arity, run).acl(Category::KEYSPACE)
}

type Reply = Result<(), CommandError>;

/// MIGRATE host port <key | ""> destination-db timeout [...]
fn migrate(_: &mut Ctx<'_, '_>) -> Reply {
    Err(CommandError::err(
        "MIGRATE is not supported: this server connects to no other; use DUMP here and RESTORE there",
    ))
}

/// DEL key [key ...], UNLINK key [key ...]
fn del(ctx: &mut Ctx<'_, '_>) -> Reply {
    let mut removed = 0;
    for key in ctx.args.iter().skip(1) {
        if ctx.db.remove(key) {
            ctx.db.notify(Events::GENERIC, "del", key);
            ctx.db.modified(key);
            ctx.db.effect(&[b"DEL", key]);
            removed += 1;
        }
    }
    ctx.out.int(removed);
    Ok(())
}

/// EXISTS key [key ...]
fn exists(ctx: &mut Ctx<'_, '_>) -> Reply {
    let found = ctx.args.iter().skip(1).filter(|key| ctx.db.exists(key)).count();
    ctx.out.int(found as i64);
    Ok(())
}

/// TOUCH key [key ...]
fn touch(ctx: &mut Ctx<'_, '_>) -> Reply {
    let found = ctx
        .args
        .iter()
        .skip(1)
        .filter(|key| ctx.db.entry(key).is_some())
        .count();
    ctx.out.int(found as i64);
    Ok(())
}

/// TYPE key
fn type_of(ctx: &mut Ctx<'_, '_>) -> Reply {
    let name = ctx.db.kind(ctx.key(1)).map_or("none", |kind| kind.name());
    ctx.out.simple(name);
    Ok(())
}

/// RANDOMKEY
fn randomkey(ctx: &mut Ctx<'_, '_>) -> Reply {
    match ctx.db.random_key() {
        Some(key) => ctx.out.bulk(&key),
        None => match scan::first_cold_key(ctx)? {
            Some(Some(key)) => ctx.out.bulk(&key),
            Some(None) => ctx.out.nil(),
            None => {}
        },
    }
    Ok(())
}

/// DBSIZE
fn dbsize(ctx: &mut Ctx<'_, '_>) -> Reply {
    ctx.out.int(ctx.db.len_everywhere() as i64);
    Ok(())
}

/// FLUSHALL [ASYNC | SYNC]
fn flushall(ctx: &mut Ctx<'_, '_>) -> Reply {
    check_flush_options(ctx)?;
    flush_everything(ctx);
    ctx.out.ok();
    Ok(())
}

/// FLUSHDB [ASYNC | SYNC]
fn flushdb(ctx: &mut Ctx<'_, '_>) -> Reply {
    check_flush_options(ctx)?;
    // Without other databases everything goes, which costs the cold tier nothing.
    if !ctx.db.replaying && ctx.db.others_are_empty() {
        flush_everything(ctx);
    } else {
        ctx.db.flush();
        ctx.db.effect(&[b"FLUSHDB"]);
    }
    ctx.out.ok();
    Ok(())
}

fn flush_everything(ctx: &mut Ctx<'_, '_>) {
    ctx.db.flush_all();
    // Even when no key is here: there may be some in a colder place.
    ctx.db.effect(&[b"FLUSHALL"]);
}

fn check_flush_options(ctx: &Ctx<'_, '_>) -> Reply {
    let known = match ctx.args.len() {
        1 => true,
        2 => ctx.is(1, "SYNC") || ctx.is(1, "ASYNC"),
        _ => false,
    };
    if known { Ok(()) } else { Err(CommandError::Syntax) }
}

/// RENAME key newkey
fn rename(ctx: &mut Ctx<'_, '_>) -> Reply {
    rename_to(ctx, true)?;
    ctx.out.ok();
    Ok(())
}

/// RENAMENX key newkey
fn renamenx(ctx: &mut Ctx<'_, '_>) -> Reply {
    let renamed = rename_to(ctx, false)?;
    ctx.out.int(i64::from(renamed));
    Ok(())
}

/// Renames and returns true, unless the new name is taken and must not be.
fn rename_to(ctx: &mut Ctx<'_, '_>, replace: bool) -> Result<bool, CommandError> {
    let (from, to) = (ctx.key(1), ctx.key(2));
    if !ctx.db.exists(from) {
        return Err(CommandError::NoSuchKey);
    }
    if from == to {
        return Ok(replace);
    }
    if !replace && ctx.db.exists(to) {
        return Ok(false);
    }
    ctx.db.remove(to);
    let entry = ctx.db.take(from).ok_or(CommandError::NoSuchKey)?;
    let expiry = entry.expiry().map_or(Expiry::Clear, Expiry::At);
    ctx.db.set(to, entry.into_value(), expiry);
    ctx.db.notify(Events::GENERIC, "rename_from", from);
    ctx.db.notify(Events::GENERIC, "rename_to", to);
    ctx.db.modified(from);
    ctx.db.modified(to);
    if same_tag(from, to) {
        ctx.db.effect(&[b"RENAME", from, to]);
    } else {
        ctx.db.effect(&[b"DEL", from]);
        ctx.db.effect_state(to);
    }
    Ok(true)
}

#[cfg(test)]
mod tests;
