//! Strings.

use nagaya_command_spec::error::CommandError;
use nagaya_command_spec::spec::{
    ACCESS, Category, DELETE, DENYOOM, FAST, INSERT, OW, READONLY, RO, RW, UPDATE, VARIABLE_FLAGS, WRITE,
    key, keys_to,
};
use nagaya_exec::ctx::Ctx;
use nagaya_exec::entry::{Entry, cmd};
use nagaya_keyspace::db::Expiry;
use nagaya_keyspace::notify::Events;
use nagaya_resp::{Extended, parse_i64};

mod lcs;
mod set;

pub(crate) const COMMANDS: &[Entry] = &[
    cmd("APPEND", 3, append)
        .flags(WRITE.and(DENYOOM).and(FAST))
        .acl(Category::STRING)
        .group("string")
        .keys(&[key(1, RW.and(INSERT))])
        .since("2.0.0")
        .about("Adds text to the end of a string.", "O(1) amortised"),
    cmd("DECR", 2, decr)
        .flags(WRITE.and(DENYOOM).and(FAST))
        .acl(Category::STRING)
        .group("string")
        .keys(&[key(1, RW.and(ACCESS).and(UPDATE))])
        .about("Takes one from an integer.", "O(1)"),
    cmd("DECRBY", 3, decrby)
        .flags(WRITE.and(DENYOOM).and(FAST))
        .acl(Category::STRING)
        .group("string")
        .keys(&[key(1, RW.and(ACCESS).and(UPDATE))])
        .about("Takes a number from an integer.", "O(1)"),
    cmd("DELIFEQ", 3, set::delifeq)
        .flags(WRITE.and(FAST))
        .acl(Category::STRING)
        .group("string")
        .keys(&[key(1, RW.and(ACCESS).and(DELETE))])
        .since("9.0.0")
        .about("Removes a key if it holds the given string.", "O(1)"),
    cmd("GET", 2, get)
        .flags(READONLY.and(FAST))
        .acl(Category::STRING)
        .group("string")
        .keys(&[key(1, RO.and(ACCESS))])
        .about("Returns a string.", "O(1)"),
    cmd("GETDEL", 2, getdel)
        .flags(WRITE.and(FAST))
        .acl(Category::STRING)
        .group("string")
        .keys(&[key(1, RW.and(ACCESS).and(DELETE))])
        .since("6.2.0")
        .about("Returns a string and removes its key.", "O(1)"),
    cmd("GETEX", -2, set::getex)
        .flags(WRITE.and(FAST))
        .acl(Category::STRING)
        .group("string")
        .keys(&[key(1, RW.and(ACCESS).and(UPDATE))])
        .since("6.2.0")
        .about("Returns a string and changes when its key expires.", "O(1)"),
    cmd("GETRANGE", 4, getrange)
        .flags(READONLY)
        .acl(Category::STRING)
        .group("string")
        .keys(&[key(1, RO.and(ACCESS))])
        .since("2.4.0")
        .about("Returns a part of a string.", "O(N) for N returned bytes"),
    cmd("GETSET", 3, getset)
        .flags(WRITE.and(DENYOOM).and(FAST))
        .acl(Category::STRING)
        .group("string")
        .keys(&[key(1, RW.and(ACCESS).and(UPDATE))])
        .about("Sets a string and returns what it was before.", "O(1)"),
    cmd("INCR", 2, incr)
        .flags(WRITE.and(DENYOOM).and(FAST))
        .acl(Category::STRING)
        .group("string")
        .keys(&[key(1, RW.and(ACCESS).and(UPDATE))])
        .about("Adds one to an integer.", "O(1)"),
    cmd("INCRBY", 3, incrby)
        .flags(WRITE.and(DENYOOM).and(FAST))
        .acl(Category::STRING)
        .group("string")
        .keys(&[key(1, RW.and(ACCESS).and(UPDATE))])
        .about("Adds a number to an integer.", "O(1)"),
    cmd("INCRBYFLOAT", 3, incrbyfloat)
        .flags(WRITE.and(DENYOOM).and(FAST))
        .acl(Category::STRING)
        .group("string")
        .keys(&[key(1, RW.and(ACCESS).and(UPDATE))])
        .since("2.6.0")
        .about("Adds a decimal number to a number.", "O(1)"),
    cmd("LCS", -3, lcs::lcs)
        .flags(READONLY)
        .acl(Category::STRING)
        .group("string")
        .keys(&[keys_to(1, 2, 1, RO.and(ACCESS))])
        .since("7.0.0")
        .about(
            "Finds the longest common subsequence of two strings.",
            "O(N*M) for strings of N and M bytes",
        ),
    cmd("MGET", -2, mget)
        .flags(READONLY.and(FAST))
        .acl(Category::STRING)
        .group("string")
        .keys(&[keys_to(1, -1, 1, RO.and(ACCESS))])
        .about("Returns several strings.", "O(N) for N keys"),
    cmd("MSET", -3, mset)
        .flags(WRITE.and(DENYOOM))
        .acl(Category::STRING)
        .group("string")
        .keys(&[keys_to(1, -1, 2, OW.and(UPDATE))])
        .since("1.0.1")
        .about("Sets several strings at once.", "O(N) for N keys"),
    cmd("MSETNX", -3, msetnx)
        .flags(WRITE.and(DENYOOM))
        .acl(Category::STRING)
        .group("string")
        .keys(&[keys_to(1, -1, 2, OW.and(INSERT))])
        .since("1.0.1")
        .about(
            "Sets several strings at once if none of the keys exists.",
            "O(N) for N keys",
        ),
    cmd("PSETEX", 4, set::psetex)
        .flags(WRITE.and(DENYOOM))
        .acl(Category::STRING)
        .group("string")
        .keys(&[key(1, OW.and(UPDATE))])
        .since("2.6.0")
        .about("Sets a string that expires after some milliseconds.", "O(1)"),
    cmd("SET", -3, set::set)
        .flags(WRITE.and(DENYOOM))
        .acl(Category::STRING)
        .group("string")
        .keys(&[key(1, RW.and(ACCESS).and(UPDATE).and(VARIABLE_FLAGS))])
        .key_use(set::set_key_use)
        .about("Sets a string, whatever the key held.", "O(1)"),
    cmd("SETEX", 4, set::setex)
        .flags(WRITE.and(DENYOOM))
        .acl(Category::STRING)
        .group("string")
        .keys(&[key(1, OW.and(UPDATE))])
        .since("2.0.0")
        .about("Sets a string that expires after some seconds.", "O(1)"),
    cmd("SETNX", 3, set::setnx)
        .flags(WRITE.and(DENYOOM).and(FAST))
        .acl(Category::STRING)
        .group("string")
        .keys(&[key(1, OW.and(INSERT))])
        .about("Sets a string if the key does not exist.", "O(1)"),
    cmd("SETRANGE", 4, setrange)
        .flags(WRITE.and(DENYOOM))
        .acl(Category::STRING)
        .group("string")
        .keys(&[key(1, RW.and(UPDATE))])
        .since("2.2.0")
        .about(
            "Overwrites a part of a string, padding it with zero bytes if it is shorter.",
            "O(N) for N bytes",
        ),
    cmd("STRLEN", 2, strlen)
        .flags(READONLY.and(FAST))
        .acl(Category::STRING)
        .group("string")
        .keys(&[key(1, RO)])
        .since("2.2.0")
        .about("Returns the length of a string in bytes.", "O(1)"),
    cmd("SUBSTR", 4, getrange)
        .flags(READONLY)
        .acl(Category::STRING)
        .group("string")
        .keys(&[key(1, RO.and(ACCESS))])
        .about(
            "Returns a part of a string; the old name of GETRANGE.",
            "O(N) for N returned bytes",
        ),
];

type Reply = Result<(), CommandError>;

/// GET key
fn get(ctx: &mut Ctx<'_, '_>) -> Reply {
    match ctx.db.string(ctx.key(1))? {
        None => ctx.out.nil(),
        Some(text) => ctx.out.bulk(text.as_bytes(&mut itoa::Buffer::new())),
    }
    Ok(())
}

/// GETDEL key
fn getdel(ctx: &mut Ctx<'_, '_>) -> Reply {
    let key = ctx.key(1);
    get(ctx)?;
    if ctx.db.remove(key) {
        ctx.db.notify(Events::GENERIC, "del", key);
        ctx.db.modified(key);
        ctx.db.effect(&[b"DEL", key]);
    }
    Ok(())
}

/// GETSET key value
fn getset(ctx: &mut Ctx<'_, '_>) -> Reply {
    let key = ctx.key(1);
    get(ctx)?;
    ctx.db.set_str(key, ctx.key(2), Expiry::Clear);
    ctx.db.notify(Events::STRING, "set", key);
    ctx.db.modified(key);
    Ok(())
}

/// MGET key [key ...]
fn mget(ctx: &mut Ctx<'_, '_>) -> Reply {
    ctx.out.array(ctx.args.len() - 1);
    for key in ctx.args.iter().skip(1) {
        match ctx.db.entry(key).and_then(|entry| entry.string()) {
            None => ctx.out.nil(),
            Some(text) => ctx.out.bulk(text.as_bytes(&mut itoa::Buffer::new())),
        }
    }
    Ok(())
}

/// MSET key value [key value ...]
fn mset(ctx: &mut Ctx<'_, '_>) -> Reply {
    check_pairs(ctx)?;
    set_pairs(ctx);
    ctx.out.ok();
    Ok(())
}

/// MSETNX key value [key value ...]
fn msetnx(ctx: &mut Ctx<'_, '_>) -> Reply {
    check_pairs(ctx)?;
    if (1..ctx.args.len())
        .step_by(2)
        .any(|at| ctx.db.exists(ctx.key(at)))
    {
        ctx.out.int(0);
        return Ok(());
    }
    set_pairs(ctx);
    ctx.out.int(1);
    Ok(())
}

fn check_pairs(ctx: &Ctx<'_, '_>) -> Reply {
    if ctx.args.len().is_multiple_of(2) {
        return Err(CommandError::wrong_arity(&ctx.command.full_name));
    }
    Ok(())
}

fn set_pairs(ctx: &mut Ctx<'_, '_>) {
    for at in (1..ctx.args.len()).step_by(2) {
        let key = ctx.key(at);
        ctx.db.set_str(key, ctx.key(at + 1), Expiry::Clear);
        ctx.db.notify(Events::STRING, "set", key);
        ctx.db.modified(key);
        ctx.db.effect(&[b"SET", key, ctx.key(at + 1)]);
    }
}

/// APPEND key value
fn append(ctx: &mut Ctx<'_, '_>) -> Reply {
    let (key, tail, bytes_max) = (ctx.key(1), ctx.key(2), ctx.string_bytes_max());
    let length = match ctx.db.entry_mut(key) {
        None => {
            ctx.db.set_str(key, tail, Expiry::Clear);
            tail.len()
        }
        Some(entry) => {
            let before = entry.string().ok_or(CommandError::WrongType)?.len();
            check_length(before, tail.len(), bytes_max)?;
            let text = entry.string_mut().ok_or(CommandError::WrongType)?;
            text.extend_from_slice(tail);
            text.len()
        }
    };
    ctx.db.notify(Events::STRING, "append", key);
    ctx.db.modified(key);
    ctx.out.int(length as i64);
    Ok(())
}

/// STRLEN key
fn strlen(ctx: &mut Ctx<'_, '_>) -> Reply {
    let length = ctx.db.string(ctx.key(1))?.map_or(0, |text| text.len());
    ctx.out.int(length as i64);
    Ok(())
}

/// SETRANGE key offset value
fn setrange(ctx: &mut Ctx<'_, '_>) -> Reply {
    let (key, patch) = (ctx.key(1), ctx.key(3));
    let offset = ctx.int(2)?;
    let Ok(offset) = usize::try_from(offset) else {
        return Err(CommandError::err("offset is out of range"));
    };
    let before = ctx.db.string(key)?.map_or(0, |text| text.len());
    if patch.is_empty() {
        ctx.out.int(before as i64);
        return Ok(());
    }
    check_length(offset, patch.len(), ctx.string_bytes_max())?;
    let text = ctx.db.string_mut_or_create(key)?;
    if text.len() < offset + patch.len() {
        text.resize(offset + patch.len(), 0);
    }
    text[offset..offset + patch.len()].copy_from_slice(patch);
    let length = text.len();
    ctx.db.notify(Events::STRING, "setrange", key);
    ctx.db.modified(key);
    ctx.out.int(length as i64);
    Ok(())
}

/// GETRANGE key start end
fn getrange(ctx: &mut Ctx<'_, '_>) -> Reply {
    let (start, end) = (ctx.int(2)?, ctx.int(3)?);
    let Some(text) = ctx.db.string(ctx.key(1))? else {
        ctx.out.bulk(b"");
        return Ok(());
    };
    let mut buffer = itoa::Buffer::new();
    let text = text.as_bytes(&mut buffer);
    let part = match byte_range(text.len(), start, end) {
        Some(range) => &text[range],
        None => b"",
    };
    ctx.out.bulk(part);
    Ok(())
}

/// Turns Redis's inclusive range with negative ends into one of bytes; nothing when it is empty.
fn byte_range(length: usize, start: i64, end: i64) -> Option<std::ops::Range<usize>> {
    let length = length as i64;
    if start < 0 && end < 0 && start > end {
        return None;
    }
    let from_end = |at: i64| if at < 0 { (length + at).max(0) } else { at };
    let (start, end) = (from_end(start), from_end(end).min(length - 1));
    (start <= end && length > 0).then(|| start as usize..end as usize + 1)
}

/// INCR key
fn incr(ctx: &mut Ctx<'_, '_>) -> Reply {
    add(ctx, 1)
}

/// DECR key
fn decr(ctx: &mut Ctx<'_, '_>) -> Reply {
    add(ctx, -1)
}

/// INCRBY key increment
fn incrby(ctx: &mut Ctx<'_, '_>) -> Reply {
    let by = ctx.int(2)?;
    add(ctx, by)
}

/// DECRBY key decrement
fn decrby(ctx: &mut Ctx<'_, '_>) -> Reply {
    let by = ctx.int(2)?;
    let by = by
        .checked_neg()
        .ok_or(CommandError::err("decrement would overflow"))?;
    add(ctx, by)
}

fn add(ctx: &mut Ctx<'_, '_>, by: i64) -> Reply {
    let key = ctx.key(1);
    let sum = match ctx.db.entry_mut(key) {
        None => {
            ctx.db
                .set_str(key, itoa::Buffer::new().format(by).as_bytes(), Expiry::Clear);
            by
        }
        Some(entry) => {
            let text = entry.string().ok_or(CommandError::WrongType)?;
            let number = match text {
                nagaya_store::value::StrRef::Int(number) => number,
                nagaya_store::value::StrRef::Bytes(bytes) => {
                    parse_i64(bytes).ok_or(CommandError::NotInteger)?
                }
            };
            let overflow = CommandError::err("increment or decrement would overflow");
            let sum = number.checked_add(by).ok_or(overflow)?;
            entry.replace_int(sum);
            sum
        }
    };
    ctx.db.notify(Events::STRING, "incrby", key);
    ctx.db.modified(key);
    ctx.out.int(sum);
    Ok(())
}

/// INCRBYFLOAT key increment
fn incrbyfloat(ctx: &mut Ctx<'_, '_>) -> Reply {
    let key = ctx.key(1);
    let old = match ctx.db.string(key)? {
        None => Extended::from(0.0),
        Some(text) => {
            Extended::parse(text.as_bytes(&mut itoa::Buffer::new())).ok_or(CommandError::NotFloat)?
        }
    };
    let by = Extended::parse(ctx.key(2)).ok_or(CommandError::NotFloat)?;
    let overflow = CommandError::err("increment would produce NaN or Infinity");
    let sum = old.checked_add(by).ok_or(overflow)?;
    let mut text = Vec::new();
    sum.write_human(&mut text);
    ctx.db.set_str(key, &text, Expiry::Keep);
    ctx.db.notify(Events::STRING, "incrbyfloat", key);
    ctx.db.modified(key);
    ctx.db.effect(&[b"SET", key, &text, b"KEEPTTL"]);
    ctx.out.bulk(&text);
    Ok(())
}

/// Refuses a string that would grow past the limit.
pub(crate) fn check_length(size: usize, added: usize, limit: usize) -> Reply {
    match size.checked_add(added) {
        Some(total) if total <= limit => Ok(()),
        _ => Err(CommandError::err(
            "string exceeds maximum allowed size (proto-max-bulk-len)",
        )),
    }
}

#[cfg(test)]
mod tests {
    use crate::testing::TestSession;

    #[test]
    fn getdel_of_a_missing_key_replies_nil() {
        let mut session = TestSession::new();
        session.check("GETDEL k", "$-1\r\n");
        session.check("SET k v", "+OK\r\n");
        session.check("GETDEL k", "$1\r\nv\r\n");
        session.check("GET k", "$-1\r\n");
    }

    #[test]
    fn counting_stops_at_the_ends_of_64_bits() {
        let mut session = TestSession::new();
        session.check("SET k 9223372036854775807", "+OK\r\n");
        session.check("INCR k", "-ERR increment or decrement would overflow\r\n");
        session.check(
            "DECRBY k -9223372036854775808",
            "-ERR decrement would overflow\r\n",
        );
        session.check("GET k", "$19\r\n9223372036854775807\r\n");
    }

    #[test]
    fn getrange_counts_from_both_ends() {
        let mut session = TestSession::new();
        session.check("SET k 12345", "+OK\r\n");
        for (range, expected) in [
            ("0 -1", "12345"),
            ("-2 -1", "45"),
            ("1 100", "2345"),
            ("3 1", ""),
            ("-1 -5", ""),
            ("-100 0", "1"),
        ] {
            session.check(
                &format!("GETRANGE k {range}"),
                &format!("${}\r\n{expected}\r\n", expected.len()),
            );
        }
    }
}
