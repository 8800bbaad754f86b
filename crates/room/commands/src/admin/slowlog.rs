//! SLOWLOG: the latest commands that took long.

use nagaya_command_spec::error::CommandError;
use nagaya_command_spec::spec::{ADMIN, LOADING, STALE};
use nagaya_exec::ctx::Ctx;
use nagaya_exec::entry::{Entry, cmd};
use nagaya_exec::help::{container, help};
use nagaya_resp::parse_i64;

type Reply = Result<(), CommandError>;

pub(crate) const COMMANDS: &[Entry] = &[cmd("SLOWLOG", -2, container)
    .group("server")
    .since("2.2.12")
    .about("Shows commands that took long.", "Depends on the subcommand")
    .subcommands(&[
        cmd("GET", -2, get)
            .flags(ADMIN.and(LOADING).and(STALE))
            .group("server")
            .since("2.2.12")
            .about("Returns the latest entries.", "O(N) for N entries"),
        cmd("HELP", 2, help_command)
            .flags(LOADING.and(STALE))
            .group("server")
            .since("6.2.0")
            .about("Lists the subcommands.", "O(1)"),
        cmd("LEN", 2, len)
            .flags(ADMIN.and(LOADING).and(STALE))
            .group("server")
            .since("2.2.12")
            .about("Counts the entries.", "O(1)"),
        cmd("RESET", 2, reset)
            .flags(ADMIN.and(LOADING).and(STALE))
            .group("server")
            .since("2.2.12")
            .about("Removes all entries.", "O(N) for N entries"),
    ])];

/// SLOWLOG GET [count]
fn get(ctx: &mut Ctx<'_, '_>) -> Reply {
    if ctx.args.len() > 3 {
        return Err(CommandError::err(format!(
            "unknown subcommand or wrong number of arguments for '{}'. Try SLOWLOG HELP.",
            String::from_utf8_lossy(ctx.key(1))
        )));
    }
    let count = match ctx.args.get(2) {
        None => 10,
        Some(text) => parse_i64(text)
            .filter(|count| *count >= -1)
            .ok_or(CommandError::err("count should be greater than or equal to -1"))?,
    };
    let entries = ctx
        .server()
        .slowlog
        .latest(usize::try_from(count).unwrap_or(usize::MAX));
    ctx.out.array(entries.len());
    for entry in entries {
        ctx.out.array(6);
        ctx.out.int(entry.id);
        ctx.out.int(entry.at_s);
        ctx.out.int(entry.spent_us as i64);
        ctx.out.array(entry.args.len());
        entry.args.iter().for_each(|arg| ctx.out.bulk(arg));
        ctx.out.bulk_str(&entry.peer);
        ctx.out.bulk(&entry.client_name);
    }
    Ok(())
}

/// SLOWLOG LEN
fn len(ctx: &mut Ctx<'_, '_>) -> Reply {
    let length = ctx.server().slowlog.len();
    ctx.out.int(length as i64);
    Ok(())
}

/// SLOWLOG RESET
fn reset(ctx: &mut Ctx<'_, '_>) -> Reply {
    ctx.server().slowlog.clear();
    ctx.out.ok();
    Ok(())
}

/// SLOWLOG HELP
fn help_command(ctx: &mut Ctx<'_, '_>) -> Reply {
    help(
        ctx,
        &[
            (
                "GET [<count>]",
                &[
                    "Show the latest entries (default: 10, -1: all), each with its id, Unix time,",
                    "microseconds, arguments, client address and client name.",
                ],
            ),
            ("LEN", &["Count the entries."]),
            ("RESET", &["Remove all entries."]),
        ],
    )
}

#[cfg(test)]
mod tests {
    use crate::testing::TestSession;

    #[test]
    fn slow_commands_are_kept_newest_first() {
        let mut session = TestSession::new();
        session.check("SLOWLOG LEN", ":0\r\n");
        session.check(
            "CONFIG SET slowlog-log-slower-than 0 slowlog-max-len 3",
            "+OK\r\n",
        );
        session.check("CLIENT SETNAME me", "+OK\r\n");
        session.check("GET a", "$-1\r\n");
        session.check("SLOWLOG LEN", ":3\r\n");
        let entries = session.text("SLOWLOG GET 2");
        let first = "*2\r\n*6\r\n:3\r\n:1700000000\r\n";
        assert!(entries.starts_with(first), "{entries}");
        let arguments = "*2\r\n$3\r\nGET\r\n$1\r\na\r\n$15\r\n127.0.0.1:40001\r\n$2\r\nme\r\n";
        assert!(entries.contains(arguments), "{entries}");
        session.check("SLOWLOG GET 0", "*0\r\n");
        session.check(
            "SLOWLOG GET -2",
            "-ERR count should be greater than or equal to -1\r\n",
        );
        session.check("CONFIG SET slowlog-log-slower-than -1", "+OK\r\n");
        session.check("SLOWLOG RESET", "+OK\r\n");
        session.check("SLOWLOG LEN", ":0\r\n");
    }

    #[test]
    fn long_requests_are_clipped() {
        let mut session = TestSession::new();
        session.check("CONFIG SET slowlog-log-slower-than 0", "+OK\r\n");
        let request = format!("MGET {}{}", "k ".repeat(32), "a".repeat(129));
        session.text(&request);
        session.text(&format!("GET {}", "a".repeat(129)));
        let entries = session.text("SLOWLOG GET");
        assert!(entries.contains("\r\n... (3 more arguments)\r\n"), "{entries}");
        assert!(
            entries.contains(&format!("\r\n{}... (1 more bytes)\r\n", "a".repeat(128))),
            "{entries}"
        );
    }

    #[test]
    fn secrets_are_not_logged() {
        let mut session = TestSession::new();
        session.check("CONFIG SET slowlog-log-slower-than 0", "+OK\r\n");
        session.text("CONFIG SET masterauth hush timeout 0");
        let entries = session.text("SLOWLOG GET 1");
        assert!(
            entries.contains("$10\r\n(redacted)\r\n") && !entries.contains("hush"),
            "{entries}"
        );
    }
}
