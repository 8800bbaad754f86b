//! Taking the lowest or highest members, at once or when there are some.

use nagaya_command_spec::error::CommandError;
use nagaya_connections::blocking::TimeoutReply;
use nagaya_exec::ctx::{Ctx, KeyWait};
use nagaya_keyspace::notify::Events;
use nagaya_resp::{Proto, parse_i64};
use nagaya_store::value::ValueKind;
use nagaya_store::zset::Zset;

use super::result::Reply;
use crate::collection::bulk_item;

/// Which end of a set is taken from.
#[derive(Clone, Copy, PartialEq, Eq)]
enum End {
    Lowest,
    Highest,
}

/// ZPOPMIN key [count]
pub(super) fn zpopmin(ctx: &mut Ctx<'_, '_>) -> Reply {
    zpop(ctx, End::Lowest)
}

/// ZPOPMAX key [count]
pub(super) fn zpopmax(ctx: &mut Ctx<'_, '_>) -> Reply {
    zpop(ctx, End::Highest)
}

fn zpop(ctx: &mut Ctx<'_, '_>, end: End) -> Reply {
    if ctx.args.len() > 3 {
        return Err(CommandError::Syntax);
    }
    let key = ctx.key(1);
    let count = match ctx.args.get(2) {
        None => None,
        Some(text) => {
            let count = parse_i64(text).and_then(|count| usize::try_from(count).ok());
            Some(count.ok_or(CommandError::MustBePositive)?)
        }
    };
    let available = size(ctx, key)?.unwrap_or(0);
    let taken = count.unwrap_or(1).min(available);
    if taken == 0 {
        ctx.out.array(0);
        return Ok(());
    }
    // RESP3 pairs members and scores up, but only where a count was asked for.
    let nested = count.is_some() && ctx.out.proto == Proto::Resp3;
    ctx.out.array(if nested { taken } else { taken * 2 });
    pop(ctx, key, end, taken, nested)
}

/// ZMPOP numkeys key [key ...] MIN | MAX [COUNT count]
pub(super) fn zmpop(ctx: &mut Ctx<'_, '_>) -> Reply {
    let (keys, end, count) = read_mpop(ctx, 1)?;
    for at in keys {
        if mpop(ctx, at, end, count)? {
            return Ok(());
        }
    }
    ctx.out.nil_array();
    Ok(())
}

/// BZMPOP timeout numkeys key [key ...] MIN | MAX [COUNT count]
pub(super) fn bzmpop(ctx: &mut Ctx<'_, '_>) -> Reply {
    let (keys, end, count) = read_mpop(ctx, 2)?;
    let timeout_ms = ctx.timeout(1)?;
    for at in keys.clone() {
        if mpop(ctx, at, end, count)? {
            return Ok(());
        }
    }
    wait(ctx, keys, timeout_ms);
    Ok(())
}

/// BZPOPMIN key [key ...] timeout
pub(super) fn bzpopmin(ctx: &mut Ctx<'_, '_>) -> Reply {
    bzpop(ctx, End::Lowest)
}

/// BZPOPMAX key [key ...] timeout
pub(super) fn bzpopmax(ctx: &mut Ctx<'_, '_>) -> Reply {
    bzpop(ctx, End::Highest)
}

fn bzpop(ctx: &mut Ctx<'_, '_>, end: End) -> Reply {
    let last = ctx.args.len() - 1;
    let timeout_ms = ctx.timeout(last)?;
    for at in 1..last {
        let key = ctx.key(at);
        if size(ctx, key)?.is_some() {
            ctx.out.array(3);
            ctx.out.bulk(key);
            return pop(ctx, key, end, 1, false);
        }
    }
    wait(ctx, 1..last, timeout_ms);
    Ok(())
}

fn wait(ctx: &mut Ctx<'_, '_>, keys: std::ops::Range<usize>, timeout_ms: i64) {
    let keys = keys.map(|at| ctx.key(at)).collect();
    ctx.wait(KeyWait {
        keys,
        wake_on: ValueKind::Zset,
        wake_on_loss: false,
        timeout_ms,
        on_timeout: TimeoutReply::NilArray,
        run_instead: None,
    });
}

/// Reads what ZMPOP and BZMPOP share, from the number of keys on.
fn read_mpop(
    ctx: &Ctx<'_, '_>,
    count_at: usize,
) -> Result<(std::ops::Range<usize>, End, usize), CommandError> {
    let positive = |at: usize| parse_i64(ctx.key(at)).filter(|&number| number > 0);
    let keys = positive(count_at).ok_or(CommandError::err("numkeys should be greater than 0"))?;
    let first = count_at + 1;
    let end_at = usize::try_from(keys)
        .ok()
        .and_then(|keys| first.checked_add(keys));
    let end_at = end_at
        .filter(|&at| at < ctx.args.len())
        .ok_or(CommandError::Syntax)?;
    let end = match () {
        () if ctx.is(end_at, "min") => End::Lowest,
        () if ctx.is(end_at, "max") => End::Highest,
        () => return Err(CommandError::Syntax),
    };
    let count = match ctx.args.len() - end_at - 1 {
        0 => 1,
        rest if rest >= 2 && ctx.is(end_at + 1, "count") => {
            let count = positive(end_at + 2).ok_or(CommandError::err("count should be greater than 0"))?;
            if rest > 2 {
                return Err(CommandError::Syntax);
            }
            usize::try_from(count).unwrap_or(usize::MAX)
        }
        _ => return Err(CommandError::Syntax),
    };
    Ok((first..end_at, end, count))
}

/// Takes members from one key, with its name before them; false when the key is missing.
fn mpop(ctx: &mut Ctx<'_, '_>, at: usize, end: End, count: usize) -> Result<bool, CommandError> {
    let key = ctx.key(at);
    let Some(size) = size(ctx, key)? else {
        return Ok(false);
    };
    let taken = count.min(size);
    ctx.out.array(2);
    ctx.out.bulk(key);
    ctx.out.array(taken);
    pop(ctx, key, end, taken, true)?;
    Ok(true)
}

/// Returns how many members a key has, if it is there.
///
/// A client that has begun to wait is no longer told that another of its keys holds something else.
fn size(ctx: &mut Ctx<'_, '_>, key: &[u8]) -> Result<Option<usize>, CommandError> {
    match ctx.db.write::<Zset>(key) {
        Err(_) if ctx.session.woken_by.is_some() => Ok(None),
        found => Ok(found?.map(|set| set.len())),
    }
}

/// Takes and writes members; the caller has written the header and checked how many there are.
fn pop(ctx: &mut Ctx<'_, '_>, key: &[u8], end: End, taken: usize, nested: bool) -> Reply {
    let Some(set) = ctx.db.write::<Zset>(key)? else {
        unreachable!("the caller has just found the set");
    };
    let ranks = match end {
        End::Lowest => 0..taken,
        End::Highest => set.len() - taken..set.len(),
    };
    for entry in set.range(ranks.clone(), end == End::Highest) {
        if nested {
            ctx.out.array(2);
        }
        bulk_item(ctx.out, entry.member);
        ctx.out.double(entry.score);
    }
    set.remove_ranks(ranks);
    let (event, name): (&str, &[u8]) = match end {
        End::Lowest => ("zpopmin", b"ZPOPMIN"),
        End::Highest => ("zpopmax", b"ZPOPMAX"),
    };
    ctx.db.notify(Events::ZSET, event, key);
    ctx.db.modified(key);
    ctx.db.remove_if_empty::<Zset>(key);
    let mut text = itoa::Buffer::new();
    ctx.db.effect(&[name, key, text.format(taken).as_bytes()]);
    Ok(())
}
