//! Commands about the server as a whole, and the plain answers of one that stands alone.
//!
//! There is one database, no replica of Redis's kind, no node of its cluster
//! and no snapshot file. Where a client expects the answer of a lone master it
//! gets it; where it asks for what does not exist it gets an error that says so.

use nagaya_command_spec::error::CommandError;
use nagaya_command_spec::spec::{
    ADMIN, ALL_SHARDS, ALLOW_BUSY, Category, FAST, Flags, LOADING, NO_ASYNC_LOADING, NO_MULTI, NOSCRIPT,
    PROTECTED, READONLY, STALE, WRITE,
};
use nagaya_exec::ctx::Ctx;
use nagaya_exec::entry::{Entry, Handler, cmd};
use nagaya_exec::help::{container, help};
use nagaya_resp::parse_i64;

mod cluster;

type Reply = Result<(), CommandError>;

const fn server(name: &'static str, arity: i32, flags: Flags, run: Handler) -> Entry {
    cmd(name, arity, run).flags(flags).group("server")
}

const SAVES: Flags = NO_ASYNC_LOADING.and(ADMIN).and(NOSCRIPT);

pub(crate) const COMMANDS: &[Entry] = &[
    server("BGREWRITEAOF", 1, SAVES, bgrewriteaof)
        .about("Accepted; there is no append-only file to rewrite.", "O(1)"),
    server("BGSAVE", -1, SAVES, bgsave).about("Starts to save everything to the cold tier.", "O(1)"),
    cluster::CLUSTER,
    server("FAILOVER", -1, ADMIN.and(NOSCRIPT).and(STALE), failover)
        .since("6.2.0")
        .about("Refuses: there is no replica to take over.", "O(1)"),
    server("LASTSAVE", 1, LOADING.and(STALE).and(FAST), lastsave)
        .acl(Category::ADMIN.and(Category::DANGEROUS))
        .about(
            "Returns the Unix time of the start; nothing is saved later.",
            "O(1)",
        ),
    server("LOLWUT", -1, READONLY.and(FAST), lolwut)
        .since("5.0.0")
        .about("Shows a picture and the version.", "O(1)"),
    MODULE,
    server("PSYNC", -3, SAVES.and(NO_MULTI), no_replication)
        .since("2.8.0")
        .about("Refuses: there is no replication of this kind.", "O(1)"),
    server(
        "REPLCONF",
        -1,
        ADMIN.and(NOSCRIPT).and(LOADING).and(STALE).and(ALLOW_BUSY),
        no_replication,
    )
    .since("3.0.0")
    .about("Refuses: there is no replication of this kind.", "O(1)"),
    server("REPLICAOF", 3, SAVES.and(STALE), replicaof)
        .since("5.0.0")
        .about("Takes NO ONE; refuses to follow a master.", "O(1)"),
    server("ROLE", 1, NOSCRIPT.and(LOADING).and(STALE).and(FAST), role)
        .acl(Category::ADMIN.and(Category::DANGEROUS))
        .since("2.8.12")
        .about("Says that this is a master without replicas.", "O(1)"),
    server("SAVE", 1, SAVES.and(NO_MULTI), save)
        .about("Accepted; there is no snapshot file to write.", "O(1)"),
    server(
        "SHUTDOWN",
        -1,
        ADMIN
            .and(NOSCRIPT)
            .and(LOADING)
            .and(STALE)
            .and(NO_MULTI)
            .and(ALLOW_BUSY),
        shutdown,
    )
    .about("Ends the server.", "O(1)"),
    server("SLAVEOF", 3, SAVES.and(STALE), replicaof).about("An older name of REPLICAOF.", "O(1)"),
    server("SWAPDB", 3, WRITE.and(FAST).and(ALL_SHARDS), swapdb)
        .acl(Category::KEYSPACE.and(Category::DANGEROUS))
        .since("4.0.0")
        .about(
            "Exchanges the keys of two databases.",
            "O(N) for N clients that watch or wait for their keys",
        ),
    server("SYNC", 1, SAVES.and(NO_MULTI), no_replication)
        .about("Refuses: there is no replication of this kind.", "O(1)"),
    server("TIME", 1, LOADING.and(STALE).and(FAST), time)
        .since("2.6.0")
        .about("Returns the server's time.", "O(1)"),
    cmd("WAIT", 3, wait)
        .flags(NOSCRIPT)
        .acl(Category::CONNECTION)
        .since("3.0.0")
        .about("Returns 0 at once: there are no replicas to wait for.", "O(1)"),
    cmd("WAITAOF", 4, waitaof)
        .flags(NOSCRIPT)
        .acl(Category::CONNECTION)
        .since("7.2.0")
        .about("Brings the writes of this connection to the disk.", "O(1)"),
];

const MODULE: Entry = server("MODULE", -2, Flags(0), container)
    .since("4.0.0")
    .about(
        "Shows modules, of which there are none.",
        "Depends on the subcommand",
    )
    .subcommands(&[
        server("HELP", 2, LOADING.and(STALE), module_help)
            .since("5.0.0")
            .about("Lists the subcommands.", "O(1)"),
        server("LIST", 2, ADMIN.and(NOSCRIPT), module_list)
            .since("4.0.0")
            .about("Returns an empty list of modules.", "O(1)"),
        server("LOAD", -3, SAVES.and(PROTECTED), no_modules)
            .since("4.0.0")
            .about("Refuses: modules cannot be loaded.", "O(1)"),
        server("LOADEX", -3, SAVES.and(PROTECTED), no_modules)
            .since("7.0.0")
            .about("Refuses: modules cannot be loaded.", "O(1)"),
        server("UNLOAD", 3, SAVES.and(PROTECTED), no_modules)
            .since("4.0.0")
            .about("Refuses: there is no module.", "O(1)"),
    ]);

/// TIME
fn time(ctx: &mut Ctx<'_, '_>) -> Reply {
    // For a script, time stands still.
    let now_us = if ctx.session.in_script {
        ctx.now_us()
    } else {
        ctx.server().clock.unix_us()
    };
    ctx.out.array(2);
    ctx.out.bulk_int(now_us / 1_000_000);
    ctx.out.bulk_int(now_us % 1_000_000);
    Ok(())
}

/// ROLE
fn role(ctx: &mut Ctx<'_, '_>) -> Reply {
    ctx.out.array(3);
    ctx.out.bulk_str("master");
    ctx.out.int(0);
    ctx.out.array(0);
    Ok(())
}

/// WAIT numreplicas timeout
fn wait(ctx: &mut Ctx<'_, '_>) -> Reply {
    ctx.int(1)?;
    let timeout_ms =
        parse_i64(ctx.key(2)).ok_or(CommandError::err("timeout is not an integer or out of range"))?;
    if timeout_ms < 0 {
        return Err(CommandError::err("timeout is negative"));
    }
    ctx.out.int(0);
    Ok(())
}

/// WAITAOF numlocal numreplicas timeout
///
/// The log is synced at once rather than waited for; inside a transaction, whose keys are held, it is only
/// looked at.
fn waitaof(ctx: &mut Ctx<'_, '_>) -> Reply {
    let (local, replicas) = (ctx.int(1)?, ctx.int(2)?);
    if !(0..=1).contains(&local) || replicas < 0 {
        return Err(CommandError::err("value is out of range, must be positive"));
    }
    let timeout_ms =
        parse_i64(ctx.key(3)).ok_or(CommandError::err("timeout is not an integer or out of range"))?;
    if timeout_ms < 0 {
        return Err(CommandError::err("timeout is negative"));
    }
    let position = ctx.session.journal_position;
    let journal = ctx.server().journal();
    if local > 0 && journal.is_none() {
        return Err(CommandError::err(
            "WAITAOF cannot be used when numlocal is set but appendonly is disabled.",
        ));
    }
    let on_disk = match journal {
        None => false,
        Some(journal) if local == 0 || !ctx.may_wait() => journal.is_on_disk(position),
        Some(journal) if journal.is_on_disk(position) => true,
        Some(journal) => {
            let synced = journal.sync();
            synced.map_err(|error| CommandError::coded(error.to_string()))?;
            true
        }
    };
    ctx.out.array(2);
    ctx.out.int(i64::from(on_disk));
    ctx.out.int(0);
    Ok(())
}

/// LASTSAVE
fn lastsave(ctx: &mut Ctx<'_, '_>) -> Reply {
    ctx.out.int(saved_at_s(ctx));
    Ok(())
}

/// Returns when everything was last saved, in Unix seconds; without a cold tier, when the engine started.
fn saved_at_s(ctx: &Ctx<'_, '_>) -> i64 {
    match ctx.db.tiering {
        Some(tiering) => tiering.saved_at_ms() / 1000,
        None => ctx.server().started_us / 1_000_000,
    }
}

/// SAVE
///
/// Waits until the cold tier has everything. Without one there is nothing to wait for, and tools that call
/// this and the next two as a matter of routine still get the answer they know.
fn save(ctx: &mut Ctx<'_, '_>) -> Reply {
    check_journal(ctx)?;
    if let Some(tiering) = ctx.db.tiering
        && !ctx.session.is_saved(tiering)
    {
        return Ok(());
    }
    ctx.out.ok();
    Ok(())
}

/// BGSAVE [SCHEDULE]
fn bgsave(ctx: &mut Ctx<'_, '_>) -> Reply {
    if ctx.args.len() > 2 || (ctx.args.len() == 2 && !ctx.is(1, "SCHEDULE")) {
        return Err(CommandError::Syntax);
    }
    check_journal(ctx)?;
    if let Some(tiering) = ctx.db.tiering {
        (tiering.save_soon)();
    }
    ctx.out.simple("Background saving started");
    Ok(())
}

/// Refuses to call something saved that could not be found again.
fn check_journal(ctx: &Ctx<'_, '_>) -> Result<(), CommandError> {
    let Some(journal) = ctx.server().journal() else {
        return Ok(());
    };
    let checked = journal.check();
    checked.map_err(|failure| CommandError::coded(failure.to_string()))
}

/// BGREWRITEAOF
fn bgrewriteaof(ctx: &mut Ctx<'_, '_>) -> Reply {
    check_journal(ctx)?;
    if let Some(tiering) = ctx.db.tiering {
        (tiering.save_soon)();
    }
    ctx.out.simple("Background append only file rewriting started");
    Ok(())
}

/// SHUTDOWN [NOSAVE|SAVE] [NOW] [FORCE] [ABORT]
fn shutdown(ctx: &mut Ctx<'_, '_>) -> Reply {
    let has = |word: &str| (1..ctx.args.len()).any(|at| ctx.is(at, word));
    let known = |at: usize| {
        ["NOSAVE", "SAVE", "NOW", "FORCE", "ABORT"]
            .iter()
            .any(|word| ctx.is(at, word))
    };
    let options = ctx.args.len() - 1;
    let all_known = (1..=options).all(known);
    if !all_known || (has("ABORT") && options > 1) || (has("NOSAVE") && has("SAVE")) {
        return Err(CommandError::Syntax);
    }
    if has("ABORT") {
        // A shutdown waits for nothing, so that there is never one to be called off.
        return Err(CommandError::err("No shutdown in progress."));
    }
    if !has("NOW") && ctx.session.nesting > 0 {
        return Err(CommandError::err(
            "SHUTDOWN without NOW or ABORT isn't allowed for DENY BLOCKING client",
        ));
    }
    if let Some(slow) = ctx.server().keyspace.shards.long_script()
        && !has("NOSAVE")
    {
        return Err(nagaya_exec::scripts::traits::busy_error(slow));
    }
    ctx.server()
        .shutdown_requested
        .store(true, std::sync::atomic::Ordering::SeqCst);
    // As with Redis, the end of the connection is the reply.
    ctx.session.close_after_reply = true;
    Ok(())
}

/// REPLICAOF host port | NO ONE
fn replicaof(ctx: &mut Ctx<'_, '_>) -> Reply {
    if ctx.is(1, "NO") && ctx.is(2, "ONE") {
        ctx.out.ok();
        return Ok(());
    }
    if parse_i64(ctx.key(2)).is_none_or(|port| !(0..=65535).contains(&port)) {
        return Err(CommandError::err("Invalid master port"));
    }
    no_replication(ctx)
}

/// PSYNC, SYNC, REPLCONF
fn no_replication(ctx: &mut Ctx<'_, '_>) -> Reply {
    Err(CommandError::err(format!(
        "{} is not supported: this server neither follows a master nor feeds replicas",
        ctx.command.spec.name
    )))
}

/// FAILOVER [TO host port [FORCE]] [ABORT] [TIMEOUT milliseconds]
fn failover(ctx: &mut Ctx<'_, '_>) -> Reply {
    Err(CommandError::err(if ctx.args.len() == 2 && ctx.is(1, "ABORT") {
        "No failover in progress."
    } else {
        "FAILOVER requires connected replicas."
    }))
}

/// SWAPDB index1 index2
fn swapdb(ctx: &mut Ctx<'_, '_>) -> Reply {
    let number = |at: usize| parse_i64(ctx.key(at)).filter(|number| i32::try_from(*number).is_ok());
    let first = number(1).ok_or(CommandError::err("invalid first DB index"))?;
    let second = number(2).ok_or(CommandError::err("invalid second DB index"))?;
    let (first, second) = (ctx.is_database(first)?, ctx.is_database(second)?);
    ctx.db.swap_databases(first, second);
    ctx.out.ok();
    Ok(())
}

/// LOLWUT [VERSION version] [argument ...]
fn lolwut(ctx: &mut Ctx<'_, '_>) -> Reply {
    if ctx.args.len() >= 3 && ctx.is(1, "VERSION") {
        ctx.int(2)?;
    }
    // A nagaya: a row house, every room with its own door.
    let house = "   ______________________________\n  /______________________________\\\n   |  _  |  _  |  _  |  _  |  _  |\n   | | | | | | | | | | | | | | | |\n";
    let text = format!("{house}\nRedis ver. {}\n", ctx.config().redis_version);
    ctx.out.verbatim("txt", text.as_bytes());
    Ok(())
}

/// MODULE LIST
fn module_list(ctx: &mut Ctx<'_, '_>) -> Reply {
    ctx.out.array(0);
    Ok(())
}

/// MODULE LOAD, MODULE LOADEX, MODULE UNLOAD
fn no_modules(ctx: &mut Ctx<'_, '_>) -> Reply {
    Err(CommandError::err(format!(
        "MODULE {} is not supported: modules cannot be loaded into this server",
        ctx.command.spec.name
    )))
}

/// MODULE HELP
fn module_help(ctx: &mut Ctx<'_, '_>) -> Reply {
    help(
        ctx,
        &[
            ("LIST", &["Show the modules: none."]),
            ("LOAD <path> [<arg> ...]", &["Not available."]),
            (
                "LOADEX <path> [CONFIG <name> <value> ...] [ARGS ...]",
                &["Not available."],
            ),
            ("UNLOAD <name>", &["Not available."]),
        ],
    )
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::Ordering;

    use crate::testing::TestSession;

    #[test]
    fn waitaof_needs_a_log_and_then_has_it_synced() {
        let mut session = TestSession::new();
        session.check("WAITAOF 0 0 0", "*2\r\n:0\r\n:0\r\n");
        session.check(
            "WAITAOF 1 0 0",
            "-ERR WAITAOF cannot be used when numlocal is set but appendonly is disabled.\r\n",
        );
        session.record();
        session.check("SET k v", "+OK\r\n");
        session.check("WAITAOF 1 0 100", "*2\r\n:1\r\n:0\r\n");
        session.check(
            "WAITAOF 2 0 0",
            "-ERR value is out of range, must be positive\r\n",
        );
        session.check("WAITAOF 1 0 -1", "-ERR timeout is negative\r\n");
        session.check("MULTI", "+OK\r\n");
        session.check("WAITAOF 1 0 0", "+QUEUED\r\n");
        session.check("EXEC", "*1\r\n*2\r\n:1\r\n:0\r\n");
    }

    #[test]
    fn a_lone_master_answers_for_itself() {
        let mut session = TestSession::new();
        session.advance_ms(1);
        session.check("TIME", "*2\r\n$10\r\n1700000000\r\n$4\r\n1000\r\n");
        session.check("ROLE", "*3\r\n$6\r\nmaster\r\n:0\r\n*0\r\n");
        session.check("WAIT 1 100", ":0\r\n");
        session.check("WAIT x 1", "-ERR value is not an integer or out of range\r\n");
        session.check("WAIT 1 -1", "-ERR timeout is negative\r\n");
        session.check("LASTSAVE", ":1700000000\r\n");
        session.check("REPLICAOF no one", "+OK\r\n");
        session.check("SLAVEOF localhost x", "-ERR Invalid master port\r\n");
        session.check("MODULE LIST", "*0\r\n");
        session.check("FAILOVER ABORT", "-ERR No failover in progress.\r\n");
        session.check(
            "CLUSTER INFO",
            "-ERR This instance has cluster support disabled\r\n",
        );
        session.check("BGSAVE", "+Background saving started\r\n");
        session.check("BGSAVE NOW", "-ERR syntax error\r\n");
        assert!(
            session
                .text("LOLWUT VERSION 5")
                .ends_with("Redis ver. 7.4.0\n\r\n")
        );
    }

    #[test]
    fn shutdown_is_left_to_who_runs_the_engine() {
        let mut session = TestSession::new();
        session.check("SHUTDOWN ABORT", "-ERR No shutdown in progress.\r\n");
        session.check("SHUTDOWN SAVE NOSAVE", "-ERR syntax error\r\n");
        session.check("SHUTDOWN ABORT NOW", "-ERR syntax error\r\n");
        session.check("SHUTDOWN later", "-ERR syntax error\r\n");
        assert!(!session.engine.server.shutdown_requested.load(Ordering::SeqCst));
        session.check("SHUTDOWN NOSAVE", "");
        assert!(session.engine.server.shutdown_requested.load(Ordering::SeqCst));
        assert!(session.client.close_after_reply);
    }
}
