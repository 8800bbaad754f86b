//! Sorted sets.

use nagaya_resp::{Out, Proto};
use nagaya_store::zset::{Entry, Zset};

use crate::members::bulk_item;
use nagaya_command_spec::error::CommandError;
use nagaya_exec::ctx::Ctx;
use nagaya_keyspace::db::{Db, Expiry};
use nagaya_keyspace::notify::Events;

mod add;
mod algebra;
mod pop;
mod random;
mod range;
mod scan;
mod spec;

pub(crate) use add::add_pairs;
pub(crate) use algebra::collect;
pub(crate) use spec::COMMANDS;

type Reply = Result<(), CommandError>;

/// ZCARD key
fn zcard(ctx: &mut Ctx<'_, '_>) -> Reply {
    let members = ctx.db.read::<Zset>(ctx.key(1))?.map_or(0, Zset::len);
    ctx.out.int(members as i64);
    Ok(())
}

/// ZSCORE key member
fn zscore(ctx: &mut Ctx<'_, '_>) -> Reply {
    let score = ctx
        .db
        .read::<Zset>(ctx.key(1))?
        .and_then(|set| set.score(ctx.key(2)));
    write_score_or_nil(ctx.out, score);
    Ok(())
}

/// ZMSCORE key member [member ...]
fn zmscore(ctx: &mut Ctx<'_, '_>) -> Reply {
    let set = ctx.db.read::<Zset>(ctx.key(1))?;
    ctx.out.array(ctx.args.len() - 2);
    for member in ctx.args.iter().skip(2) {
        write_score_or_nil(ctx.out, set.and_then(|set| set.score(member)));
    }
    Ok(())
}

/// ZRANK key member
fn zrank(ctx: &mut Ctx<'_, '_>) -> Reply {
    rank(ctx, false)
}

/// ZREVRANK key member
fn zrevrank(ctx: &mut Ctx<'_, '_>) -> Reply {
    rank(ctx, true)
}

fn rank(ctx: &mut Ctx<'_, '_>, reverse: bool) -> Reply {
    match ctx
        .db
        .read::<Zset>(ctx.key(1))?
        .and_then(|set| set.rank(ctx.key(2), reverse))
    {
        Some(rank) => ctx.out.int(rank as i64),
        None => ctx.out.nil(),
    }
    Ok(())
}

/// ZREM key member [member ...]
fn zrem(ctx: &mut Ctx<'_, '_>) -> Reply {
    let key = ctx.key(1);
    let members = ctx.args.skip(2);
    let removed = match ctx.db.write::<Zset>(key)? {
        None => 0,
        Some(set) => members.iter().filter(|member| set.remove(member)).count(),
    };
    if removed > 0 {
        ctx.db.notify(Events::ZSET, "zrem", key);
        ctx.db.remove_if_empty::<Zset>(key);
        ctx.db.modified(key);
    }
    ctx.out.int(removed as i64);
    Ok(())
}

fn write_score_or_nil(out: &mut Out, score: Option<f64>) {
    match score {
        Some(score) => out.double(score),
        None => out.nil(),
    }
}

/// Writes the header of a list of members: RESP2 counts scores as elements of
/// their own, RESP3 pairs them up.
fn write_header(out: &mut Out, members: usize, with_scores: bool) {
    let flat = with_scores && out.proto == Proto::Resp2;
    out.array(if flat { members * 2 } else { members });
}

fn write_entry(out: &mut Out, entry: Entry<'_>, with_scores: bool) {
    if with_scores && out.proto == Proto::Resp3 {
        out.array(2);
    }
    bulk_item(out, entry.member);
    if with_scores {
        out.double(entry.score);
    }
}

/// Puts a computed set at a key, or removes the key when the set is empty, and replies its size.
pub(crate) fn store(out: &mut Out, db: &mut Db<'_>, key: &[u8], set: Zset, event: &str) {
    let members = set.len();
    if members > 0 {
        db.set(
            key,
            nagaya_store::value::Value::Zset(Box::new(set)),
            Expiry::Clear,
        );
        db.modified(key);
        db.notify(Events::ZSET, event, key);
        db.effect_state(key);
    } else if db.remove(key) {
        db.modified(key);
        db.notify(Events::GENERIC, "del", key);
        db.effect_state(key);
    }
    out.int(members as i64);
}

#[cfg(test)]
mod tests;
