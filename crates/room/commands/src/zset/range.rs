//! Ranges by rank, score and member: reading, counting, storing, removing.

use std::ops::Range;

use nagaya_command_spec::error::CommandError;
use nagaya_exec::ctx::Ctx;
use nagaya_keyspace::notify::Events;
use nagaya_resp::parse_f64;
use nagaya_store::listpack::ItemBuf;
use nagaya_store::zset::{LexBound, LexRange, ScoreRange, Zset};

use super::result::{Reply, store, write_entry, write_header};

/// What the two ends of a range mean.
#[derive(Clone, Copy, PartialEq, Eq)]
enum By {
    Rank,
    Score,
    Lex,
}

/// The two ends of a range, read.
enum Bounds<'a> {
    Rank(i64, i64),
    Score(ScoreRange),
    Lex(LexRange<'a>),
}

/// What a command's name settles before its options are read.
#[derive(Clone, Copy, Default)]
struct Preset {
    by: Option<By>,
    reverse: Option<bool>,
}

/// A range command's arguments, read.
struct Query<'a> {
    bounds: Bounds<'a>,
    reverse: bool,
    with_scores: bool,
    offset: i64,
    limit: i64,
}

/// ZRANGE key start stop [BYSCORE | BYLEX] [REV] [LIMIT offset count] [WITHSCORES]
pub(super) fn zrange(ctx: &mut Ctx<'_, '_>) -> Reply {
    reply_range(ctx, Preset::default())
}

/// ZREVRANGE key start stop [WITHSCORES]
pub(super) fn zrevrange(ctx: &mut Ctx<'_, '_>) -> Reply {
    reply_range(ctx, preset(By::Rank, true))
}

/// ZRANGEBYSCORE key min max [WITHSCORES] [LIMIT offset count]
pub(super) fn zrangebyscore(ctx: &mut Ctx<'_, '_>) -> Reply {
    reply_range(ctx, preset(By::Score, false))
}

/// ZREVRANGEBYSCORE key max min [WITHSCORES] [LIMIT offset count]
pub(super) fn zrevrangebyscore(ctx: &mut Ctx<'_, '_>) -> Reply {
    reply_range(ctx, preset(By::Score, true))
}

/// ZRANGEBYLEX key min max [LIMIT offset count]
pub(super) fn zrangebylex(ctx: &mut Ctx<'_, '_>) -> Reply {
    reply_range(ctx, preset(By::Lex, false))
}

/// ZREVRANGEBYLEX key max min [LIMIT offset count]
pub(super) fn zrevrangebylex(ctx: &mut Ctx<'_, '_>) -> Reply {
    reply_range(ctx, preset(By::Lex, true))
}

fn preset(by: By, reverse: bool) -> Preset {
    Preset {
        by: Some(by),
        reverse: Some(reverse),
    }
}

fn reply_range(ctx: &mut Ctx<'_, '_>, preset: Preset) -> Reply {
    let query = read_query(ctx, 1, preset, false)?;
    let Some(set) = ctx.db.read::<Zset>(ctx.key(1))? else {
        ctx.out.array(0);
        return Ok(());
    };
    let entries = set.range(query.ranks(set), query.reverse);
    write_header(ctx.out, entries.len(), query.with_scores);
    for entry in entries {
        write_entry(ctx.out, entry, query.with_scores);
    }
    Ok(())
}

/// ZRANGESTORE destination source start stop [BYSCORE | BYLEX] [REV] [LIMIT offset count]
pub(super) fn zrangestore(ctx: &mut Ctx<'_, '_>) -> Reply {
    let query = read_query(ctx, 2, Preset::default(), true)?;
    let limits = ctx.limits();
    let mut result = Zset::new();
    if let Some(set) = ctx.db.read::<Zset>(ctx.key(2))? {
        let entries = set.range(query.ranks(set), query.reverse);
        if let Bounds::Rank(..) = query.bounds {
            result = Zset::with_room(entries.len(), 0, &limits);
        }
        for entry in entries {
            result.insert(entry.score, entry.member.as_bytes(&mut ItemBuf::new()), &limits);
        }
    }
    store(ctx.out, ctx.db, ctx.key(1), result, "zrangestore");
    Ok(())
}

/// ZCOUNT key min max
pub(super) fn zcount(ctx: &mut Ctx<'_, '_>) -> Reply {
    count(ctx, By::Score)
}

/// ZLEXCOUNT key min max
pub(super) fn zlexcount(ctx: &mut Ctx<'_, '_>) -> Reply {
    count(ctx, By::Lex)
}

fn count(ctx: &mut Ctx<'_, '_>, by: By) -> Reply {
    let bounds = read_bounds(ctx, by, 2, 3)?;
    let members = ctx
        .db
        .read::<Zset>(ctx.key(1))?
        .map_or(0, |set| bounds.ranks(set).len());
    ctx.out.int(members as i64);
    Ok(())
}

/// ZREMRANGEBYRANK key start stop
pub(super) fn zremrangebyrank(ctx: &mut Ctx<'_, '_>) -> Reply {
    remove_range(ctx, By::Rank, "zremrangebyrank")
}

/// ZREMRANGEBYSCORE key min max
pub(super) fn zremrangebyscore(ctx: &mut Ctx<'_, '_>) -> Reply {
    remove_range(ctx, By::Score, "zremrangebyscore")
}

/// ZREMRANGEBYLEX key min max
pub(super) fn zremrangebylex(ctx: &mut Ctx<'_, '_>) -> Reply {
    remove_range(ctx, By::Lex, "zremrangebylex")
}

fn remove_range(ctx: &mut Ctx<'_, '_>, by: By, event: &str) -> Reply {
    let key = ctx.key(1);
    let bounds = read_bounds(ctx, by, 2, 3)?;
    let removed = match ctx.db.write::<Zset>(key)? {
        None => 0,
        Some(set) => set.remove_ranks(bounds.ranks(set)),
    };
    if removed > 0 {
        ctx.db.modified(key);
        ctx.db.notify(Events::ZSET, event, key);
        ctx.db.remove_if_empty::<Zset>(key);
    }
    ctx.out.int(removed as i64);
    Ok(())
}

/// Reads the arguments from the source key on.
fn read_query<'c>(
    ctx: &Ctx<'c, '_>,
    source: usize,
    preset: Preset,
    store: bool,
) -> Result<Query<'c>, CommandError> {
    let Preset { mut by, mut reverse } = preset;
    let (mut with_scores, mut offset, mut limit) = (false, 0, -1);
    let mut at = source + 3;
    while at < ctx.args.len() {
        if !store && ctx.is(at, "withscores") {
            with_scores = true;
        } else if ctx.is(at, "limit") && at + 2 < ctx.args.len() {
            (offset, limit) = (ctx.int(at + 1)?, ctx.int(at + 2)?);
            at += 2;
        } else if reverse.is_none() && ctx.is(at, "rev") {
            reverse = Some(true);
        } else if by.is_none() && ctx.is(at, "bylex") {
            by = Some(By::Lex);
        } else if by.is_none() && ctx.is(at, "byscore") {
            by = Some(By::Score);
        } else {
            return Err(CommandError::Syntax);
        }
        at += 1;
    }
    let (by, reverse) = (by.unwrap_or(By::Rank), reverse.unwrap_or(false));
    if limit != -1 && by == By::Rank {
        return Err(CommandError::err(
            "syntax error, LIMIT is only supported in combination with either BYSCORE or BYLEX",
        ));
    }
    if with_scores && by == By::Lex {
        return Err(CommandError::err(
            "syntax error, WITHSCORES not supported in combination with BYLEX",
        ));
    }
    // Scores and members are given highest first when the range is reversed.
    let (min, max) = match reverse && by != By::Rank {
        true => (source + 2, source + 1),
        false => (source + 1, source + 2),
    };
    Ok(Query {
        bounds: read_bounds(ctx, by, min, max)?,
        reverse,
        with_scores,
        offset,
        limit,
    })
}

fn read_bounds<'c>(ctx: &Ctx<'c, '_>, by: By, min: usize, max: usize) -> Result<Bounds<'c>, CommandError> {
    match by {
        By::Rank => Ok(Bounds::Rank(ctx.int(min)?, ctx.int(max)?)),
        By::Score => match (score_bound(ctx.key(min)), score_bound(ctx.key(max))) {
            (Some((min, min_excluded)), Some((max, max_excluded))) => Ok(Bounds::Score(ScoreRange {
                min,
                min_excluded,
                max,
                max_excluded,
            })),
            _ => Err(CommandError::err("min or max is not a float")),
        },
        By::Lex => match (LexBound::parse(ctx.key(min)), LexBound::parse(ctx.key(max))) {
            (Some(min), Some(max)) => Ok(Bounds::Lex(LexRange { min, max })),
            _ => Err(CommandError::err("min or max not valid string range item")),
        },
    }
}

/// Reads a score, excluded from its range when a parenthesis stands before it.
fn score_bound(text: &[u8]) -> Option<(f64, bool)> {
    match text.split_first() {
        Some((b'(', rest)) => Some((loose_float(rest)?, true)),
        _ => Some((loose_float(text)?, false)),
    }
}

/// Reads a number as C's `strtod` does where its caller checks only that nothing
/// follows: leading space, an empty text (zero) and overflow (infinity) pass.
fn loose_float(text: &[u8]) -> Option<f64> {
    let text = &text[..memchr::memchr(0, text).unwrap_or(text.len())];
    if text.is_empty() {
        return Some(0.0);
    }
    let is_space = |byte: &u8| matches!(byte, b' ' | b'\t'..=b'\r');
    let start = text.iter().position(|byte| !is_space(byte))?;
    let number = &text[start..];
    if let Some(value) = parse_f64(number) {
        return Some(value);
    }
    // What the strict reader refuses may still be a number beyond the range of doubles.
    let value: f64 = std::str::from_utf8(number).ok()?.parse().ok()?;
    (!value.is_nan()).then_some(value)
}

impl Bounds<'_> {
    /// Returns the ranks that lie in the range, lowest first.
    fn ranks(&self, set: &Zset) -> Range<usize> {
        match self {
            Bounds::Rank(start, stop) => rank_range(*start, *stop, set.len()),
            Bounds::Score(range) => set.score_ranks(range),
            Bounds::Lex(range) => set.lex_ranks(range),
        }
    }
}

impl Query<'_> {
    /// Returns the ranks that the query selects, lowest first.
    fn ranks(&self, set: &Zset) -> Range<usize> {
        let ranks = self.bounds.ranks(set);
        if let Bounds::Rank(..) = self.bounds {
            return match self.reverse {
                true => set.len() - ranks.end..set.len() - ranks.start,
                false => ranks,
            };
        }
        // A negative offset skips everything, a negative limit is none.
        let skipped = usize::try_from(self.offset).map_or(ranks.len(), |offset| offset.min(ranks.len()));
        let left = ranks.len() - skipped;
        let taken = usize::try_from(self.limit).map_or(left, |limit| limit.min(left));
        let start = match self.reverse {
            true => ranks.end - skipped - taken,
            false => ranks.start + skipped,
        };
        start..start + taken
    }
}

/// Turns Redis's inclusive ranks, negative ones counted from the end, into a range.
fn rank_range(start: i64, stop: i64, len: usize) -> Range<usize> {
    let len = len as i64;
    let from_end = |at: i64| if at < 0 { len.saturating_add(at) } else { at };
    let (start, stop) = (from_end(start).max(0), from_end(stop));
    if start > stop || start >= len {
        return 0..0;
    }
    start as usize..stop.min(len - 1) as usize + 1
}
