//! HGETDEL, HGETEX and HSETEX: values and expiries of fields in one step.

use nagaya_command_spec::error::CommandError;
use nagaya_exec::ctx::Ctx;
use nagaya_keyspace::notify::Events;
use nagaya_resp::parse_i64;
use nagaya_store::hash::Hash;

use super::expiry::{POSITIVE, Unit, check_hash, fields, moment, tell_removed, tell_set};
use super::{Reply, bulk_or_nil, changed};

/// What happens to the expiry of fields.
#[derive(Clone, Copy, PartialEq, Eq)]
enum FieldExpiry {
    /// What the command does when nothing is said.
    Default,
    /// HGETEX: it goes.
    Clear,
    /// HSETEX: it stays.
    Keep,
    /// The fields expire then, in Unix milliseconds.
    At(i64),
}

/// HGETDEL key FIELDS numfields field [field ...]
pub(super) fn hgetdel(ctx: &mut Ctx<'_, '_>) -> Reply {
    check_hash(ctx)?;
    let fields = fields(ctx, 2, POSITIVE)?;
    ctx.out.array(fields.len());
    let Some(hash) = ctx.db.write::<Hash>(ctx.key(1))? else {
        fields.iter().for_each(|_| ctx.out.nil());
        return Ok(());
    };
    let mut removed = Vec::new();
    for field in fields {
        bulk_or_nil(ctx.out, hash.get(field));
        if hash.remove(field) {
            removed.push(field);
        }
    }
    tell_removed(ctx, &removed);
    Ok(())
}

/// HGETEX key [EX s | PX ms | EXAT unix-s | PXAT unix-ms | PERSIST] FIELDS numfields field [field ...]
pub(super) fn hgetex(ctx: &mut Ctx<'_, '_>) -> Reply {
    check_hash(ctx)?;
    let (expiry, fields_at) = match time_option(ctx, 2)? {
        Some(at_ms) => (FieldExpiry::At(at_ms), 4),
        None if ctx.is(2, "PERSIST") => (FieldExpiry::Clear, 3),
        None => (FieldExpiry::Default, 2),
    };
    let fields = fields(ctx, fields_at, POSITIVE)?;
    let now_ms = ctx.db.now_ms();
    ctx.out.array(fields.len());
    let Some(hash) = ctx.db.write::<Hash>(ctx.key(1))? else {
        fields.iter().for_each(|_| ctx.out.nil());
        return Ok(());
    };
    let (mut set, mut removed, mut cleared) = (Vec::new(), Vec::new(), Vec::new());
    for field in fields {
        bulk_or_nil(ctx.out, hash.get(field));
        match expiry {
            _ if !hash.contains(field) => {}
            FieldExpiry::At(at_ms) if at_ms <= now_ms => {
                hash.remove(field);
                removed.push(field);
            }
            FieldExpiry::At(at_ms) => {
                hash.set_expiry(field, Some(at_ms));
                set.push(field);
            }
            FieldExpiry::Clear if hash.expiry(field).is_some() => {
                hash.set_expiry(field, None);
                cleared.push(field);
            }
            FieldExpiry::Clear | FieldExpiry::Default | FieldExpiry::Keep => {}
        }
    }
    if let FieldExpiry::At(at_ms) = expiry {
        tell_set(ctx, &set, at_ms);
    }
    tell_removed(ctx, &removed);
    tell_cleared(ctx, &cleared);
    Ok(())
}

fn tell_cleared(ctx: &mut Ctx<'_, '_>, fields: &[&[u8]]) {
    if fields.is_empty() {
        return;
    }
    changed(ctx, "hpersist");
    let mut count = itoa::Buffer::new();
    let words: [&[u8]; 4] = [
        b"HPERSIST",
        ctx.key(1),
        b"FIELDS",
        count.format(fields.len()).as_bytes(),
    ];
    let words = words.into_iter().chain(fields.iter().copied());
    ctx.db.effect_iter(4 + fields.len(), words);
}

/// What HSETEX is asked for.
struct SetRequest {
    /// The fields must all be there, or all be missing.
    wanted: Option<bool>,
    expiry: FieldExpiry,
    /// Where the first field is.
    first: usize,
}

/// HSETEX key [FNX | FXX] [EX s | PX ms | EXAT unix-s | PXAT unix-ms | KEEPTTL]
/// FIELDS numfields field value [field value ...]
pub(super) fn hsetex(ctx: &mut Ctx<'_, '_>) -> Reply {
    let request = SetRequest::parse(ctx)?;
    let (key, limits, now_ms) = (ctx.key(1), ctx.limits(), ctx.db.now_ms());
    let args = ctx.args;
    let pairs = || {
        let mut rest = args.iter().skip(request.first);
        std::iter::from_fn(move || Some((rest.next()?, rest.next()?)))
    };
    ctx.db.expire_fields(key);
    let hash: Option<&Hash> = ctx.db.read(key)?;
    let is_there = |field: &[u8]| hash.is_some_and(|hash| hash.contains(field));
    let allowed = request
        .wanted
        .is_none_or(|wanted| pairs().all(|(field, _)| is_there(field) == wanted));
    if !allowed {
        ctx.out.int(0);
        return Ok(());
    }
    let hash: &mut Hash = ctx.db.write_or_create(key)?;
    for (field, value) in pairs() {
        match request.expiry {
            FieldExpiry::At(_) | FieldExpiry::Keep => hash.set_value(field, value, &limits),
            FieldExpiry::Default | FieldExpiry::Clear => hash.set(field, value, &limits),
        };
        match request.expiry {
            FieldExpiry::At(at_ms) if at_ms <= now_ms => drop(hash.remove(field)),
            FieldExpiry::At(at_ms) => drop(hash.set_expiry(field, Some(at_ms))),
            FieldExpiry::Default | FieldExpiry::Clear | FieldExpiry::Keep => {}
        }
    }
    ctx.db.notify(Events::HASH, "hset", key);
    match request.expiry {
        FieldExpiry::At(at_ms) if at_ms <= now_ms => {
            let fields: Vec<&[u8]> = pairs().map(|(field, _)| field).collect();
            tell_removed(ctx, &fields);
        }
        FieldExpiry::At(at_ms) => {
            ctx.db.note_field_expiry(key, at_ms);
            ctx.db.modified(key);
            ctx.db.notify(Events::HASH, "hexpire", key);
            tell_set_pairs(ctx, &request, Some(at_ms));
        }
        FieldExpiry::Default | FieldExpiry::Clear | FieldExpiry::Keep => {
            ctx.db.modified(key);
            tell_set_pairs(ctx, &request, None);
        }
    }
    ctx.out.int(1);
    Ok(())
}

/// Tells the effect of HSETEX: its condition is met, its time to live has become a moment.
fn tell_set_pairs(ctx: &mut Ctx<'_, '_>, request: &SetRequest, at_ms: Option<i64>) {
    let mut text = itoa::Buffer::new();
    let mut words: Vec<&[u8]> = vec![b"HSETEX", ctx.key(1)];
    match at_ms {
        Some(at_ms) => words.extend([&b"PXAT"[..], text.format(at_ms).as_bytes()]),
        None if request.expiry == FieldExpiry::Keep => words.push(b"KEEPTTL"),
        None => {}
    }
    // The word FIELDS and the number after it stand before the first field.
    words.extend(ctx.args.iter().skip(request.first - 2));
    ctx.db.effect(&words);
}

impl SetRequest {
    fn parse(ctx: &Ctx<'_, '_>) -> Result<SetRequest, CommandError> {
        let mut request = SetRequest {
            wanted: None,
            expiry: FieldExpiry::Default,
            first: 0,
        };
        let mut at = 2;
        while at < ctx.args.len() {
            if ctx.is(at, "FIELDS") {
                request.first = at + 2;
                return check_pairs(ctx, at).map(|()| request);
            }
            let condition = [("FNX", false), ("FXX", true)];
            if let Some((_, wanted)) = condition.into_iter().find(|(word, _)| ctx.is(at, word)) {
                if request.wanted.replace(wanted).is_some() {
                    let text = "Only one of FXX or FNX arguments can be specified";
                    return Err(CommandError::err(text));
                }
                at += 1;
                continue;
            }
            let (expiry, words) = match time_option(ctx, at)? {
                Some(at_ms) => (FieldExpiry::At(at_ms), 2),
                None if ctx.is(at, "KEEPTTL") => (FieldExpiry::Keep, 1),
                None => {
                    let word = String::from_utf8_lossy(ctx.key(at));
                    return Err(CommandError::err(format!("unknown argument: {word}")));
                }
            };
            if request.expiry != FieldExpiry::Default {
                return Err(CommandError::err(
                    "Only one of EX, PX, EXAT, PXAT or KEEPTTL arguments can be specified",
                ));
            }
            request.expiry = expiry;
            at += words;
        }
        Err(CommandError::wrong_arity(&ctx.command.full_name))
    }
}

/// Checks that as many pairs follow as the number after FIELDS says.
fn check_pairs(ctx: &Ctx<'_, '_>, fields_at: usize) -> Reply {
    let Some(rest) = ctx.args.len().checked_sub(fields_at + 2).filter(|rest| *rest > 0) else {
        return Err(CommandError::wrong_arity(&ctx.command.full_name));
    };
    let count = parse_i64(ctx.key(fields_at + 1)).filter(|count| *count > 0);
    let count = count.ok_or(CommandError::err("invalid number of fields"))?;
    if rest % 2 == 1 || count as usize != rest / 2 {
        return Err(CommandError::wrong_arity(&ctx.command.full_name));
    }
    Ok(())
}

/// Reads an expiry option at a place in the request; returns the moment in Unix milliseconds.
fn time_option(ctx: &Ctx<'_, '_>, at: usize) -> Result<Option<i64>, CommandError> {
    let now_ms = ctx.db.now_ms();
    let options = [
        ("EX", now_ms, Unit::Seconds),
        ("PX", now_ms, Unit::Milliseconds),
        ("EXAT", 0, Unit::Seconds),
        ("PXAT", 0, Unit::Milliseconds),
    ];
    match options.into_iter().find(|(word, ..)| ctx.is(at, word)) {
        None => Ok(None),
        Some(_) if at + 1 >= ctx.args.len() => Err(CommandError::err("missing expire time")),
        Some((_, base_ms, unit)) => moment(ctx, at + 1, base_ms, unit).map(Some),
    }
}
