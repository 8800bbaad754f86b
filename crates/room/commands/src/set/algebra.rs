//! Intersections, unions and differences of sets.

use nagaya_command_spec::error::CommandError;
use nagaya_exec::ctx::Ctx;
use nagaya_keyspace::db::{Db, Expiry};
use nagaya_keyspace::notify::Events;
use nagaya_resp::{Args, Mark, parse_i64};
use nagaya_store::limits::EncodingLimits;
use nagaya_store::listpack::Item;
use nagaya_store::set::Set;
use nagaya_store::value::Value;

use crate::collection::bulk_item;

type Reply = Result<(), CommandError>;

/// What to do with each member of a result; false ends the search.
type Visit<'v> = &'v mut dyn FnMut(Item<'_>) -> bool;

/// SINTER key [key ...]
pub(super) fn sinter(ctx: &mut Ctx<'_, '_>) -> Reply {
    let sets = read_all(ctx.db, &ctx.args.skip(1))?;
    let (mark, mut len): (Mark, usize) = (ctx.out.defer(), 0);
    intersect(&sets, &mut |member| {
        bulk_item(ctx.out, member);
        len += 1;
        true
    });
    ctx.out.finish_set(mark, len);
    Ok(())
}

/// SINTERSTORE destination key [key ...]
pub(super) fn sinterstore(ctx: &mut Ctx<'_, '_>) -> Reply {
    let limits = ctx.limits();
    let result = collect(&read_all(ctx.db, &ctx.args.skip(2))?, &limits, intersect);
    store(ctx, result, "sinterstore");
    Ok(())
}

/// SINTERCARD numkeys key [key ...] [LIMIT limit]
pub(super) fn sintercard(ctx: &mut Ctx<'_, '_>) -> Reply {
    let keys = match parse_i64(ctx.key(1)) {
        Some(keys) if keys > 0 => keys as usize,
        _ => return Err(CommandError::err("numkeys should be greater than 0")),
    };
    if keys > ctx.args.len() - 2 {
        return Err(CommandError::err(
            "Number of keys can't be greater than number of args",
        ));
    }
    let mut limit = 0;
    let mut at = 2 + keys;
    while at < ctx.args.len() {
        if !ctx.is(at, "LIMIT") || at + 1 == ctx.args.len() {
            return Err(CommandError::Syntax);
        }
        let text = ctx.key(at + 1);
        let parsed = parse_i64(text).and_then(|limit| usize::try_from(limit).ok());
        limit = parsed.ok_or(CommandError::err("LIMIT can't be negative"))?;
        at += 2;
    }
    let sets = read_all(ctx.db, &ctx.args.range(2..2 + keys))?;
    let mut found = 0;
    intersect(&sets, &mut |_| {
        found += 1;
        found != limit
    });
    ctx.out.int(found as i64);
    Ok(())
}

/// SUNION key [key ...]
pub(super) fn sunion(ctx: &mut Ctx<'_, '_>) -> Reply {
    let limits = ctx.limits();
    let result = collect(&read_all(ctx.db, &ctx.args.skip(1))?, &limits, unite);
    ctx.out.set(result.len());
    result.iter().for_each(|member| bulk_item(ctx.out, member));
    Ok(())
}

/// SUNIONSTORE destination key [key ...]
pub(super) fn sunionstore(ctx: &mut Ctx<'_, '_>) -> Reply {
    let limits = ctx.limits();
    let result = collect(&read_all(ctx.db, &ctx.args.skip(2))?, &limits, unite);
    store(ctx, result, "sunionstore");
    Ok(())
}

/// SDIFF key [key ...]
pub(super) fn sdiff(ctx: &mut Ctx<'_, '_>) -> Reply {
    let sets = read_all(ctx.db, &ctx.args.skip(1))?;
    let (mark, mut len): (Mark, usize) = (ctx.out.defer(), 0);
    subtract(&sets, &mut |member| {
        bulk_item(ctx.out, member);
        len += 1;
        true
    });
    ctx.out.finish_set(mark, len);
    Ok(())
}

/// SDIFFSTORE destination key [key ...]
pub(super) fn sdiffstore(ctx: &mut Ctx<'_, '_>) -> Reply {
    let limits = ctx.limits();
    let result = collect(&read_all(ctx.db, &ctx.args.skip(2))?, &limits, subtract);
    store(ctx, result, "sdiffstore");
    Ok(())
}

/// Finds the sets of all keys; a missing key stands for an empty set.
fn read_all<'d>(db: &'d Db<'_>, keys: &Args<'_>) -> Result<Vec<Option<&'d Set>>, CommandError> {
    keys.iter().map(|key| db.read(key)).collect()
}

fn collect(sets: &[Option<&Set>], limits: &EncodingLimits, operation: fn(&[Option<&Set>], Visit<'_>)) -> Set {
    let mut result = Set::new();
    operation(sets, &mut |member| {
        result.add_item(member, limits);
        true
    });
    result
}

/// Replaces the destination by the result, or removes it when the result is empty.
fn store(ctx: &mut Ctx<'_, '_>, result: Set, event: &str) {
    let destination = ctx.key(1);
    let len = result.len();
    if len > 0 {
        ctx.db
            .set(destination, Value::Set(Box::new(result)), Expiry::Clear);
        ctx.db.modified(destination);
        ctx.db.notify(Events::SET, event, destination);
        ctx.db.effect_state(destination);
    } else if ctx.db.remove(destination) {
        ctx.db.modified(destination);
        ctx.db.notify(Events::GENERIC, "del", destination);
        ctx.db.effect_state(destination);
    }
    ctx.out.int(len as i64);
}

/// Visits the members of the smallest set that all others have.
fn intersect(sets: &[Option<&Set>], visit: Visit<'_>) {
    let Some(mut sets) = sets.iter().copied().collect::<Option<Vec<&Set>>>() else {
        return;
    };
    sets.sort_by_key(|set| set.len());
    let Some((smallest, others)) = sets.split_first() else {
        return;
    };
    let in_all = |member: &Item<'_>| others.iter().all(|set| set.contains_item(*member));
    for member in smallest.iter().filter(in_all) {
        if !visit(member) {
            return;
        }
    }
}

/// Visits all members of all sets, some of them more than once.
fn unite(sets: &[Option<&Set>], visit: Visit<'_>) {
    for member in sets.iter().flatten().flat_map(|set| set.iter()) {
        visit(member);
    }
}

/// Visits the members of the first set that no other has.
///
/// Either looks each of them up in the other sets, or takes the members of the others out of a copy,
/// whichever is less work.
fn subtract(sets: &[Option<&Set>], visit: Visit<'_>) {
    let Some((Some(first), others)) = sets.split_first() else {
        return;
    };
    let mut others: Vec<&Set> = others.iter().copied().flatten().collect();
    if others.iter().any(|set| std::ptr::eq(*set, *first)) {
        return;
    }
    // A lookup that hits ends the search for its member, so lookups count half.
    let lookups = first.len() * (others.len() + 1) / 2;
    let removals: usize = first.len() + others.iter().map(|set| set.len()).sum::<usize>();
    if lookups <= removals {
        others.sort_by_key(|set| std::cmp::Reverse(set.len()));
        let in_none = |member: &Item<'_>| !others.iter().any(|set| set.contains_item(*member));
        for member in first.iter().filter(in_none) {
            visit(member);
        }
        return;
    }
    let mut rest = (*first).clone();
    for member in others.iter().flat_map(|set| set.iter()) {
        rest.remove_item(member);
    }
    for member in &rest {
        visit(member);
    }
}
