//! Sets.

use nagaya_command_spec::error::CommandError;
use nagaya_command_spec::spec::{
    ACCESS, Category, DELETE, DENYOOM, FAST, Flags, INSERT, KeySpec, OW, READONLY, RO, RW, UPDATE, WRITE,
    counted_keys, key, keys_to,
};
use nagaya_exec::ctx::Ctx;
use nagaya_exec::entry::{Entry, Handler, cmd};
use nagaya_keyspace::effects::same_tag;
use nagaya_keyspace::notify::Events;
use nagaya_store::set::Set;

use crate::collection::{ScanOptions, ScanReply, bulk_item, empty_scan, parse_cursor};

mod algebra;
mod random;

const READS: &[KeySpec] = &[key(1, RO.and(ACCESS))];
const LOOKS: &[KeySpec] = &[key(1, RO)];
const READS_ALL: &[KeySpec] = &[keys_to(1, -1, 1, RO.and(ACCESS))];
const STORES: &[KeySpec] = &[key(1, OW.and(UPDATE)), keys_to(2, -1, 1, RO.and(ACCESS))];
const UPDATES: &[KeySpec] = &[key(1, RW.and(UPDATE)), keys_to(2, -1, 1, RO.and(ACCESS))];

const INTERSECTION_COST: &str = "O(N*M) at worst, for M sets of which the smallest has N members";
const ALL_MEMBERS_COST: &str = "O(N) for N members in all sets together";

pub(crate) const COMMANDS: &[Entry] = &[
    entry(
        "SADD",
        -3,
        sadd,
        WRITE.and(DENYOOM).and(FAST),
        &[key(1, RW.and(INSERT))],
    )
    .about("Adds members to a set.", "O(N) for N members added"),
    entry("SCARD", 2, scard, READONLY.and(FAST), LOOKS)
        .about("Returns the number of members of a set.", "O(1)"),
    entry("SDIFF", -2, algebra::sdiff, READONLY, READS_ALL).about(
        "Returns the members of the first set that no other set has.",
        ALL_MEMBERS_COST,
    ),
    entry("SDIFFSTORE", -3, algebra::sdiffstore, WRITE.and(DENYOOM), STORES).about(
        "Stores the members of the first set that no other set has.",
        ALL_MEMBERS_COST,
    ),
    entry("SINTER", -2, algebra::sinter, READONLY, READS_ALL)
        .about("Returns the members that all sets have.", INTERSECTION_COST),
    entry(
        "SINTERCARD",
        -3,
        algebra::sintercard,
        READONLY,
        &[counted_keys(1, RO.and(ACCESS))],
    )
    .since("7.0.0")
    .about(
        "Counts the members that all sets have, up to a limit.",
        INTERSECTION_COST,
    ),
    entry(
        "SINTERSTORE",
        -3,
        algebra::sinterstore,
        WRITE.and(DENYOOM),
        UPDATES,
    )
    .about("Stores the members that all sets have.", INTERSECTION_COST),
    entry("SISMEMBER", 3, sismember, READONLY.and(FAST), LOOKS)
        .about("Returns whether a set has a member.", "O(1)"),
    entry("SMEMBERS", 2, smembers, READONLY, READS)
        .about("Returns all members of a set.", "O(N) for a set of N members"),
    entry("SMISMEMBER", -3, smismember, READONLY.and(FAST), READS)
        .since("6.2.0")
        .about(
            "Tells of several members whether a set has them.",
            "O(N) for N members asked for",
        ),
    entry(
        "SMOVE",
        4,
        smove,
        WRITE.and(FAST),
        &[key(1, RW.and(ACCESS).and(DELETE)), key(2, RW.and(INSERT))],
    )
    .about("Moves a member from one set to another.", "O(1)"),
    entry(
        "SPOP",
        -2,
        random::spop,
        WRITE.and(FAST),
        &[key(1, RW.and(ACCESS).and(DELETE))],
    )
    .about(
        "Removes members of a set chosen at random and returns them.",
        "O(N) for N members removed",
    ),
    entry("SRANDMEMBER", -2, random::srandmember, READONLY, READS).about(
        "Returns members of a set chosen at random.",
        "O(N) for N members returned",
    ),
    entry("SREM", -3, srem, WRITE.and(FAST), &[key(1, RW.and(DELETE))])
        .about("Removes members of a set.", "O(N) for N members removed"),
    entry("SSCAN", -3, sscan, READONLY, READS).since("2.8.0").about(
        "Walks the members of a set, some at a time.",
        "O(1) per call, O(N) for a whole walk over N members",
    ),
    entry("SUNION", -2, algebra::sunion, READONLY, READS_ALL)
        .about("Returns the members that any of the sets has.", ALL_MEMBERS_COST),
    entry(
        "SUNIONSTORE",
        -3,
        algebra::sunionstore,
        WRITE.and(DENYOOM),
        STORES,
    )
    .about("Stores the members that any of the sets has.", ALL_MEMBERS_COST),
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
        .acl(Category::SET)
        .group("set")
        .keys(keys)
}

/// SADD key member [member ...]
fn sadd(ctx: &mut Ctx<'_, '_>) -> Reply {
    let (key, limits) = (ctx.key(1), ctx.limits());
    let set: &mut Set = ctx.db.write_or_create(key)?;
    let added = ctx
        .args
        .iter()
        .skip(2)
        .filter(|member| set.add(member, &limits))
        .count();
    if added > 0 {
        ctx.db.modified(key);
        ctx.db.notify(Events::SET, "sadd", key);
    }
    ctx.out.int(added as i64);
    Ok(())
}

/// SREM key member [member ...]
fn srem(ctx: &mut Ctx<'_, '_>) -> Reply {
    let key = ctx.key(1);
    let Some(set) = ctx.db.write::<Set>(key)? else {
        ctx.out.int(0);
        return Ok(());
    };
    let removed = ctx
        .args
        .iter()
        .skip(2)
        .filter(|member| set.remove(member))
        .count();
    if removed > 0 {
        ctx.db.modified(key);
        ctx.db.notify(Events::SET, "srem", key);
        ctx.db.remove_if_empty::<Set>(key);
    }
    ctx.out.int(removed as i64);
    Ok(())
}

/// SMOVE source destination member
fn smove(ctx: &mut Ctx<'_, '_>) -> Reply {
    let (source, destination, member) = (ctx.key(1), ctx.key(2), ctx.key(3));
    let limits = ctx.limits();
    if ctx.db.write::<Set>(source).is_ok_and(|set| set.is_none()) {
        ctx.out.int(0);
        return Ok(());
    }
    let present = ctx
        .db
        .write::<Set>(source)?
        .is_some_and(|set| set.contains(member));
    ctx.db.write::<Set>(destination)?;
    if !present || source == destination {
        ctx.out.int(present.into());
        return Ok(());
    }
    if let Some(set) = ctx.db.write::<Set>(source)? {
        set.remove(member);
    }
    ctx.db.notify(Events::SET, "srem", source);
    ctx.db.remove_if_empty::<Set>(source);
    ctx.db.modified(source);
    if ctx.db.write_or_create::<Set>(destination)?.add(member, &limits) {
        ctx.db.modified(destination);
        ctx.db.notify(Events::SET, "sadd", destination);
    }
    if !same_tag(source, destination) {
        ctx.db.effect(&[b"SREM", source, member]);
        ctx.db.effect(&[b"SADD", destination, member]);
    }
    ctx.out.int(1);
    Ok(())
}

/// SISMEMBER key member
fn sismember(ctx: &mut Ctx<'_, '_>) -> Reply {
    let set: Option<&Set> = ctx.db.read(ctx.key(1))?;
    ctx.out
        .int(set.is_some_and(|set| set.contains(ctx.key(2))).into());
    Ok(())
}

/// SMISMEMBER key member [member ...]
fn smismember(ctx: &mut Ctx<'_, '_>) -> Reply {
    let set: Option<&Set> = ctx.db.read(ctx.key(1))?;
    ctx.out.array(ctx.args.len() - 2);
    for member in ctx.args.iter().skip(2) {
        ctx.out.int(set.is_some_and(|set| set.contains(member)).into());
    }
    Ok(())
}

/// SMEMBERS key
fn smembers(ctx: &mut Ctx<'_, '_>) -> Reply {
    let set: Option<&Set> = ctx.db.read(ctx.key(1))?;
    ctx.out.set(set.map_or(0, Set::len));
    for member in set.into_iter().flatten() {
        bulk_item(ctx.out, member);
    }
    Ok(())
}

/// SCARD key
fn scard(ctx: &mut Ctx<'_, '_>) -> Reply {
    let set: Option<&Set> = ctx.db.read(ctx.key(1))?;
    ctx.out.int(set.map_or(0, Set::len) as i64);
    Ok(())
}

/// SSCAN key cursor [MATCH pattern] [COUNT count]
fn sscan(ctx: &mut Ctx<'_, '_>) -> Reply {
    let cursor = parse_cursor(ctx.key(2))?;
    let Some(set) = ctx.db.read::<Set>(ctx.key(1))? else {
        empty_scan(ctx.out);
        return Ok(());
    };
    let reply = ScanReply::new(ScanOptions::parse(&ctx.args)?, ctx.out);
    reply.run(cursor, ctx.out, |reply, cursor| {
        set.scan(cursor, |member| reply.add(member, None))
    });
    Ok(())
}

#[cfg(test)]
mod tests;
