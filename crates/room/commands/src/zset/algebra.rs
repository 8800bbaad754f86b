//! Union, intersection and difference of sorted sets and plain sets.
//!
//! A plain set takes part as a sorted set whose scores are all 1. Inputs of a
//! union or intersection are taken from the smallest to the largest, in that
//! order: with floating point sums the order shows in the last digit.

use std::collections::HashMap;
use std::collections::hash_map::Entry;

use nagaya_command_spec::error::CommandError;
use nagaya_exec::ctx::Ctx;
use nagaya_keyspace::db::Db;
use nagaya_resp::{parse_f64, parse_i64};
use nagaya_store::limits::EncodingLimits;
use nagaya_store::listpack::{Item, ItemBuf};
use nagaya_store::set::Set;
use nagaya_store::zset::{self, Zset};

use super::result::{Reply, store, write_entry, write_header};

#[derive(Clone, Copy, PartialEq, Eq)]
enum Operation {
    Union,
    Intersection,
    Difference,
}

/// How the scores of one member in several inputs become one.
#[derive(Clone, Copy)]
enum Aggregate {
    Sum,
    Min,
    Max,
}

/// What an input key holds.
#[derive(Clone, Copy)]
enum Source<'a> {
    Missing,
    Plain(&'a Set),
    Sorted(&'a Zset),
}

struct Input<'a> {
    source: Source<'a>,
    weight: f64,
}

/// A computed set, not yet in order.
type Pairs = Vec<(Vec<u8>, f64)>;

/// ZUNION numkeys key [key ...] [WEIGHTS weight ...] [AGGREGATE SUM | MIN | MAX] [WITHSCORES]
pub(super) fn zunion(ctx: &mut Ctx<'_, '_>) -> Reply {
    reply(ctx, Operation::Union)
}

/// ZINTER numkeys key [key ...] [WEIGHTS weight ...] [AGGREGATE SUM | MIN | MAX] [WITHSCORES]
pub(super) fn zinter(ctx: &mut Ctx<'_, '_>) -> Reply {
    reply(ctx, Operation::Intersection)
}

/// ZDIFF numkeys key [key ...] [WITHSCORES]
pub(super) fn zdiff(ctx: &mut Ctx<'_, '_>) -> Reply {
    reply(ctx, Operation::Difference)
}

/// ZUNIONSTORE destination numkeys key [key ...] [WEIGHTS weight ...] [AGGREGATE SUM | MIN | MAX]
pub(super) fn zunionstore(ctx: &mut Ctx<'_, '_>) -> Reply {
    compute_and_store(ctx, Operation::Union, "zunionstore")
}

/// ZINTERSTORE destination numkeys key [key ...] [WEIGHTS weight ...] [AGGREGATE SUM | MIN | MAX]
pub(super) fn zinterstore(ctx: &mut Ctx<'_, '_>) -> Reply {
    compute_and_store(ctx, Operation::Intersection, "zinterstore")
}

/// ZDIFFSTORE destination numkeys key [key ...]
pub(super) fn zdiffstore(ctx: &mut Ctx<'_, '_>) -> Reply {
    compute_and_store(ctx, Operation::Difference, "zdiffstore")
}

/// ZINTERCARD numkeys key [key ...] [LIMIT limit]
pub(super) fn zintercard(ctx: &mut Ctx<'_, '_>) -> Reply {
    let mut inputs = read_inputs(ctx, &*ctx.db, 1)?;
    let mut limit = 0;
    let mut at = 2 + inputs.len();
    while at < ctx.args.len() {
        if !ctx.is(at, "limit") || at + 1 >= ctx.args.len() {
            return Err(CommandError::Syntax);
        }
        let number = parse_i64(ctx.key(at + 1)).and_then(|number| usize::try_from(number).ok());
        limit = number.ok_or(CommandError::err("LIMIT can't be negative"))?;
        at += 2;
    }
    inputs.sort_by_key(|input| input.source.len());
    let mut found = 0;
    if let Some((smallest, others)) = inputs.split_first() {
        smallest.source.for_each(|member, _| {
            found += usize::from(others.iter().all(|other| other.source.score(member).is_some()));
            limit == 0 || found < limit
        });
    }
    ctx.out.int(found as i64);
    Ok(())
}

fn reply(ctx: &mut Ctx<'_, '_>, operation: Operation) -> Reply {
    let (mut pairs, with_scores) = compute(ctx, operation, 1, true)?;
    sort(&mut pairs);
    write_header(ctx.out, pairs.len(), with_scores);
    for (member, score) in &pairs {
        let entry = zset::Entry {
            member: Item::Str(member),
            score: *score,
        };
        write_entry(ctx.out, entry, with_scores);
    }
    Ok(())
}

fn compute_and_store(ctx: &mut Ctx<'_, '_>, operation: Operation, event: &str) -> Reply {
    let (pairs, _) = compute(ctx, operation, 2, false)?;
    let result = collect(pairs, &ctx.limits());
    store(ctx.out, ctx.db, ctx.key(1), result, event);
    Ok(())
}

/// Makes a set of members that are all different.
pub(crate) fn collect(mut pairs: Pairs, limits: &EncodingLimits) -> Zset {
    sort(&mut pairs);
    let longest = pairs.iter().map(|(member, _)| member.len()).max().unwrap_or(0);
    let mut set = Zset::with_room(pairs.len(), longest, limits);
    for (member, score) in &pairs {
        set.insert(*score, member, limits);
    }
    set
}

fn sort(pairs: &mut Pairs) {
    pairs.sort_unstable_by(|a, b| {
        let scores = a.1.partial_cmp(&b.1).expect("a score is never NaN");
        scores.then_with(|| a.0.cmp(&b.0))
    });
}

/// Reads the arguments from the number of keys on and computes; also tells whether scores were asked for.
fn compute(
    ctx: &Ctx<'_, '_>,
    operation: Operation,
    count_at: usize,
    may_reply_scores: bool,
) -> Result<(Pairs, bool), CommandError> {
    let mut inputs = read_inputs(ctx, &*ctx.db, count_at)?;
    let (mut aggregate, mut with_scores) = (Aggregate::Sum, false);
    let weighted = operation != Operation::Difference;
    let mut at = count_at + 1 + inputs.len();
    while at < ctx.args.len() {
        let left = ctx.args.len() - at;
        if weighted && left > inputs.len() && ctx.is(at, "weights") {
            for (input, at) in inputs.iter_mut().zip(at + 1..) {
                let weight = parse_f64(ctx.key(at));
                input.weight = weight.ok_or(CommandError::err("weight value is not a float"))?;
            }
            at += 1 + inputs.len();
        } else if weighted && left >= 2 && ctx.is(at, "aggregate") {
            aggregate = match () {
                () if ctx.is(at + 1, "sum") => Aggregate::Sum,
                () if ctx.is(at + 1, "min") => Aggregate::Min,
                () if ctx.is(at + 1, "max") => Aggregate::Max,
                () => return Err(CommandError::Syntax),
            };
            at += 2;
        } else if may_reply_scores && ctx.is(at, "withscores") {
            with_scores = true;
            at += 1;
        } else {
            return Err(CommandError::Syntax);
        }
    }
    if weighted {
        inputs.sort_by_key(|input| input.source.len());
    }
    let pairs = match operation {
        Operation::Union => union(&inputs, aggregate),
        Operation::Intersection => intersection(&inputs, aggregate),
        Operation::Difference => difference(&inputs),
    };
    Ok((pairs, with_scores))
}

/// Reads the number of keys and looks the keys up.
fn read_inputs<'d>(
    ctx: &Ctx<'_, '_>,
    db: &'d Db<'_>,
    count_at: usize,
) -> Result<Vec<Input<'d>>, CommandError> {
    let count = ctx.int(count_at)?;
    if count < 1 {
        let name = &ctx.command.full_name;
        return Err(CommandError::err(format!(
            "at least 1 input key is needed for '{name}' command"
        )));
    }
    let room = ctx.args.len() - count_at - 1;
    let count = usize::try_from(count)
        .ok()
        .filter(|&count| count <= room)
        .ok_or(CommandError::Syntax)?;
    let keys = count_at + 1..count_at + 1 + count;
    keys.map(|at| {
        let source = match db.entry(ctx.key(at)) {
            None => Source::Missing,
            Some(entry) => match (entry.collection(), entry.collection()) {
                (Some(sorted), _) => Source::Sorted(sorted),
                (_, Some(plain)) => Source::Plain(plain),
                (None, None) => return Err(CommandError::WrongType),
            },
        };
        Ok(Input { source, weight: 1.0 })
    })
    .collect()
}

fn union(inputs: &[Input<'_>], aggregate: Aggregate) -> Pairs {
    let largest = inputs.last().map_or(0, |input| input.source.len());
    let mut scores: HashMap<Vec<u8>, f64, ahash::RandomState> =
        HashMap::with_capacity_and_hasher(largest, ahash::RandomState::new());
    for input in inputs {
        input.source.for_each(|member, score| {
            let score = weigh(score, input.weight);
            match scores.entry(member.to_vec()) {
                Entry::Occupied(mut known) => aggregate.add(known.get_mut(), score),
                Entry::Vacant(free) => drop(free.insert(score)),
            }
            true
        });
    }
    scores.into_iter().collect()
}

fn intersection(inputs: &[Input<'_>], aggregate: Aggregate) -> Pairs {
    let mut pairs = Pairs::new();
    let Some((smallest, others)) = inputs.split_first() else {
        return pairs;
    };
    smallest.source.for_each(|member, score| {
        let mut score = weigh(score, smallest.weight);
        let everywhere = others.iter().all(|other| match other.source.score(member) {
            None => false,
            Some(found) => {
                aggregate.add(&mut score, found * other.weight);
                true
            }
        });
        if everywhere {
            pairs.push((member.to_vec(), score));
        }
        true
    });
    pairs
}

fn difference(inputs: &[Input<'_>]) -> Pairs {
    let mut pairs = Pairs::new();
    let Some((first, others)) = inputs.split_first() else {
        return pairs;
    };
    first.source.for_each(|member, score| {
        if others.iter().all(|other| other.source.score(member).is_none()) {
            pairs.push((member.to_vec(), score));
        }
        true
    });
    pairs
}

/// Multiplies a score; zero times infinity counts as zero.
fn weigh(score: f64, weight: f64) -> f64 {
    let weighted = weight * score;
    if weighted.is_nan() { 0.0 } else { weighted }
}

impl Aggregate {
    fn add(self, total: &mut f64, score: f64) {
        match self {
            Aggregate::Sum => {
                *total += score;
                // Opposite infinities cancel out.
                if total.is_nan() {
                    *total = 0.0;
                }
            }
            Aggregate::Min if score < *total => *total = score,
            Aggregate::Max if score > *total => *total = score,
            Aggregate::Min | Aggregate::Max => (),
        }
    }
}

impl Source<'_> {
    fn len(&self) -> usize {
        match self {
            Source::Missing => 0,
            Source::Plain(set) => set.len(),
            Source::Sorted(set) => set.len(),
        }
    }

    fn score(&self, member: &[u8]) -> Option<f64> {
        match self {
            Source::Missing => None,
            Source::Plain(set) => set.contains(member).then_some(1.0),
            Source::Sorted(set) => set.score(member),
        }
    }

    /// Shows every member until `seen` returns false.
    fn for_each(&self, mut seen: impl FnMut(&[u8], f64) -> bool) {
        let mut show = |item: Item<'_>, score: f64| seen(item.as_bytes(&mut ItemBuf::new()), score);
        match self {
            Source::Missing => (),
            Source::Plain(set) => {
                let _ = set.iter().all(|item| show(item, 1.0));
            }
            Source::Sorted(set) => {
                let _ = set.iter().all(|entry| show(entry.member, entry.score));
            }
        }
    }
}
