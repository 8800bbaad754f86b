//! Flags with one dash, as Go programs take them: `-interval 1s` is read as `--interval 1s`.
//!
//! yaraus, katsubushi and serinin are started by such flags in unit files and scripts; those stay as they
//! are. Only flags of the commands under `ids` and `fanout` are read so, and never behind `--` or the
//! command to run.

use std::ffi::{OsStr, OsString};

use clap::Command;

/// The commands that stand in for programs with such flags.
const GO_LIKE: [&str; 2] = ["ids", "fanout"];

/// A flag of serinin that is another one of ours: our `--config` names a file of another kind.
const SERININ_CONFIG: (&str, &str) = ("config", "--serinin-config");

/// Adds the second dash where the command line calls such a command.
pub(crate) fn accept_single_dashes(mut words: Vec<OsString>, program: &Command) -> Vec<OsString> {
    let called = |at: &usize| {
        let name = GO_LIKE.iter().find(|name| words[*at] == **name)?;
        program.find_subcommand(name)?.find_subcommand(words.get(at + 1)?)
    };
    let place = (1..words.len())
        .take_while(|at| words[*at] != "--")
        .find(|at| called(at).is_some());
    let Some((at, command)) = place.and_then(|at| Some((at, called(&at)?))) else {
        return words;
    };
    let is_serinin = words[at] == "fanout";
    let mut next = at + 2;
    while let Some(word) = words.get(next) {
        if let Some(renamed) = serinin_config(word).filter(|_| is_serinin) {
            words[next] = renamed.into();
            continue;
        }
        let Some(flag) = Flag::read(word, command) else {
            break;
        };
        if flag.has_one_dash {
            let mut doubled = OsString::from("-");
            doubled.push(word);
            words[next] = doubled;
        }
        next += if flag.takes_next { 2 } else { 1 };
    }
    words
}

/// Returns our flag for serinin's `-config FILE` or `-config=FILE`.
fn serinin_config(word: &OsStr) -> Option<String> {
    let rest = word.to_str()?.strip_prefix('-')?.strip_prefix(SERININ_CONFIG.0)?;
    (rest.is_empty() || rest.starts_with('=')).then(|| format!("{}{rest}", SERININ_CONFIG.1))
}

struct Flag {
    has_one_dash: bool,
    /// Its value is the next word.
    takes_next: bool,
}

impl Flag {
    /// Returns `None` for `--` and for words that are no flags, where the flags end.
    fn read(word: &OsStr, command: &Command) -> Option<Flag> {
        let text = word.to_str()?;
        let bare = text
            .strip_prefix('-')
            .filter(|rest| !rest.is_empty() && *rest != "-")?;
        let has_one_dash = !bare.starts_with('-');
        let bare = bare.trim_start_matches('-');
        let (name, value) = match bare.split_once('=') {
            Some((name, value)) => (name, Some(value)),
            None => (bare, None),
        };
        let known = command.get_arguments().find(|arg| {
            arg.get_long() == Some(name) || arg.get_all_aliases().is_some_and(|names| names.contains(&name))
        });
        Some(Flag {
            has_one_dash: has_one_dash && known.is_some(),
            takes_next: value.is_none() && known.is_some_and(|arg| arg.get_action().takes_values()),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(line: &str, expected: &str) {
        let words = line.split(' ').map(OsString::from).collect();
        let read = accept_single_dashes(words, &crate::command_line());
        let read: Vec<_> = read.iter().map(|word| word.to_str().unwrap()).collect();
        assert_eq!(read.join(" "), expected);
    }

    #[test]
    fn flags_of_ids_may_have_one_dash() {
        check(
            "nagaya ids run -server redis://h -interval=1s --name a -expire 30m -- sh -delay 1",
            "nagaya ids run --server redis://h --interval=1s --name a --expire 30m -- sh -delay 1",
        );
        check(
            "nagaya ids run -delay 2s sh -delay x",
            "nagaya ids run --delay 2s sh -delay x",
        );
        check("nagaya ids init -min 1 -max 9", "nagaya ids init --min 1 --max 9");
        check("nagaya ids run -h", "nagaya ids run -h");
        check(
            "nagaya fanout serve -handler 16 -worker=96 -monitor 5",
            "nagaya fanout serve --handler 16 --worker=96 --monitor 5",
        );
        check(
            "nagaya fanout serve -config a.json -handler 16",
            "nagaya fanout serve --serinin-config a.json --handler 16",
        );
        check(
            "nagaya --config a.toml fanout serve -config=a.json --config b",
            "nagaya --config a.toml fanout serve --serinin-config=a.json --config b",
        );
        check(
            "nagaya --config ids ids list -server x",
            "nagaya --config ids ids list --server x",
        );
    }

    #[test]
    fn other_commands_are_left_alone() {
        check("nagaya up -data x", "nagaya up -data x");
        check("nagaya ids decode 1 -json", "nagaya ids decode 1 -json");
        check("nagaya", "nagaya");
    }
}
