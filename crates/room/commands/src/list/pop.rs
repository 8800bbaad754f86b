//! Taking elements off the ends: LPOP, RPOP, LMPOP and the forms that wait.

use nagaya_command_spec::error::CommandError;
use nagaya_connections::blocking::TimeoutReply;
use nagaya_exec::ctx::{Ctx, KeyWait};
use nagaya_keyspace::notify::Events;
use nagaya_resp::parse_i64;
use nagaya_store::list::{End, List};
use nagaya_store::value::ValueKind;

use super::{Reply, end_named, pop_event, pop_name, write_element};

/// What LMPOP and BLMPOP ask for.
struct ManyPop<'a> {
    keys: Vec<&'a [u8]>,
    end: End,
    count: usize,
}

/// LPOP key [count]
pub(super) fn lpop(ctx: &mut Ctx<'_, '_>) -> Reply {
    pop(ctx, End::Head)
}

/// RPOP key [count]
pub(super) fn rpop(ctx: &mut Ctx<'_, '_>) -> Reply {
    pop(ctx, End::Tail)
}

fn pop(ctx: &mut Ctx<'_, '_>, end: End) -> Reply {
    let key = ctx.key(1);
    match ctx.args.len() {
        2 => {
            if !pop_one(ctx, key, end, None)? {
                ctx.out.nil();
            }
        }
        3 => {
            let count = parse_i64(ctx.key(2)).and_then(|count| usize::try_from(count).ok());
            let count = count.ok_or(CommandError::MustBePositive)?;
            match ctx.db.write::<List>(key)? {
                None => ctx.out.nil_array(),
                Some(_) if count == 0 => ctx.out.array(0),
                Some(_) => pop_many(ctx, key, end, count)?,
            }
        }
        _ => return Err(CommandError::wrong_arity(&ctx.command.full_name)),
    }
    Ok(())
}

/// LMPOP numkeys key [key ...] LEFT|RIGHT [COUNT count]
pub(super) fn lmpop(ctx: &mut Ctx<'_, '_>) -> Reply {
    let request = parse_many(ctx, 1)?;
    if !pop_first(ctx, &request.keys, request.end, Some(request.count))? {
        ctx.out.nil_array();
    }
    Ok(())
}

/// BLMPOP timeout numkeys key [key ...] LEFT|RIGHT [COUNT count]
pub(super) fn blmpop(ctx: &mut Ctx<'_, '_>) -> Reply {
    let request = parse_many(ctx, 2)?;
    let timeout_ms = ctx.timeout(1)?;
    pop_first_or_wait(ctx, request.keys, request.end, Some(request.count), timeout_ms)
}

/// BLPOP key [key ...] timeout
pub(super) fn blpop(ctx: &mut Ctx<'_, '_>) -> Reply {
    blocking_pop(ctx, End::Head)
}

/// BRPOP key [key ...] timeout
pub(super) fn brpop(ctx: &mut Ctx<'_, '_>) -> Reply {
    blocking_pop(ctx, End::Tail)
}

fn blocking_pop(ctx: &mut Ctx<'_, '_>, end: End) -> Reply {
    let last = ctx.args.len() - 1;
    let timeout_ms = ctx.timeout(last)?;
    let keys = ctx.args.range(1..last).iter().collect();
    pop_first_or_wait(ctx, keys, end, None, timeout_ms)
}

fn parse_many<'c>(ctx: &Ctx<'c, '_>, count_at: usize) -> Result<ManyPop<'c>, CommandError> {
    let positive = |at: usize, otherwise: &'static str| {
        let number = parse_i64(ctx.key(at)).filter(|number| *number > 0);
        number
            .map(|number| number as usize)
            .ok_or(CommandError::err(otherwise))
    };
    let key_count = positive(count_at, "numkeys should be greater than 0")?;
    let end_at = count_at.saturating_add(key_count).saturating_add(1);
    if end_at >= ctx.args.len() {
        return Err(CommandError::Syntax);
    }
    let end = end_named(ctx, end_at)?;
    let count = match ctx.args.len() - end_at - 1 {
        0 => 1,
        _ if !ctx.is(end_at + 1, "COUNT") => return Err(CommandError::Syntax),
        1 => return Err(CommandError::Syntax),
        extra => {
            let count = positive(end_at + 2, "count should be greater than 0")?;
            if extra > 2 {
                return Err(CommandError::Syntax);
            }
            count
        }
    };
    let keys = ctx.args.range(count_at + 1..end_at).iter().collect();
    Ok(ManyPop { keys, end, count })
}

fn pop_first_or_wait(
    ctx: &mut Ctx<'_, '_>,
    keys: Vec<&[u8]>,
    end: End,
    count: Option<usize>,
    timeout_ms: i64,
) -> Reply {
    // A woken client is served from the key that woke it, whatever its other keys hold.
    let woken_by = ctx.session.woken_by.take();
    let popped = match &woken_by {
        Some(key) => pop_first(ctx, &[key], end, count)?,
        None => pop_first(ctx, &keys, end, count)?,
    };
    if !popped {
        ctx.wait(KeyWait {
            keys,
            wake_on: ValueKind::List,
            wake_on_loss: false,
            timeout_ms,
            on_timeout: TimeoutReply::NilArray,
            run_instead: None,
        });
    }
    Ok(())
}

/// Takes from the first of the keys that exists and replies with its name and what was taken: one
/// element, or an array of up to `count`. False when no key exists.
fn pop_first(
    ctx: &mut Ctx<'_, '_>,
    keys: &[&[u8]],
    end: End,
    count: Option<usize>,
) -> Result<bool, CommandError> {
    for key in keys {
        match count {
            None => {
                if pop_one(ctx, key, end, Some(key))? {
                    ctx.db.effect(&[pop_name(end), key]);
                    return Ok(true);
                }
            }
            Some(count) => {
                if ctx.db.write::<List>(key)?.is_some() {
                    ctx.out.array(2);
                    ctx.out.bulk(key);
                    pop_many(ctx, key, end, count)?;
                    let mut text = itoa::Buffer::new();
                    let count = text.format(count).as_bytes();
                    ctx.db.effect(&[pop_name(end), key, count]);
                    return Ok(true);
                }
            }
        }
    }
    Ok(false)
}

/// Takes one element and replies with it, after the name of its key if wanted; false, and no reply,
/// when the key is missing.
fn pop_one(ctx: &mut Ctx<'_, '_>, key: &[u8], end: End, named: Option<&[u8]>) -> Result<bool, CommandError> {
    let Some(list) = ctx.db.write::<List>(key)? else {
        return Ok(false);
    };
    let Some(element) = list.peek(end) else {
        return Ok(false);
    };
    if let Some(name) = named {
        ctx.out.array(2);
        ctx.out.bulk(name);
    }
    write_element(ctx.out, element);
    list.drop_end(end);
    let emptied = list.is_empty();
    after_pop(ctx, key, end, emptied);
    Ok(true)
}

/// Takes up to `count` elements of a list that exists and replies with an array of them.
fn pop_many(ctx: &mut Ctx<'_, '_>, key: &[u8], end: End, count: usize) -> Reply {
    let Some(list) = ctx.db.write::<List>(key)? else {
        return Ok(());
    };
    let count = count.min(list.len());
    ctx.out.array(count);
    match end {
        End::Head => {
            list.iter()
                .take(count)
                .for_each(|element| write_element(ctx.out, element));
            list.remove_range(0, count);
        }
        End::Tail => {
            list.iter_rev()
                .take(count)
                .for_each(|element| write_element(ctx.out, element));
            list.remove_range(list.len() - count, count);
        }
    }
    let emptied = list.is_empty();
    after_pop(ctx, key, end, emptied);
    Ok(())
}

fn after_pop(ctx: &mut Ctx<'_, '_>, key: &[u8], end: End, emptied: bool) {
    ctx.db.notify(Events::LIST, pop_event(end), key);
    if emptied {
        ctx.db.remove_if_empty::<List>(key);
    }
    ctx.db.modified(key);
}
