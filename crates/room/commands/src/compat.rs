//! COMPAT.md, written from the command table.

use std::fmt::Write;

use crate::table::{self, Command};

mod redis_commands;
mod settings;

use redis_commands::REDIS_COMMANDS;

/// What holds for all commands.
const GENERAL: &[&str] = &[
    "There are `room.databases` databases, 16 unless set otherwise. On Redis servers there is number 0 only.",
    "There is no cluster mode and no replication: the server says it is a standalone master.",
    "There are no RDB and AOF files. Data is kept by `room`'s own log and cold tier (`room.fsync` and the other \
     settings of `[room]`).",
    "RANDOMKEY chooses among the keys in memory, as long as there is one.",
    "A SCAN cursor into the cold tier is forgotten after 4096 later ones, and by a restart: then it is invalid.",
    "A request has at most 1,048,576 arguments; Redis 7.0 allows 2,147,483,647.",
    "The sizes of query and reply buffers in CLIENT LIST are our own: idle connections hold none.",
    "A message that a client publishes to itself comes after the reply of the command that sent it.",
    "COMMAND DOCS tells no arguments, no history and no replacements; COMMAND INFO gives no tips and no notes.",
    "INFO, HELLO and scripts tell Redis 7.4.0, the release whose commands are all there (`room.redis_version` may set \
     another). Of 7.2's and 7.4's replies, XINFO has no `inactive` and no `active-time`.",
    "Expired fields of a hash are gone for every command, HLEN included; those of a cold hash go when it is loaded. \
     A hash all of whose fields have expired exists until somebody reads it or a tenth of a second is over.",
    "HELP replies list the same subcommands in other words.",
    "The order of unordered replies (keys, fields, members, users' single commands) is our own.",
];

/// What is different about a command that is there, by full name.
const NOTES: &[(&str, &str)] = &[
    (
        "acl|deluser",
        "saved at once where the users are kept in the data folder",
    ),
    (
        "acl|load",
        "connections of users whose rules stay the same stay open; a `requirepass` stays the only password of \
         `default`",
    ),
    ("acl|log", "`client-info` has fewer fields"),
    (
        "acl|save",
        "writes `room.acl_file`, or `DATA/room/users.acl` in the embedded form, where every change is saved by \
         itself",
    ),
    (
        "acl|setuser",
        "saved at once where the users are kept in the data folder; selectors are parted by white space, without \
         quotes",
    ),
    ("asking", "always answers that there is no cluster"),
    ("bgrewriteaof", "starts to save to the cold tier"),
    ("bgsave", "starts to save to the cold tier"),
    (
        "bitfield",
        "OVERFLOW SAT near -2^63 saturates to the minimum, where Redis overflows",
    ),
    (
        "client|kill",
        "takes the options of Redis 7.4 and Valkey 9: MAXAGE, several ids, NAME, IDLE, FLAGS, IP, LIB-NAME, LIB-VER, DB, \
         and NOT- before an option",
    ),
    ("client|list", "takes the options of CLIENT KILL"),
    ("client|tracking", "OFF forgets the tracked keys at once"),
    (
        "config|set",
        "`requirepass` counts even when it is the value it had; see Settings below",
    ),
    (
        "debug",
        "the subcommands that tests and tools use; off unless `room.enable_debug_command` says otherwise",
    ),
    ("failover", "always refuses"),
    (
        "function|load",
        "a library's local variables belong to one I/O thread, not to the server",
    ),
    (
        "georadius",
        "members at the same distance under COUNT keep a stable order",
    ),
    (
        "geosearchstore",
        "STOREDIST stores `inf` where rounding leaves no distance",
    ),
    ("hscan", "takes NOVALUES, as Redis 7.4"),
    ("lastsave", "when the cold tier last had everything"),
    ("lpos", "RANK -2^63 finds nothing"),
    (
        "lrem",
        "may join neighbouring nodes, so DUMP of a long list can differ afterwards",
    ),
    ("migrate", "always refuses"),
    ("module|list", "always empty"),
    ("module|load", "always refuses"),
    ("module|loadex", "always refuses"),
    ("module|unload", "always refuses"),
    ("pfselftest", "runs fewer rounds"),
    ("readonly", "always answers that there is no cluster"),
    ("readwrite", "always answers that there is no cluster"),
    ("replicaof", "only NO ONE"),
    (
        "restore",
        "also takes payloads of versions 11 and 12 (Redis 7.2 to 8.0); a hash with fields that expire is dumped as \
         version 12",
    ),
    ("save", "saves to the cold tier, while other clients are served"),
    ("script|debug", "only NO"),
    ("select", "on Redis only 0"),
    ("set", "takes IFEQ and IFNE, as Valkey 8.1 and Redis 8.4"),
    ("slaveof", "only NO ONE"),
    (
        "unsubscribe",
        "without names, confirms in the order of subscription",
    ),
    ("wait", "always 0: there are no replicas"),
    ("watch", "refused while a script takes too long"),
    ("zrank", "takes WITHSCORE, as Redis 7.2"),
    ("zrevrank", "takes WITHSCORE, as Redis 7.2"),
    (
        "xread",
        "a woken reader of several streams gets all that are ready; takes the id `+`, as Redis 7.4",
    ),
];

/// Why a command is missing: by full name, or by a container's name for all of it.
const MISSING: &[(&str, &str)] = &[
    ("bgrewriteaof", "there is no AOF file"),
    ("bgsave", "there is no RDB file"),
    ("cluster", "there is no cluster mode"),
    ("failover", "there is no replication"),
    ("migrate", "there is no other server to move keys to"),
    ("module", "modules are not loaded"),
    ("pfdebug", "tests Redis's own representation"),
    ("pfselftest", "tests Redis's own representation"),
    ("psync", "there is no replication"),
    ("replconf", "there is no replication"),
    ("replicaof", "there is no replication"),
    ("restore-asking", "there is no cluster mode"),
    ("save", "there is no RDB file"),
    ("slaveof", "there is no replication"),
    ("sync", "there is no replication"),
];

/// What is different when the data is on Redis servers: told by the crate that serves it from there.
pub struct OnRedis {
    pub general: &'static [&'static str],
    /// Says how a command is served: `yes`, `no`, or a few words.
    pub served: fn(&Command) -> &'static str,
}

/// Writes COMPAT.md: what of Redis 7.0's commands is there, what differs, what is missing and why.
pub fn compat_markdown(on_redis: &OnRedis) -> String {
    let names = REDIS_COMMANDS.iter().flat_map(|(_, names)| names.iter());
    let (mut all, mut there) = (0, 0);
    for name in names {
        all += 1;
        there += usize::from(table::find_full(name.as_bytes()).is_some());
    }
    let mut text = format!(
        "# Compatibility with Redis 7.0\n\n\
         Written from the command table by a test of `nagaya-cluster`; run `UPDATE_DOCS=1 cargo test -p \
         nagaya-cluster --lib compat` after a change. A difference that is not listed here is a bug.\n\n\
         {there} of {all} commands and subcommands are there. \"On Redis\" is `room` with its data on Redis \
         servers instead of in its own memory.\n\n## Everywhere\n\n"
    );
    GENERAL.iter().for_each(|line| text += &format!("- {line}\n"));
    text.push_str("\n## On Redis\n\n");
    let lines = on_redis.general.iter();
    lines.for_each(|line| text += &format!("- {line}\n"));
    for (group, names) in REDIS_COMMANDS {
        write_group(&mut text, group, names, on_redis);
    }
    write_own(&mut text);
    settings::write_settings(&mut text);
    text
}

fn write_group(text: &mut String, group: &str, names: &[&str], on_redis: &OnRedis) {
    text.push_str(&format!(
        "\n## {group}\n\n| Command | There | On Redis | Notes |\n| --- | --- | --- | --- |\n"
    ));
    for name in names {
        let command = table::find_full(name.as_bytes());
        let there = command.is_some();
        let served = command.map_or("no", |command| (on_redis.served)(command));
        let note = if there { note(name) } else { reason(name) };
        let shown = name.to_ascii_uppercase().replace('|', " ");
        let there = if there { "yes" } else { "no" };
        text.push_str(format!("| {shown} | {there} | {served} | {note}").trim_end());
        text.push_str(" |\n");
    }
}

/// Lists what Redis does not have.
fn write_own(text: &mut String) {
    let known = |name: &str| REDIS_COMMANDS.iter().any(|(_, names)| names.contains(&name));
    let own: Vec<_> = table::every()
        .filter(|command| !known(&command.full_name))
        .collect();
    if own.is_empty() {
        return;
    }
    let (ours, later): (Vec<_>, Vec<_>) = own.into_iter().partition(|command| command.spec.group == "room");
    text.push_str("\n## Of later versions\n\n| Command | Since | Summary |\n| --- | --- | --- |\n");
    for command in later {
        let shown = command.full_name.to_ascii_uppercase().replace('|', " ");
        let (since, summary) = (command.spec.since, command.spec.summary);
        writeln!(text, "| {shown} | {since} | {summary} |").ok();
    }
    text.push_str("\n## Not in Redis\n\n| Command | Summary |\n| --- | --- |\n");
    for command in ours {
        let shown = command.full_name.to_ascii_uppercase().replace('|', " ");
        // Writing to a string does not fail.
        writeln!(text, "| {shown} | {} |", command.spec.summary).ok();
    }
}

fn note(name: &str) -> &'static str {
    NOTES
        .iter()
        .find(|(known, _)| *known == name)
        .map_or("", |(_, note)| note)
}

fn reason(name: &str) -> &'static str {
    let container = name.split('|').next().unwrap_or(name);
    let found = MISSING
        .iter()
        .find(|(known, _)| *known == name || *known == container);
    found.map_or("not written yet", |(_, reason)| reason)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn notes_are_about_commands_that_are_there_and_reasons_about_commands_that_are_not() {
        for (name, _) in NOTES {
            assert!(table::find_full(name.as_bytes()).is_some(), "{name}");
        }
        let known: Vec<&str> = REDIS_COMMANDS
            .iter()
            .flat_map(|(_, names)| names.iter().copied())
            .collect();
        for (name, _) in MISSING {
            assert!(known.contains(name), "{name} is not a command of Redis");
        }
    }
}
