//! COMMAND and its subcommands: the table, told to clients.

use nagaya_command_spec::error::CommandError;
use nagaya_command_spec::key_positions::each_key;
use nagaya_command_spec::spec::{
    Begin, Category, Find, INCOMPLETE, KeyFlags, KeySpec, LOADING, MOVABLE_KEYS, NO_MANDATORY_KEYS, NOT_KEY,
    STALE,
};
use nagaya_command_spec::table::Command;
use nagaya_exec::ctx::Ctx;
use nagaya_exec::entry::{Entry, cmd};
use nagaya_exec::help::help;
use nagaya_resp::Out;

type Reply = Result<(), CommandError>;

const fn about(name: &'static str, arity: i32, run: nagaya_exec::entry::Handler) -> Entry {
    cmd(name, arity, run)
        .flags(LOADING.and(STALE))
        .acl(Category::CONNECTION)
        .group("server")
        .since("2.8.13")
}

pub(crate) const COMMANDS: &[Entry] = &[about("COMMAND", -1, command)
    .about("Describes all commands.", "O(N) for N commands")
    .subcommands(&[
        about("COUNT", 2, count).about("Counts the commands.", "O(1)"),
        about("DOCS", -2, docs).since("7.0.0").about(
            "Returns what is known about commands for people.",
            "O(N) for N commands",
        ),
        about("GETKEYS", -4, getkeys).about("Finds the keys in a request.", "O(N) for N arguments"),
        about("GETKEYSANDFLAGS", -4, getkeysandflags)
            .since("7.0.0")
            .about(
                "Finds the keys in a request and their use.",
                "O(N) for N arguments",
            ),
        about("HELP", 2, command_help)
            .since("5.0.0")
            .about("Describes the subcommands.", "O(1)"),
        about("INFO", -2, info).about("Describes commands for programs.", "O(N) for N commands"),
        about("LIST", -2, list)
            .since("7.0.0")
            .about("Returns the names of commands.", "O(N) for N commands"),
    ])];

/// COMMAND
fn command(ctx: &mut Ctx<'_, '_>) -> Reply {
    ctx.out.array(ctx.table().all().len());
    ctx.table()
        .all()
        .iter()
        .for_each(|command| write_info(ctx.out, command));
    Ok(())
}

/// COMMAND COUNT
fn count(ctx: &mut Ctx<'_, '_>) -> Reply {
    ctx.out.int(ctx.table().all().len() as i64);
    Ok(())
}

/// COMMAND INFO [name ...]
fn info(ctx: &mut Ctx<'_, '_>) -> Reply {
    if ctx.args.len() == 2 {
        return command(ctx);
    }
    ctx.out.array(ctx.args.len() - 2);
    for name in ctx.args.skip(2) {
        match ctx.table().find_full(name) {
            Some(command) => write_info(ctx.out, command),
            None => ctx.out.nil(),
        }
    }
    Ok(())
}

fn write_info(out: &mut Out, command: &Command) {
    let (range, movable) = legacy_range(command.spec.keys);
    let (first, last, step) = range.unwrap_or((0, 0, 0));
    let mut flags = command.spec.flags;
    if movable {
        flags = flags.and(MOVABLE_KEYS);
    }
    out.array(10);
    out.bulk_str(&command.full_name);
    out.int(command.spec.arity.into());
    write_names(out, flags.names());
    out.int(first);
    out.int(last);
    out.int(step);
    let categories = Category::ALL.iter();
    let categories: Vec<_> = categories
        .filter(|(category, _)| command.categories.has(*category))
        .collect();
    out.set(categories.len());
    categories
        .iter()
        .for_each(|(_, name)| out.simple(&format!("@{name}")));
    // Tips for proxies: none are given.
    out.set(0);
    out.set(command.spec.keys.len());
    command
        .spec
        .keys
        .iter()
        .for_each(|spec| write_key_spec(out, spec));
    if command.subcommands.is_empty() {
        out.set(0);
    } else {
        out.array(command.subcommands.len());
        command.subcommands.iter().for_each(|sub| write_info(out, sub));
    }
}

fn write_names<'n>(out: &mut Out, names: impl Iterator<Item = &'n str>) {
    let names: Vec<&str> = names.collect();
    out.set(names.len());
    names.iter().for_each(|name| out.simple(name));
}

/// Works out the first key, the last and the step as clients knew them before key specs, and whether
/// these fail to name all keys.
pub(crate) fn legacy_range(specs: &[KeySpec]) -> (Option<(i64, i64, i64)>, bool) {
    let range = |spec: &KeySpec| match (spec.begin, spec.find) {
        (Begin::Index(first), Find::Range { last, step, .. }) => {
            let last = if last < 0 {
                last.into()
            } else {
                first as i64 + i64::from(last)
            };
            Some((first as i64, last, step as i64))
        }
        _ => None,
    };
    if let [spec] = specs
        && let Some(range) = range(spec)
    {
        return (Some(range), spec.flags.has(INCOMPLETE));
    }
    let mut movable = false;
    let mut joined: Option<(i64, i64, i64)> = None;
    for spec in specs {
        // Ranges are joined only when each begins where the one before it ends, key by key.
        let follows = |first: i64| joined.is_none_or(|(_, last, _)| last == first - 1);
        match range(spec) {
            Some((first, last, 1)) if follows(first) => {
                movable |= spec.flags.has(INCOMPLETE);
                let begin = joined.map_or(first, |(begin, _, _)| begin);
                joined = Some((begin, last, 1));
            }
            _ => movable = true,
        }
    }
    (joined, movable)
}

fn write_key_spec(out: &mut Out, spec: &KeySpec) {
    out.map(3);
    out.bulk_str("flags");
    write_names(out, spec.flags.names());
    out.bulk_str("begin_search");
    match spec.begin {
        Begin::Index(at) => write_typed(out, "index", &[("index", Part::Number(at as i64))]),
        Begin::Keyword(word, from) => write_typed(
            out,
            "keyword",
            &[
                ("keyword", Part::Word(word)),
                ("startfrom", Part::Number(from.into())),
            ],
        ),
        Begin::Unknown => write_typed(out, "unknown", &[]),
    }
    out.bulk_str("find_keys");
    match spec.find {
        Find::Range { last, step, limit } => write_typed(
            out,
            "range",
            &[
                ("lastkey", Part::Number(last.into())),
                ("keystep", Part::Number(step as i64)),
                ("limit", Part::Number(limit as i64)),
            ],
        ),
        Find::KeyNum {
            count_at,
            first,
            step,
        } => write_typed(
            out,
            "keynum",
            &[
                ("keynumidx", Part::Number(count_at as i64)),
                ("firstkey", Part::Number(first as i64)),
                ("keystep", Part::Number(step as i64)),
            ],
        ),
        Find::Unknown => write_typed(out, "unknown", &[]),
    }
}

enum Part {
    Number(i64),
    Word(&'static str),
}

fn write_typed(out: &mut Out, kind: &str, parts: &[(&str, Part)]) {
    out.map(2);
    out.bulk_str("type");
    out.bulk_str(kind);
    out.bulk_str("spec");
    out.map(parts.len());
    for (name, part) in parts {
        out.bulk_str(name);
        match part {
            Part::Number(number) => out.int(*number),
            Part::Word(word) => out.bulk_str(word),
        }
    }
}

/// COMMAND DOCS [name ...]
fn docs(ctx: &mut Ctx<'_, '_>) -> Reply {
    let commands: Vec<&Command> = if ctx.args.len() == 2 {
        ctx.table().all().iter().collect()
    } else {
        ctx.args
            .skip(2)
            .iter()
            .filter_map(|name| ctx.table().find_full(name))
            .collect()
    };
    ctx.out.map(commands.len());
    for command in commands {
        ctx.out.bulk_str(&command.full_name);
        write_docs(ctx.out, command);
    }
    Ok(())
}

fn write_docs(out: &mut Out, command: &Command) {
    let spec = command.spec;
    let texts = [
        ("summary", spec.summary),
        ("since", spec.since),
        ("group", spec.group),
        ("complexity", spec.complexity),
    ];
    let texts = texts.iter().filter(|(_, text)| !text.is_empty());
    out.map(texts.clone().count() + usize::from(!command.subcommands.is_empty()));
    for (name, text) in texts {
        out.bulk_str(name);
        out.bulk_str(text);
    }
    if !command.subcommands.is_empty() {
        out.bulk_str("subcommands");
        out.map(command.subcommands.len());
        for sub in &command.subcommands {
            out.bulk_str(&sub.full_name);
            write_docs(out, sub);
        }
    }
}

/// COMMAND LIST [FILTERBY MODULE name | ACLCAT category | PATTERN pattern]
fn list(ctx: &mut Ctx<'_, '_>) -> Reply {
    let names: Vec<&str> = match ctx.args.len() {
        2 => ctx
            .table()
            .every()
            .map(|command| command.full_name.as_str())
            .collect(),
        5 if ctx.is(2, "FILTERBY") => {
            let wanted = ctx.key(4);
            let pick: &dyn Fn(&Command) -> bool = if ctx.is(3, "MODULE") {
                &|_| false
            } else if ctx.is(3, "ACLCAT") {
                &|command| Category::named(wanted).is_some_and(|category| command.categories.has(category))
            } else if ctx.is(3, "PATTERN") {
                &|command| {
                    nagaya_command_spec::glob::matches_ignoring_case(wanted, command.full_name.as_bytes())
                }
            } else {
                return Err(CommandError::Syntax);
            };
            let picked = ctx.table().every().filter(|command| pick(command));
            picked.map(|command| command.full_name.as_str()).collect()
        }
        _ => return Err(CommandError::Syntax),
    };
    ctx.out.array(names.len());
    names.iter().for_each(|name| ctx.out.bulk_str(name));
    Ok(())
}

/// COMMAND GETKEYS command [argument ...]
fn getkeys(ctx: &mut Ctx<'_, '_>) -> Reply {
    let keys = keys_of_request(ctx)?;
    ctx.out.array(keys.len());
    for (at, _) in keys {
        ctx.out.bulk(ctx.key(at));
    }
    Ok(())
}

/// COMMAND GETKEYSANDFLAGS command [argument ...]
fn getkeysandflags(ctx: &mut Ctx<'_, '_>) -> Reply {
    let keys = keys_of_request(ctx)?;
    ctx.out.array(keys.len());
    for (at, flags) in keys {
        ctx.out.array(2);
        ctx.out.bulk(ctx.key(at));
        write_names(ctx.out, flags.names());
    }
    Ok(())
}

/// Finds the keys of the request that begins at the third argument; positions are those of the whole.
fn keys_of_request(ctx: &Ctx<'_, '_>) -> Result<Vec<(usize, KeyFlags)>, CommandError> {
    let args = ctx.args.skip(2);
    let command = ctx
        .table()
        .find_request(&args)
        .ok_or(CommandError::err("Invalid command specified"))?;
    let named = command.spec.keys.iter().any(|spec| !spec.flags.has(NOT_KEY));
    if !named && command.spec.more_keys.is_none() {
        return Err(CommandError::err("The command has no key arguments"));
    }
    if !command.spec.accepts(args.len()) {
        return Err(CommandError::err(
            "Invalid number of arguments specified for command",
        ));
    }
    let mut keys = Vec::new();
    let found = each_key(command.spec, &args, |at, flags| keys.push((at + 2, flags)));
    if found.is_err() {
        keys.clear();
    }
    if keys.is_empty() && !command.spec.flags.has(NO_MANDATORY_KEYS) {
        return Err(CommandError::err("Invalid arguments specified for command"));
    }
    Ok(keys)
}

/// COMMAND HELP
fn command_help(ctx: &mut Ctx<'_, '_>) -> Reply {
    help(
        ctx,
        &[
            ("(no subcommand)", &["Describes all commands."]),
            ("COUNT", &["Counts the commands."]),
            ("LIST", &["Lists the names of all commands."]),
            (
                "INFO [<command-name> ...]",
                &["Describes the named commands, or all."],
            ),
            (
                "DOCS [<command-name> ...]",
                &["Tells what is known for people about the named commands, or all."],
            ),
            ("GETKEYS <full-command>", &["Finds the keys in a request."]),
            (
                "GETKEYSANDFLAGS <full-command>",
                &["Finds the keys in a request and what is done with them."],
            ),
        ],
    )
}
