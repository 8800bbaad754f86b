//! OBJECT: how a value is kept.

use nagaya_command_spec::error::CommandError;
use nagaya_exec::ctx::Ctx;
use nagaya_keyspace::recency::Recency;
use nagaya_store::entry::Entry;
use nagaya_store::value::{StrRef, ValueRef};

use super::Reply;

/// Redis shares the objects of these small integers and counts no references to them.
const SHARED_INTEGERS: std::ops::Range<i64> = 0..10_000;
const SHARED_REFERENCES: i64 = i32::MAX as i64;

/// OBJECT ENCODING key
pub(super) fn encoding(ctx: &mut Ctx<'_, '_>) -> Reply {
    match ctx.db.peek(ctx.key(2)) {
        None => ctx.out.nil(),
        Some(entry) => ctx.out.bulk_str(entry.encoding()),
    }
    Ok(())
}

/// OBJECT REFCOUNT key
pub(super) fn refcount(ctx: &mut Ctx<'_, '_>) -> Reply {
    match ctx.db.peek(ctx.key(2)).map(|entry| entry.value()) {
        None => ctx.out.nil(),
        Some(ValueRef::Str(StrRef::Int(number))) if SHARED_INTEGERS.contains(&number) => {
            ctx.out.int(SHARED_REFERENCES);
        }
        Some(_) => ctx.out.int(1),
    }
    Ok(())
}

/// OBJECT IDLETIME key
pub(super) fn idletime(ctx: &mut Ctx<'_, '_>) -> Reply {
    let now = (ctx.db.now_ms() / 1000) as u32;
    let by_frequency = matches!(ctx.db.recency, Recency::Frequency(_));
    if by_frequency && ctx.db.peek(ctx.key(2)).is_some() {
        return Err(CommandError::err(
            "An LFU maxmemory policy is selected, idle time not tracked. Please note that when switching between \
             policies at runtime LRU and LFU data will take some time to adjust.",
        ));
    }
    match ctx.db.peek(ctx.key(2)) {
        None => ctx.out.nil(),
        Some(entry) => ctx.out.int(i64::from(now.saturating_sub(entry.stamp()))),
    }
    Ok(())
}

/// OBJECT FREQ key
pub(super) fn freq(ctx: &mut Ctx<'_, '_>) -> Reply {
    let Some(stamp) = ctx.db.peek(ctx.key(2)).map(Entry::stamp) else {
        ctx.out.nil();
        return Ok(());
    };
    if let Some(frequency) = ctx.db.recency.frequency(stamp) {
        ctx.out.int(i64::from(frequency));
        return Ok(());
    }
    Err(CommandError::err(
        "An LFU maxmemory policy is not selected, access frequency not tracked. Please note that when switching \
         between policies at runtime LRU and LFU data will take some time to adjust.",
    ))
}

/// OBJECT HELP
pub(super) fn help(ctx: &mut Ctx<'_, '_>) -> Reply {
    nagaya_exec::help::help(
        ctx,
        &[
            ("ENCODING <key>", &["Name the form in which the value is kept."]),
            (
                "FREQ <key>",
                &["Return how often the key is used, on a logarithmic scale."],
            ),
            (
                "IDLETIME <key>",
                &["Return for how many seconds the key was not used."],
            ),
            (
                "REFCOUNT <key>",
                &["Return how many references there are to the value."],
            ),
        ],
    )
}
