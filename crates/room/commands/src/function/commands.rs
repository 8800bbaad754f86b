//! The table entries of functions, and the subcommands that only look.

use nagaya_command_spec::error::CommandError;
use nagaya_command_spec::glob;
use nagaya_command_spec::spec::{
    ALL_SHARDS, ALLOW_BUSY, Category, DENYOOM, LOADING, MAY_REPLICATE, NOSCRIPT, READONLY, STALE, WRITE,
};
use nagaya_exec::ctx::Ctx;
use nagaya_exec::entry::{Entry, cmd};
use nagaya_exec::help;
use nagaya_exec::scripts::traits::busy_error;
use nagaya_keyspace::shard::LongScript;
use nagaya_lua::FunctionDef;
use nagaya_resp::Out;

use super::call::{fcall, fcall_ro};
use super::dump::{dump, restore};
use super::load::{delete, flush, load};
use crate::scripting::{READ_KEYS, RUNS, WRITTEN_KEYS};

type Reply = Result<(), CommandError>;

pub(crate) const COMMANDS: &[Entry] = &[
    cmd("FCALL", -3, fcall)
        .flags(RUNS.and(MAY_REPLICATE))
        .acl(Category::SCRIPTING)
        .group("scripting")
        .keys(WRITTEN_KEYS)
        .since("7.0.0")
        .about("Calls a function.", "Depends on the function"),
    cmd("FCALL_RO", -3, fcall_ro)
        .flags(RUNS.and(READONLY))
        .acl(Category::SCRIPTING)
        .group("scripting")
        .keys(READ_KEYS)
        .since("7.0.0")
        .about("Calls a function that only reads.", "Depends on the function"),
    cmd("FUNCTION", -2, help::container)
        .group("scripting")
        .since("7.0.0")
        .about("Keeps and ends functions.", "Depends on the subcommand")
        .subcommands(SUBCOMMANDS),
];

const SUBCOMMANDS: &[Entry] = &[
    cmd("DELETE", 3, delete)
        .flags(NOSCRIPT.and(WRITE).and(ALL_SHARDS))
        .acl(Category::SCRIPTING)
        .group("scripting")
        .since("7.0.0")
        .about("Removes a library with its functions.", "O(N) for N functions"),
    cmd("DUMP", 2, dump)
        .flags(NOSCRIPT)
        .acl(Category::SCRIPTING)
        .group("scripting")
        .since("7.0.0")
        .about(
            "Returns all libraries as bytes for RESTORE.",
            "O(N) for N functions",
        ),
    cmd("FLUSH", -2, flush)
        .flags(NOSCRIPT.and(WRITE).and(ALL_SHARDS))
        .acl(Category::SCRIPTING)
        .group("scripting")
        .since("7.0.0")
        .about("Removes all libraries.", "O(N) for N functions"),
    cmd("HELP", 2, function_help)
        .flags(LOADING.and(STALE))
        .acl(Category::SCRIPTING)
        .group("scripting")
        .since("7.0.0")
        .about("Lists the subcommands.", "O(1)"),
    cmd("KILL", 2, kill)
        .flags(NOSCRIPT.and(ALLOW_BUSY))
        .acl(Category::SCRIPTING)
        .group("scripting")
        .since("7.0.0")
        .about("Ends a function that takes too long and has not written.", "O(1)"),
    cmd("LIST", -2, list)
        .flags(NOSCRIPT)
        .acl(Category::SCRIPTING)
        .group("scripting")
        .since("7.0.0")
        .about("Lists the libraries and their functions.", "O(N) for N functions"),
    cmd("LOAD", -3, load)
        .flags(NOSCRIPT.and(WRITE).and(DENYOOM).and(ALL_SHARDS))
        .acl(Category::SCRIPTING)
        .group("scripting")
        .since("7.0.0")
        .about("Loads a library.", "O(1) beside running its top level"),
    cmd("RESTORE", -3, restore)
        .flags(NOSCRIPT.and(WRITE).and(DENYOOM).and(ALL_SHARDS))
        .acl(Category::SCRIPTING)
        .group("scripting")
        .since("7.0.0")
        .about("Loads the libraries of a DUMP.", "O(N) for N functions"),
    cmd("STATS", 2, stats)
        .flags(NOSCRIPT.and(ALLOW_BUSY))
        .acl(Category::SCRIPTING)
        .group("scripting")
        .since("7.0.0")
        .about("Tells which function takes too long and counts them all.", "O(1)"),
];

/// FUNCTION KILL
fn kill(ctx: &mut Ctx<'_, '_>) -> Reply {
    ctx.server().scripts.kill(LongScript::Function)?;
    ctx.out.ok();
    Ok(())
}

/// FUNCTION LIST [LIBRARYNAME pattern] [WITHCODE]
fn list(ctx: &mut Ctx<'_, '_>) -> Reply {
    let (mut pattern, mut with_code) = (None, false);
    let mut at = 2;
    while at < ctx.args.len() {
        if !with_code && ctx.is(at, "WITHCODE") {
            with_code = true;
        } else if pattern.is_none() && ctx.is(at, "LIBRARYNAME") {
            at += 1;
            let missing = CommandError::err("library name argument was not given");
            pattern = Some(ctx.args.get(at).ok_or(missing)?);
        } else {
            let word = String::from_utf8_lossy(ctx.key(at));
            return Err(CommandError::err(format!("Unknown argument {word}")));
        }
        at += 1;
    }
    let libraries = ctx.server().scripts.libraries();
    let shown = libraries.iter().filter(|library| {
        pattern.is_none_or(|pattern| glob::matches_ignoring_case(pattern, library.name.as_bytes()))
    });
    let shown: Vec<_> = shown.collect();
    ctx.out.array(shown.len());
    for library in shown {
        ctx.out.map(if with_code { 4 } else { 3 });
        ctx.out.bulk_str("library_name");
        ctx.out.bulk_str(&library.name);
        ctx.out.bulk_str("engine");
        ctx.out.bulk_str("LUA");
        ctx.out.bulk_str("functions");
        ctx.out.array(library.functions.len());
        library
            .functions
            .iter()
            .for_each(|function| write_function(ctx.out, function));
        if with_code {
            ctx.out.bulk_str("library_code");
            ctx.out.bulk(&library.code);
        }
    }
    Ok(())
}

fn write_function(out: &mut Out, function: &FunctionDef) {
    out.map(3);
    out.bulk_str("name");
    out.bulk_str(&function.name);
    out.bulk_str("description");
    match &function.description {
        Some(text) => out.bulk_str(text),
        None => out.nil(),
    }
    out.bulk_str("flags");
    let mut flags = function.flags.clone();
    flags.sort_unstable_by_key(|flag| *flag as u8);
    flags.dedup();
    out.set(flags.len());
    flags.iter().for_each(|flag| out.simple(flag.name()));
}

/// FUNCTION STATS
fn stats(ctx: &mut Ctx<'_, '_>) -> Reply {
    let server = ctx.server();
    if server.keyspace.shards.slow() == Some(LongScript::Script) {
        return Err(busy_error(LongScript::Script));
    }
    let out = &mut *ctx.out;
    out.map(2);
    out.bulk_str("running_script");
    server.scripts.with_slow(|run| match run {
        None => out.nil(),
        Some(run) => {
            let elapsed_us = server.clock.steady_us().saturating_sub(run.started_us);
            out.map(3);
            out.bulk_str("name");
            out.bulk(&run.name);
            out.bulk_str("command");
            let command = run.command.as_args();
            out.array(command.len());
            command.iter().for_each(|word| out.bulk(word));
            out.bulk_str("duration_ms");
            out.int((elapsed_us / 1000) as i64);
        }
    });
    let libraries = server.scripts.libraries();
    out.bulk_str("engines");
    out.map(1);
    out.bulk_str("LUA");
    out.map(2);
    out.bulk_str("libraries_count");
    out.int(libraries.len() as i64);
    out.bulk_str("functions_count");
    out.int(libraries.function_count() as i64);
    Ok(())
}

/// FUNCTION HELP
fn function_help(ctx: &mut Ctx<'_, '_>) -> Reply {
    help::help(
        ctx,
        &[
            ("DELETE <library name>", &["Remove a library with its functions."]),
            ("DUMP", &["Return all libraries as bytes for RESTORE."]),
            (
                "FLUSH [ASYNC|SYNC]",
                &["Remove all libraries. Both modes do the same."],
            ),
            (
                "KILL",
                &["End the function that takes too long, unless it has written."],
            ),
            (
                "LIST [LIBRARYNAME <pattern>] [WITHCODE]",
                &["List the libraries, their functions and, when asked, their code."],
            ),
            (
                "LOAD [REPLACE] <library code>",
                &["Load a library, in place of one of the same name when asked."],
            ),
            (
                "RESTORE <payload> [FLUSH|APPEND|REPLACE]",
                &[
                    "Load the libraries of a DUMP: in place of all, beside those that are there",
                    "(the default), or in place of those of the same name.",
                ],
            ),
            (
                "STATS",
                &["Tell which function takes too long, and count libraries and functions."],
            ),
        ],
    )
}
