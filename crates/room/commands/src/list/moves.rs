//! Moving one element between lists: LMOVE, RPOPLPUSH and the forms that wait.

use nagaya_command_spec::error::CommandError;
use nagaya_connections::blocking::TimeoutReply;
use nagaya_exec::ctx::{Ctx, KeyWait};
use nagaya_keyspace::effects::same_tag;
use nagaya_keyspace::notify::Events;
use nagaya_store::list::{End, List};
use nagaya_store::value::ValueKind;

use super::{Reply, end_named, pop_event, pop_name, push_event};

/// LMOVE source destination LEFT|RIGHT LEFT|RIGHT
pub(super) fn lmove(ctx: &mut Ctx<'_, '_>) -> Reply {
    let (from, to) = (end_named(ctx, 3)?, end_named(ctx, 4)?);
    move_or_nil(ctx, from, to)
}

/// RPOPLPUSH source destination
pub(super) fn rpoplpush(ctx: &mut Ctx<'_, '_>) -> Reply {
    move_or_nil(ctx, End::Tail, End::Head)
}

/// BLMOVE source destination LEFT|RIGHT LEFT|RIGHT timeout
pub(super) fn blmove(ctx: &mut Ctx<'_, '_>) -> Reply {
    let (from, to) = (end_named(ctx, 3)?, end_named(ctx, 4)?);
    let timeout_ms = ctx.timeout(5)?;
    move_or_wait(ctx, from, to, timeout_ms)
}

/// BRPOPLPUSH source destination timeout
pub(super) fn brpoplpush(ctx: &mut Ctx<'_, '_>) -> Reply {
    let timeout_ms = ctx.timeout(3)?;
    move_or_wait(ctx, End::Tail, End::Head, timeout_ms)
}

fn move_or_nil(ctx: &mut Ctx<'_, '_>, from: End, to: End) -> Reply {
    if !move_element(ctx, from, to)? {
        ctx.out.nil();
    }
    Ok(())
}

fn move_or_wait(ctx: &mut Ctx<'_, '_>, from: End, to: End, timeout_ms: i64) -> Reply {
    if move_element(ctx, from, to)? {
        return Ok(());
    }
    // Where nobody may wait the reply is a missing value; a wait that ends by time is a missing array.
    if !ctx.may_wait() {
        ctx.out.nil();
        return Ok(());
    }
    ctx.wait(KeyWait {
        keys: vec![ctx.key(1)],
        wake_on: ValueKind::List,
        wake_on_loss: false,
        timeout_ms,
        on_timeout: TimeoutReply::NilArray,
        run_instead: None,
    });
    Ok(())
}

/// Moves one element and replies with it; false, and no reply, when there is no source.
fn move_element(ctx: &mut Ctx<'_, '_>, from: End, to: End) -> Result<bool, CommandError> {
    let (source, destination) = (ctx.key(1), ctx.key(2));
    if ctx.db.write::<List>(source)?.is_none() {
        return Ok(false);
    }
    ctx.db.write::<List>(destination)?;
    let Some(list) = ctx.db.write::<List>(source)? else {
        return Ok(false);
    };
    let Some(element) = list.pop(from) else {
        return Ok(false);
    };
    let source_emptied = list.is_empty() && source != destination;
    let limits = ctx.limits();
    let list = ctx.db.write_or_create::<List>(destination)?;
    list.push(to, &element, &limits);
    ctx.db.modified(destination);
    ctx.db.notify(Events::LIST, push_event(to), destination);
    ctx.out.bulk(&element);
    ctx.db.notify(Events::LIST, pop_event(from), source);
    if source_emptied {
        ctx.db.remove_if_empty::<List>(source);
    }
    ctx.db.modified(source);
    if same_tag(source, destination) {
        let effect: &[&[u8]] = &[b"LMOVE", source, destination, word(from), word(to)];
        ctx.db.effect(effect);
    } else {
        ctx.db.effect(&[pop_name(from), source]);
        ctx.db.effect(&[push_name(to), destination, &element]);
    }
    Ok(true)
}

fn word(end: End) -> &'static [u8] {
    match end {
        End::Head => b"LEFT",
        End::Tail => b"RIGHT",
    }
}

fn push_name(end: End) -> &'static [u8] {
    match end {
        End::Head => b"LPUSH",
        End::Tail => b"RPUSH",
    }
}
