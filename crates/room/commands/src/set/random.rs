//! SPOP and SRANDMEMBER.

use nagaya_command_spec::error::CommandError;
use nagaya_exec::ctx::Ctx;
use nagaya_keyspace::notify::Events;
use nagaya_resp::parse_i64;
use nagaya_store::listpack::Item;
use nagaya_store::rng::{Rng, with_thread_rng};
use nagaya_store::set::Set;

use crate::collection::{Drawn, bulk_item, choose, random_count};

type Reply = Result<(), CommandError>;

/// A set larger than this many times the wish is drawn from; a smaller one is walked.
const DRAW_FACTOR: usize = 3;

/// When more than this many times the rest is to be popped, the rest is moved out instead.
const MOVE_FACTOR: usize = 5;

/// SPOP key [count]
pub(super) fn spop(ctx: &mut Ctx<'_, '_>) -> Reply {
    if ctx.args.len() > 3 {
        return Err(CommandError::Syntax);
    }
    if ctx.args.len() == 3 {
        return spop_many(ctx);
    }
    let key = ctx.key(1);
    let Some(set) = ctx.db.write::<Set>(key)? else {
        ctx.out.nil();
        return Ok(());
    };
    match with_thread_rng(|rng| set.pop(rng)) {
        None => ctx.out.nil(),
        Some(member) => {
            ctx.out.bulk(&member);
            ctx.db.effect(&[b"SREM", key, &member]);
        }
    }
    ctx.db.notify(Events::SET, "spop", key);
    ctx.db.remove_if_empty::<Set>(key);
    ctx.db.modified(key);
    Ok(())
}

fn spop_many(ctx: &mut Ctx<'_, '_>) -> Reply {
    let key = ctx.key(1);
    let limits = ctx.limits();
    let wanted = positive_count(ctx.key(2))?;
    let tells = ctx.db.tells_effects();
    let Some(set) = ctx.db.write::<Set>(key)?.filter(|_| wanted > 0) else {
        ctx.out.set(0);
        return Ok(());
    };
    let rest = set.len().saturating_sub(wanted);
    ctx.out.set(set.len() - rest);
    let keeps_most = rest.saturating_mul(MOVE_FACTOR) > wanted;
    let mut gone = Vec::new();
    if keeps_most {
        with_thread_rng(|rng| {
            for member in (0..wanted).map_while(|_| set.pop(rng)) {
                ctx.out.bulk(&member);
                if tells {
                    gone.push(member);
                }
            }
        });
    } else {
        let mut kept = Set::new();
        with_thread_rng(|rng| {
            for member in (0..rest).map_while(|_| set.pop(rng)) {
                kept.add(&member, &limits);
            }
        });
        let popped = std::mem::replace(set, kept);
        popped.iter().for_each(|member| bulk_item(ctx.out, member));
    }
    ctx.db.notify(Events::SET, "spop", key);
    ctx.db.remove_if_empty::<Set>(key);
    ctx.db.modified(key);
    if keeps_most {
        let head: [&[u8]; 2] = [b"SREM", key];
        let gone = gone.iter().map(|member| &member[..]);
        ctx.db
            .effect_iter(head.len() + gone.len(), head.into_iter().chain(gone));
    } else {
        ctx.db.effect_state(key);
    }
    Ok(())
}

/// SRANDMEMBER key [count]
pub(super) fn srandmember(ctx: &mut Ctx<'_, '_>) -> Reply {
    if ctx.args.len() > 3 {
        return Err(CommandError::Syntax);
    }
    if ctx.args.len() == 2 {
        let set: Option<&Set> = ctx.db.read(ctx.key(1))?;
        match set.and_then(|set| with_thread_rng(|rng| set.random(rng))) {
            None => ctx.out.nil(),
            Some(member) => bulk_item(ctx.out, member),
        }
        return Ok(());
    }
    let count = random_count(ctx.key(2))?;
    let Some(set) = ctx.db.read::<Set>(ctx.key(1))? else {
        ctx.out.array(0);
        return Ok(());
    };
    let wanted = count.unsigned_abs() as usize;
    let len = if count < 0 { wanted } else { wanted.min(set.len()) };
    ctx.out.array(len);
    with_thread_rng(|rng| {
        if count < 0 {
            for member in (0..len).map_while(|_| set.random(rng)) {
                bulk_item(ctx.out, member);
            }
        } else {
            distinct(set, rng, len, |member| bulk_item(ctx.out, member));
        }
    });
    Ok(())
}

fn distinct(set: &Set, rng: &mut Rng, wanted: usize, mut take: impl FnMut(Item<'_>)) {
    if wanted.saturating_mul(DRAW_FACTOR) > set.len() {
        choose(rng, set.iter(), set.len(), wanted, take);
        return;
    }
    let mut drawn = Drawn::default();
    let mut left = wanted;
    while left > 0 {
        let Some(member) = set.random(rng) else { return };
        if drawn.insert(member) {
            take(member);
            left -= 1;
        }
    }
}

fn positive_count(text: &[u8]) -> Result<usize, CommandError> {
    parse_i64(text)
        .and_then(|count| usize::try_from(count).ok())
        .ok_or(CommandError::MustBePositive)
}
