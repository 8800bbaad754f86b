//! The table entries of scripts, and the SCRIPT container.

use nagaya_command_spec::error::CommandError;
use nagaya_command_spec::spec::{
    ACCESS, ALL_SHARDS, ALLOW_BUSY, Category, Flags, KeySpec, LOADING, MAY_REPLICATE, NO_MANDATORY_KEYS,
    NOSCRIPT, READONLY, RO, RW, SKIP_MONITOR, STALE, UPDATE, counted_keys,
};
use nagaya_exec::ctx::Ctx;
use nagaya_exec::entry::{Entry, cmd};
use nagaya_exec::help;
use nagaya_exec::scripts::run::with_vm;
use nagaya_exec::scripts::shared::digest;
use nagaya_keyspace::shard::LongScript;
use nagaya_lua::sha1_hex;

use super::eval::{eval, eval_ro, evalsha, evalsha_ro};

type Reply = Result<(), CommandError>;

/// What all commands that run a script have in common. They may reach any key.
pub(crate) const RUNS: Flags = NOSCRIPT
    .and(SKIP_MONITOR)
    .and(NO_MANDATORY_KEYS)
    .and(STALE)
    .and(ALL_SHARDS);
/// How a script uses its keys is not known: the worst is assumed.
pub(crate) const WRITTEN_KEYS: &[KeySpec] = &[counted_keys(2, RW.and(ACCESS).and(UPDATE))];
pub(crate) const READ_KEYS: &[KeySpec] = &[counted_keys(2, RO.and(ACCESS))];

pub(crate) const COMMANDS: &[Entry] = &[
    cmd("EVAL", -3, eval)
        .flags(RUNS.and(MAY_REPLICATE))
        .acl(Category::SCRIPTING)
        .group("scripting")
        .keys(WRITTEN_KEYS)
        .since("2.6.0")
        .about("Runs a Lua script.", "Depends on the script"),
    cmd("EVALSHA", -3, evalsha)
        .flags(RUNS.and(MAY_REPLICATE))
        .acl(Category::SCRIPTING)
        .group("scripting")
        .keys(WRITTEN_KEYS)
        .since("2.6.0")
        .about("Runs a Lua script by its digest.", "Depends on the script"),
    cmd("EVAL_RO", -3, eval_ro)
        .flags(RUNS.and(READONLY))
        .acl(Category::SCRIPTING)
        .group("scripting")
        .keys(READ_KEYS)
        .since("7.0.0")
        .about("Runs a Lua script that only reads.", "Depends on the script"),
    cmd("EVALSHA_RO", -3, evalsha_ro)
        .flags(RUNS.and(READONLY))
        .acl(Category::SCRIPTING)
        .group("scripting")
        .keys(READ_KEYS)
        .since("7.0.0")
        .about(
            "Runs a Lua script that only reads, by its digest.",
            "Depends on the script",
        ),
    cmd("SCRIPT", -2, help::container)
        .group("scripting")
        .since("2.6.0")
        .about("Keeps and ends Lua scripts.", "Depends on the subcommand")
        .subcommands(SUBCOMMANDS),
];

const SUBCOMMANDS: &[Entry] = &[
    cmd("DEBUG", 3, debug)
        .flags(NOSCRIPT)
        .acl(Category::SCRIPTING)
        .group("scripting")
        .since("3.2.0")
        .about("Sets the debug mode; only off is possible.", "O(1)"),
    cmd("EXISTS", -3, exists)
        .flags(NOSCRIPT)
        .acl(Category::SCRIPTING)
        .group("scripting")
        .since("2.6.0")
        .about(
            "Tells which digests are those of known scripts.",
            "O(1) per digest",
        ),
    cmd("FLUSH", -2, flush)
        .flags(NOSCRIPT)
        .acl(Category::SCRIPTING)
        .group("scripting")
        .since("2.6.0")
        .about("Forgets all scripts.", "O(N) for N scripts"),
    cmd("HELP", 2, script_help)
        .flags(LOADING.and(STALE))
        .acl(Category::SCRIPTING)
        .group("scripting")
        .since("5.0.0")
        .about("Lists the subcommands.", "O(1)"),
    cmd("KILL", 2, kill)
        .flags(NOSCRIPT.and(ALLOW_BUSY))
        .acl(Category::SCRIPTING)
        .group("scripting")
        .since("2.6.0")
        .about("Ends a script that takes too long and has not written.", "O(1)"),
    cmd("SHOW", 3, show)
        .flags(NOSCRIPT)
        .acl(Category::SCRIPTING)
        .group("scripting")
        .since("8.0.0")
        .about("Returns the text of a script by its digest.", "O(1)"),
    cmd("LOAD", 3, load)
        .flags(NOSCRIPT.and(STALE))
        .acl(Category::SCRIPTING)
        .group("scripting")
        .since("2.6.0")
        .about(
            "Keeps a script for EVALSHA without running it.",
            "O(N) for N bytes of script",
        ),
];

/// SCRIPT LOAD script
fn load(ctx: &mut Ctx<'_, '_>) -> Reply {
    let body = ctx.key(2);
    let digest = sha1_hex(body);
    with_vm(ctx, |ctx, vm| {
        vm.prepare_script(&ctx.server().scripts, &digest, Some(body))
    })?;
    ctx.out.bulk(&digest);
    Ok(())
}

/// SCRIPT SHOW sha1
fn show(ctx: &mut Ctx<'_, '_>) -> Reply {
    let source = digest(ctx.key(2)).and_then(|digest| ctx.server().scripts.source(&digest));
    let source = source.ok_or_else(|| CommandError::coded("NOSCRIPT No matching script."))?;
    ctx.out.bulk(&source.body);
    Ok(())
}

/// SCRIPT EXISTS sha1 [sha1 ...]
fn exists(ctx: &mut Ctx<'_, '_>) -> Reply {
    ctx.out.array(ctx.args.len() - 2);
    for text in ctx.args.skip(2) {
        let known = digest(text).and_then(|digest| ctx.server().scripts.source(&digest));
        ctx.out.int(known.is_some().into());
    }
    Ok(())
}

/// SCRIPT FLUSH [ASYNC | SYNC]
fn flush(ctx: &mut Ctx<'_, '_>) -> Reply {
    let known = ctx.args.len() == 2 || (ctx.args.len() == 3 && (ctx.is(2, "SYNC") || ctx.is(2, "ASYNC")));
    if !known {
        return Err(CommandError::err("SCRIPT FLUSH only support SYNC|ASYNC option"));
    }
    ctx.server().scripts.flush_sources();
    ctx.out.ok();
    Ok(())
}

/// SCRIPT KILL
fn kill(ctx: &mut Ctx<'_, '_>) -> Reply {
    ctx.server().scripts.kill(LongScript::Script)?;
    ctx.out.ok();
    Ok(())
}

/// SCRIPT DEBUG YES | SYNC | NO
fn debug(ctx: &mut Ctx<'_, '_>) -> Reply {
    if ctx.is(2, "NO") {
        ctx.out.ok();
        return Ok(());
    }
    if ctx.is(2, "YES") || ctx.is(2, "SYNC") {
        return Err(CommandError::err("there is no script debugger here"));
    }
    Err(CommandError::err("Use SCRIPT DEBUG YES/SYNC/NO"))
}

/// SCRIPT HELP
fn script_help(ctx: &mut Ctx<'_, '_>) -> Reply {
    help::help(
        ctx,
        &[
            (
                "DEBUG (YES|SYNC|NO)",
                &["Set the debug mode. Only NO is possible."],
            ),
            (
                "EXISTS <sha1> [<sha1> ...]",
                &["Tell for each digest whether it is that of a known script."],
            ),
            (
                "FLUSH [ASYNC|SYNC]",
                &["Forget all scripts. Both modes do the same."],
            ),
            (
                "KILL",
                &["End the script that takes too long, unless it has written."],
            ),
            (
                "LOAD <script>",
                &["Keep a script for EVALSHA without running it."],
            ),
            ("SHOW <sha1>", &["Show the text of a script."]),
        ],
    )
}
