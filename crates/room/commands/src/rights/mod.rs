//! Who may run what: the answer of every command to some telling users.
//!
//! The answers are data, in `answers.tsv`; tests walk all of them on running servers, with the requests of
//! `testing::rights`. That file is written from the command table by a test when it is told to
//! (`UPDATE_DOCS=1`), so that a command which loses a check shows up as a changed line and, until then, as a
//! failure of the walk.

use std::collections::BTreeMap;
use std::fmt::Write;

use nagaya_command_spec::key_positions::each_key;
use nagaya_command_spec::spec::{DELETE, INSERT, KeyFlags, NO_AUTH, PUBSUB, TagSpec, UPDATE};
use nagaya_resp::Args;

use crate::table::Command;

/// The committed answers: a line per command, and a column per user.
const ANSWERS: &str = include_str!("answers.tsv");

/// Someone who sends commands to a server whose user `default` has a password.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Who {
    /// Gives no password.
    Nobody,
    /// Has given a wrong one.
    WrongPassword,
    /// Everything is denied: `-@all`.
    Nothing,
    /// `+@read` on the keys that the requests name.
    Reader,
    /// `+@write` on them.
    Writer,
    /// `+@all`, but only to read them: `%R~`.
    Looker,
    /// `+@all` on other keys, and on no channel.
    Elsewhere,
    /// Everything.
    Admin,
    /// Was deleted after it logged in.
    Deleted,
}

/// What a request is answered with.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Verdict {
    /// It runs. Whether it succeeds depends on its arguments and on the server's settings.
    Served,
    /// `NOAUTH`.
    NoAuth,
    /// `WRONGPASS`.
    WrongPass,
    /// `NOPERM`: not this command.
    NoCommand,
    /// `NOPERM`: not these keys.
    NoKey,
    /// `NOPERM`: not these channels.
    NoChannel,
    /// The connection is ended, with `NOAUTH` or without a word.
    Ended,
}

impl Who {
    pub const ALL: [Who; 9] = [
        Who::Nobody,
        Who::WrongPassword,
        Who::Nothing,
        Who::Reader,
        Who::Writer,
        Who::Looker,
        Who::Elsewhere,
        Who::Admin,
        Who::Deleted,
    ];

    /// Returns the name that the tables have it by.
    pub fn name(self) -> &'static str {
        match self {
            Who::Nobody => "no password",
            Who::WrongPassword => "wrong password",
            Who::Nothing => "-@all",
            Who::Reader => "+@read ~{user:1}*",
            Who::Writer => "+@write ~{user:1}*",
            Who::Looker => "+@all %R~{user:1}*",
            Who::Elsewhere => "+@all ~{other}*",
            Who::Admin => "+@all ~* &*",
            Who::Deleted => "deleted",
        }
    }

    /// Returns the rules of ACL SETUSER that make this user, beside `on` and a password.
    pub fn rules(self) -> Option<&'static str> {
        match self {
            Who::Nobody | Who::WrongPassword => None,
            Who::Deleted => Some("+@all ~* &*"),
            known => Some(known.name()),
        }
    }
}

impl Verdict {
    const NAMES: [(Verdict, &'static str); 7] = [
        (Verdict::Served, "yes"),
        (Verdict::NoAuth, "NOAUTH"),
        (Verdict::WrongPass, "WRONGPASS"),
        (Verdict::NoCommand, "no command"),
        (Verdict::NoKey, "no key"),
        (Verdict::NoChannel, "no channel"),
        (Verdict::Ended, "ended"),
    ];

    /// Returns the word that the tables have for it.
    pub fn name(self) -> &'static str {
        let found = Verdict::NAMES.iter().find(|(answer, _)| *answer == self);
        found.map_or("", |(_, name)| name)
    }

    fn named(name: &str) -> Option<Verdict> {
        let found = Verdict::NAMES.iter().find(|(_, known)| *known == name);
        found.map(|(answer, _)| *answer)
    }

    /// Tells what kind of answer a reply is, from its first line.
    pub fn of(reply: &[u8]) -> Verdict {
        let begins = |text: &str| reply.starts_with(text.as_bytes());
        match () {
            () if begins("-NOAUTH") => Verdict::NoAuth,
            () if begins("-WRONGPASS") => Verdict::WrongPass,
            () if begins("-NOPERM this user has no permissions to access one of the keys") => Verdict::NoKey,
            () if begins("-NOPERM this user has no permissions to access one of the channels") => {
                Verdict::NoChannel
            }
            () if begins("-NOPERM") => Verdict::NoCommand,
            () => Verdict::Served,
        }
    }
}

/// A command and the answers of [`Who::ALL`], in that order.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Row {
    /// Lower case, a subcommand as `container|subcommand`.
    pub command: String,
    pub answers: [Verdict; Who::ALL.len()],
}

/// Returns the committed answers of all commands.
pub fn rows() -> Vec<Row> {
    let parse = |line: &str| {
        let mut columns = line.split('\t');
        let command = columns.next().unwrap_or_default().to_owned();
        let answers: Option<Vec<Verdict>> = columns.map(Verdict::named).collect();
        let answers = answers.and_then(|answers| answers.try_into().ok());
        let answers = answers.unwrap_or_else(|| panic!("answers.tsv has a bad line: {line}"));
        Row { command, answers }
    };
    ANSWERS.lines().skip(1).map(parse).collect()
}

/// Writes the answers as a table in Markdown, commands with the same answers in one row.
pub fn markdown() -> String {
    let mut groups: BTreeMap<[Verdict; Who::ALL.len()], Vec<String>> = BTreeMap::new();
    for row in rows() {
        let name = row.command.to_ascii_uppercase().replace('|', " ");
        groups.entry(row.answers).or_default().push(name);
    }
    let mut text = String::from("| commands |");
    Who::ALL.iter().for_each(|who| {
        // Writing to a string does not fail.
        write!(text, " `{}` |", who.name()).ok();
    });
    text += &format!("\n|---|{}\n", "---|".repeat(Who::ALL.len()));
    for (answers, commands) in groups {
        text += &format!("| {} |", commands.join(", "));
        answers.iter().for_each(|answer| {
            write!(text, " {} |", answer.name()).ok();
        });
        text.push('\n');
    }
    text
}

/// Works out from the table what a request of a command is to be answered with.
pub fn derive(command: &Command, args: &Args<'_>, who: Who) -> Verdict {
    let is_open = command.spec.flags.has(NO_AUTH);
    match who {
        Who::Deleted => return Verdict::Ended,
        // The request is one with a wrong password.
        _ if command.full_name == "auth" => return Verdict::WrongPass,
        Who::Nobody | Who::WrongPassword if !is_open || command.full_name == "hello" => {
            return Verdict::NoAuth;
        }
        _ if is_open => return Verdict::Served,
        Who::Nothing => return Verdict::NoCommand,
        Who::Reader if !command.categories.has(nagaya_command_spec::spec::Category::READ) => {
            return Verdict::NoCommand;
        }
        Who::Writer if !command.categories.has(nagaya_command_spec::spec::Category::WRITE) => {
            return Verdict::NoCommand;
        }
        Who::Admin => return Verdict::Served,
        _ => (),
    }
    if lacks_key(command, args, who) {
        return Verdict::NoKey;
    }
    if uses_channels(command) && matches!(who, Who::Looker | Who::Elsewhere) {
        return Verdict::NoChannel;
    }
    Verdict::Served
}

fn lacks_key(command: &Command, args: &Args<'_>, who: Who) -> bool {
    let denied = |flags: KeyFlags| match who {
        Who::Elsewhere => true,
        Who::Looker => flags.has(INSERT.and(UPDATE).and(DELETE)),
        _ => false,
    };
    match command.spec.tags {
        Some(TagSpec::Named { flags, .. }) => return denied(flags),
        // The tags that begin with `user:1` are not all in `{user:1}*`.
        Some(TagSpec::Listed { .. }) => return true,
        None => (),
    }
    let mut lacks = false;
    let found = each_key(command.spec, args, |_, flags| lacks |= denied(flags));
    found.is_ok() && lacks
}

/// Leaving a channel needs no right.
fn uses_channels(command: &Command) -> bool {
    command.spec.flags.has(PUBSUB)
        && matches!(
            command.full_name.as_str(),
            "subscribe" | "psubscribe" | "ssubscribe" | "publish" | "spublish"
        )
}
