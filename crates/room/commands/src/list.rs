//! Lists.

use nagaya_command_spec::error::CommandError;
use nagaya_command_spec::spec::{
    ACCESS, BLOCKING, Category, DELETE, DENYOOM, FAST, INSERT, KeySpec, MOVABLE_KEYS, NOSCRIPT, READONLY, RO,
    RW, UPDATE, WRITE, counted_keys, key, keys_to,
};
use nagaya_exec::ctx::Ctx;
use nagaya_exec::entry::{Entry, cmd};
use nagaya_keyspace::notify::Events;
use nagaya_store::list::{End, List};
use nagaya_store::listpack::Item;

mod moves;
mod pop;
mod pos;

/// The list elements are taken from.
const TAKEN: KeySpec = key(1, RW.and(ACCESS).and(DELETE));

pub(crate) const COMMANDS: &[Entry] = &[
    cmd("BLMOVE", 6, moves::blmove)
        .flags(WRITE.and(DENYOOM).and(NOSCRIPT).and(BLOCKING))
        .acl(Category::LIST)
        .group("list")
        .keys(&[TAKEN, key(2, RW.and(INSERT))])
        .since("6.2.0")
        .about(
            "Moves an element between list ends, waiting for one if there is none.",
            "O(1)",
        ),
    cmd("BLMPOP", -5, pop::blmpop)
        .flags(WRITE.and(BLOCKING).and(MOVABLE_KEYS))
        .acl(Category::LIST)
        .group("list")
        .keys(&[counted_keys(2, RW.and(ACCESS).and(DELETE))])
        .since("7.0.0")
        .about(
            "Takes elements from the first list that has any, waiting for one if none has.",
            "O(N+M) for N keys and M returned elements",
        ),
    cmd("BLPOP", -3, pop::blpop)
        .flags(WRITE.and(NOSCRIPT).and(BLOCKING))
        .acl(Category::LIST)
        .group("list")
        .keys(&[keys_to(1, -2, 1, RW.and(ACCESS).and(DELETE))])
        .since("2.0.0")
        .about(
            "Takes the first element of the first list that has any, waiting if none has.",
            "O(N) for N keys",
        ),
    cmd("BRPOP", -3, pop::brpop)
        .flags(WRITE.and(NOSCRIPT).and(BLOCKING))
        .acl(Category::LIST)
        .group("list")
        .keys(&[keys_to(1, -2, 1, RW.and(ACCESS).and(DELETE))])
        .since("2.0.0")
        .about(
            "Takes the last element of the first list that has any, waiting if none has.",
            "O(N) for N keys",
        ),
    cmd("BRPOPLPUSH", 4, moves::brpoplpush)
        .flags(WRITE.and(DENYOOM).and(NOSCRIPT).and(BLOCKING))
        .acl(Category::LIST)
        .group("list")
        .keys(&[TAKEN, key(2, RW.and(INSERT))])
        .since("2.2.0")
        .about(
            "Moves the last element of a list to the head of another, waiting for one if there is none.",
            "O(1)",
        ),
    cmd("LINDEX", 3, lindex)
        .flags(READONLY)
        .acl(Category::LIST)
        .group("list")
        .keys(&[key(1, RO.and(ACCESS))])
        .about(
            "Returns the element at an index.",
            "O(N) for N elements between the index and the nearer end",
        ),
    cmd("LINSERT", 5, linsert)
        .flags(WRITE.and(DENYOOM))
        .acl(Category::LIST)
        .group("list")
        .keys(&[key(1, RW.and(INSERT))])
        .since("2.2.0")
        .about(
            "Puts an element before or after another.",
            "O(N) for N elements before the pivot",
        ),
    cmd("LLEN", 2, llen)
        .flags(READONLY.and(FAST))
        .acl(Category::LIST)
        .group("list")
        .keys(&[key(1, RO)])
        .about("Returns the length of a list.", "O(1)"),
    cmd("LMOVE", 5, moves::lmove)
        .flags(WRITE.and(DENYOOM))
        .acl(Category::LIST)
        .group("list")
        .keys(&[TAKEN, key(2, RW.and(INSERT))])
        .since("6.2.0")
        .about(
            "Moves an element from an end of a list to an end of another.",
            "O(1)",
        ),
    cmd("LMPOP", -4, pop::lmpop)
        .flags(WRITE.and(MOVABLE_KEYS))
        .acl(Category::LIST)
        .group("list")
        .keys(&[counted_keys(1, RW.and(ACCESS).and(DELETE))])
        .since("7.0.0")
        .about(
            "Takes elements from the first list that has any.",
            "O(N+M) for N keys and M returned elements",
        ),
    cmd("LPOP", -2, pop::lpop)
        .flags(WRITE.and(FAST))
        .acl(Category::LIST)
        .group("list")
        .keys(&[TAKEN])
        .about(
            "Takes elements from the head of a list.",
            "O(N) for N returned elements",
        ),
    cmd("LPOS", -3, pos::lpos)
        .flags(READONLY)
        .acl(Category::LIST)
        .group("list")
        .keys(&[key(1, RO.and(ACCESS))])
        .since("6.0.6")
        .about(
            "Returns where in a list an element is.",
            "O(N) for N elements looked at",
        ),
    cmd("LPUSH", -3, lpush)
        .flags(WRITE.and(DENYOOM).and(FAST))
        .acl(Category::LIST)
        .group("list")
        .keys(&[key(1, RW.and(INSERT))])
        .about("Adds elements at the head of a list.", "O(1) per element"),
    cmd("LPUSHX", -3, lpushx)
        .flags(WRITE.and(DENYOOM).and(FAST))
        .acl(Category::LIST)
        .group("list")
        .keys(&[key(1, RW.and(INSERT))])
        .since("2.2.0")
        .about(
            "Adds elements at the head of a list that exists.",
            "O(1) per element",
        ),
    cmd("LRANGE", 4, lrange)
        .flags(READONLY)
        .acl(Category::LIST)
        .group("list")
        .keys(&[key(1, RO.and(ACCESS))])
        .about(
            "Returns a range of elements.",
            "O(S+N) for N elements S away from the nearer end",
        ),
    cmd("LREM", 4, lrem)
        .flags(WRITE)
        .acl(Category::LIST)
        .group("list")
        .keys(&[key(1, RW.and(DELETE))])
        .about(
            "Removes elements equal to a value.",
            "O(N) for the length of the list",
        ),
    cmd("LSET", 4, lset)
        .flags(WRITE.and(DENYOOM))
        .acl(Category::LIST)
        .group("list")
        .keys(&[key(1, RW.and(UPDATE))])
        .about(
            "Overwrites the element at an index.",
            "O(N) for N elements between the index and the nearer end",
        ),
    cmd("LTRIM", 4, ltrim)
        .flags(WRITE)
        .acl(Category::LIST)
        .group("list")
        .keys(&[key(1, RW.and(DELETE))])
        .about(
            "Removes all elements outside a range.",
            "O(N) for N removed elements",
        ),
    cmd("RPOP", -2, pop::rpop)
        .flags(WRITE.and(FAST))
        .acl(Category::LIST)
        .group("list")
        .keys(&[TAKEN])
        .about(
            "Takes elements from the tail of a list.",
            "O(N) for N returned elements",
        ),
    cmd("RPOPLPUSH", 3, moves::rpoplpush)
        .flags(WRITE.and(DENYOOM))
        .acl(Category::LIST)
        .group("list")
        .keys(&[TAKEN, key(2, RW.and(INSERT))])
        .since("1.2.0")
        .about("Moves the last element of a list to the head of another.", "O(1)"),
    cmd("RPUSH", -3, rpush)
        .flags(WRITE.and(DENYOOM).and(FAST))
        .acl(Category::LIST)
        .group("list")
        .keys(&[key(1, RW.and(INSERT))])
        .about("Adds elements at the tail of a list.", "O(1) per element"),
    cmd("RPUSHX", -3, rpushx)
        .flags(WRITE.and(DENYOOM).and(FAST))
        .acl(Category::LIST)
        .group("list")
        .keys(&[key(1, RW.and(INSERT))])
        .since("2.2.0")
        .about(
            "Adds elements at the tail of a list that exists.",
            "O(1) per element",
        ),
];

type Reply = Result<(), CommandError>;

/// LPUSH key element [element ...]
fn lpush(ctx: &mut Ctx<'_, '_>) -> Reply {
    push(ctx, End::Head)
}

/// RPUSH key element [element ...]
fn rpush(ctx: &mut Ctx<'_, '_>) -> Reply {
    push(ctx, End::Tail)
}

/// LPUSHX key element [element ...]
fn lpushx(ctx: &mut Ctx<'_, '_>) -> Reply {
    push_existing(ctx, End::Head)
}

/// RPUSHX key element [element ...]
fn rpushx(ctx: &mut Ctx<'_, '_>) -> Reply {
    push_existing(ctx, End::Tail)
}

fn push_existing(ctx: &mut Ctx<'_, '_>, end: End) -> Reply {
    if ctx.db.write::<List>(ctx.key(1))?.is_none() {
        ctx.out.int(0);
        return Ok(());
    }
    push(ctx, end)
}

fn push(ctx: &mut Ctx<'_, '_>, end: End) -> Reply {
    let key = ctx.key(1);
    let limits = ctx.limits();
    let list = ctx.db.write_or_create::<List>(key)?;
    for element in ctx.args.iter().skip(2) {
        list.push(end, element, &limits);
    }
    let length = list.len();
    ctx.out.int(length as i64);
    ctx.db.modified(key);
    ctx.db.notify(Events::LIST, push_event(end), key);
    Ok(())
}

/// LLEN key
fn llen(ctx: &mut Ctx<'_, '_>) -> Reply {
    let length = ctx.db.read::<List>(ctx.key(1))?.map_or(0, List::len);
    ctx.out.int(length as i64);
    Ok(())
}

/// LINDEX key index
fn lindex(ctx: &mut Ctx<'_, '_>) -> Reply {
    let Some(list) = ctx.db.read::<List>(ctx.key(1))? else {
        ctx.out.nil();
        return Ok(());
    };
    match list.get(ctx.int(2)?) {
        Some(element) => write_element(ctx.out, element),
        None => ctx.out.nil(),
    }
    Ok(())
}

/// LRANGE key start stop
fn lrange(ctx: &mut Ctx<'_, '_>) -> Reply {
    let (start, stop) = (ctx.int(2)?, ctx.int(3)?);
    let Some(list) = ctx.db.read::<List>(ctx.key(1))? else {
        ctx.out.array(0);
        return Ok(());
    };
    let (start, count) = index_range(list.len(), start, stop);
    ctx.out.array(count);
    for element in list.iter_from(start).take(count) {
        write_element(ctx.out, element);
    }
    Ok(())
}

/// LINSERT key BEFORE|AFTER pivot element
fn linsert(ctx: &mut Ctx<'_, '_>) -> Reply {
    let (key, pivot, element) = (ctx.key(1), ctx.key(3), ctx.key(4));
    let after = ctx.is(2, "AFTER");
    if !after && !ctx.is(2, "BEFORE") {
        return Err(CommandError::Syntax);
    }
    let limits = ctx.limits();
    let Some(list) = ctx.db.write::<List>(key)? else {
        ctx.out.int(0);
        return Ok(());
    };
    let inserted = if after {
        list.insert_after(pivot, element, &limits)
    } else {
        list.insert_before(pivot, element, &limits)
    };
    if !inserted {
        ctx.out.int(-1);
        return Ok(());
    }
    let length = list.len();
    ctx.db.modified(key);
    ctx.db.notify(Events::LIST, "linsert", key);
    ctx.out.int(length as i64);
    Ok(())
}

/// LSET key index element
fn lset(ctx: &mut Ctx<'_, '_>) -> Reply {
    let key = ctx.key(1);
    // The key's own failures come before a bad index.
    if ctx.db.write::<List>(key)?.is_none() {
        return Err(CommandError::NoSuchKey);
    }
    let (index, element) = (ctx.int(2)?, ctx.key(3));
    let limits = ctx.limits();
    let list = ctx.db.write::<List>(key)?.ok_or(CommandError::NoSuchKey)?;
    if !list.set(index, element, &limits) {
        return Err(CommandError::IndexOutOfRange);
    }
    ctx.out.ok();
    ctx.db.modified(key);
    ctx.db.notify(Events::LIST, "lset", key);
    Ok(())
}

/// LREM key count element
fn lrem(ctx: &mut Ctx<'_, '_>) -> Reply {
    let (key, count, element) = (ctx.key(1), ctx.int(2)?, ctx.key(3));
    let limits = ctx.limits();
    let Some(list) = ctx.db.write::<List>(key)? else {
        ctx.out.int(0);
        return Ok(());
    };
    let from = if count < 0 { End::Tail } else { End::Head };
    let max = if count == 0 {
        usize::MAX
    } else {
        count.unsigned_abs() as usize
    };
    let removed = list.remove(element, from, max, &limits);
    let emptied = list.is_empty();
    if removed > 0 {
        ctx.db.modified(key);
        ctx.db.notify(Events::LIST, "lrem", key);
    }
    if emptied {
        ctx.db.remove_if_empty::<List>(key);
    }
    ctx.out.int(removed as i64);
    Ok(())
}

/// LTRIM key start stop
fn ltrim(ctx: &mut Ctx<'_, '_>) -> Reply {
    let (key, start, stop) = (ctx.key(1), ctx.int(2)?, ctx.int(3)?);
    if let Some(list) = ctx.db.write::<List>(key)? {
        let (start, count) = index_range(list.len(), start, stop);
        list.keep_range(start, count);
        let emptied = list.is_empty();
        ctx.db.notify(Events::LIST, "ltrim", key);
        if emptied {
            ctx.db.remove_if_empty::<List>(key);
        }
        ctx.db.modified(key);
    }
    ctx.out.ok();
    Ok(())
}

/// Turns an inclusive range with negative ends into a first index and a count.
fn index_range(length: usize, start: i64, stop: i64) -> (usize, usize) {
    let length = length as i64;
    let from_end = |at: i64| if at < 0 { (length + at).max(-1) } else { at };
    let (start, stop) = (from_end(start).max(0), from_end(stop).min(length - 1));
    if start > stop {
        (0, 0)
    } else {
        (start as usize, (stop - start + 1) as usize)
    }
}

#[inline]
fn write_element(out: &mut nagaya_resp::Out, element: Item<'_>) {
    match element {
        Item::Int(int) => out.bulk_int(int),
        Item::Str(bytes) => out.bulk(bytes),
    }
}

/// Reads LEFT or RIGHT.
fn end_named(ctx: &Ctx<'_, '_>, at: usize) -> Result<End, CommandError> {
    if ctx.is(at, "LEFT") {
        Ok(End::Head)
    } else if ctx.is(at, "RIGHT") {
        Ok(End::Tail)
    } else {
        Err(CommandError::Syntax)
    }
}

fn push_event(end: End) -> &'static str {
    match end {
        End::Head => "lpush",
        End::Tail => "rpush",
    }
}

fn pop_event(end: End) -> &'static str {
    match end {
        End::Head => "lpop",
        End::Tail => "rpop",
    }
}

/// The command that takes elements off an end.
fn pop_name(end: End) -> &'static [u8] {
    match end {
        End::Head => b"LPOP",
        End::Tail => b"RPOP",
    }
}

#[cfg(test)]
mod tests;
