//! CONFIG: reading and changing the settings.

use nagaya_command_spec::error::CommandError;
use nagaya_command_spec::spec::{ADMIN, Flags, LOADING, NOSCRIPT, STALE};
use nagaya_exec::ctx::Ctx;
use nagaya_exec::entry::{Entry, cmd};
use nagaya_exec::help::{container, help};
use nagaya_exec::settings::{self, Setting};

type Reply = Result<(), CommandError>;

const CHANGES: Flags = ADMIN.and(NOSCRIPT).and(LOADING).and(STALE);

pub(crate) const COMMANDS: &[Entry] = &[cmd("CONFIG", -2, container)
    .group("server")
    .since("2.0.0")
    .about("Reads and changes settings.", "Depends on the subcommand")
    .subcommands(&[
        cmd("GET", -3, get)
            .flags(CHANGES)
            .group("server")
            .since("2.0.0")
            .about(
                "Returns the settings whose names match one of some patterns.",
                "O(N) for N settings",
            ),
        cmd("HELP", 2, help_command)
            .flags(LOADING.and(STALE))
            .group("server")
            .since("5.0.0")
            .about("Lists the subcommands.", "O(1)"),
        cmd("RESETSTAT", 2, resetstat)
            .flags(CHANGES)
            .group("server")
            .since("2.0.0")
            .about("Sets the counters of INFO back to zero.", "O(1)"),
        cmd("REWRITE", 2, rewrite)
            .flags(CHANGES)
            .group("server")
            .since("2.8.0")
            .about(
                "Refuses: settings changed at run time are not written to a file.",
                "O(1)",
            ),
        cmd("SET", -4, set)
            .flags(CHANGES)
            .group("server")
            .since("2.0.0")
            .about("Changes settings, all of them or none.", "O(N) for N settings"),
    ])];

/// CONFIG GET pattern [pattern ...]
fn get(ctx: &mut Ctx<'_, '_>) -> Reply {
    let mut shown: Vec<(Vec<u8>, String)> = Vec::new();
    let config = ctx.server().config();
    let mut show = |name: &[u8], setting: &Setting| {
        if !shown.iter().any(|(known, _)| known.eq_ignore_ascii_case(name)) {
            shown.push((name.to_vec(), setting.get(&config)));
        }
    };
    for at in 2..ctx.args.len() {
        let pattern = ctx.key(at);
        if !pattern.iter().any(|byte| matches!(byte, b'[' | b'*' | b'?')) {
            if let Some(setting) = Setting::find(pattern) {
                show(pattern, setting);
            }
            continue;
        }
        for setting in settings::every().filter(|setting| !setting.hidden) {
            for name in std::iter::once(setting.name).chain(setting.alias) {
                if nagaya_command_spec::glob::matches_ignoring_case(pattern, name.as_bytes()) {
                    show(name.as_bytes(), setting);
                }
            }
        }
    }
    ctx.out.map(shown.len());
    for (name, value) in shown {
        ctx.out.bulk(&name);
        ctx.out.bulk_str(&value);
    }
    Ok(())
}

/// CONFIG SET parameter value [parameter value ...]
fn set(ctx: &mut Ctx<'_, '_>) -> Reply {
    if !ctx.args.len().is_multiple_of(2) {
        return Err(CommandError::Syntax);
    }
    let failed = |name: &str, reason: &str| {
        CommandError::err(format!(
            "CONFIG SET failed (possibly related to argument '{name}') - {reason}"
        ))
    };
    let mut changes: Vec<(&'static Setting, &'static str, &[u8])> = Vec::new();
    for at in (2..ctx.args.len()).step_by(2) {
        let name = ctx.key(at);
        let Some((setting, meant)) = Setting::find_named(name) else {
            return Err(CommandError::err(format!(
                "Unknown option or number of arguments for CONFIG SET - '{}'",
                String::from_utf8_lossy(name)
            )));
        };
        if let Some(reason) = setting.refusal() {
            return Err(failed(&String::from_utf8_lossy(name), reason));
        }
        if changes.iter().any(|(_, other, _)| *other == meant) {
            return Err(failed(&String::from_utf8_lossy(name), "duplicate parameter"));
        }
        changes.push((setting, meant, ctx.key(at + 1)));
    }
    ctx.server().try_update_config(|config| {
        changes.iter().try_for_each(|(setting, meant, value)| {
            setting
                .set(config, value)
                .map_err(|reason| failed(meant, &reason))
        })
    })?;
    ctx.executor().take_config();
    ctx.executor().refresh_users();
    if changes.iter().any(|(setting, ..)| setting.name == "requirepass") {
        ctx.server().keep_users()?;
    }
    ctx.out.ok();
    Ok(())
}

/// CONFIG RESETSTAT
fn resetstat(ctx: &mut Ctx<'_, '_>) -> Reply {
    ctx.server().reset_stats();
    ctx.out.ok();
    Ok(())
}

/// CONFIG REWRITE
fn rewrite(_: &mut Ctx<'_, '_>) -> Reply {
    Err(CommandError::err("The server is running without a config file"))
}

/// CONFIG HELP
fn help_command(ctx: &mut Ctx<'_, '_>) -> Reply {
    help(
        ctx,
        &[
            (
                "GET <pattern> [<pattern> ...]",
                &["Show the settings whose names match."],
            ),
            (
                "SET <name> <value> [<name> <value> ...]",
                &["Change settings, all or none of them."],
            ),
            ("RESETSTAT", &["Set the counters of INFO back to zero."]),
            ("REWRITE", &["Not available: there is no file to write to."]),
        ],
    )
}

#[cfg(test)]
mod tests {
    use crate::testing::TestSession;

    #[test]
    fn get_takes_names_aliases_and_patterns() {
        let mut session = TestSession::new();
        session.check("CONFIG GET timeout", "*2\r\n$7\r\ntimeout\r\n$1\r\n0\r\n");
        session.check(
            "CONFIG GET zset-max-ziplist-value ZSET-MAX-*-value nothing",
            "*4\r\n$22\r\nzset-max-ziplist-value\r\n$2\r\n64\r\n$23\r\nzset-max-listpack-value\r\n$2\r\n64\r\n",
        );
        session.check("CONFIG GET nothing", "*0\r\n");
        assert!(!session.text("CONFIG GET *").contains("key-load-delay"));
        assert!(
            session
                .text("CONFIG GET key-load-delay")
                .contains("key-load-delay")
        );
    }

    #[test]
    fn set_changes_all_or_nothing() {
        let mut session = TestSession::new();
        session.check("CONFIG SET maxmemory 10mb timeout 5", "+OK\r\n");
        session.check(
            "CONFIG GET maxmemory",
            "*2\r\n$9\r\nmaxmemory\r\n$8\r\n10485760\r\n",
        );
        session.check(
            "CONFIG SET maxmemory 1 maxmemory-clients 200% client-query-buffer-limit x",
            "-ERR CONFIG SET failed (possibly related to argument 'maxmemory-clients') - \
             percentage argument must be less or equal to 100\r\n",
        );
        session.check(
            "CONFIG GET maxmemory",
            "*2\r\n$9\r\nmaxmemory\r\n$8\r\n10485760\r\n",
        );
        session.check(
            "CONFIG SET timeout 1 timeout 2",
            "-ERR CONFIG SET failed (possibly related to argument 'timeout') - duplicate parameter\r\n",
        );
        session.check(
            "CONFIG SET daemonize yes",
            "-ERR CONFIG SET failed (possibly related to argument 'daemonize') - can't set immutable config\r\n",
        );
        session.check(
            "CONFIG SET foo bar",
            "-ERR Unknown option or number of arguments for CONFIG SET - 'foo'\r\n",
        );
        session.check("CONFIG SET timeout 1 maxmemory", "-ERR syntax error\r\n");
        session.check(
            "CONFIG REWRITE",
            "-ERR The server is running without a config file\r\n",
        );
    }

    #[test]
    fn a_change_is_in_force_at_once() {
        let mut session = TestSession::new();
        session.check("CONFIG SET hash-max-ziplist-entries 3", "+OK\r\n");
        assert_eq!(session.engine.server.config().limits.hash_max_listpack_entries, 3);
    }
}
