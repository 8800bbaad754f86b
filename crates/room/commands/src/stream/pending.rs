//! XPENDING.

use nagaya_command_spec::error::CommandError;
use nagaya_exec::ctx::Ctx;
use nagaya_store::stream::{Group, Stream, StreamId};

use super::format::{Reply, lossy, parse_end, parse_start, put_id};

/// Which pending entries to list.
struct Filter<'a> {
    start: StreamId,
    end: StreamId,
    count: usize,
    idle_min_ms: i64,
    consumer: Option<&'a [u8]>,
}

/// XPENDING key group [[IDLE min-idle-time] start end count [consumer]]
pub(super) fn xpending(ctx: &mut Ctx<'_, '_>) -> Reply {
    let count = ctx.args.len();
    if count != 3 && !(6..=9).contains(&count) {
        return Err(CommandError::Syntax);
    }
    let filter = if count == 3 {
        None
    } else {
        Some(parse_filter(ctx)?)
    };
    let (key, name) = (ctx.key(1), ctx.key(2));
    let stream = ctx.db.read::<Stream>(key)?;
    let Some(group) = stream.and_then(|stream| stream.group(name)) else {
        return Err(no_key_or_group(key, name));
    };
    match filter {
        None => put_summary(ctx.out, group),
        Some(filter) => put_list(ctx.out, group, &filter, ctx.db.now_ms()),
    }
    Ok(())
}

pub(super) fn no_key_or_group(key: &[u8], group: &[u8]) -> CommandError {
    let (key, group) = (lossy(key), lossy(group));
    CommandError::coded(format!("NOGROUP No such key '{key}' or consumer group '{group}'"))
}

fn parse_filter<'c>(ctx: &Ctx<'c, '_>) -> Result<Filter<'c>, CommandError> {
    let (mut at, mut idle_min_ms) = (3, 0);
    if ctx.is(3, "IDLE") {
        idle_min_ms = ctx.int(4)?;
        if ctx.args.len() < 8 {
            return Err(CommandError::Syntax);
        }
        at = 5;
    }
    Ok(Filter {
        count: ctx.int(at + 2)?.max(0) as usize,
        start: parse_start(ctx.key(at))?,
        end: parse_end(ctx.key(at + 1))?,
        idle_min_ms,
        consumer: ctx.args.get(at + 3),
    })
}

fn put_summary(out: &mut nagaya_resp::Out, group: &Group) {
    out.array(4);
    out.int(group.pending_len() as i64);
    let first = group.pending_range(..).next().map(|(id, _)| id);
    let last = group.pending_range(..).next_back().map(|(id, _)| id);
    let (Some(first), Some(last)) = (first, last) else {
        out.nil();
        out.nil();
        out.nil_array();
        return;
    };
    put_id(out, first);
    put_id(out, last);
    let busy = || {
        group
            .consumers()
            .filter(|(_, consumer)| consumer.pending_len() > 0)
    };
    out.array(busy().count());
    for (_, consumer) in busy() {
        out.array(2);
        out.bulk(consumer.name());
        out.bulk_int(consumer.pending_len() as i64);
    }
}

fn put_list(out: &mut nagaya_resp::Out, group: &Group, filter: &Filter<'_>, now_ms: i64) {
    let consumer = match filter.consumer {
        None => None,
        Some(name) => match group.find_consumer(name) {
            Some(consumer) => Some(group.consumer(consumer)),
            None => return out.array(0),
        },
    };
    let mark = out.defer();
    let mut written = 0;
    // An upside-down range is empty here; the standard library would panic.
    let ids = filter.start..=filter.end.max(filter.start);
    let ids: Box<dyn Iterator<Item = StreamId>> = match consumer {
        _ if filter.start > filter.end => Box::new(std::iter::empty()),
        Some(consumer) => Box::new(consumer.pending_range(ids)),
        None => Box::new(group.pending_range(ids).map(|(id, _)| id)),
    };
    for (id, pending) in ids.filter_map(|id| Some((id, group.pending(id)?))) {
        if written == filter.count {
            break;
        }
        let idle_ms = now_ms.saturating_sub(pending.delivered_ms);
        if filter.idle_min_ms != 0 && idle_ms < filter.idle_min_ms {
            continue;
        }
        out.array(4);
        put_id(out, id);
        out.bulk(group.consumer(pending.owner()).name());
        out.int(idle_ms.max(0));
        out.int(pending.deliveries as i64);
        written += 1;
    }
    out.finish_array(mark, written);
}
