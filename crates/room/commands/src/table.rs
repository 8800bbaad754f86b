//! The table of all commands: every family's entries.

use std::sync::LazyLock;

pub use nagaya_command_spec::table::Command;
use nagaya_exec::entry::{Entry, Registry};
use nagaya_resp::Args;

/// Every family's commands, in the order of COMPAT.md.
pub(crate) const FAMILIES: &[&[Entry]] = &[
    crate::keys::COMMANDS,
    crate::string::COMMANDS,
    crate::bitmap::COMMANDS,
    crate::hash::COMMANDS,
    crate::list::COMMANDS,
    crate::set::COMMANDS,
    crate::zset::COMMANDS,
    crate::geo::COMMANDS,
    crate::hll::COMMANDS,
    crate::stream::COMMANDS,
    crate::pubsub::COMMANDS,
    crate::admin::client::COMMANDS,
    crate::transaction::COMMANDS,
    crate::admin::auth::COMMANDS,
    crate::admin::acl::COMMANDS,
    crate::admin::command::COMMANDS,
    crate::scripting::COMMANDS,
    crate::function::COMMANDS,
    crate::admin::server::COMMANDS,
    crate::admin::config::COMMANDS,
    crate::admin::info::COMMANDS,
    crate::admin::monitor::COMMANDS,
    crate::admin::slowlog::COMMANDS,
    crate::admin::latency::COMMANDS,
    crate::admin::memory::COMMANDS,
    crate::admin::debug::COMMANDS,
    crate::tiering::commands::COMMANDS,
];

static REGISTRY: LazyLock<Registry> = LazyLock::new(|| Registry::new(FAMILIES));

/// Returns all commands with their handlers.
pub fn registry() -> &'static Registry {
    &REGISTRY
}

/// Finds a command by its name, letter case ignored.
#[inline]
pub fn find(name: &[u8]) -> Option<&'static Command> {
    REGISTRY.table.find(name)
}

/// Finds a command by its full name, `container|subcommand` for a subcommand.
pub fn find_full(name: &[u8]) -> Option<&'static Command> {
    REGISTRY.table.find_full(name)
}

/// Finds what a request would run; a container stands for itself when no subcommand is named.
pub fn find_request(args: &Args<'_>) -> Option<&'static Command> {
    REGISTRY.table.find_request(args)
}

/// Lists every command and every subcommand, in the order of their numbers.
pub fn every() -> impl Iterator<Item = &'static Command> {
    REGISTRY.table.every()
}

/// Lists all commands, containers with their subcommands inside.
pub fn all() -> &'static [Command] {
    REGISTRY.table.all()
}

/// Returns how many commands and subcommands there are.
pub fn count() -> usize {
    REGISTRY.table.count()
}

#[cfg(test)]
mod tests {
    use super::*;
    use nagaya_command_spec::spec::{ALL_SHARDS, READONLY, WRITE};

    #[test]
    fn every_command_is_found_by_its_name_in_any_case() {
        for command in all() {
            let found = find(command.full_name.as_bytes()).map(|found| found.number);
            assert_eq!(found, Some(command.number), "{}", command.full_name);
        }
        assert!(find(b"NOSUCHCOMMAND").is_none());
        assert!(find(b"").is_none());
    }

    #[test]
    fn names_are_unique_and_entries_complete() {
        let mut names: Vec<&str> = every().map(|command| command.full_name.as_str()).collect();
        names.sort_unstable();
        let before = names.len();
        names.dedup();
        assert_eq!(names.len(), before, "a name stands in the table twice");
        for command in every() {
            assert!(
                !command.spec.summary.is_empty(),
                "{} has no summary",
                command.full_name
            );
            assert!(command.spec.arity != 0, "{} has no arity", command.full_name);
        }
    }

    #[test]
    fn key_positions_lie_inside_the_arity() {
        for command in every() {
            if let Some(at) = command.only_key {
                let least = command.spec.arity.unsigned_abs() as usize;
                assert!(at < least, "{}'s key may be missing", command.full_name);
            }
        }
    }

    #[test]
    fn commands_that_touch_data_name_their_keys_or_take_all_shards() {
        for command in every() {
            let touches_data = command.spec.flags.has(WRITE) || command.spec.flags.has(READONLY);
            let covered = !command.spec.keys.is_empty() || command.spec.flags.has(ALL_SHARDS);
            let covered = covered || command.full_name == "lolwut"; // Read-only by decree: it reads nothing.
            assert!(
                !touches_data || covered || !command.subcommands.is_empty(),
                "{}",
                command.full_name
            );
        }
    }
}
