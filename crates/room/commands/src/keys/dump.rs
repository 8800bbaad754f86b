//! DUMP and RESTORE.

use nagaya_command_spec::error::CommandError;
use nagaya_exec::ctx::Ctx;
use nagaya_keyspace::db::Expiry;
use nagaya_keyspace::notify::Events;
use nagaya_keyspace::recency::Recency;
use nagaya_store::rdb::{self, RestoreError};

use super::Reply;

/// DUMP key
pub(super) fn dump(ctx: &mut Ctx<'_, '_>) -> Reply {
    match ctx.db.entry(ctx.key(1)) {
        None => ctx.out.nil(),
        Some(entry) => ctx.out.bulk(&rdb::dump_sorted(entry.value())),
    }
    Ok(())
}

/// Options of RESTORE.
#[derive(Default)]
struct Options {
    replace: bool,
    absolute: bool,
    idle_s: Option<i64>,
    frequency: Option<i64>,
}

/// RESTORE key ttl serialized-value [REPLACE] [ABSTTL] [IDLETIME seconds] [FREQ frequency]
pub(super) fn restore(ctx: &mut Ctx<'_, '_>) -> Reply {
    let key = ctx.key(1);
    let options = parse_options(ctx)?;
    if !options.replace && ctx.db.exists(key) {
        return Err(CommandError::coded("BUSYKEY Target key name already exists."));
    }
    let ttl_ms = ctx.int(2)?;
    if ttl_ms < 0 {
        return Err(CommandError::err("Invalid TTL value, must be >= 0"));
    }
    let value = rdb::restore(ctx.key(3), &ctx.limits()).map_err(|error| {
        CommandError::err(match error {
            RestoreError::VersionOrChecksum => "DUMP payload version or checksum are wrong",
            RestoreError::BadData => "Bad data format",
        })
    })?;
    let replaced = ctx.db.remove(key);
    let now_ms = ctx.db.now_ms();
    let expiry = match ttl_ms {
        0 => Expiry::Clear,
        at_ms if options.absolute => Expiry::At(at_ms),
        ttl_ms => Expiry::At(now_ms.wrapping_add(ttl_ms)),
    };
    ctx.out.ok();
    if matches!(expiry, Expiry::At(at_ms) if at_ms <= now_ms) {
        if replaced {
            ctx.db.notify(Events::GENERIC, "del", key);
            ctx.db.modified(key);
            ctx.db.effect(&[b"DEL", key]);
        }
        return Ok(());
    }
    ctx.db.set(key, value, expiry);
    let recency = ctx.db.recency;
    let idle_since = |idle_s: i64| (now_ms / 1000).saturating_sub(idle_s).max(0) as u32;
    let stamp = match recency {
        Recency::Seconds(_) => options.idle_s.map(idle_since),
        Recency::Frequency(_) => options
            .frequency
            .and_then(|frequency| recency.with_frequency(frequency as u8)),
    };
    if let (Some(stamp), Some(entry)) = (stamp, ctx.db.peek(key)) {
        entry.set_stamp(stamp);
    }
    ctx.db.notify(Events::GENERIC, "restore", key);
    ctx.db.modified(key);
    let at_ms = if let Expiry::At(at_ms) = expiry { at_ms } else { 0 };
    let mut text = itoa::Buffer::new();
    let at_ms = text.format(at_ms).as_bytes();
    ctx.db
        .effect(&[b"RESTORE", key, at_ms, ctx.key(3), b"REPLACE", b"ABSTTL"]);
    Ok(())
}

fn parse_options(ctx: &Ctx<'_, '_>) -> Result<Options, CommandError> {
    let mut options = Options::default();
    let mut at = 4;
    while at < ctx.args.len() {
        let more = at + 1 < ctx.args.len();
        if ctx.is(at, "REPLACE") {
            options.replace = true;
            at += 1;
        } else if ctx.is(at, "ABSTTL") {
            options.absolute = true;
            at += 1;
        } else if ctx.is(at, "IDLETIME") && more && options.frequency.is_none() {
            let idle_s = ctx.int(at + 1)?;
            if idle_s < 0 {
                return Err(CommandError::err("Invalid IDLETIME value, must be >= 0"));
            }
            options.idle_s = Some(idle_s);
            at += 2;
        } else if ctx.is(at, "FREQ") && more && options.idle_s.is_none() {
            let frequency = ctx.int(at + 1)?;
            if !(0..=255).contains(&frequency) {
                return Err(CommandError::err("Invalid FREQ value, must be >= 0 and <= 255"));
            }
            options.frequency = Some(frequency);
            at += 2;
        } else {
            return Err(CommandError::Syntax);
        }
    }
    Ok(options)
}
