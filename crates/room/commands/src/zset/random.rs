//! ZRANDMEMBER.

use std::collections::HashSet;

use nagaya_command_spec::error::CommandError;
use nagaya_exec::ctx::Ctx;
use nagaya_store::rng::with_thread_rng;
use nagaya_store::zset::Zset;

use super::result::{Reply, write_entry, write_header};
use crate::collection::{bulk_item, choose, random_count};

/// ZRANDMEMBER key [count [WITHSCORES]]
pub(super) fn zrandmember(ctx: &mut Ctx<'_, '_>) -> Reply {
    let Some(count) = ctx.args.get(2) else {
        return one(ctx);
    };
    let count = random_count(count)?;
    let with_scores = match ctx.args.len() {
        3 => false,
        4 if ctx.is(3, "withscores") => true,
        _ => return Err(CommandError::Syntax),
    };
    if with_scores && count.unsigned_abs() > i64::MAX as u64 / 2 {
        return Err(CommandError::OutOfRange);
    }
    several(ctx, count, with_scores)
}

fn one(ctx: &mut Ctx<'_, '_>) -> Reply {
    let set = ctx.db.read::<Zset>(ctx.key(1))?;
    match set.and_then(|set| set.get(with_thread_rng(|rng| rng.below(set.len())))) {
        Some(entry) => bulk_item(ctx.out, entry.member),
        None => ctx.out.nil(),
    }
    Ok(())
}

/// A negative count draws anew for each member, so members may repeat; a positive one draws distinct members.
fn several(ctx: &mut Ctx<'_, '_>, count: i64, with_scores: bool) -> Reply {
    let (distinct, count) = (
        count >= 0,
        usize::try_from(count.unsigned_abs()).unwrap_or(usize::MAX),
    );
    let set = match ctx.db.read::<Zset>(ctx.key(1))? {
        Some(set) if count > 0 => set,
        _ => {
            ctx.out.array(0);
            return Ok(());
        }
    };
    let size = set.len();
    if !distinct || count == 1 {
        write_header(ctx.out, count, with_scores);
        for _ in 0..count {
            let rank = with_thread_rng(|rng| rng.below(size));
            if let Some(entry) = set.get(rank) {
                write_entry(ctx.out, entry, with_scores);
            }
        }
        return Ok(());
    }
    write_header(ctx.out, count.min(size), with_scores);
    if count >= size {
        for entry in set.range(0..size, true) {
            write_entry(ctx.out, entry, with_scores);
        }
    } else if count > size / 3 {
        with_thread_rng(|rng| {
            choose(rng, set.iter(), size, count, |entry| {
                write_entry(ctx.out, entry, with_scores)
            })
        });
    } else {
        let mut seen = HashSet::with_capacity(count);
        while seen.len() < count {
            let rank = with_thread_rng(|rng| rng.below(size));
            if seen.insert(rank)
                && let Some(entry) = set.get(rank)
            {
                write_entry(ctx.out, entry, with_scores);
            }
        }
    }
    Ok(())
}
