//! KEYS and SCAN.

use nagaya_store::table::Keyed;

use super::Reply;
use crate::ctx::Ctx;
use crate::error::CommandError;
use crate::glob;

const COUNT_DEFAULT: usize = 10;
/// A call that finds little still visits no more than this many buckets per wanted key.
const STEPS_PER_KEY: usize = 10;

/// KEYS pattern
pub(super) fn keys(ctx: &mut Ctx<'_, '_>) -> Reply {
    let pattern = ctx.key(1);
    let mark = ctx.out.defer();
    let mut found = 0;
    ctx.db.for_each(|entry| {
        if pattern == b"*" || glob::matches(pattern, entry.key()) {
            ctx.out.bulk(entry.key());
            found += 1;
        }
    });
    ctx.out.finish_array(mark, found);
    Ok(())
}

/// Which keys SCAN shows, and about how many per call.
struct Options<'a> {
    count: usize,
    pattern: Option<&'a [u8]>,
    kind: Option<&'a [u8]>,
}

/// SCAN cursor [MATCH pattern] [COUNT count] [TYPE type]
pub(super) fn scan(ctx: &mut Ctx<'_, '_>) -> Reply {
    let mut cursor = parse_cursor(ctx.key(1))?;
    let options = parse_options(ctx)?;
    let (mut met, mut shown) = (0, Vec::new());
    for _ in 0..=options.count.saturating_mul(STEPS_PER_KEY) {
        cursor = ctx.db.scan(cursor, |entry| {
            met += 1;
            let matches = options
                .pattern
                .is_none_or(|pattern| glob::matches(pattern, entry.key()));
            let kind = entry.kind().name().as_bytes();
            if matches
                && options
                    .kind
                    .is_none_or(|wanted| wanted.eq_ignore_ascii_case(kind))
            {
                shown.push(entry.key().to_vec());
            }
        });
        if cursor == 0 || met >= options.count {
            break;
        }
    }
    ctx.out.array(2);
    ctx.out.bulk(itoa::Buffer::new().format(cursor).as_bytes());
    ctx.out.array(shown.len());
    shown.iter().for_each(|key| ctx.out.bulk(key));
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
