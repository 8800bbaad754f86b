//! XRANGE and XREVRANGE.

use nagaya_command_spec::error::CommandError;
use nagaya_exec::ctx::Ctx;
use nagaya_resp::Out;
use nagaya_store::stream::{Range, Stream};

use super::format::{Reply, parse_end, parse_start, put_entry};

/// XRANGE key start end [COUNT count]
pub(super) fn xrange(ctx: &mut Ctx<'_, '_>) -> Reply {
    range(ctx, 2, 3, Stream::range)
}

/// XREVRANGE key end start [COUNT count]
pub(super) fn xrevrange(ctx: &mut Ctx<'_, '_>) -> Reply {
    range(ctx, 3, 2, Stream::range_rev)
}

type RangeFn = fn(&Stream, nagaya_store::stream::StreamId, nagaya_store::stream::StreamId) -> Range<'_>;

fn range(ctx: &mut Ctx<'_, '_>, start_at: usize, end_at: usize, range: RangeFn) -> Reply {
    let start = parse_start(ctx.key(start_at))?;
    let end = parse_end(ctx.key(end_at))?;
    let mut count = None;
    let mut at = 4;
    while at < ctx.args.len() {
        if !ctx.is(at, "COUNT") || at + 1 == ctx.args.len() {
            return Err(CommandError::Syntax);
        }
        count = Some(ctx.int(at + 1)?.max(0) as usize);
        at += 2;
    }
    match ctx.db.read::<Stream>(ctx.key(1))? {
        None => ctx.out.array(0),
        Some(_) if count == Some(0) => ctx.out.nil_array(),
        Some(stream) => {
            put_entries(
                ctx.out,
                range(stream, start, end).take(count.unwrap_or(usize::MAX)),
            );
        }
    }
    Ok(())
}

/// Writes an array of entries and returns how many there were.
pub(super) fn put_entries<'a>(
    out: &mut Out,
    entries: impl Iterator<Item = nagaya_store::stream::Entry<'a>>,
) -> usize {
    let mark = out.defer();
    let mut written = 0;
    for entry in entries {
        put_entry(out, &entry);
        written += 1;
    }
    out.finish_array(mark, written);
    written
}
