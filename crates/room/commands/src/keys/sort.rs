//! SORT and SORT_RO.
//!
//! Elements are sorted by themselves or by what a BY pattern leads to: the
//! pattern's `*` stands for the element and the result names a key, or with
//! `->` a field of a hash. GET patterns are followed the same way for the
//! reply. A BY pattern without `*` leaves the order as it is.

use std::cmp::Ordering;

use nagaya_command_spec::error::CommandError;
use nagaya_exec::ctx::Ctx;
use nagaya_keyspace::db::{Db, Expiry};
use nagaya_keyspace::notify::Events;
use nagaya_resp::Args;
use nagaya_store::hash::Hash;
use nagaya_store::list::List;
use nagaya_store::value::{Value, ValueRef};

use super::Reply;

/// What the arguments ask for.
#[derive(Default)]
struct Options<'a> {
    descending: bool,
    alpha: bool,
    limit_start: i64,
    limit_count: Option<i64>,
    by: Option<&'a [u8]>,
    get: Vec<&'a [u8]>,
    store: Option<&'a [u8]>,
}

/// What an element is sorted by.
enum Weight {
    Number(f64),
    /// The element itself, or the text that the pattern led to.
    Text(Option<Vec<u8>>),
    /// The order stays.
    None,
}

/// SORT key [BY pattern] [LIMIT offset count] [GET pattern [GET pattern ...]] [ASC | DESC] [ALPHA] [STORE destination]
pub(super) fn sort(ctx: &mut Ctx<'_, '_>) -> Reply {
    run(ctx, true)
}

/// SORT_RO key [BY pattern] [LIMIT offset count] [GET pattern [GET pattern ...]] [ASC | DESC] [ALPHA]
pub(super) fn sort_ro(ctx: &mut Ctx<'_, '_>) -> Reply {
    run(ctx, false)
}

/// Finds the STORE destination among SORT's arguments: the last one counts.
pub(super) fn store_keys(args: &Args<'_>) -> Vec<usize> {
    let mut found = None;
    let mut at = 2;
    while at < args.len() {
        let is = |word: &[u8]| args[at].eq_ignore_ascii_case(word);
        if is(b"LIMIT") {
            at += 3;
        } else if is(b"GET") || is(b"BY") {
            at += 2;
        } else if is(b"STORE") && at + 1 < args.len() {
            found = Some(at + 1);
            at += 2;
        } else {
            at += 1;
        }
    }
    found.into_iter().collect()
}

fn run(ctx: &mut Ctx<'_, '_>, may_store: bool) -> Reply {
    let may_follow = ctx.may_read_all_keys();
    let mut options = parse(ctx, may_store, may_follow)?;
    let mut unsorted = options.by.is_some_and(|pattern| !pattern.contains(&b'*'));
    let elements = match ctx.db.entry(ctx.key(1)).map(|entry| entry.value()) {
        None => Vec::new(),
        Some(ValueRef::List(list)) => {
            let mut elements: Vec<Vec<u8>> = list.iter().map(|item| item.to_vec()).collect();
            if unsorted && options.descending {
                elements.reverse();
            }
            elements
        }
        Some(ValueRef::Set(set)) => {
            if unsorted && (options.store.is_some() || ctx.session.in_script) {
                // What is stored, or what a script sees, must not depend on the set's inner order.
                (unsorted, options.alpha, options.by) = (false, true, None);
            }
            set.iter().map(|item| item.to_vec()).collect()
        }
        Some(ValueRef::Zset(zset)) => {
            let reverse = unsorted && options.descending;
            zset.range(0..zset.len(), reverse)
                .map(|entry| entry.member.to_vec())
                .collect()
        }
        Some(_) => return Err(CommandError::WrongType),
    };
    if ctx.db.is_any_cold() {
        warm(ctx, &options, &elements)?;
    }
    let mut weighted: Vec<(Vec<u8>, Weight)> = Vec::with_capacity(elements.len());
    for element in elements {
        let weight = if unsorted {
            Weight::None
        } else {
            weigh(ctx.db, &options, &element)?
        };
        weighted.push((element, weight));
    }
    if !unsorted {
        weighted.sort_by(|one, two| {
            if options.descending {
                compare(two, one)
            } else {
                compare(one, two)
            }
        });
    }
    let chosen = &weighted[range(&options, weighted.len())];
    let results = chosen
        .iter()
        .flat_map(|(element, _)| results_of(ctx.db, &options, element));
    match options.store {
        None => {
            let results: Vec<_> = results.collect();
            ctx.out.array(results.len());
            for result in results {
                match result {
                    None => ctx.out.nil(),
                    Some(text) => ctx.out.bulk(&text),
                }
            }
        }
        Some(destination) => {
            let mut list = List::new();
            results.for_each(|text| list.push_back(&text.unwrap_or_default(), &ctx.limits()));
            store(ctx, destination, list);
        }
    }
    Ok(())
}

/// Reads the options. Patterns lead to keys that the arguments do not name, so they need the right to read
/// every key: `may_follow`.
fn parse<'c>(ctx: &Ctx<'c, '_>, may_store: bool, may_follow: bool) -> Result<Options<'c>, CommandError> {
    let denied = |option: &str| {
        Err(CommandError::err(format!(
            "{option} option of SORT denied due to insufficient ACL permissions."
        )))
    };
    let mut options = Options::default();
    let mut at = 2;
    while at < ctx.args.len() {
        let more = ctx.args.len() - 1 - at;
        if ctx.is(at, "ASC") {
            options.descending = false;
            at += 1;
        } else if ctx.is(at, "DESC") {
            options.descending = true;
            at += 1;
        } else if ctx.is(at, "ALPHA") {
            options.alpha = true;
            at += 1;
        } else if ctx.is(at, "LIMIT") && more >= 2 {
            options.limit_start = ctx.int(at + 1)?;
            options.limit_count = Some(ctx.int(at + 2)?);
            at += 3;
        } else if may_store && ctx.is(at, "STORE") && more >= 1 {
            options.store = Some(ctx.key(at + 1));
            at += 2;
        } else if ctx.is(at, "BY") && more >= 1 {
            let pattern = ctx.key(at + 1);
            if pattern.contains(&b'*') && !may_follow {
                return denied("BY");
            }
            options.by = Some(pattern);
            at += 2;
        } else if ctx.is(at, "GET") && more >= 1 {
            if !may_follow {
                return denied("GET");
            }
            options.get.push(ctx.key(at + 1));
            at += 2;
        } else {
            return Err(CommandError::Syntax);
        }
    }
    Ok(options)
}

/// Brings the keys into memory that the patterns lead to.
fn warm(ctx: &mut Ctx<'_, '_>, options: &Options<'_>, elements: &[Vec<u8>]) -> Result<(), CommandError> {
    for element in elements {
        for pattern in options.by.iter().chain(&options.get) {
            if let Some((key, _)) = target(pattern, element) {
                let loaded = ctx.db.load_in_place(&key);
                loaded.map_err(|error| CommandError::coded(format!("TRYAGAIN {error}")))?;
            }
        }
    }
    Ok(())
}

fn weigh(db: &Db<'_>, options: &Options<'_>, element: &[u8]) -> Result<Weight, CommandError> {
    let by = match options.by {
        None if options.alpha => return Ok(Weight::Text(Some(element.to_vec()))),
        None => Some(element.to_vec()),
        Some(pattern) => follow(db, pattern, element),
    };
    if options.alpha {
        return Ok(Weight::Text(by));
    }
    let number = by.map_or(Some(0.0), |text| number(&text));
    number.map(Weight::Number).ok_or(CommandError::err(
        "One or more scores can't be converted into double",
    ))
}

/// Elements of equal numbers go by their own text; a missing text goes first.
fn compare(one: &(Vec<u8>, Weight), two: &(Vec<u8>, Weight)) -> Ordering {
    match (&one.1, &two.1) {
        (Weight::Number(first), Weight::Number(second)) => first
            .partial_cmp(second)
            .unwrap_or(Ordering::Equal)
            .then_with(|| one.0.cmp(&two.0)),
        (Weight::Text(first), Weight::Text(second)) => first.cmp(second),
        _ => Ordering::Equal,
    }
}

/// Reads a number as C's strtod reads a whole string: leading spaces are taken, and nothing is 0.
fn number(text: &[u8]) -> Option<f64> {
    if text.is_empty() {
        return Some(0.0);
    }
    let text = std::str::from_utf8(text).ok()?;
    let number: f64 = text
        .trim_start_matches([' ', '\t', '\n', '\x0b', '\x0c', '\r'])
        .parse()
        .ok()?;
    let digits = || text.bytes().take_while(|byte| !matches!(byte, b'e' | b'E'));
    let too_large = number.is_infinite() && !text.contains(['i', 'I']);
    let too_small = number == 0.0 && digits().any(|byte| matches!(byte, b'1'..=b'9'));
    (!number.is_nan() && !too_large && !too_small).then_some(number)
}

/// The part of the sorted elements that LIMIT asks for.
fn range(options: &Options<'_>, len: usize) -> std::ops::Range<usize> {
    let start = usize::try_from(options.limit_start).unwrap_or(0).min(len);
    let count = match options.limit_count {
        None => len,
        Some(count) => usize::try_from(count).unwrap_or(len),
    };
    start..start.saturating_add(count).min(len)
}

/// What stands in the reply for an element: itself, or what each GET pattern leads to.
fn results_of(db: &Db<'_>, options: &Options<'_>, element: &[u8]) -> Vec<Option<Vec<u8>>> {
    if options.get.is_empty() {
        return vec![Some(element.to_vec())];
    }
    options
        .get
        .iter()
        .map(|pattern| follow(db, pattern, element))
        .collect()
}

/// Returns the string that a pattern leads to from an element.
fn follow(db: &Db<'_>, pattern: &[u8], element: &[u8]) -> Option<Vec<u8>> {
    if pattern == b"#" {
        return Some(element.to_vec());
    }
    let (key, field) = target(pattern, element)?;
    let entry = db.entry(&key)?;
    match field {
        None => entry.string().map(|text| text.to_vec()),
        Some(field) => {
            let hash = entry.collection::<Hash>()?;
            let gone = hash.expiry(field).is_some_and(|at_ms| db.is_past(at_ms));
            hash.get(field).filter(|_| !gone).map(|item| item.to_vec())
        }
    }
}

/// Returns the key that a pattern leads to from an element, and the field of the hash there.
fn target<'p>(pattern: &'p [u8], element: &[u8]) -> Option<(Vec<u8>, Option<&'p [u8]>)> {
    let star = pattern.iter().position(|&byte| byte == b'*')?;
    let (prefix, rest) = (&pattern[..star], &pattern[star + 1..]);
    let arrow = rest
        .windows(2)
        .position(|pair| pair == b"->")
        .filter(|&at| at + 2 < rest.len());
    let (postfix, field) = match arrow {
        None => (rest, None),
        Some(at) => (&rest[..at], Some(&rest[at + 2..])),
    };
    Some(([prefix, element, postfix].concat(), field))
}

fn store(ctx: &mut Ctx<'_, '_>, destination: &[u8], list: List) {
    let len = list.len();
    if len > 0 {
        ctx.db
            .set(destination, Value::List(Box::new(list)), Expiry::Clear);
        ctx.db.notify(Events::LIST, "sortstore", destination);
        ctx.db.modified(destination);
        ctx.db.effect_state(destination);
    } else if ctx.db.remove(destination) {
        ctx.db.notify(Events::GENERIC, "del", destination);
        ctx.db.modified(destination);
        ctx.db.effect_state(destination);
    }
    ctx.out.int(len as i64);
}
