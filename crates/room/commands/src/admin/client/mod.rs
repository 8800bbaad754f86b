//! CLIENT: connections seen, named, held up and ended.

use nagaya_command_spec::error::CommandError;
use nagaya_command_spec::spec::{ADMIN, Category, Flags, LOADING, NOSCRIPT, STALE};
use nagaya_connections::client::{ClientFlag, Message};
use nagaya_exec::ctx::Ctx;
use nagaya_exec::entry::{Entry, Handler, cmd};
use nagaya_exec::help::{container, help};
use nagaya_exec::session::Replies;
use nagaya_resp::parse_i64;

use self::tracking::{client_caching, client_getredir, client_tracking, client_trackinginfo};

mod filter;
mod kill;
mod list;
mod pause;
#[cfg(test)]
mod tests;
mod tracking;

type Reply = Result<(), CommandError>;

const OWN: Flags = NOSCRIPT.and(LOADING).and(STALE);
const OTHERS: Flags = OWN.and(ADMIN);

const fn client(name: &'static str, arity: i32, run: Handler) -> Entry {
    cmd(name, arity, run)
        .flags(OWN)
        .acl(Category::CONNECTION)
        .group("connection")
}

pub(crate) const COMMANDS: &[Entry] = &[cmd("CLIENT", -2, container)
    .group("connection")
    .since("2.4.0")
    .about("Looks at and manages connections.", "Depends on the subcommand")
    .subcommands(&[
        client("CAPA", -3, capabilities)
            .since("8.0.0")
            .about("Tells what this connection can deal with.", "O(1)"),
        client("CACHING", 3, client_caching).since("6.0.0").about(
            "Says whether the keys of the next command are to be tracked.",
            "O(1)",
        ),
        client("GETREDIR", 2, client_getredir).since("6.0.0").about(
            "Returns the client that gets this one's invalidation messages.",
            "O(1)",
        ),
        client("TRACKING", -3, client_tracking).since("6.0.0").about(
            "Switches messages about changes of the keys that a client caches.",
            "O(1)",
        ),
        client("TRACKINGINFO", 2, client_trackinginfo)
            .since("6.2.0")
            .about("Tells how the keys of this connection are tracked.", "O(1)"),
        client("GETNAME", 2, getname)
            .since("2.6.9")
            .about("Returns the name of this connection.", "O(1)"),
        client("HELP", 2, help_command)
            .flags(LOADING.and(STALE))
            .since("5.0.0")
            .about("Lists the subcommands.", "O(1)"),
        client("ID", 2, id)
            .since("5.0.0")
            .about("Returns the number of this connection.", "O(1)"),
        client("INFO", 2, list::info)
            .since("6.2.0")
            .about("Describes this connection.", "O(1)"),
        client("KILL", -3, kill::kill)
            .flags(OTHERS)
            .since("2.4.0")
            .about("Ends connections.", "O(N) for N connections"),
        client("LIST", -2, list::list)
            .flags(OTHERS)
            .since("2.4.0")
            .about("Describes connections, a line each.", "O(N) for N connections"),
        client("NO-EVICT", 3, no_evict)
            .flags(OTHERS)
            .since("7.0.0")
            .about(
                "Says whether this connection may be ended for lack of memory.",
                "O(1)",
            ),
        client("NO-TOUCH", 3, no_touch).since("7.2.0").about(
            "Says whether commands of this connection count as uses of their keys.",
            "O(1)",
        ),
        client("PAUSE", -3, pause::pause)
            .flags(OTHERS)
            .since("2.9.50")
            .about("Lets clients wait for a while.", "O(1)"),
        client("REPLY", 3, reply)
            .since("3.2.0")
            .about("Says which replies this connection wants.", "O(1)"),
        client("SETINFO", 4, setinfo).since("7.2.0").about(
            "Tells the name or the version of the library that this connection uses.",
            "O(1)",
        ),
        client("SETNAME", 3, setname)
            .since("2.6.9")
            .about("Names this connection.", "O(1)"),
        client("UNBLOCK", -3, unblock)
            .flags(OTHERS)
            .since("5.0.0")
            .about("Ends the wait of a blocked client.", "O(log N) for N connections"),
        client("UNPAUSE", 2, pause::unpause)
            .flags(OTHERS)
            .since("6.2.0")
            .about("Lets waiting clients go on.", "O(1)"),
    ])];

/// CLIENT ID
fn id(ctx: &mut Ctx<'_, '_>) -> Reply {
    ctx.out.int(ctx.session.id() as i64);
    Ok(())
}

/// CLIENT GETNAME
fn getname(ctx: &mut Ctx<'_, '_>) -> Reply {
    match ctx.session.shared.name() {
        Some(name) => ctx.out.bulk(&name),
        None => ctx.out.nil(),
    }
    Ok(())
}

/// CLIENT SETNAME connection-name
fn setname(ctx: &mut Ctx<'_, '_>) -> Reply {
    ctx.session.shared.set_name(ctx.key(2))?;
    ctx.out.ok();
    Ok(())
}

/// CLIENT SETINFO LIB-NAME name | LIB-VER version
fn setinfo(ctx: &mut Ctx<'_, '_>) -> Reply {
    ctx.session.shared.set_library(ctx.key(2), ctx.key(3))?;
    ctx.out.ok();
    Ok(())
}

/// CLIENT NO-EVICT ON|OFF
fn no_evict(ctx: &mut Ctx<'_, '_>) -> Reply {
    switch(ctx, ClientFlag::NO_EVICT)
}

/// CLIENT NO-TOUCH ON|OFF
fn no_touch(ctx: &mut Ctx<'_, '_>) -> Reply {
    switch(ctx, ClientFlag::NO_TOUCH)
}

fn switch(ctx: &mut Ctx<'_, '_>, flag: ClientFlag) -> Reply {
    let on = ctx.is(2, "ON");
    if !on && !ctx.is(2, "OFF") {
        return Err(CommandError::Syntax);
    }
    ctx.session.shared.set_flag(flag, on);
    ctx.out.ok();
    Ok(())
}

/// CLIENT CAPA capability [capability ...]
///
/// The only capability there is, following redirections, is never made use of.
fn capabilities(ctx: &mut Ctx<'_, '_>) -> Reply {
    ctx.out.ok();
    Ok(())
}

/// CLIENT REPLY ON|OFF|SKIP
fn reply(ctx: &mut Ctx<'_, '_>) -> Reply {
    if ctx.is(2, "ON") {
        ctx.session.replies = Replies::On;
        ctx.out.ok();
    } else if ctx.is(2, "OFF") {
        ctx.session.replies = Replies::Off;
    } else if ctx.is(2, "SKIP") {
        if ctx.session.replies != Replies::Off {
            ctx.session.replies = Replies::SkipNext;
        }
    } else {
        return Err(CommandError::Syntax);
    }
    Ok(())
}

/// CLIENT UNBLOCK client-id [TIMEOUT|ERROR]
fn unblock(ctx: &mut Ctx<'_, '_>) -> Reply {
    if ctx.args.len() > 4 {
        return Err(unknown_form(ctx));
    }
    let as_error = ctx.is(3, "ERROR");
    if ctx.args.len() == 4 && !as_error && !ctx.is(3, "TIMEOUT") {
        return Err(CommandError::err(
            "CLIENT UNBLOCK reason should be TIMEOUT or ERROR",
        ));
    }
    let id = parse_i64(ctx.key(2)).ok_or(CommandError::NotInteger)?;
    let client = ctx.server().subscribers.clients.find(id as u64);
    let blocked = client.and_then(|client| {
        let wait = client.blocked.lock().clone()?;
        Some((client, wait))
    });
    let Some((client, wait)) = blocked.filter(|(_, wait)| wait.claim()) else {
        ctx.out.int(0);
        return Ok(());
    };
    let mut out = nagaya_resp::Out::new(wait.proto);
    if as_error {
        out.error("UNBLOCKED client unblocked via CLIENT UNBLOCK");
        let stats = ctx.stats();
        stats.commands[wait.command.number].failed.add(1);
        stats.count_error(&out.buf);
    } else {
        wait.on_timeout.write(&mut out);
    }
    client.deliver(Message::Unblocked(out.buf));
    // Other threads may hold the shards of its keys; the dispatcher takes it out of their queues.
    ctx.forget_wait(wait);
    ctx.out.int(1);
    Ok(())
}

/// Says that a subcommand exists, but not with these arguments.
fn unknown_form(ctx: &Ctx<'_, '_>) -> CommandError {
    CommandError::err(format!(
        "unknown subcommand or wrong number of arguments for '{}'. Try CLIENT HELP.",
        String::from_utf8_lossy(ctx.key(1))
    ))
}

/// CLIENT HELP
fn help_command(ctx: &mut Ctx<'_, '_>) -> Reply {
    help(ctx, HELP)
}

const HELP: &[(&str, &[&str])] = &[
    (
        "CACHING (YES|NO)",
        &["Say whether the keys of the next command are tracked."],
    ),
    (
        "GETREDIR",
        &["Show which connection gets this one's invalidations."],
    ),
    ("GETNAME", &["Show the name of this connection."]),
    ("ID", &["Show the number of this connection."]),
    ("INFO", &["Describe this connection."]),
    ("KILL <ip:port>", &["End the connection from an address."]),
    (
        "KILL <option> <value> [<option> <value> [...]]",
        &[
            "End connections that fit all options:",
            "* ADDR <ip:port>: its address; LADDR <ip:port>: ours",
            "* ID <id> [<id> ...], USER <name>, NAME <name>",
            "* MAXAGE <seconds>: connected for so long; IDLE <seconds>: silent for so long",
            "* NOT-<option> <value>: the option does not fit",
            "* TYPE (NORMAL|MASTER|REPLICA|PUBSUB)",
            "* SKIPME (YES|NO): spare this connection (default: yes)",
        ],
    ),
    (
        "LIST [options ...]",
        &[
            "Describe connections:",
            "* TYPE (NORMAL|MASTER|REPLICA|PUBSUB)",
            "* ID <id> [<id> ...], and the other options of KILL",
        ],
    ),
    ("UNPAUSE", &["Let waiting clients go on."]),
    (
        "PAUSE <milliseconds> [WRITE|ALL]",
        &["Let all clients, or those that write, wait for a while."],
    ),
    (
        "REPLY (ON|OFF|SKIP)",
        &["Choose the replies that this connection gets."],
    ),
    ("SETNAME <name>", &["Name this connection."]),
    (
        "SETINFO (LIB-NAME <name>|LIB-VER <version>)",
        &["Tell which library this connection uses."],
    ),
    (
        "UNBLOCK <id> [TIMEOUT|ERROR]",
        &["End the wait of a blocked client."],
    ),
    (
        "TRACKING (ON|OFF) [REDIRECT <id>] [BCAST] [PREFIX <prefix> [...]] [OPTIN] [OPTOUT] [NOLOOP]",
        &["Have changes of keys told to this connection."],
    ),
    ("TRACKINGINFO", &["Describe this connection's tracking."]),
    (
        "NO-EVICT (ON|OFF)",
        &["Protect this connection from being ended for lack of memory."],
    ),
    (
        "NO-TOUCH (ON|OFF)",
        &["Keep commands of this connection from counting as uses of keys."],
    ),
    (
        "CAPA <capability> [...]",
        &["Tell what this connection can deal with."],
    ),
];
