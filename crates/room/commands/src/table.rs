//! The command table: every family's entries, found by name.

use std::sync::LazyLock;

use nagaya_resp::Args;

use crate::spec::{Begin, Category, CommandSpec, Find, NOT_KEY};

/// One entry of the table, with what follows from its spec worked out once.
pub struct Command {
    pub spec: &'static CommandSpec,
    /// Position among all commands and subcommands; indexes the counters.
    pub number: usize,
    /// Lower case; a subcommand's is `container|subcommand`.
    pub full_name: String,
    pub categories: Category,
    pub subcommands: Vec<Command>,
    /// The position of the only key, when there is exactly one at a fixed place.
    pub only_key: Option<usize>,
}

/// Every family's commands, in the order of COMPAT.md.
const FAMILIES: &[&[CommandSpec]] = &[
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
    crate::client_cmds::COMMANDS,
    crate::transaction::COMMANDS,
    crate::auth::COMMANDS,
    crate::acl::COMMANDS,
    crate::command_cmds::COMMANDS,
    crate::scripting::COMMANDS,
    crate::function::COMMANDS,
    crate::server_cmds::COMMANDS,
    crate::config_cmds::COMMANDS,
    crate::info::COMMANDS,
    crate::monitor::COMMANDS,
    crate::slowlog::COMMANDS,
    crate::latency::COMMANDS,
    crate::memory_cmds::COMMANDS,
    crate::debug_cmds::COMMANDS,
    crate::tiering::commands::COMMANDS,
];

struct Table {
    commands: Vec<Command>,
    /// Open addressing by [`name_hash`]; holds positions in `commands` plus one.
    slots: Box<[u16]>,
    numbers: usize,
}

static TABLE: LazyLock<Table> = LazyLock::new(|| {
    let mut numbers = 0;
    let specs = FAMILIES.iter().flat_map(|family| family.iter());
    let commands: Vec<Command> = specs.map(|spec| entry(spec, None, &mut numbers)).collect();
    let mut slots = vec![0u16; (commands.len() * 4).next_power_of_two()].into_boxed_slice();
    for (at, command) in commands.iter().enumerate() {
        let mut slot = name_hash(command.spec.name.as_bytes()) as usize & (slots.len() - 1);
        while slots[slot] != 0 {
            slot = (slot + 1) & (slots.len() - 1);
        }
        slots[slot] = at as u16 + 1;
    }
    Table {
        commands,
        slots,
        numbers,
    }
});

/// Finds a command by its name, letter case ignored.
#[inline]
pub fn find(name: &[u8]) -> Option<&'static Command> {
    let table = &*TABLE;
    let mut slot = name_hash(name) as usize & (table.slots.len() - 1);
    loop {
        let at = table.slots[slot].checked_sub(1)? as usize;
        let command = &table.commands[at];
        if command.spec.name.as_bytes().eq_ignore_ascii_case(name) {
            return Some(command);
        }
        slot = (slot + 1) & (table.slots.len() - 1);
    }
}

/// Finds a command by its full name, `container|subcommand` for a subcommand.
pub fn find_full(name: &[u8]) -> Option<&'static Command> {
    let mut parts = name.split(|&byte| byte == b'|');
    let command = find(parts.next()?)?;
    match (parts.next(), parts.next()) {
        (None, _) => Some(command),
        (Some(sub), None) => command.subcommand(sub),
        _ => None,
    }
}

/// Finds what a request would run; a container stands for itself when no subcommand is named.
pub fn find_request(args: &Args<'_>) -> Option<&'static Command> {
    let command = find(args.get(0)?)?;
    match args.get(1) {
        Some(sub) if !command.subcommands.is_empty() => command.subcommand(sub),
        _ => Some(command),
    }
}

/// Lists every command and every subcommand, in the order of their numbers.
pub fn every() -> impl Iterator<Item = &'static Command> {
    all()
        .iter()
        .flat_map(|command| std::iter::once(command).chain(&command.subcommands))
}

/// Lists all commands, containers with their subcommands inside.
pub fn all() -> &'static [Command] {
    &TABLE.commands
}

/// Finds a command or subcommand by its number.
pub(crate) fn by_number(number: usize) -> Option<&'static Command> {
    every().find(|command| command.number == number)
}

/// Returns how many commands and subcommands there are.
pub fn count() -> usize {
    TABLE.numbers
}

impl Command {
    /// Finds a subcommand by its name, letter case ignored.
    pub fn subcommand(&self, name: &[u8]) -> Option<&Command> {
        self.subcommands
            .iter()
            .find(|sub| sub.spec.name.as_bytes().eq_ignore_ascii_case(name))
    }
}

fn entry(spec: &'static CommandSpec, container: Option<&str>, numbers: &mut usize) -> Command {
    let number = *numbers;
    *numbers += 1;
    let name = spec.name.to_ascii_lowercase();
    let full_name = container.map_or(name.clone(), |container| format!("{container}|{name}"));
    let only_key = match spec.keys {
        [one] if spec.more_keys.is_none() && !one.flags.has(NOT_KEY) => match (one.begin, one.find) {
            (Begin::Index(at), Find::Range { last: 0, .. }) => Some(at),
            _ => None,
        },
        _ => None,
    };
    let subcommands = spec
        .subcommands
        .iter()
        .map(|sub| entry(sub, Some(&full_name), numbers))
        .collect();
    Command {
        spec,
        number,
        full_name,
        categories: Category::of(spec),
        subcommands,
        only_key,
    }
}

/// Hashes the length and the first eight letters, case folded: enough to tell the commands apart.
#[inline]
fn name_hash(name: &[u8]) -> u64 {
    let mut first = [0u8; 8];
    let length = name.len().min(8);
    first[..length].copy_from_slice(&name[..length]);
    let folded = u64::from_le_bytes(first) & 0xdfdf_dfdf_dfdf_dfdf;
    let last = name.last().map_or(0, |last| u64::from(last & 0xdf));
    let mixed = (folded ^ (name.len() as u64) << 56 ^ last << 40).wrapping_mul(0x9e37_79b9_7f4a_7c15);
    mixed >> 40
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::spec::{ALL_SHARDS, READONLY, WRITE};

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
