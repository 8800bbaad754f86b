//! KEYS and SCAN.

use nagaya_command_spec::error::CommandError;
use nagaya_command_spec::glob;
use nagaya_connections::cold_query::{ColdAnswer, ColdQuery};
use nagaya_exec::cold_ask::ask;
use nagaya_exec::ctx::Ctx;
use nagaya_keyspace::residency::{Cursors, Found};
use nagaya_store::table::Keyed;
use nagaya_tiering::cold::KeyRow;

use super::Reply;

const COUNT_DEFAULT: usize = 10;
/// A call that finds little still visits no more than this many buckets per wanted key.
const STEPS_PER_KEY: usize = 10;

/// KEYS pattern
pub(super) fn keys(ctx: &mut Ctx<'_, '_>) -> Reply {
    let pattern = ctx.key(1);
    let mut cold = Vec::new();
    if ctx.db.has_cold_keys() {
        let matching = ColdQuery::Matching {
            space: ctx.db.space(),
            pattern: pattern.to_vec(),
        };
        let Some(answer) = ask(ctx, matching)? else {
            return Ok(());
        };
        cold = rows_of(answer)?;
    }
    let mark = ctx.out.defer();
    let mut found = 0;
    ctx.db.for_each(|entry| {
        if pattern == b"*" || glob::matches(pattern, entry.key()) {
            ctx.out.bulk(entry.key());
            found += 1;
        }
    });
    for row in cold {
        if !ctx.db.is_resident(&row.key) && !has_expired(&row, ctx.db.now_ms()) {
            ctx.out.bulk(&row.key);
            found += 1;
        }
    }
    ctx.out.finish_array(mark, found);
    Ok(())
}

/// Returns a key that is not in memory, if there is one. Outer nothing: ask again when the answer is there.
pub(super) fn first_cold_key(ctx: &mut Ctx<'_, '_>) -> Result<Option<Option<Vec<u8>>>, CommandError> {
    const TRIES: usize = 100;
    if !ctx.db.has_cold_keys() {
        return Ok(Some(None));
    }
    let query = ColdQuery::Page {
        space: ctx.db.space(),
        after: None,
        limit: TRIES,
    };
    let Some(answer) = ask(ctx, query)? else {
        return Ok(None);
    };
    let now_ms = ctx.db.now_ms();
    let live = rows_of(answer)?.into_iter().find(|row| !has_expired(row, now_ms));
    Ok(Some(live.map(|row| row.key)))
}

fn rows_of(answer: ColdAnswer) -> Result<Vec<KeyRow>, CommandError> {
    match answer {
        ColdAnswer::Keys(rows) => Ok(rows),
        _ => Err(CommandError::err("the answer is to another question")),
    }
}

fn has_expired(row: &KeyRow, now_ms: i64) -> bool {
    row.expires_at_ms.is_some_and(|at| at < now_ms)
}

/// Which keys SCAN shows, and about how many per call.
struct Options<'a> {
    count: usize,
    pattern: Option<&'a [u8]>,
    kind: Option<&'a [u8]>,
}

impl Options<'_> {
    fn want(&self, key: &[u8], kind: &str) -> bool {
        self.pattern.is_none_or(|pattern| glob::matches(pattern, key))
            && self
                .kind
                .is_none_or(|wanted| wanted.eq_ignore_ascii_case(kind.as_bytes()))
    }
}

/// SCAN cursor [MATCH pattern] [COUNT count] [TYPE type]
pub(super) fn scan(ctx: &mut Ctx<'_, '_>) -> Reply {
    let mut cursor = parse_cursor(ctx.key(1))?;
    let options = parse_options(ctx)?;
    if Cursors::is_cold(cursor) {
        return scan_cold(ctx, cursor, &options);
    }
    let (mut met, mut shown) = (0, Vec::new());
    for _ in 0..=options.count.saturating_mul(STEPS_PER_KEY) {
        cursor = ctx.db.scan(cursor, |entry| {
            met += 1;
            if options.want(entry.key(), entry.kind().name()) {
                shown.push(entry.key().to_vec());
            }
        });
        if cursor == 0 || met >= options.count {
            break;
        }
    }
    if cursor == 0 && ctx.db.has_cold_keys() {
        cursor = Cursors::START;
    }
    show(ctx, cursor, &shown);
    Ok(())
}

fn show(ctx: &mut Ctx<'_, '_>, cursor: u64, shown: &[Vec<u8>]) {
    ctx.out.array(2);
    ctx.out.bulk(itoa::Buffer::new().format(cursor).as_bytes());
    ctx.out.array(shown.len());
    shown.iter().for_each(|key| ctx.out.bulk(key));
}

/// Goes on with a scan in the cold tier, after memory.
///
/// Rows of resident tags are shown too, as memory has them: such a tag may have been cold when memory was
/// scanned. So a key can be shown twice, as SCAN may, and none that is there all the time is left out.
fn scan_cold(ctx: &mut Ctx<'_, '_>, cursor: u64, options: &Options<'_>) -> Reply {
    let Some(tiering) = ctx.db.tiering else {
        return Err(CommandError::err("invalid cursor"));
    };
    let after = match tiering.cursors.find(cursor) {
        Found::Start => None,
        Found::After(place) => Some(place),
        Found::Unknown => return Err(CommandError::err("invalid cursor")),
    };
    if !ctx.db.has_cold_keys() {
        show(ctx, 0, &[]);
        return Ok(());
    }
    let query = ColdQuery::Page {
        space: ctx.db.space(),
        after,
        limit: options.count,
    };
    let Some(answer) = ask(ctx, query)? else {
        return Ok(());
    };
    let rows = rows_of(answer)?;
    let next = match rows.last() {
        Some(last) if rows.len() >= options.count => {
            tiering.cursors.after((last.tag.clone(), last.key.clone()))
        }
        _ => 0,
    };
    let mut shown = Vec::new();
    for row in rows {
        let kind = if ctx.db.is_resident(&row.key) {
            ctx.db.kind(&row.key).map(|kind| kind.name())
        } else {
            (!has_expired(&row, ctx.db.now_ms())).then(|| row.kind.name())
        };
        if kind.is_some_and(|kind| options.want(&row.key, kind)) {
            shown.push(row.key);
        }
    }
    show(ctx, next, &shown);
    Ok(())
}

fn parse_options<'c>(ctx: &Ctx<'c, '_>) -> Result<Options<'c>, CommandError> {
    let mut options = Options {
        count: COUNT_DEFAULT,
        pattern: None,
        kind: None,
    };
    let mut at = 2;
    while at < ctx.args.len() {
        if at + 1 == ctx.args.len() {
            return Err(CommandError::Syntax);
        }
        if ctx.is(at, "COUNT") {
            let count = ctx.int(at + 1)?;
            options.count = usize::try_from(count)
                .ok()
                .filter(|&count| count > 0)
                .ok_or(CommandError::Syntax)?;
        } else if ctx.is(at, "MATCH") {
            options.pattern = Some(ctx.key(at + 1));
        } else if ctx.is(at, "TYPE") {
            options.kind = Some(ctx.key(at + 1));
        } else {
            return Err(CommandError::Syntax);
        }
        at += 2;
    }
    Ok(options)
}

/// Reads a cursor as C's strtoul does: a sign is taken, and nothing counts as 0.
fn parse_cursor(text: &[u8]) -> Result<u64, CommandError> {
    let (negative, digits) = match text {
        [b'-', digits @ ..] => (true, digits),
        [b'+', digits @ ..] => (false, digits),
        digits => (false, digits),
    };
    let number = digits.iter().try_fold(0u64, |number, &byte| {
        let digit = byte.is_ascii_digit().then(|| u64::from(byte - b'0'))?;
        number.checked_mul(10)?.checked_add(digit)
    });
    let signed_nothing = digits.is_empty() && !text.is_empty();
    match number {
        Some(number) if !signed_nothing => Ok(if negative { number.wrapping_neg() } else { number }),
        _ => Err(CommandError::err("invalid cursor")),
    }
}
