//! The life of a connection: handshake, authentication, and small talk.

use nagaya_command_spec::error::CommandError;
use nagaya_command_spec::spec::{ALLOW_BUSY, Category, FAST, Flags, LOADING, NO_AUTH, NOSCRIPT, STALE};
use nagaya_connections::acl::DEFAULT_USER;
use nagaya_connections::client::ClientFlag;
use nagaya_exec::ctx::Ctx;
use nagaya_exec::entry::{Entry, cmd};
use nagaya_resp::{Proto, parse_i64};

type Reply = Result<(), CommandError>;

/// What a connection may always send, even before it has authenticated.
const ALWAYS: Flags = NOSCRIPT
    .and(LOADING)
    .and(STALE)
    .and(FAST)
    .and(NO_AUTH)
    .and(ALLOW_BUSY);

const fn connection(name: &'static str, arity: i32, run: nagaya_exec::entry::Handler) -> Entry {
    cmd(name, arity, run)
        .acl(Category::CONNECTION)
        .group("connection")
}

pub(crate) const COMMANDS: &[Entry] = &[
    connection("AUTH", -2, auth).flags(ALWAYS).about(
        "Logs in with a password, or with a user's name and password.",
        "O(N) for N passwords",
    ),
    connection("HELLO", -1, hello).flags(ALWAYS).since("6.0.0").about(
        "Chooses the protocol; may log in and name the connection too.",
        "O(1)",
    ),
    connection("RESET", 1, reset)
        .flags(ALWAYS)
        .since("6.2.0")
        .about("Makes the connection as if it were new.", "O(1)"),
    connection("QUIT", -1, quit)
        .flags(ALWAYS)
        .about("Closes the connection.", "O(1)"),
    connection("SELECT", 2, select)
        .flags(LOADING.and(STALE).and(FAST))
        .about("Chooses the database; there is only 0.", "O(1)"),
    connection("PING", -1, ping)
        .flags(FAST)
        .about("Replies, with the given text or without.", "O(1)"),
    connection("ECHO", 2, echo)
        .flags(LOADING.and(STALE).and(FAST))
        .about("Replies with the given text.", "O(1)"),
    connection("ASKING", 1, no_cluster)
        .flags(FAST)
        .group("cluster")
        .since("3.0.0")
        .about("Follows a redirection in a cluster; there is none.", "O(1)"),
    connection("READONLY", 1, no_cluster)
        .flags(LOADING.and(STALE).and(FAST))
        .group("cluster")
        .since("3.0.0")
        .about("Lets a replica of a cluster answer; there is none.", "O(1)"),
    connection("READWRITE", 1, no_cluster)
        .flags(LOADING.and(STALE).and(FAST))
        .group("cluster")
        .since("3.0.0")
        .about("Takes READONLY back; there is no cluster.", "O(1)"),
];

/// AUTH [user] password
fn auth(ctx: &mut Ctx<'_, '_>) -> Reply {
    let (user, password) = match ctx.args.len() {
        2 => {
            if ctx.server().acl.default_account().rules().nopass {
                return Err(CommandError::err(
                    "AUTH <password> called without any password configured for the default user. Are you \
                     sure your configuration is correct?",
                ));
            }
            (DEFAULT_USER, ctx.key(1))
        }
        3 => (ctx.key(1), ctx.key(2)),
        _ => return Err(CommandError::Syntax),
    };
    ctx.log_in((user, password))?;
    ctx.out.ok();
    Ok(())
}

/// HELLO [protocol [AUTH user password] [SETNAME name]]
///
/// What was done before a mistake in the options stays done, as in Redis.
fn hello(ctx: &mut Ctx<'_, '_>) -> Reply {
    let proto = match ctx.args.get(1) {
        None => None,
        Some(text) => match parse_i64(text) {
            Some(2) => Some(Proto::Resp2),
            Some(3) => Some(Proto::Resp3),
            Some(_) => return Err(CommandError::coded("NOPROTO unsupported protocol version")),
            None => {
                return Err(CommandError::err(
                    "Protocol version is not an integer or out of range",
                ));
            }
        },
    };
    let mut at = 2;
    while at < ctx.args.len() {
        if ctx.is(at, "AUTH") && at + 2 < ctx.args.len() {
            let pair = (ctx.key(at + 1), ctx.key(at + 2));
            ctx.log_in(pair)?;
            at += 3;
        } else if ctx.is(at, "SETNAME") && at + 1 < ctx.args.len() {
            ctx.session.shared.set_name(ctx.key(at + 1))?;
            at += 2;
        } else {
            let option = String::from_utf8_lossy(ctx.key(at)).into_owned();
            return Err(CommandError::err(format!(
                "Syntax error in HELLO option '{option}'"
            )));
        }
    }
    if !ctx.is_authenticated() {
        return Err(CommandError::coded(
            "NOAUTH HELLO must be called with the client already authenticated, otherwise the HELLO AUTH \
             <user> <pass> option can be used to authenticate the client and select the RESP protocol \
             version at the same time",
        ));
    }
    if let Some(proto) = proto {
        ctx.session.set_proto(proto);
        ctx.out.proto = proto;
    }
    write_greeting(ctx);
    Ok(())
}

fn write_greeting(ctx: &mut Ctx<'_, '_>) {
    ctx.out.map(7);
    ctx.out.bulk_str("server");
    ctx.out.bulk_str("redis");
    ctx.out.bulk_str("version");
    let version = ctx.config().redis_version.clone();
    ctx.out.bulk_str(version.as_str());
    ctx.out.bulk_str("proto");
    ctx.out.int(if ctx.out.proto == Proto::Resp3 { 3 } else { 2 });
    ctx.out.bulk_str("id");
    ctx.out.int(ctx.session.id() as i64);
    ctx.out.bulk_str("mode");
    ctx.out.bulk_str("standalone");
    ctx.out.bulk_str("role");
    ctx.out.bulk_str("master");
    ctx.out.bulk_str("modules");
    ctx.out.array(0);
}

/// RESET
fn reset(ctx: &mut Ctx<'_, '_>) -> Reply {
    ctx.session.transaction = None;
    let server = ctx.server();
    nagaya_exec::transaction::unwatch(server, ctx.session);
    nagaya_exec::tracking::disable(&server.subscribers.tracking, ctx.session);
    nagaya_exec::subscriptions::unsubscribe_all(&server.subscribers.pubsub, ctx.session);
    server.monitors.leave(&ctx.session.shared);
    ctx.session.replies = nagaya_exec::session::Replies::On;
    for flag in [ClientFlag::NO_EVICT, ClientFlag::NO_TOUCH] {
        ctx.session.shared.set_flag(flag, false);
    }
    ctx.session.set_database(0);
    ctx.db.select(0);
    ctx.session.set_proto(Proto::Resp2);
    ctx.out.proto = Proto::Resp2;
    ctx.session.leave_account();
    ctx.session.shared.set_name(b"")?;
    ctx.out.simple("RESET");
    Ok(())
}

/// QUIT
fn quit(ctx: &mut Ctx<'_, '_>) -> Reply {
    ctx.session.close_after_reply = true;
    ctx.out.ok();
    Ok(())
}

/// SELECT index
fn select(ctx: &mut Ctx<'_, '_>) -> Reply {
    let database = ctx.database(1)?;
    ctx.session.set_database(database);
    ctx.db.select(database);
    ctx.out.ok();
    Ok(())
}

/// PING [text]
fn ping(ctx: &mut Ctx<'_, '_>) -> Reply {
    if ctx.args.len() > 2 {
        return Err(CommandError::wrong_arity(&ctx.command.full_name));
    }
    if ctx.session.in_subscribed_mode() {
        ctx.out.array(2);
        ctx.out.bulk_str("pong");
        ctx.out.bulk(ctx.key(1));
        return Ok(());
    }
    match ctx.args.get(1) {
        None => ctx.out.simple("PONG"),
        Some(text) => ctx.out.bulk(text),
    }
    Ok(())
}

/// ECHO text
fn echo(ctx: &mut Ctx<'_, '_>) -> Reply {
    ctx.out.bulk(ctx.key(1));
    Ok(())
}

/// ASKING, READONLY, READWRITE
fn no_cluster(_: &mut Ctx<'_, '_>) -> Reply {
    Err(CommandError::err("This instance has cluster support disabled"))
}
