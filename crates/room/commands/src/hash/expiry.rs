//! When fields of hashes expire: HEXPIRE, HTTL and their relatives.

use nagaya_command_spec::error::CommandError;
use nagaya_exec::ctx::Ctx;
use nagaya_keyspace::notify::Events;
use nagaya_store::hash::{EXPIRY_MS_MAX, Hash};
use nagaya_store::value::ValueKind;

use super::Reply;

/// What HEXPIRE replies about a field.
const NO_FIELD: i64 = -2;
const NO_EXPIRY: i64 = -1;
const CONDITION_FAILED: i64 = 0;
const SET: i64 = 1;
const REMOVED: i64 = 2;

/// Milliseconds per unit of an argument or a reply.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Unit {
    Seconds = 1000,
    Milliseconds = 1,
}

/// When a new expiry is set at all.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Condition {
    Always,
    HasNone,
    HasOne,
    Later,
    Earlier,
}

impl Condition {
    fn parse(word: &[u8]) -> Option<Condition> {
        match word.to_ascii_lowercase().as_slice() {
            b"nx" => Some(Condition::HasNone),
            b"xx" => Some(Condition::HasOne),
            b"gt" => Some(Condition::Later),
            b"lt" => Some(Condition::Earlier),
            _ => None,
        }
    }

    /// A field without expiry lives longer than any with one.
    fn allows(self, current: Option<i64>, at_ms: i64) -> bool {
        match self {
            Condition::Always => true,
            Condition::HasNone => current.is_none(),
            Condition::HasOne => current.is_some(),
            Condition::Later => current.is_some_and(|current| at_ms > current),
            Condition::Earlier => current.is_none_or(|current| at_ms < current),
        }
    }
}

/// HEXPIRE key seconds [NX | XX | GT | LT] FIELDS numfields field [field ...]
pub(super) fn hexpire(ctx: &mut Ctx<'_, '_>) -> Reply {
    set(ctx, ctx.db.now_ms(), Unit::Seconds)
}

/// HPEXPIRE key milliseconds [NX | XX | GT | LT] FIELDS numfields field [field ...]
pub(super) fn hpexpire(ctx: &mut Ctx<'_, '_>) -> Reply {
    set(ctx, ctx.db.now_ms(), Unit::Milliseconds)
}

/// HEXPIREAT key unix-time-seconds [NX | XX | GT | LT] FIELDS numfields field [field ...]
pub(super) fn hexpireat(ctx: &mut Ctx<'_, '_>) -> Reply {
    set(ctx, 0, Unit::Seconds)
}

/// HPEXPIREAT key unix-time-milliseconds [NX | XX | GT | LT] FIELDS numfields field [field ...]
pub(super) fn hpexpireat(ctx: &mut Ctx<'_, '_>) -> Reply {
    set(ctx, 0, Unit::Milliseconds)
}

fn set(ctx: &mut Ctx<'_, '_>, base_ms: i64, unit: Unit) -> Reply {
    check_hash(ctx)?;
    let key = ctx.key(1);
    let at_ms = moment(ctx, 2, base_ms, unit)?;
    let condition = Condition::parse(ctx.key(3));
    let fields_at = if condition.is_some() { 4 } else { 3 };
    let condition = condition.unwrap_or(Condition::Always);
    let fields = fields(ctx, fields_at, "Parameter `numFields` should be greater than 0")?;
    let is_past = at_ms <= ctx.db.now_ms();
    ctx.out.array(fields.len());
    let Some(hash) = ctx.db.write::<Hash>(key)? else {
        fields.iter().for_each(|_| ctx.out.int(NO_FIELD));
        return Ok(());
    };
    let mut changed = Vec::new();
    for field in fields {
        let outcome = if !hash.contains(field) {
            NO_FIELD
        } else if !condition.allows(hash.expiry(field), at_ms) {
            CONDITION_FAILED
        } else if is_past {
            hash.remove(field);
            REMOVED
        } else {
            hash.set_expiry(field, Some(at_ms));
            SET
        };
        if matches!(outcome, REMOVED | SET) {
            changed.push(field);
        }
        ctx.out.int(outcome);
    }
    if is_past {
        tell_removed(ctx, &changed);
    } else {
        tell_set(ctx, &changed, at_ms);
    }
    Ok(())
}

/// Tells of fields that have an expiry now. Does nothing when there are none.
pub(super) fn tell_set(ctx: &mut Ctx<'_, '_>, fields: &[&[u8]], at_ms: i64) {
    if fields.is_empty() {
        return;
    }
    let key = ctx.key(1);
    ctx.db.note_field_expiry(key, at_ms);
    ctx.db.modified(key);
    ctx.db.notify(Events::HASH, "hexpire", key);
    let (mut when, mut count) = (itoa::Buffer::new(), itoa::Buffer::new());
    let (when, count) = (
        when.format(at_ms).as_bytes(),
        count.format(fields.len()).as_bytes(),
    );
    let words: [&[u8]; 5] = [b"HPEXPIREAT", key, when, b"FIELDS", count];
    let words = words.into_iter().chain(fields.iter().copied());
    ctx.db.effect_iter(5 + fields.len(), words);
}

/// Tells of fields that are gone, and of the hash when nothing is left. Does nothing when there are none.
pub(super) fn tell_removed(ctx: &mut Ctx<'_, '_>, fields: &[&[u8]]) {
    if fields.is_empty() {
        return;
    }
    let key = ctx.key(1);
    ctx.db.modified(key);
    ctx.db.notify(Events::HASH, "hdel", key);
    let words: [&[u8]; 2] = [b"HDEL", key];
    let words = words.into_iter().chain(fields.iter().copied());
    ctx.db.effect_iter(2 + fields.len(), words);
    ctx.db.remove_if_empty::<Hash>(key);
}

/// HTTL key FIELDS numfields field [field ...]
pub(super) fn httl(ctx: &mut Ctx<'_, '_>) -> Reply {
    tell(ctx, ctx.db.now_ms(), Unit::Seconds)
}

/// HPTTL key FIELDS numfields field [field ...]
pub(super) fn hpttl(ctx: &mut Ctx<'_, '_>) -> Reply {
    tell(ctx, ctx.db.now_ms(), Unit::Milliseconds)
}

/// HEXPIRETIME key FIELDS numfields field [field ...]
pub(super) fn hexpiretime(ctx: &mut Ctx<'_, '_>) -> Reply {
    tell(ctx, 0, Unit::Seconds)
}

/// HPEXPIRETIME key FIELDS numfields field [field ...]
pub(super) fn hpexpiretime(ctx: &mut Ctx<'_, '_>) -> Reply {
    tell(ctx, 0, Unit::Milliseconds)
}

/// Replies with the expiry of each field counted from `base_ms`, seconds rounded up.
fn tell(ctx: &mut Ctx<'_, '_>, base_ms: i64, unit: Unit) -> Reply {
    check_hash(ctx)?;
    let fields = fields(ctx, 2, POSITIVE)?;
    ctx.db.expire_fields(ctx.key(1));
    let hash: Option<&Hash> = ctx.db.read(ctx.key(1))?;
    ctx.out.array(fields.len());
    for field in fields {
        ctx.out.int(match hash.filter(|hash| hash.contains(field)) {
            None => NO_FIELD,
            Some(hash) => match hash.expiry(field) {
                None => NO_EXPIRY,
                Some(at_ms) => (at_ms - base_ms + unit as i64 - 1) / unit as i64,
            },
        });
    }
    Ok(())
}

/// HPERSIST key FIELDS numfields field [field ...]
pub(super) fn hpersist(ctx: &mut Ctx<'_, '_>) -> Reply {
    check_hash(ctx)?;
    let fields = fields(ctx, 2, POSITIVE)?;
    ctx.out.array(fields.len());
    let Some(hash) = ctx.db.write::<Hash>(ctx.key(1))? else {
        fields.iter().for_each(|_| ctx.out.int(NO_FIELD));
        return Ok(());
    };
    let mut changed = false;
    for field in fields {
        let outcome = if !hash.contains(field) {
            NO_FIELD
        } else if hash.expiry(field).is_none() {
            NO_EXPIRY
        } else {
            hash.set_expiry(field, None);
            SET
        };
        changed |= outcome == SET;
        ctx.out.int(outcome);
    }
    if changed {
        super::changed(ctx, "hpersist");
    }
    Ok(())
}

pub(super) const POSITIVE: &str = "Number of fields must be a positive integer";

/// Refuses a key of another type, before anything else is wrong with the request.
pub(super) fn check_hash(ctx: &Ctx<'_, '_>) -> Reply {
    match ctx.db.kind(ctx.key(1)) {
        None | Some(ValueKind::Hash) => Ok(()),
        Some(_) => Err(CommandError::WrongType),
    }
}

/// Reads an expiry; returns the moment in Unix milliseconds.
pub(super) fn moment(ctx: &Ctx<'_, '_>, at: usize, base_ms: i64, unit: Unit) -> Result<i64, CommandError> {
    let given = ctx.int(at)?;
    if given < 0 {
        return Err(CommandError::err("invalid expire time, must be >= 0"));
    }
    let ms = given
        .checked_mul(unit as i64)
        .and_then(|ms| ms.checked_add(base_ms));
    ms.filter(|at_ms| *at_ms <= EXPIRY_MS_MAX).ok_or_else(|| {
        CommandError::err(format!(
            "invalid expire time in '{}' command",
            ctx.command.full_name
        ))
    })
}

/// Reads `FIELDS numfields field [field ...]`, the rest of a request.
pub(super) fn fields<'c>(
    ctx: &Ctx<'c, '_>,
    at: usize,
    not_positive: &'static str,
) -> Result<Vec<&'c [u8]>, CommandError> {
    if !ctx.is(at, "FIELDS") {
        return Err(CommandError::err(
            "Mandatory argument FIELDS is missing or not at the right position",
        ));
    }
    let count = ctx.args.get(at + 1).and_then(nagaya_resp::parse_i64);
    let count = count.filter(|count| *count > 0);
    let count = count.ok_or(CommandError::err(not_positive))?;
    let fields: Vec<&[u8]> = ctx.args.iter().skip(at + 2).collect();
    if count as usize != fields.len() {
        return Err(CommandError::err(
            "The `numfields` parameter must match the number of arguments",
        ));
    }
    Ok(fields)
}
