//! SET, its older relatives, and GETEX: the commands with expiry options.

use nagaya_command_spec::error::CommandError;
use nagaya_command_spec::spec::{ACCESS, KeyFlags, OW, RW, UPDATE};
use nagaya_exec::ctx::Ctx;
use nagaya_keyspace::db::{Db, Expiry};
use nagaya_keyspace::notify::Events;
use nagaya_resp::Args;

use super::Reply;

/// When a write may happen.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Condition<'a> {
    Always,
    IfMissing,
    IfThere,
    /// The key holds exactly this.
    IfEqual(&'a [u8]),
    /// The key is missing or holds another string.
    IfDifferent(&'a [u8]),
}

/// How an expiry was given.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Unit {
    Seconds,
    Milliseconds,
    UnixSeconds,
    UnixMilliseconds,
}

/// Returns what SET does with its key: with GET or a comparison it also reads it. As in Redis the word counts
/// wherever it stands, even as a value of another option.
pub(super) fn set_key_use(args: &Args<'_>) -> KeyFlags {
    let reading: [&[u8]; 3] = [b"GET", b"IFEQ", b"IFNE"];
    let reads = |arg: &[u8]| reading.iter().any(|word| arg.eq_ignore_ascii_case(word));
    if args.iter().skip(3).any(reads) {
        RW.and(ACCESS).and(UPDATE)
    } else {
        OW.and(UPDATE)
    }
}

/// SET key value [NX | XX | IFEQ value | IFNE value] [GET] [EX s | PX ms | EXAT unix-s | PXAT unix-ms | KEEPTTL]
pub(super) fn set(ctx: &mut Ctx<'_, '_>) -> Reply {
    if ctx.args.len() == 3 {
        return store(ctx, Expiry::Clear, Condition::Always, false);
    }
    let mut condition = Condition::Always;
    let mut expiry: Option<(Unit, usize)> = None;
    let (mut keep, mut get) = (false, false);
    let mut at = 3;
    while at < ctx.args.len() {
        let is_repeated = |same| condition == Condition::Always || condition == same;
        if ctx.is(at, "NX") && is_repeated(Condition::IfMissing) {
            condition = Condition::IfMissing;
        } else if ctx.is(at, "XX") && is_repeated(Condition::IfThere) {
            condition = Condition::IfThere;
        } else if (ctx.is(at, "IFEQ") || ctx.is(at, "IFNE"))
            && condition == Condition::Always
            && at + 1 < ctx.args.len()
        {
            let equal = ctx.is(at, "IFEQ");
            at += 1;
            let value = ctx.key(at);
            condition = if equal {
                Condition::IfEqual(value)
            } else {
                Condition::IfDifferent(value)
            };
        } else if ctx.is(at, "GET") {
            get = true;
        } else if ctx.is(at, "KEEPTTL") && expiry.is_none() {
            keep = true;
        } else if let Some(unit) = unit(ctx, at)
            && !keep
            && expiry.is_none()
            && at + 1 < ctx.args.len()
        {
            expiry = Some((unit, at + 1));
            at += 1;
        } else {
            return Err(CommandError::Syntax);
        }
        at += 1;
    }
    let expiry = match expiry {
        Some((unit, at)) => Expiry::At(deadline(ctx, at, unit)?),
        None if keep => Expiry::Keep,
        None => Expiry::Clear,
    };
    store(ctx, expiry, condition, get)
}

/// SETNX key value
pub(super) fn setnx(ctx: &mut Ctx<'_, '_>) -> Reply {
    let key = ctx.key(1);
    let missing = !ctx.db.exists(key);
    if missing {
        write(ctx, key, ctx.key(2), Expiry::Clear);
    }
    ctx.out.int(i64::from(missing));
    Ok(())
}

/// SETEX key seconds value
pub(super) fn setex(ctx: &mut Ctx<'_, '_>) -> Reply {
    let at = deadline(ctx, 2, Unit::Seconds)?;
    write(ctx, ctx.key(1), ctx.key(3), Expiry::At(at));
    ctx.out.ok();
    Ok(())
}

/// PSETEX key milliseconds value
pub(super) fn psetex(ctx: &mut Ctx<'_, '_>) -> Reply {
    let at = deadline(ctx, 2, Unit::Milliseconds)?;
    write(ctx, ctx.key(1), ctx.key(3), Expiry::At(at));
    ctx.out.ok();
    Ok(())
}

/// GETEX key [EX s | PX ms | EXAT unix-s | PXAT unix-ms | PERSIST]
pub(super) fn getex(ctx: &mut Ctx<'_, '_>) -> Reply {
    let mut change: Option<Option<(Unit, usize)>> = None;
    let mut at = 2;
    while at < ctx.args.len() {
        if change.is_some() {
            return Err(CommandError::Syntax);
        }
        if ctx.is(at, "PERSIST") {
            change = Some(None);
        } else if let Some(unit) = unit(ctx, at)
            && at + 1 < ctx.args.len()
        {
            change = Some(Some((unit, at + 1)));
            at += 1;
        } else {
            return Err(CommandError::Syntax);
        }
        at += 1;
    }
    let key = ctx.key(1);
    let Some(text) = ctx.db.string(key)? else {
        ctx.out.nil();
        return Ok(());
    };
    let text = text.to_vec();
    match change {
        Some(None) if ctx.db.expiry(key).flatten().is_some() => {
            ctx.db.set_expiry(key, None);
            ctx.db.notify(Events::GENERIC, "persist", key);
            ctx.db.modified(key);
            ctx.db.effect(&[b"PERSIST", key]);
        }
        None | Some(None) => {}
        Some(Some((unit, at))) => {
            let deadline = deadline(ctx, at, unit)?;
            ctx.db.expire_at(key, deadline);
        }
    }
    ctx.out.bulk(&text);
    Ok(())
}

fn store(ctx: &mut Ctx<'_, '_>, expiry: Expiry, condition: Condition<'_>, get: bool) -> Reply {
    let key = ctx.key(1);
    if get {
        match ctx.db.string(key)? {
            None => ctx.out.nil(),
            Some(text) => ctx.out.bulk(text.as_bytes(&mut itoa::Buffer::new())),
        }
    }
    let allowed = match condition {
        Condition::Always => true,
        Condition::IfMissing => !ctx.db.exists(key),
        Condition::IfThere => ctx.db.exists(key),
        Condition::IfEqual(value) => holds(ctx.db, key, value)?,
        Condition::IfDifferent(value) => !holds(ctx.db, key, value)?,
    };
    if allowed {
        write(ctx, key, ctx.key(2), expiry);
    }
    match (get, allowed) {
        (true, _) => {}
        (false, true) => ctx.out.ok(),
        (false, false) => ctx.out.nil(),
    }
    Ok(())
}

/// Returns whether a key holds exactly this string.
fn holds(db: &Db<'_>, key: &[u8], value: &[u8]) -> Result<bool, CommandError> {
    let held = db.string(key)?;
    Ok(held.is_some_and(|held| held.as_bytes(&mut itoa::Buffer::new()) == value))
}

/// DELIFEQ key value
pub(super) fn delifeq(ctx: &mut Ctx<'_, '_>) -> Reply {
    let key = ctx.key(1);
    let equal = holds(ctx.db, key, ctx.key(2))?;
    if equal {
        ctx.db.remove(key);
        ctx.db.notify(Events::GENERIC, "del", key);
        ctx.db.modified(key);
        ctx.db.effect(&[b"DEL", key]);
    }
    ctx.out.int(i64::from(equal));
    Ok(())
}

fn write(ctx: &mut Ctx<'_, '_>, key: &[u8], value: &[u8], expiry: Expiry) {
    ctx.db.set_str(key, value, expiry);
    if ctx.args.len() > 3 {
        tell_write(ctx.db, key, value, expiry);
    }
    ctx.db.notify(Events::STRING, "set", key);
    if matches!(expiry, Expiry::At(_)) {
        ctx.db.notify(Events::GENERIC, "expire", key);
    }
    ctx.db.modified(key);
}

/// Tells the effect of a write with options: its condition is met, its time to live has become a moment.
fn tell_write(db: &mut Db<'_>, key: &[u8], value: &[u8], expiry: Expiry) {
    match expiry {
        Expiry::Clear => db.effect(&[b"SET", key, value]),
        Expiry::Keep => db.effect(&[b"SET", key, value, b"KEEPTTL"]),
        Expiry::At(at_ms) => {
            let mut text = itoa::Buffer::new();
            let at_ms = text.format(at_ms).as_bytes();
            db.effect(&[b"SET", key, value, b"PXAT", at_ms]);
        }
    }
}

fn unit(ctx: &Ctx<'_, '_>, at: usize) -> Option<Unit> {
    let units = [
        ("EX", Unit::Seconds),
        ("PX", Unit::Milliseconds),
        ("EXAT", Unit::UnixSeconds),
        ("PXAT", Unit::UnixMilliseconds),
    ];
    units
        .into_iter()
        .find(|(word, _)| ctx.is(at, word))
        .map(|(_, unit)| unit)
}

/// Reads an expiry argument; returns the moment in Unix milliseconds.
fn deadline(ctx: &Ctx<'_, '_>, at: usize, unit: Unit) -> Result<i64, CommandError> {
    let given = ctx.int(at)?;
    let invalid = || {
        let name = &ctx.command.full_name;
        CommandError::err(format!("invalid expire time in '{name}' command"))
    };
    if given <= 0 {
        return Err(invalid());
    }
    let ms = match unit {
        Unit::Seconds | Unit::UnixSeconds => given.checked_mul(1000).ok_or_else(invalid)?,
        Unit::Milliseconds | Unit::UnixMilliseconds => given,
    };
    match unit {
        Unit::Seconds | Unit::Milliseconds => ms.checked_add(ctx.db.now_ms()).ok_or_else(invalid),
        Unit::UnixSeconds | Unit::UnixMilliseconds => Ok(ms),
    }
}

#[cfg(test)]
mod tests {
    use crate::testing::TestSession;

    #[test]
    fn set_options_exclude_each_other() {
        let mut session = TestSession::new();
        for options in [
            "NX XX",
            "XX NX",
            "EX 1 PX 1",
            "KEEPTTL EX 1",
            "EX 1 KEEPTTL",
            "EX",
            "FOO",
        ] {
            session.check(&format!("SET k v {options}"), "-ERR syntax error\r\n");
        }
        session.check("SET k v EX 0", "-ERR invalid expire time in 'set' command\r\n");
        session.check(
            "SET k v EX abc",
            "-ERR value is not an integer or out of range\r\n",
        );
        session.check(
            "SET k v PX 9223372036854775807",
            "-ERR invalid expire time in 'set' command\r\n",
        );
    }

    #[test]
    fn set_with_get_returns_the_old_value_even_when_it_does_not_set() {
        let mut session = TestSession::new();
        session.check("SET k one GET", "$-1\r\n");
        session.check("SET k two NX GET", "$3\r\none\r\n");
        session.check("GET k", "$3\r\none\r\n");
        session.check("SET k two XX", "+OK\r\n");
        session.check("SET other v XX", "$-1\r\n");
    }

    #[test]
    fn a_comparison_guards_what_the_key_holds() {
        let mut session = TestSession::new();
        session.check("SET k v IFEQ v", "$-1\r\n");
        session.check("EXISTS k", ":0\r\n");
        session.check("SET k 1", "+OK\r\n");
        session.check("SET k new IFEQ 2", "$-1\r\n");
        session.check("SET k new IFEQ 1 EX 100", "+OK\r\n");
        session.check("TTL k", ":100\r\n");
        session.check("SET k newer IFEQ wrong GET", "$3\r\nnew\r\n");
        session.check("SET k newer GET IFEQ new KEEPTTL", "$3\r\nnew\r\n");
        session.check("GET k", "$5\r\nnewer\r\n");
        session.check("SET k x IFNE newer", "$-1\r\n");
        session.check("SET k x IFNE other", "+OK\r\n");
        session.check("SET absent x IFNE other", "+OK\r\n");
        for options in ["IFEQ", "IFEQ x NX", "XX IFEQ x", "IFEQ a IFEQ b", "IFNE a IFEQ b"] {
            session.check(&format!("SET k v {options}"), "-ERR syntax error\r\n");
        }
        session.check("DELIFEQ k y", ":0\r\n");
        session.check("DELIFEQ k x", ":1\r\n");
        session.check("DELIFEQ k x", ":0\r\n");
        session.check("RPUSH l a", ":1\r\n");
        for request in ["SET l v IFEQ a", "SET l v IFNE a", "DELIFEQ l a"] {
            assert!(session.text(request).starts_with("-WRONGTYPE"), "{request}");
        }
    }

    #[test]
    fn a_string_lives_until_its_deadline_and_no_longer() {
        let mut session = TestSession::new();
        session.check("SET k v PX 10", "+OK\r\n");
        session.advance_ms(10);
        session.check("GET k", "$1\r\nv\r\n");
        session.advance_ms(1);
        session.check("GET k", "$-1\r\n");
    }
}
