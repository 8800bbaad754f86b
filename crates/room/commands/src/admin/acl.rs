//! ACL and its subcommands.

use std::io::Read;

use nagaya_command_spec::error::CommandError;
use nagaya_command_spec::spec::{ADMIN, Category, Flags, LOADING, NOSCRIPT, STALE};
use nagaya_connections::acl::check::Reason;
use nagaya_connections::acl::rules::Rules;
use nagaya_connections::acl::selector::{Selector, has_space};
use nagaya_connections::acl::{DEFAULT_USER, file};
use nagaya_exec::closing::{close_clients_of_the_removed, close_listeners_without_rights};
use nagaya_exec::ctx::Ctx;
use nagaya_exec::entry::{Entry, cmd};
use nagaya_exec::help::{container, help};

type Reply = Result<(), CommandError>;

const COMMON: Flags = NOSCRIPT.and(LOADING).and(STALE);
const ADMINS: Flags = COMMON.and(ADMIN);

const fn sub(name: &'static str, arity: i32, run: nagaya_exec::entry::Handler) -> Entry {
    cmd(name, arity, run).flags(ADMINS).group("server").since("6.0.0")
}

pub(crate) const COMMANDS: &[Entry] = &[cmd("ACL", -2, container)
    .group("server")
    .since("6.0.0")
    .about("Manages users and their rights.", "Depends on the subcommand")
    .subcommands(&[
        sub("CAT", -2, cat).flags(COMMON).about(
            "Lists the categories of commands, or the commands of one.",
            "O(1), as both are fixed",
        ),
        sub("DELUSER", -3, deluser).about("Removes users and ends their connections.", "O(1) per user"),
        sub("DRYRUN", -4, dryrun).since("7.0.0").about(
            "Returns whether a user might run a command, without running it.",
            "O(1)",
        ),
        sub("GENPASS", -2, genpass)
            .flags(COMMON)
            .about("Makes up a password that cannot be guessed.", "O(1)"),
        sub("GETUSER", 3, getuser).about("Returns the rules of a user.", "O(N) for N rules"),
        sub("HELP", 2, acl_help)
            .flags(LOADING.and(STALE))
            .about("Describes the subcommands.", "O(1)"),
        sub("LIST", 2, list).about(
            "Returns every user's rules as lines of the users' file.",
            "O(N) for N users",
        ),
        sub("LOAD", 2, load).about("Reads the users' file again.", "O(N) for N users"),
        sub("LOG", -2, log).about("Returns or clears what was lately refused.", "O(N) for N entries"),
        sub("SAVE", 2, save).about("Writes the users' file.", "O(N) for N users"),
        sub("SETUSER", -3, setuser).about("Makes a user or changes its rules.", "O(N) for N rules"),
        sub("USERS", 2, users).about("Returns the names of all users.", "O(N) for N users"),
        sub("WHOAMI", 2, whoami)
            .flags(COMMON)
            .about("Returns the name of the connection's user.", "O(1)"),
    ])];

/// ACL CAT [category]
fn cat(ctx: &mut Ctx<'_, '_>) -> Reply {
    match ctx.args.len() {
        2 => {
            ctx.out.array(Category::ALL.len());
            Category::ALL.iter().for_each(|(_, name)| ctx.out.bulk_str(name));
        }
        3 => {
            let name = ctx.key(2);
            let category = Category::named(name)
                .ok_or_else(|| CommandError::err(format!("Unknown category '{}'", clipped(name))))?;
            let inside = ctx
                .table()
                .every()
                .filter(|command| command.categories.has(category));
            let names: Vec<&str> = inside.map(|command| command.full_name.as_str()).collect();
            ctx.out.array(names.len());
            names.iter().for_each(|name| ctx.out.bulk_str(name));
        }
        _ => return Err(wrong_subcommand_arguments(ctx)),
    }
    Ok(())
}

/// ACL DELUSER name [name ...]
fn deluser(ctx: &mut Ctx<'_, '_>) -> Reply {
    let names = ctx.args.skip(2);
    if names.iter().any(|name| name == DEFAULT_USER) {
        return Err(CommandError::err("The 'default' user cannot be removed"));
    }
    let server = ctx.server();
    let removed = names
        .iter()
        .filter(|name| server.acl.remove_user(name).is_some())
        .count();
    close_clients_of_the_removed(server, ctx.session);
    ctx.executor().refresh_users();
    if removed > 0 {
        server.keep_users()?;
    }
    ctx.out.int(removed as i64);
    Ok(())
}

/// ACL DRYRUN name command [argument ...]
fn dryrun(ctx: &mut Ctx<'_, '_>) -> Reply {
    let lossy = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    let Some(account) = ctx.server().acl.account(ctx.key(2)) else {
        let name = lossy(ctx.key(2));
        return Err(CommandError::err(format!("User '{name}' not found")));
    };
    let args = ctx.args.skip(3);
    let Some(command) = ctx.table().find_request(&args) else {
        let name = lossy(ctx.key(3));
        return Err(CommandError::err(format!("Command '{name}' not found")));
    };
    if !command.spec.accepts(args.len()) {
        return Err(CommandError::wrong_arity(&command.full_name));
    }
    let Err(denied) = account.rules().check(command, &args) else {
        ctx.out.ok();
        return Ok(());
    };
    let object = lossy(&denied.object(command, &args));
    let verb = if denied.reason == Reason::Command {
        "run"
    } else {
        "access"
    };
    ctx.out.bulk_str(&format!(
        "This user has no permissions to {verb} the '{object}' {}",
        denied.reason.name()
    ));
    Ok(())
}

/// ACL GENPASS [bits]
fn genpass(ctx: &mut Ctx<'_, '_>) -> Reply {
    const BITS_MAX: i64 = 4096;
    let bits = match ctx.args.len() {
        2 => 256,
        3 => ctx.int(2)?,
        _ => return Err(wrong_subcommand_arguments(ctx)),
    };
    if !(1..=BITS_MAX).contains(&bits) {
        return Err(CommandError::err(format!(
            "ACL GENPASS argument must be the number of bits for the output password, a positive number \
             up to {BITS_MAX}"
        )));
    }
    let digits = (bits as usize).div_ceil(4);
    let mut random = vec![0; digits.div_ceil(2)];
    std::fs::File::open("/dev/urandom")
        .and_then(|mut source| source.read_exact(&mut random))
        .map_err(|error| CommandError::err(format!("the system gives no random bytes: {error}")))?;
    let mut text: String = random.iter().map(|byte| format!("{byte:02x}")).collect();
    text.truncate(digits);
    ctx.out.bulk_str(&text);
    Ok(())
}

/// ACL GETUSER name
fn getuser(ctx: &mut Ctx<'_, '_>) -> Reply {
    let Some(account) = ctx.server().acl.account(ctx.key(2)) else {
        ctx.out.nil();
        return Ok(());
    };
    let rules: &Rules = &account.rules();
    ctx.out.map(6);
    ctx.out.bulk_str("flags");
    let flags = rules.flag_names();
    ctx.out.set(flags.len());
    flags.iter().for_each(|flag| ctx.out.bulk_str(flag));
    ctx.out.bulk_str("passwords");
    ctx.out.array(rules.passwords.len());
    rules.passwords.iter().for_each(|hash| ctx.out.bulk(hash));
    write_selector(ctx, rules.root());
    ctx.out.bulk_str("selectors");
    ctx.out.array(rules.selectors.len() - 1);
    for selector in &rules.selectors[1..] {
        ctx.out.map(3);
        write_selector(ctx, selector);
    }
    Ok(())
}

fn write_selector(ctx: &mut Ctx<'_, '_>, selector: &Selector) {
    ctx.out.bulk_str("commands");
    ctx.out.bulk_str(&selector.describe_commands(ctx.table()));
    ctx.out.bulk_str("keys");
    ctx.out.bulk(&selector.describe_keys());
    ctx.out.bulk_str("channels");
    ctx.out.bulk(&selector.describe_channels());
}

/// ACL LIST
fn list(ctx: &mut Ctx<'_, '_>) -> Reply {
    let accounts = ctx.server().acl.accounts();
    ctx.out.array(accounts.len());
    for account in accounts {
        ctx.out.bulk(file::line(ctx.table(), &account).trim_ascii_end());
    }
    Ok(())
}

/// ACL USERS
fn users(ctx: &mut Ctx<'_, '_>) -> Reply {
    let accounts = ctx.server().acl.accounts();
    ctx.out.array(accounts.len());
    accounts.iter().for_each(|account| ctx.out.bulk(&account.name));
    Ok(())
}

/// ACL WHOAMI
fn whoami(ctx: &mut Ctx<'_, '_>) -> Reply {
    ctx.out.bulk(ctx.session.user_name());
    Ok(())
}

/// ACL LOAD
fn load(ctx: &mut Ctx<'_, '_>) -> Reply {
    let server = ctx.server();
    server.reload_users(ctx.session)?;
    ctx.executor().refresh_users();
    ctx.out.ok();
    Ok(())
}

/// ACL SAVE
fn save(ctx: &mut Ctx<'_, '_>) -> Reply {
    ctx.server().save_users()?;
    ctx.out.ok();
    Ok(())
}

/// ACL LOG [count | RESET]
fn log(ctx: &mut Ctx<'_, '_>) -> Reply {
    let log = &ctx.server().acl.log;
    let count = match ctx.args.len() {
        2 => 10,
        3 if ctx.is(2, "RESET") => {
            log.clear();
            ctx.out.ok();
            return Ok(());
        }
        3 => ctx.int(2)?.max(0) as usize,
        _ => return Err(wrong_subcommand_arguments(ctx)),
    };
    let entries = log.latest(count);
    ctx.out.array(entries.len());
    for entry in entries {
        ctx.out.map(7);
        ctx.out.bulk_str("count");
        ctx.out.int(entry.count as i64);
        ctx.out.bulk_str("reason");
        ctx.out.bulk_str(entry.reason.name());
        ctx.out.bulk_str("context");
        ctx.out.bulk_str(entry.context.name());
        ctx.out.bulk_str("object");
        ctx.out.bulk(&entry.object);
        ctx.out.bulk_str("username");
        ctx.out.bulk(&entry.user);
        ctx.out.bulk_str("age-seconds");
        ctx.out
            .double((ctx.now_us() / 1000 - entry.at_ms) as f64 / 1000.0);
        ctx.out.bulk_str("client-info");
        ctx.out.bulk_str(&entry.client_info);
    }
    Ok(())
}

/// ACL SETUSER name [rule ...]
fn setuser(ctx: &mut Ctx<'_, '_>) -> Reply {
    let name = ctx.key(2);
    if has_space(name) {
        return Err(CommandError::err(
            "Usernames can't contain spaces or null characters",
        ));
    }
    let rules: Vec<&[u8]> = ctx.args.skip(3).iter().collect();
    let all_channels = ctx.server().config().acl_pubsub_default_all;
    let server = ctx.server();
    let (account, before) = server
        .acl
        .set_user(name, &rules, all_channels)
        .map_err(|error| CommandError::err(error.to_string()))?;
    if let Some(before) = before {
        close_listeners_without_rights(server, &account, &before);
    }
    ctx.executor().refresh_users();
    server.keep_users()?;
    ctx.out.ok();
    Ok(())
}

/// ACL HELP
fn acl_help(ctx: &mut Ctx<'_, '_>) -> Reply {
    help(
        ctx,
        &[
            (
                "CAT [<category>]",
                &["Lists the categories, or the commands of <category>."],
            ),
            (
                "DELUSER <username> [<username> ...]",
                &["Removes users and ends their connections."],
            ),
            (
                "DRYRUN <username> <command> [<arg> ...]",
                &["Returns whether the user might run the command, without running it."],
            ),
            ("GETUSER <username>", &["Shows the rules of a user."]),
            (
                "GENPASS [<bits>]",
                &["Makes up a password of 256 bits, or of as many as given."],
            ),
            ("LIST", &["Shows every user as a line of the users' file."]),
            ("LOAD", &["Reads the users' file again."]),
            (
                "LOG [<count> | RESET]",
                &["Shows or clears what was lately refused."],
            ),
            ("SAVE", &["Writes the users' file."]),
            (
                "SETUSER <username> <attribute> [<attribute> ...]",
                &["Makes a user or changes its rules."],
            ),
            ("USERS", &["Lists the names of all users."]),
            ("WHOAMI", &["Shows the name of the connection's user."]),
        ],
    )
}

fn clipped(text: &[u8]) -> String {
    String::from_utf8_lossy(&text[..text.len().min(128)]).into_owned()
}

fn wrong_subcommand_arguments(ctx: &Ctx<'_, '_>) -> CommandError {
    CommandError::err(format!(
        "unknown subcommand or wrong number of arguments for '{}'. Try ACL HELP.",
        clipped(ctx.key(1))
    ))
}
