//! When keys expire.

use nagaya_command_spec::error::CommandError;
use nagaya_exec::ctx::Ctx;
use nagaya_keyspace::notify::Events;

use super::Reply;

/// When a new expiry is set at all.
#[derive(Clone, Copy, Default)]
struct Condition {
    nx: bool,
    xx: bool,
    gt: bool,
    lt: bool,
}

/// Milliseconds per unit of the argument.
#[derive(Clone, Copy)]
enum Unit {
    Seconds = 1000,
    Milliseconds = 1,
}

/// EXPIRE key seconds [NX | XX | GT | LT]
pub(super) fn expire(ctx: &mut Ctx<'_, '_>) -> Reply {
    set(ctx, ctx.db.now_ms(), Unit::Seconds)
}

/// PEXPIRE key milliseconds [NX | XX | GT | LT]
pub(super) fn pexpire(ctx: &mut Ctx<'_, '_>) -> Reply {
    set(ctx, ctx.db.now_ms(), Unit::Milliseconds)
}

/// EXPIREAT key unix-time-seconds [NX | XX | GT | LT]
pub(super) fn expireat(ctx: &mut Ctx<'_, '_>) -> Reply {
    set(ctx, 0, Unit::Seconds)
}

/// PEXPIREAT key unix-time-milliseconds [NX | XX | GT | LT]
pub(super) fn pexpireat(ctx: &mut Ctx<'_, '_>) -> Reply {
    set(ctx, 0, Unit::Milliseconds)
}

fn set(ctx: &mut Ctx<'_, '_>, base_ms: i64, unit: Unit) -> Reply {
    let key = ctx.key(1);
    let condition = Condition::parse(ctx)?;
    let given = ctx.int(2)?;
    let at_ms = given
        .checked_mul(unit as i64)
        .and_then(|ms| ms.checked_add(base_ms))
        .ok_or_else(|| {
            CommandError::err(format!(
                "invalid expire time in '{}' command",
                ctx.command.full_name
            ))
        })?;
    let Some(current) = ctx.db.expiry(key) else {
        ctx.out.int(0);
        return Ok(());
    };
    if !condition.allows(current, at_ms) {
        ctx.out.int(0);
        return Ok(());
    }
    ctx.db.expire_at(key, at_ms);
    ctx.out.int(1);
    Ok(())
}

impl Condition {
    fn parse(ctx: &Ctx<'_, '_>) -> Result<Condition, CommandError> {
        let mut condition = Condition::default();
        for at in 3..ctx.args.len() {
            if ctx.is(at, "NX") {
                condition.nx = true;
            } else if ctx.is(at, "XX") {
                condition.xx = true;
            } else if ctx.is(at, "GT") {
                condition.gt = true;
            } else if ctx.is(at, "LT") {
                condition.lt = true;
            } else {
                let option = String::from_utf8_lossy(ctx.key(at));
                return Err(CommandError::err(format!("Unsupported option {option}")));
            }
        }
        if condition.nx && (condition.xx || condition.gt || condition.lt) {
            let text = "NX and XX, GT or LT options at the same time are not compatible";
            return Err(CommandError::err(text));
        }
        if condition.gt && condition.lt {
            return Err(CommandError::err(
                "GT and LT options at the same time are not compatible",
            ));
        }
        Ok(condition)
    }

    /// A key without expiry lives longer than any with one.
    fn allows(self, current: Option<i64>, at_ms: i64) -> bool {
        !(self.nx && current.is_some()
            || self.xx && current.is_none()
            || self.gt && current.is_none_or(|current| at_ms <= current)
            || self.lt && current.is_some_and(|current| at_ms >= current))
    }
}

/// TTL key
pub(super) fn ttl(ctx: &mut Ctx<'_, '_>) -> Reply {
    let now_ms = ctx.db.now_ms();
    tell(ctx, |at_ms| rounded_seconds((at_ms - now_ms).max(0)))
}

/// PTTL key
pub(super) fn pttl(ctx: &mut Ctx<'_, '_>) -> Reply {
    let now_ms = ctx.db.now_ms();
    tell(ctx, |at_ms| (at_ms - now_ms).max(0))
}

/// EXPIRETIME key
pub(super) fn expiretime(ctx: &mut Ctx<'_, '_>) -> Reply {
    tell(ctx, rounded_seconds)
}

/// PEXPIRETIME key
pub(super) fn pexpiretime(ctx: &mut Ctx<'_, '_>) -> Reply {
    tell(ctx, |at_ms| at_ms)
}

fn rounded_seconds(ms: i64) -> i64 {
    ((ms as u64 + 500) / 1000) as i64
}

/// Replies with the key's expiry, -1 when it has none, -2 when there is no key.
fn tell(ctx: &mut Ctx<'_, '_>, show: impl Fn(i64) -> i64) -> Reply {
    ctx.out.int(match ctx.db.expiry(ctx.key(1)) {
        None => -2,
        Some(None) => -1,
        Some(Some(at_ms)) => show(at_ms),
    });
    Ok(())
}

/// PERSIST key
pub(super) fn persist(ctx: &mut Ctx<'_, '_>) -> Reply {
    let key = ctx.key(1);
    let had_expiry = ctx.db.expiry(key).flatten().is_some();
    if had_expiry {
        ctx.db.set_expiry(key, None);
        ctx.db.notify(Events::GENERIC, "persist", key);
        ctx.db.modified(key);
    }
    ctx.out.int(i64::from(had_expiry));
    Ok(())
}
