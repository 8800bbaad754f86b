//! XCLAIM and XAUTOCLAIM: pending entries change hands.

use nagaya_command_spec::error::CommandError;
use nagaya_exec::ctx::Ctx;
use nagaya_keyspace::notify::Events;
use nagaya_store::stream::{Pending, Stream, StreamId};

use super::format::{Reply, parse_id, parse_start, put_entry, put_id};
use super::pending::no_key_or_group;
use super::read::look_up_consumer;

/// XAUTOCLAIM looks at this many pending entries per entry wanted.
const ATTEMPTS_PER_ENTRY: i64 = 10;
const AUTOCLAIM_COUNT_DEFAULT: i64 = 100;

/// What XCLAIM is told beside the ids.
#[derive(Default)]
struct Options {
    force: bool,
    just_id: bool,
    delivered_ms: Option<i64>,
    deliveries: Option<u64>,
    last_id: StreamId,
}

/// XCLAIM key group consumer min-idle-time id [id ...] [IDLE ms] [TIME unix-ms] [RETRYCOUNT count] [FORCE]
/// [JUSTID] [LASTID id]
pub(super) fn xclaim(ctx: &mut Ctx<'_, '_>) -> Reply {
    let (key, name, consumer_name) = (ctx.key(1), ctx.key(2), ctx.key(3));
    let now_ms = ctx.db.now_ms();
    check_group(ctx, key, name)?;
    let idle_min_ms = min_idle(ctx, "XCLAIM")?;
    let ids: Vec<StreamId> = ctx
        .args
        .iter()
        .skip(5)
        .map_while(|text| StreamId::parse(text, 0))
        .collect();
    let options = parse_options(ctx, 5 + ids.len(), now_ms)?;
    let delivered_ms = match options.delivered_ms {
        Some(at) if (0..=now_ms).contains(&at) => at,
        _ => now_ms,
    };
    let Some(stream) = ctx.db.write::<Stream>(key)? else {
        return Ok(());
    };
    let Some(group) = stream.group_mut(name) else {
        return Ok(());
    };
    let mut dirty = u64::from(options.last_id > group.last_id);
    group.last_id = group.last_id.max(options.last_id);
    let (mut consumer, mut created) = (None, false);
    let mark = ctx.out.defer();
    let mut written = 0;
    for id in ids {
        let exists = stream.get(id).is_some();
        let Some(group) = stream.group_mut(name) else {
            break;
        };
        if !exists {
            dirty += u64::from(group.acknowledge(id));
            continue;
        }
        let before = group.pending(id).copied();
        let too_young = |before: Pending| idle_min_ms > 0 && now_ms - before.delivered_ms < idle_min_ms;
        if before.map_or(!options.force, too_young) {
            continue;
        }
        let to = *consumer.get_or_insert_with(|| {
            let (consumer, made) = look_up_consumer(group, consumer_name, now_ms);
            created = made;
            consumer
        });
        let mut after = Pending::new(to, delivered_ms);
        // A forced entry starts as delivered once, like any other.
        let deliveries = before.map_or(1, |before| before.deliveries);
        after.deliveries = match options.deliveries {
            Some(count) => count,
            None => deliveries.wrapping_add(u64::from(!options.just_id)),
        };
        group.set_pending(id, after);
        put_claimed(ctx.out, stream, id, options.just_id);
        written += 1;
        dirty += 1;
    }
    ctx.out.finish_array(mark, written);
    ctx.db.dirty += dirty;
    if dirty > 0 {
        ctx.effect_verbatim_now();
    }
    if created {
        ctx.db.notify(Events::STREAM, "xgroup-createconsumer", key);
    }
    Ok(())
}

fn check_group(ctx: &Ctx<'_, '_>, key: &[u8], name: &[u8]) -> Reply {
    match ctx.db.read::<Stream>(key)?.and_then(|stream| stream.group(name)) {
        Some(_) => Ok(()),
        None => Err(no_key_or_group(key, name)),
    }
}

fn min_idle(ctx: &Ctx<'_, '_>, command: &str) -> Result<i64, CommandError> {
    let text = || CommandError::err(format!("Invalid min-idle-time argument for {command}"));
    ctx.int(4).map(|ms| ms.max(0)).map_err(|_| text())
}

fn parse_options(ctx: &Ctx<'_, '_>, mut at: usize, now_ms: i64) -> Result<Options, CommandError> {
    let mut options = Options::default();
    let int = |at: usize, option: &str| {
        let text = || CommandError::err(format!("Invalid {option} option argument for XCLAIM"));
        ctx.int(at).map_err(|_| text())
    };
    while at < ctx.args.len() {
        let more = at + 1 < ctx.args.len();
        if ctx.is(at, "FORCE") {
            options.force = true;
            at += 1;
            continue;
        } else if ctx.is(at, "JUSTID") {
            options.just_id = true;
            at += 1;
            continue;
        } else if ctx.is(at, "IDLE") && more {
            options.delivered_ms = Some(now_ms.wrapping_sub(int(at + 1, "IDLE")?));
        } else if ctx.is(at, "TIME") && more {
            options.delivered_ms = Some(int(at + 1, "TIME")?);
        } else if ctx.is(at, "RETRYCOUNT") && more {
            options.deliveries = u64::try_from(int(at + 1, "RETRYCOUNT")?).ok();
        } else if ctx.is(at, "LASTID") && more {
            options.last_id = parse_id(ctx.key(at + 1))?;
        } else {
            let option = super::format::lossy(ctx.key(at));
            return Err(CommandError::err(format!(
                "Unrecognized XCLAIM option '{option}'"
            )));
        }
        at += 2;
    }
    Ok(options)
}

fn put_claimed(out: &mut nagaya_resp::Out, stream: &Stream, id: StreamId, just_id: bool) {
    match stream.get(id) {
        Some(entry) if !just_id => put_entry(out, &entry),
        _ => put_id(out, id),
    }
}

/// XAUTOCLAIM key group consumer min-idle-time start [COUNT count] [JUSTID]
pub(super) fn xautoclaim(ctx: &mut Ctx<'_, '_>) -> Reply {
    let (key, name, consumer_name) = (ctx.key(1), ctx.key(2), ctx.key(3));
    let now_ms = ctx.db.now_ms();
    let idle_min_ms = min_idle(ctx, "XAUTOCLAIM")?;
    let start = parse_start(ctx.key(5))?;
    let (mut count, just_id) = parse_auto_options(ctx)?;
    check_group(ctx, key, name)?;
    let mut attempts = count * ATTEMPTS_PER_ENTRY;
    let Some(stream) = ctx.db.write::<Stream>(key)? else {
        return Ok(());
    };
    let (mut consumer, mut created) = (None, false);
    let (mut claimed, mut deleted) = (Vec::new(), Vec::new());
    let mut next = pending_from(stream, name, start);
    while let Some((id, before)) = next {
        if attempts == 0 || count == 0 {
            break;
        }
        attempts -= 1;
        next = id.next().and_then(|after| pending_from(stream, name, after));
        let exists = stream.get(id).is_some();
        let Some(group) = stream.group_mut(name) else {
            break;
        };
        if !exists {
            group.acknowledge(id);
            deleted.push(id);
            count -= 1;
            continue;
        }
        if idle_min_ms > 0 && now_ms - before.delivered_ms < idle_min_ms {
            continue;
        }
        let to = *consumer.get_or_insert_with(|| {
            let (consumer, made) = look_up_consumer(group, consumer_name, now_ms);
            created = made;
            consumer
        });
        let mut after = Pending::new(to, now_ms);
        after.deliveries = before.deliveries.wrapping_add(u64::from(!just_id));
        group.set_pending(id, after);
        claimed.push(id);
        count -= 1;
    }
    ctx.out.array(3);
    put_id(ctx.out, next.map_or(StreamId::MIN, |(id, _)| id));
    ctx.out.array(claimed.len());
    claimed
        .iter()
        .for_each(|&id| put_claimed(ctx.out, stream, id, just_id));
    ctx.out.array(deleted.len());
    deleted.iter().for_each(|&id| put_id(ctx.out, id));
    let dirty = (claimed.len() + deleted.len()) as u64;
    ctx.db.dirty += dirty;
    if dirty > 0 {
        ctx.effect_verbatim_now();
    }
    if created {
        ctx.db.notify(Events::STREAM, "xgroup-createconsumer", key);
    }
    Ok(())
}

fn parse_auto_options(ctx: &Ctx<'_, '_>) -> Result<(i64, bool), CommandError> {
    let (mut count, mut just_id) = (AUTOCLAIM_COUNT_DEFAULT, false);
    let mut at = 6;
    while at < ctx.args.len() {
        if ctx.is(at, "COUNT") && at + 1 < ctx.args.len() {
            // The upper bound keeps what Redis would allocate for the ids within its limits.
            let allowed = 1..=i64::MAX / 16;
            count = ctx
                .int(at + 1)
                .ok()
                .filter(|count| allowed.contains(count))
                .ok_or(CommandError::err("COUNT must be > 0"))?;
            at += 2;
        } else if ctx.is(at, "JUSTID") {
            just_id = true;
            at += 1;
        } else {
            return Err(CommandError::Syntax);
        }
    }
    Ok((count, just_id))
}

fn pending_from(stream: &Stream, group: &[u8], start: StreamId) -> Option<(StreamId, Pending)> {
    let (id, pending) = stream.group(group)?.pending_range(start..).next()?;
    Some((id, *pending))
}
