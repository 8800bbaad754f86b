//! ZADD and ZINCRBY, which GEOADD borrows.

use nagaya_command_spec::error::CommandError;
use nagaya_exec::ctx::Ctx;
use nagaya_keyspace::notify::Events;
use nagaya_store::zset::{AddFlags, AddOutcome, Zset};

use super::result::Reply;

/// Requests of up to this many pairs need no allocation for their scores.
const FEW_PAIRS: usize = 8;

/// ZADD key [NX | XX] [GT | LT] [CH] [INCR] score member [score member ...]
pub(super) fn zadd(ctx: &mut Ctx<'_, '_>) -> Reply {
    add(ctx, AddFlags::default())
}

/// ZINCRBY key increment member
///
/// Takes ZADD's options too, as Redis does; its arity leaves no room for a useful one.
pub(super) fn zincrby(ctx: &mut Ctx<'_, '_>) -> Reply {
    add(
        ctx,
        AddFlags {
            incr: true,
            ..AddFlags::default()
        },
    )
}

fn add(ctx: &mut Ctx<'_, '_>, mut flags: AddFlags) -> Reply {
    let (mut first, mut count_changed) = (2, false);
    while let Some(option) = ctx.args.get(first) {
        let is = |word: &str| option.eq_ignore_ascii_case(word.as_bytes());
        match () {
            () if is("nx") => flags.nx = true,
            () if is("xx") => flags.xx = true,
            () if is("gt") => flags.gt = true,
            () if is("lt") => flags.lt = true,
            () if is("incr") => flags.incr = true,
            () if is("ch") => count_changed = true,
            () => break,
        }
        first += 1;
    }
    let rest = ctx.args.len() - first;
    if rest == 0 || !rest.is_multiple_of(2) {
        return Err(CommandError::Syntax);
    }
    check_options(flags, rest / 2)?;
    let (mut few, mut many) = ([0.0; FEW_PAIRS], Vec::new());
    let scores = match few.get_mut(..rest / 2) {
        Some(few) => few,
        None => {
            many.resize(rest / 2, 0.0);
            &mut many[..]
        }
    };
    for (pair, score) in scores.iter_mut().enumerate() {
        *score = ctx.float(first + pair * 2)?;
    }
    let members = ctx.args;
    add_pairs(
        ctx,
        scores,
        |pair| &members[first + 1 + pair * 2],
        flags,
        count_changed,
    )
}

fn check_options(flags: AddFlags, pairs: usize) -> Reply {
    if flags.nx && flags.xx {
        return Err(CommandError::err(
            "XX and NX options at the same time are not compatible",
        ));
    }
    if (flags.nx && (flags.gt || flags.lt)) || (flags.gt && flags.lt) {
        return Err(CommandError::err(
            "GT, LT, and/or NX options at the same time are not compatible",
        ));
    }
    if flags.incr && pairs > 1 {
        return Err(CommandError::err(
            "INCR option supports a single increment-element pair",
        ));
    }
    Ok(())
}

/// Adds members with their scores to the set at the first key and replies as ZADD does.
///
/// When a sum is not a number the pairs before it stay added, as in Redis.
pub(crate) fn add_pairs<'a>(
    ctx: &mut Ctx<'_, '_>,
    scores: &[f64],
    member: impl Fn(usize) -> &'a [u8],
    flags: AddFlags,
    count_changed: bool,
) -> Reply {
    let key = ctx.key(1);
    let limits = ctx.limits();
    let (mut added, mut updated, mut last) = (0, 0, None);
    let mut failed = false;
    let set = match flags.xx {
        true => ctx.db.write::<Zset>(key)?,
        false => Some(ctx.db.write_or_create::<Zset>(key)?),
    };
    if let Some(set) = set {
        for (pair, &score) in scores.iter().enumerate() {
            match set.add(score, member(pair), flags, &limits) {
                AddOutcome::Added(score) => {
                    added += 1;
                    last = Some(score);
                }
                AddOutcome::Updated(score) => {
                    updated += 1;
                    last = Some(score);
                }
                AddOutcome::Unchanged(score) => last = Some(score),
                AddOutcome::Skipped => (),
                AddOutcome::NotANumber => {
                    failed = true;
                    break;
                }
            }
        }
    }
    if added + updated > 0 {
        ctx.db.modified(key);
        ctx.db
            .notify(Events::ZSET, if flags.incr { "zincr" } else { "zadd" }, key);
    }
    if failed {
        return Err(CommandError::err("resulting score is not a number (NaN)"));
    }
    if flags.incr {
        super::result::write_score_or_nil(ctx.out, last);
    } else {
        ctx.out.int(if count_changed { added + updated } else { added });
    }
    Ok(())
}
