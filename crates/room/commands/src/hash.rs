//! Hashes.

use nagaya_command_spec::error::CommandError;
use nagaya_command_spec::spec::{
    ACCESS, Category, DELETE, DENYOOM, FAST, Flags, INSERT, KeySpec, READONLY, RO, RW, UPDATE, WRITE, key,
};
use nagaya_exec::ctx::Ctx;
use nagaya_exec::entry::{Entry, Handler, cmd};
use nagaya_keyspace::notify::Events;
use nagaya_resp::{Extended, Out};
use nagaya_store::hash::Hash;
use nagaya_store::listpack::Item;

use crate::collection::{ScanOptions, ScanReply, bulk_item, empty_scan, parse_cursor};

mod expiry;
mod get_and_set;
mod random;

const READS: &[KeySpec] = &[key(1, RO.and(ACCESS))];
const LOOKS: &[KeySpec] = &[key(1, RO)];
const SETS: &[KeySpec] = &[key(1, RW.and(UPDATE))];
const COUNTS: &[KeySpec] = &[key(1, RW.and(ACCESS).and(UPDATE))];

const EXPIRE_FLAGS: Flags = WRITE.and(DENYOOM).and(FAST);
const PER_FIELD: &str = "O(N) for N fields named";

pub(crate) const COMMANDS: &[Entry] = &[
    entry("HDEL", -3, hdel, WRITE.and(FAST), &[key(1, RW.and(DELETE))])
        .about("Removes fields of a hash.", "O(N) for N fields removed"),
    entry("HEXPIRE", -6, expiry::hexpire, EXPIRE_FLAGS, SETS)
        .since("7.4.0")
        .about("Lets fields of a hash expire after some seconds.", PER_FIELD),
    entry("HEXPIREAT", -6, expiry::hexpireat, EXPIRE_FLAGS, SETS)
        .since("7.4.0")
        .about(
            "Lets fields of a hash expire at a Unix time in seconds.",
            PER_FIELD,
        ),
    entry("HEXPIRETIME", -5, expiry::hexpiretime, READONLY.and(FAST), READS)
        .since("7.4.0")
        .about(
            "Returns the Unix times in seconds at which fields of a hash expire.",
            PER_FIELD,
        ),
    entry("HEXISTS", 3, hexists, READONLY.and(FAST), LOOKS)
        .about("Returns whether a hash has a field.", "O(1)"),
    entry("HGET", 3, hget, READONLY.and(FAST), READS)
        .about("Returns the value of a field of a hash.", "O(1)"),
    entry(
        "HGETDEL",
        -5,
        get_and_set::hgetdel,
        WRITE.and(FAST),
        &[key(1, RW.and(ACCESS).and(DELETE))],
    )
    .since("8.0.0")
    .about(
        "Returns the values of fields of a hash and removes them.",
        PER_FIELD,
    ),
    entry("HGETEX", -5, get_and_set::hgetex, WRITE.and(FAST), COUNTS)
        .since("8.0.0")
        .about(
            "Returns the values of fields of a hash and sets or clears their expiry.",
            PER_FIELD,
        ),
    entry("HGETALL", 2, hgetall, READONLY, READS).about(
        "Returns all fields of a hash with their values.",
        "O(N) for a hash of N fields",
    ),
    entry("HINCRBY", 4, hincrby, WRITE.and(DENYOOM).and(FAST), COUNTS)
        .about("Adds a number to an integer in a field of a hash.", "O(1)"),
    entry(
        "HINCRBYFLOAT",
        4,
        hincrbyfloat,
        WRITE.and(DENYOOM).and(FAST),
        COUNTS,
    )
    .since("2.6.0")
    .about("Adds a decimal number to a number in a field of a hash.", "O(1)"),
    entry("HKEYS", 2, hkeys, READONLY, READS).about(
        "Returns the names of all fields of a hash.",
        "O(N) for a hash of N fields",
    ),
    entry("HLEN", 2, hlen, READONLY.and(FAST), LOOKS)
        .about("Returns the number of fields of a hash.", "O(1)"),
    entry("HMGET", -3, hmget, READONLY.and(FAST), READS).about(
        "Returns the values of several fields of a hash.",
        "O(N) for N fields asked for",
    ),
    entry("HMSET", -4, hmset, WRITE.and(DENYOOM).and(FAST), SETS).about(
        "Sets fields of a hash; the old form of HSET.",
        "O(N) for N fields set",
    ),
    entry("HPERSIST", -5, expiry::hpersist, WRITE.and(FAST), SETS)
        .since("7.4.0")
        .about("Takes the expiry off fields of a hash.", PER_FIELD),
    entry("HPEXPIRE", -6, expiry::hpexpire, EXPIRE_FLAGS, SETS)
        .since("7.4.0")
        .about("Lets fields of a hash expire after some milliseconds.", PER_FIELD),
    entry("HPEXPIREAT", -6, expiry::hpexpireat, EXPIRE_FLAGS, SETS)
        .since("7.4.0")
        .about(
            "Lets fields of a hash expire at a Unix time in milliseconds.",
            PER_FIELD,
        ),
    entry(
        "HPEXPIRETIME",
        -5,
        expiry::hpexpiretime,
        READONLY.and(FAST),
        READS,
    )
    .since("7.4.0")
    .about(
        "Returns the Unix times in milliseconds at which fields of a hash expire.",
        PER_FIELD,
    ),
    entry("HPTTL", -5, expiry::hpttl, READONLY.and(FAST), READS)
        .since("7.4.0")
        .about(
            "Returns how many milliseconds fields of a hash have to live.",
            PER_FIELD,
        ),
    entry("HRANDFIELD", -2, random::hrandfield, READONLY, READS)
        .since("6.2.0")
        .about(
            "Returns fields of a hash chosen at random.",
            "O(N) for N fields returned",
        ),
    entry("HSCAN", -3, hscan, READONLY, READS).since("2.8.0").about(
        "Walks the fields and values of a hash, some at a time.",
        "O(1) per call, O(N) for a whole walk over N fields",
    ),
    entry("HSET", -4, hset, WRITE.and(DENYOOM).and(FAST), SETS)
        .about("Sets fields of a hash.", "O(N) for N fields set"),
    entry(
        "HSETEX",
        -6,
        get_and_set::hsetex,
        WRITE.and(DENYOOM).and(FAST),
        SETS,
    )
    .since("8.0.0")
    .about("Sets fields of a hash, and their expiry.", PER_FIELD),
    entry(
        "HSETNX",
        4,
        hsetnx,
        WRITE.and(DENYOOM).and(FAST),
        &[key(1, RW.and(INSERT))],
    )
    .about("Sets a field of a hash if it does not exist.", "O(1)"),
    entry("HSTRLEN", 3, hstrlen, READONLY.and(FAST), LOOKS)
        .since("3.2.0")
        .about("Returns the length of the value of a field of a hash.", "O(1)"),
    entry("HTTL", -5, expiry::httl, READONLY.and(FAST), READS)
        .since("7.4.0")
        .about(
            "Returns how many seconds fields of a hash have to live.",
            PER_FIELD,
        ),
    entry("HVALS", 2, hvals, READONLY, READS).about(
        "Returns the values of all fields of a hash.",
        "O(N) for a hash of N fields",
    ),
];

type Reply = Result<(), CommandError>;

const fn entry(
    name: &'static str,
    arity: i32,
    run: Handler,
    flags: Flags,
    keys: &'static [KeySpec],
) -> Entry {
    cmd(name, arity, run)
        .flags(flags)
        .acl(Category::HASH)
        .group("hash")
        .keys(keys)
        .since("2.0.0")
}

/// HSET key field value [field value ...]
fn hset(ctx: &mut Ctx<'_, '_>) -> Reply {
    let created = set_fields(ctx)?;
    ctx.out.int(created);
    Ok(())
}

/// HMSET key field value [field value ...]
fn hmset(ctx: &mut Ctx<'_, '_>) -> Reply {
    set_fields(ctx)?;
    ctx.out.ok();
    Ok(())
}

fn set_fields(ctx: &mut Ctx<'_, '_>) -> Result<i64, CommandError> {
    if ctx.args.len() % 2 == 1 {
        return Err(CommandError::wrong_arity(&ctx.command.full_name));
    }
    let (key, limits) = (ctx.key(1), ctx.limits());
    let hash: &mut Hash = ctx.db.write_or_create(key)?;
    let mut created = 0;
    let mut args = ctx.args.iter().skip(2);
    while let (Some(field), Some(value)) = (args.next(), args.next()) {
        created += i64::from(hash.set(field, value, &limits));
    }
    changed(ctx, "hset");
    Ok(created)
}

/// HSETNX key field value
fn hsetnx(ctx: &mut Ctx<'_, '_>) -> Reply {
    let (key, field, value) = (ctx.key(1), ctx.key(2), ctx.key(3));
    let limits = ctx.limits();
    let hash: &mut Hash = ctx.db.write_or_create(key)?;
    if hash.contains(field) {
        ctx.out.int(0);
        return Ok(());
    }
    hash.set(field, value, &limits);
    changed(ctx, "hset");
    ctx.out.int(1);
    Ok(())
}

/// HINCRBY key field increment
fn hincrby(ctx: &mut Ctx<'_, '_>) -> Reply {
    let (key, field, by) = (ctx.key(1), ctx.key(2), ctx.int(3)?);
    let limits = ctx.limits();
    let hash: &mut Hash = ctx.db.write_or_create(key)?;
    let old = match hash.get(field) {
        None => 0,
        Some(value) => value
            .int()
            .ok_or(CommandError::err("hash value is not an integer"))?,
    };
    let sum = old
        .checked_add(by)
        .ok_or(CommandError::err("increment or decrement would overflow"))?;
    hash.set_value(field, itoa::Buffer::new().format(sum).as_bytes(), &limits);
    changed(ctx, "hincrby");
    ctx.out.int(sum);
    Ok(())
}

/// HINCRBYFLOAT key field increment
fn hincrbyfloat(ctx: &mut Ctx<'_, '_>) -> Reply {
    let (key, field) = (ctx.key(1), ctx.key(2));
    let by = Extended::parse(ctx.key(3)).ok_or(CommandError::NotFloat)?;
    if !by.is_finite() {
        return Err(CommandError::err("value is NaN or Infinity"));
    }
    let limits = ctx.limits();
    let hash: &mut Hash = ctx.db.write_or_create(key)?;
    let old = match hash.get(field) {
        None => Extended::ZERO,
        Some(item) => {
            Extended::parse(&item.to_vec()).ok_or(CommandError::err("hash value is not a float"))?
        }
    };
    let sum = old
        .checked_add(by)
        .ok_or(CommandError::err("increment would produce NaN or Infinity"))?;
    let mut text = Vec::new();
    sum.write_human(&mut text);
    hash.set_value(field, &text, &limits);
    let expires = hash.expiry(field).is_some();
    changed(ctx, "hincrbyfloat");
    if expires {
        let effect: [&[u8]; 7] = [b"HSETEX", key, b"KEEPTTL", b"FIELDS", b"1", field, &text];
        ctx.db.effect(&effect);
    } else {
        ctx.db.effect(&[b"HSET", key, field, &text]);
    }
    ctx.out.bulk(&text);
    Ok(())
}

fn changed(ctx: &mut Ctx<'_, '_>, event: &str) {
    let key = ctx.key(1);
    ctx.db.modified(key);
    ctx.db.notify(Events::HASH, event, key);
}

/// HDEL key field [field ...]
fn hdel(ctx: &mut Ctx<'_, '_>) -> Reply {
    let key = ctx.key(1);
    let Some(hash) = ctx.db.write::<Hash>(key)? else {
        ctx.out.int(0);
        return Ok(());
    };
    let removed = ctx.args.iter().skip(2).filter(|field| hash.remove(field)).count();
    if removed > 0 {
        changed(ctx, "hdel");
        ctx.db.remove_if_empty::<Hash>(key);
    }
    ctx.out.int(removed as i64);
    Ok(())
}

fn bulk_or_nil(out: &mut Out, value: Option<Item<'_>>) {
    match value {
        None => out.nil(),
        Some(value) => bulk_item(out, value),
    }
}

/// HGET key field
fn hget(ctx: &mut Ctx<'_, '_>) -> Reply {
    ctx.db.expire_fields(ctx.key(1));
    let hash: Option<&Hash> = ctx.db.read(ctx.key(1))?;
    bulk_or_nil(ctx.out, hash.and_then(|hash| hash.get(ctx.key(2))));
    Ok(())
}

/// HMGET key field [field ...]
fn hmget(ctx: &mut Ctx<'_, '_>) -> Reply {
    ctx.db.expire_fields(ctx.key(1));
    let hash: Option<&Hash> = ctx.db.read(ctx.key(1))?;
    ctx.out.array(ctx.args.len() - 2);
    for field in ctx.args.iter().skip(2) {
        bulk_or_nil(ctx.out, hash.and_then(|hash| hash.get(field)));
    }
    Ok(())
}

/// HGETALL key
fn hgetall(ctx: &mut Ctx<'_, '_>) -> Reply {
    ctx.db.expire_fields(ctx.key(1));
    let hash: Option<&Hash> = ctx.db.read(ctx.key(1))?;
    ctx.out.map(hash.map_or(0, Hash::len));
    for (field, value) in hash.into_iter().flatten() {
        bulk_item(ctx.out, field);
        bulk_item(ctx.out, value);
    }
    Ok(())
}

/// HKEYS key
fn hkeys(ctx: &mut Ctx<'_, '_>) -> Reply {
    list(ctx, |field, _| field)
}

/// HVALS key
fn hvals(ctx: &mut Ctx<'_, '_>) -> Reply {
    list(ctx, |_, value| value)
}

fn list(ctx: &mut Ctx<'_, '_>, part: for<'a> fn(Item<'a>, Item<'a>) -> Item<'a>) -> Reply {
    ctx.db.expire_fields(ctx.key(1));
    let hash: Option<&Hash> = ctx.db.read(ctx.key(1))?;
    ctx.out.array(hash.map_or(0, Hash::len));
    for (field, value) in hash.into_iter().flatten() {
        bulk_item(ctx.out, part(field, value));
    }
    Ok(())
}

/// HLEN key
fn hlen(ctx: &mut Ctx<'_, '_>) -> Reply {
    ctx.db.expire_fields(ctx.key(1));
    let hash: Option<&Hash> = ctx.db.read(ctx.key(1))?;
    ctx.out.int(hash.map_or(0, Hash::len) as i64);
    Ok(())
}

/// HSTRLEN key field
fn hstrlen(ctx: &mut Ctx<'_, '_>) -> Reply {
    ctx.db.expire_fields(ctx.key(1));
    let hash: Option<&Hash> = ctx.db.read(ctx.key(1))?;
    ctx.out
        .int(hash.map_or(0, |hash| hash.value_len(ctx.key(2))) as i64);
    Ok(())
}

/// HEXISTS key field
fn hexists(ctx: &mut Ctx<'_, '_>) -> Reply {
    ctx.db.expire_fields(ctx.key(1));
    let hash: Option<&Hash> = ctx.db.read(ctx.key(1))?;
    ctx.out
        .int(hash.is_some_and(|hash| hash.contains(ctx.key(2))).into());
    Ok(())
}

/// HSCAN key cursor [MATCH pattern] [COUNT count] [NOVALUES]
fn hscan(ctx: &mut Ctx<'_, '_>) -> Reply {
    let cursor = parse_cursor(ctx.key(2))?;
    ctx.db.expire_fields(ctx.key(1));
    let Some(hash) = ctx.db.read::<Hash>(ctx.key(1))? else {
        empty_scan(ctx.out);
        return Ok(());
    };
    let reply = ScanReply::new(ScanOptions::parse(&ctx.args)?, ctx.out);
    reply.run(cursor, ctx.out, |reply, cursor| {
        hash.scan(cursor, |field, value| reply.add(field, Some(value)))
    });
    Ok(())
}

#[cfg(test)]
mod expiry_tests;
#[cfg(test)]
mod tests;
