//! Sorted sets.

use nagaya_command_spec::error::CommandError;
use nagaya_exec::ctx::Ctx;
use nagaya_keyspace::notify::Events;
use nagaya_store::zset::Zset;

mod add;
mod algebra;
mod pop;
mod random;
mod range;
mod result;
mod scan;
mod spec;

use result::{Reply, write_score_or_nil};

pub(crate) use add::add_pairs;
pub(crate) use algebra::collect;
pub(crate) use result::store;
pub(crate) use spec::COMMANDS;

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

/// ZRANK key member [WITHSCORE]
fn zrank(ctx: &mut Ctx<'_, '_>) -> Reply {
    rank(ctx, false)
}

/// ZREVRANK key member [WITHSCORE]
fn zrevrank(ctx: &mut Ctx<'_, '_>) -> Reply {
    rank(ctx, true)
}

fn rank(ctx: &mut Ctx<'_, '_>, reverse: bool) -> Reply {
    let with_score = match ctx.args.len() {
        3 => false,
        4 if ctx.is(3, "WITHSCORE") => true,
        4 => return Err(CommandError::Syntax),
        _ => return Err(CommandError::wrong_arity(&ctx.command.full_name)),
    };
    let found = ctx.db.read::<Zset>(ctx.key(1))?.and_then(|set| {
        let rank = set.rank(ctx.key(2), reverse)?;
        Some((rank, set.score(ctx.key(2))?))
    });
    match found {
        Some((rank, score)) if with_score => {
            ctx.out.array(2);
            ctx.out.int(rank as i64);
            ctx.out.double(score);
        }
        Some((rank, _)) => ctx.out.int(rank as i64),
        None if with_score => ctx.out.nil_array(),
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

#[cfg(test)]
mod tests;
