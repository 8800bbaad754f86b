//! XINFO.

use nagaya_command_spec::error::CommandError;
use nagaya_exec::ctx::Ctx;
use nagaya_resp::Out;
use nagaya_store::stream::{Consumer, ENTRIES_READ_UNKNOWN, Group, Stream, StreamId};

use super::format::{Reply, put_entry, put_id, subcommand_syntax};
use super::group::no_such_group;
use super::range::put_entries;

const FULL_COUNT_DEFAULT: usize = 10;

/// XINFO STREAM key [FULL [COUNT count]]
pub(super) fn stream(ctx: &mut Ctx<'_, '_>) -> Reply {
    let stream = ctx
        .db
        .read::<Stream>(ctx.key(2))?
        .ok_or(CommandError::NoSuchKey)?;
    let full = match ctx.args.len() {
        3 => None,
        4 if ctx.is(3, "FULL") => Some(FULL_COUNT_DEFAULT),
        6 if ctx.is(3, "FULL") && ctx.is(4, "COUNT") => {
            Some(usize::try_from(ctx.int(5)?).unwrap_or(FULL_COUNT_DEFAULT))
        }
        _ => return Err(subcommand_syntax(ctx)),
    };
    let out = &mut *ctx.out;
    out.map(if full.is_some() { 9 } else { 10 });
    put_count(out, "length", stream.len());
    put_count(out, "radix-tree-keys", stream.node_count() as u64);
    put_count(out, "radix-tree-nodes", stream.radix_nodes() as u64);
    put_named_id(out, "last-generated-id", stream.last_id());
    put_named_id(out, "max-deleted-entry-id", stream.max_deleted_id());
    put_count(out, "entries-added", stream.entries_added());
    put_named_id(out, "recorded-first-entry-id", stream.first_id());
    match full {
        None => put_brief(out, stream),
        Some(count) => put_full(out, stream, if count == 0 { usize::MAX } else { count }),
    }
    Ok(())
}

fn put_count(out: &mut Out, name: &str, count: u64) {
    out.bulk_str(name);
    out.int(count as i64);
}

fn put_named_id(out: &mut Out, name: &str, id: StreamId) {
    out.bulk_str(name);
    put_id(out, id);
}

fn put_brief(out: &mut Out, stream: &Stream) {
    put_count(out, "groups", stream.groups().len() as u64);
    let first = stream.range(StreamId::MIN, StreamId::MAX).next();
    for (name, entry) in [("first-entry", first), ("last-entry", stream.last_entry())] {
        out.bulk_str(name);
        match entry {
            None => out.nil(),
            Some(entry) => put_entry(out, &entry),
        }
    }
}

fn put_full(out: &mut Out, stream: &Stream, count: usize) {
    out.bulk_str("entries");
    put_entries(out, stream.range(StreamId::MIN, StreamId::MAX).take(count));
    out.bulk_str("groups");
    let groups = stream.groups();
    out.array(groups.len());
    for (name, group) in groups {
        out.map(7);
        out.bulk_str("name");
        out.bulk(name);
        put_named_id(out, "last-delivered-id", group.last_id);
        put_reading(out, stream, group);
        put_count(out, "pel-count", group.pending_len() as u64);
        out.bulk_str("pending");
        out.array(group.pending_len().min(count));
        for (id, pending) in group.pending_range(..).take(count) {
            out.array(4);
            put_id(out, id);
            out.bulk(group.consumer(pending.owner()).name());
            out.int(pending.delivered_ms);
            out.int(pending.deliveries as i64);
        }
        out.bulk_str("consumers");
        let consumers = group.consumers();
        out.array(consumers.len());
        for (_, consumer) in consumers {
            put_full_consumer(out, group, consumer, count);
        }
    }
}

fn put_full_consumer(out: &mut Out, group: &Group, consumer: &Consumer, count: usize) {
    out.map(4);
    out.bulk_str("name");
    out.bulk(consumer.name());
    out.bulk_str("seen-time");
    out.int(consumer.seen_ms);
    put_count(out, "pel-count", consumer.pending_len() as u64);
    out.bulk_str("pending");
    out.array(consumer.pending_len().min(count));
    for id in consumer.pending_range(..).take(count) {
        let pending = group
            .pending(id)
            .expect("a consumer's pending entries are listed in its group");
        out.array(3);
        put_id(out, id);
        out.int(pending.delivered_ms);
        out.int(pending.deliveries as i64);
    }
}

/// Writes how far a group has read and how much is left, where that is known.
fn put_reading(out: &mut Out, stream: &Stream, group: &Group) {
    out.bulk_str("entries-read");
    match group.entries_read {
        ENTRIES_READ_UNKNOWN => out.nil(),
        read => out.int(read),
    }
    out.bulk_str("lag");
    match stream.lag(group) {
        None => out.nil(),
        Some(lag) => out.int(lag),
    }
}

/// XINFO GROUPS key
pub(super) fn groups(ctx: &mut Ctx<'_, '_>) -> Reply {
    let stream = ctx
        .db
        .read::<Stream>(ctx.key(2))?
        .ok_or(CommandError::NoSuchKey)?;
    let groups = stream.groups();
    ctx.out.array(groups.len());
    for (name, group) in groups {
        ctx.out.map(6);
        ctx.out.bulk_str("name");
        ctx.out.bulk(name);
        put_count(ctx.out, "consumers", group.consumers().len() as u64);
        put_count(ctx.out, "pending", group.pending_len() as u64);
        put_named_id(ctx.out, "last-delivered-id", group.last_id);
        put_reading(ctx.out, stream, group);
    }
    Ok(())
}

/// XINFO CONSUMERS key group
pub(super) fn consumers(ctx: &mut Ctx<'_, '_>) -> Reply {
    let (key, name, now_ms) = (ctx.key(2), ctx.key(3), ctx.db.now_ms());
    let stream = ctx.db.read::<Stream>(key)?.ok_or(CommandError::NoSuchKey)?;
    let group = stream.group(name).ok_or_else(|| no_such_group(name, key))?;
    let consumers = group.consumers();
    ctx.out.array(consumers.len());
    for (_, consumer) in consumers {
        ctx.out.map(3);
        ctx.out.bulk_str("name");
        ctx.out.bulk(consumer.name());
        put_count(ctx.out, "pending", consumer.pending_len() as u64);
        ctx.out.bulk_str("idle");
        ctx.out.int(now_ms.saturating_sub(consumer.seen_ms).max(0));
    }
    Ok(())
}

/// XINFO HELP
pub(super) fn help(ctx: &mut Ctx<'_, '_>) -> Reply {
    nagaya_exec::help::help(
        ctx,
        &[
            ("CONSUMERS <key> <groupname>", &["List the consumers of a group."]),
            ("GROUPS <key>", &["List the groups of a stream."]),
            ("STREAM <key> [FULL [COUNT <count>]]", &["Describe a stream."]),
        ],
    )
}
