//! DEBUG: levers for tests and for people who look inside.
//!
//! Redis lists no subcommands of DEBUG in its table, so neither do we; they
//! have a table of their own here. DEBUG holds every shard while it runs, so
//! that SLEEP stops the whole engine as it does there.

use std::ops::RangeInclusive;
use std::sync::atomic::Ordering;
use std::time::Duration;

use nagaya_command_spec::error::CommandError;
use nagaya_command_spec::spec::{ADMIN, ALL_SHARDS, LOADING, NOSCRIPT, PROTECTED, STALE};
use nagaya_exec::ctx::Ctx;
use nagaya_exec::entry::{Entry, Handler, cmd};
use nagaya_exec::help::help;
use nagaya_resp::parse_i64;

mod data;
mod digest;
mod protocol;
#[cfg(test)]
mod tests;

type Reply = Result<(), CommandError>;

pub(crate) const COMMANDS: &[Entry] = &[cmd("DEBUG", -2, debug)
    .flags(
        ADMIN
            .and(NOSCRIPT)
            .and(LOADING)
            .and(STALE)
            .and(PROTECTED)
            .and(ALL_SHARDS),
    )
    .group("server")
    .about(
        "Looks inside and pulls levers, for tests.",
        "Depends on the subcommand",
    )];

/// Name, number of arguments (DEBUG and the name included), handler.
type Sub = (&'static str, RangeInclusive<usize>, Handler);

const ANY: usize = usize::MAX;

const SUBCOMMANDS: &[Sub] = &[
    ("HELP", 2..=2, help_command),
    ("SLEEP", 3..=3, sleep),
    ("DIGEST", 2..=2, digest::dataset),
    ("DIGEST-VALUE", 2..=ANY, digest::values),
    ("RELOAD", 2..=ANY, data::reload),
    ("LOADAOF", 2..=2, data::load_aof),
    ("POPULATE", 3..=5, data::populate),
    ("OBJECT", 3..=3, data::object),
    ("SDSLEN", 3..=3, data::sdslen),
    ("LISTPACK", 3..=3, data::listpack),
    ("QUICKLIST", 3..=4, data::quicklist),
    ("HTSTATS", 3..=3, data::htstats),
    ("HTSTATS-KEY", 3..=3, data::htstats_key),
    ("PROTOCOL", 3..=3, protocol::protocol),
    ("ERROR", 3..=3, error),
    ("SET-ACTIVE-EXPIRE", 3..=3, set_active_expire),
    ("CHANGE-REPL-ID", 2..=2, change_replication_id),
    ("QUICKLIST-PACKED-THRESHOLD", 3..=3, packed_threshold),
    ("STRINGMATCH-TEST", 2..=2, stringmatch_test),
    ("CONFIG-REWRITE-FORCE-ALL", 2..=2, config_rewrite),
    ("REPLYBUFFER", 4..=4, reply_buffer),
    // Levers of parts that this engine does not have.
    ("LOG", 3..=3, nothing),
    ("LEAK", 3..=3, nothing),
    ("REPLICATE", 3..=ANY, nothing),
    ("AOF-FLUSH-SLEEP", 3..=3, nothing),
    ("PAUSE-CRON", 3..=3, nothing),
    ("SET-SKIP-CHECKSUM-VALIDATION", 3..=3, nothing),
    ("SET-DISABLE-DENY-SCRIPTS", 3..=3, lift_script_limits),
    ("JMAP", 2..=ANY, refused),
    // Ways to bring the process down, which others run in too.
    ("PANIC", 2..=ANY, refused),
    ("SEGFAULT", 2..=ANY, refused),
    ("ASSERT", 2..=ANY, refused),
    ("OOM", 2..=ANY, refused),
    ("RESTART", 2..=ANY, refused),
    ("CRASH-AND-RECOVER", 2..=ANY, refused),
];

/// DEBUG subcommand [argument ...]
fn debug(ctx: &mut Ctx<'_, '_>) -> Reply {
    let found = SUBCOMMANDS
        .iter()
        .find(|(name, count, _)| ctx.is(1, name) && count.contains(&ctx.args.len()));
    match found {
        Some((_, _, run)) => run(ctx),
        None => Err(CommandError::err(format!(
            "unknown subcommand or wrong number of arguments for '{}'. Try DEBUG HELP.",
            String::from_utf8_lossy(ctx.key(1))
        ))),
    }
}

/// DEBUG SLEEP seconds
fn sleep(ctx: &mut Ctx<'_, '_>) -> Reply {
    let seconds = ctx.float(2).unwrap_or(0.0);
    std::thread::sleep(Duration::try_from_secs_f64(seconds).unwrap_or_default());
    ctx.out.ok();
    Ok(())
}

/// DEBUG ERROR text
fn error(ctx: &mut Ctx<'_, '_>) -> Reply {
    let text = String::from_utf8_lossy(ctx.key(2)).into_owned();
    Err(CommandError::coded(text))
}

/// DEBUG SET-ACTIVE-EXPIRE 0|1
fn set_active_expire(ctx: &mut Ctx<'_, '_>) -> Reply {
    let on = parse_i64(ctx.key(2)).unwrap_or(0) != 0;
    ctx.server().active_expire.store(on, Ordering::Relaxed);
    ctx.out.ok();
    Ok(())
}

/// DEBUG CHANGE-REPL-ID
fn change_replication_id(ctx: &mut Ctx<'_, '_>) -> Reply {
    *ctx.server().replication_id.lock() = nagaya_exec::server::random_id();
    ctx.out.ok();
    Ok(())
}

/// DEBUG QUICKLIST-PACKED-THRESHOLD size: checked; elements of any size are kept alike here.
fn packed_threshold(ctx: &mut Ctx<'_, '_>) -> Reply {
    let bytes = nagaya_exec::settings::parse_bytes(&String::from_utf8_lossy(ctx.key(2)));
    if bytes.is_none_or(|bytes| bytes > 4 << 30) {
        return Err(CommandError::err(
            "argument must be a memory value bigger than 1 and smaller than 4gb",
        ));
    }
    ctx.out.ok();
    Ok(())
}

/// DEBUG STRINGMATCH-TEST: patterns have their own tests.
fn stringmatch_test(ctx: &mut Ctx<'_, '_>) -> Reply {
    ctx.out.simple("Apparently Redis did not crash: test passed");
    Ok(())
}

/// DEBUG CONFIG-REWRITE-FORCE-ALL
fn config_rewrite(_: &mut Ctx<'_, '_>) -> Reply {
    Err(CommandError::err(
        "CONFIG-REWRITE-FORCE-ALL failed: no config file",
    ))
}

/// DEBUG REPLYBUFFER PEAK-RESET-TIME|RESIZING value: buffers here have no such timer.
fn reply_buffer(ctx: &mut Ctx<'_, '_>) -> Reply {
    if !ctx.is(2, "PEAK-RESET-TIME") && !ctx.is(2, "RESIZING") {
        return Err(CommandError::Syntax);
    }
    nothing(ctx)
}

/// DEBUG SET-DISABLE-DENY-SCRIPTS 0 | 1
fn lift_script_limits(ctx: &mut Ctx<'_, '_>) -> Reply {
    ctx.server().scripts.lift_limits(ctx.int(2)? != 0);
    ctx.out.ok();
    Ok(())
}

fn nothing(ctx: &mut Ctx<'_, '_>) -> Reply {
    ctx.out.ok();
    Ok(())
}

fn refused(ctx: &mut Ctx<'_, '_>) -> Reply {
    Err(CommandError::err(format!(
        "DEBUG {} is not supported",
        String::from_utf8_lossy(ctx.key(1)).to_ascii_uppercase()
    )))
}

/// DEBUG HELP
fn help_command(ctx: &mut Ctx<'_, '_>) -> Reply {
    help(
        ctx,
        &[
            ("CHANGE-REPL-ID", &["Take a new replication id."]),
            ("DIGEST", &["Show a checksum of all data."]),
            ("DIGEST-VALUE <key> [<key> ...]", &["Show checksums of values."]),
            ("ERROR <text>", &["Reply with an error."]),
            (
                "HTSTATS <db>, HTSTATS-KEY <key>",
                &["Describe the table of all keys, or of a value."],
            ),
            ("LISTPACK <key>", &["Say whether a value is kept as a listpack."]),
            ("LOADAOF, RELOAD", &["Write and read back every value in memory."]),
            ("OBJECT <key>, SDSLEN <key>", &["Describe how a value is kept."]),
            ("POPULATE <count> [<prefix>] [<size>]", &["Create string keys."]),
            (
                "PROTOCOL <type>",
                &[
                    "Reply with a value of a type: string, integer, double, bignum, null, array, set, map,",
                    "attrib, push, verbatim, true, false.",
                ],
            ),
            (
                "SET-ACTIVE-EXPIRE <0|1>",
                &["Stop or resume the search for expired keys."],
            ),
            ("SLEEP <seconds>", &["Stop the engine for a while."]),
        ],
    )
}
