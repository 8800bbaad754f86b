//! The table of commands: specs found by name.

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

/// A command's spec and those of its subcommands, from which a table is made.
pub struct SpecTree {
    pub spec: &'static CommandSpec,
    pub subcommands: Vec<&'static CommandSpec>,
}

/// All commands, found by name.
pub struct CommandTable {
    commands: Vec<Command>,
    /// Open addressing by [`name_hash`]; holds positions in `commands` plus one.
    slots: Box<[u16]>,
    count: usize,
}

impl CommandTable {
    /// Makes the table of some commands, numbered in their order: a container before its subcommands.
    pub fn new(specs: &[SpecTree]) -> CommandTable {
        let mut count = 0;
        let commands: Vec<Command> = specs.iter().map(|tree| Command::of(tree, &mut count)).collect();
        let mut slots = vec![0u16; (commands.len() * 4).next_power_of_two()].into_boxed_slice();
        for (at, command) in commands.iter().enumerate() {
            let mut slot = name_hash(command.spec.name.as_bytes()) as usize & (slots.len() - 1);
            while slots[slot] != 0 {
                slot = (slot + 1) & (slots.len() - 1);
            }
            slots[slot] = at as u16 + 1;
        }
        CommandTable {
            commands,
            slots,
            count,
        }
    }

    /// Finds a command by its name, letter case ignored.
    #[inline]
    pub fn find(&self, name: &[u8]) -> Option<&Command> {
        let mut slot = name_hash(name) as usize & (self.slots.len() - 1);
        loop {
            let at = self.slots[slot].checked_sub(1)? as usize;
            let command = &self.commands[at];
            if command.spec.name.as_bytes().eq_ignore_ascii_case(name) {
                return Some(command);
            }
            slot = (slot + 1) & (self.slots.len() - 1);
        }
    }

    /// Finds a command by its full name, `container|subcommand` for a subcommand.
    pub fn find_full(&self, name: &[u8]) -> Option<&Command> {
        let mut parts = name.split(|&byte| byte == b'|');
        let command = self.find(parts.next()?)?;
        match (parts.next(), parts.next()) {
            (None, _) => Some(command),
            (Some(sub), None) => command.subcommand(sub),
            _ => None,
        }
    }

    /// Finds what a request would run; a container stands for itself when no subcommand is named.
    pub fn find_request(&self, args: &Args<'_>) -> Option<&Command> {
        let command = self.find(args.get(0)?)?;
        match args.get(1) {
            Some(sub) if !command.subcommands.is_empty() => command.subcommand(sub),
            _ => Some(command),
        }
    }

    /// Lists every command and every subcommand, in the order of their numbers.
    pub fn every(&self) -> impl Iterator<Item = &Command> {
        self.commands
            .iter()
            .flat_map(|command| std::iter::once(command).chain(&command.subcommands))
    }

    /// Lists all commands, containers with their subcommands inside.
    pub fn all(&self) -> &[Command] {
        &self.commands
    }

    /// Finds a command or subcommand by its number.
    pub fn by_number(&self, number: usize) -> Option<&Command> {
        self.every().find(|command| command.number == number)
    }

    /// Returns how many commands and subcommands there are.
    pub fn count(&self) -> usize {
        self.count
    }
}

impl Command {
    /// Finds a subcommand by its name, letter case ignored.
    pub fn subcommand(&self, name: &[u8]) -> Option<&Command> {
        self.subcommands
            .iter()
            .find(|sub| sub.spec.name.as_bytes().eq_ignore_ascii_case(name))
    }

    fn of(tree: &SpecTree, count: &mut usize) -> Command {
        let mut command = Command::alone(tree.spec, None, count);
        let subcommands = tree.subcommands.iter();
        command.subcommands = subcommands
            .map(|sub| Command::alone(sub, Some(&command.full_name), count))
            .collect();
        command
    }

    fn alone(spec: &'static CommandSpec, container: Option<&str>, count: &mut usize) -> Command {
        let number = *count;
        *count += 1;
        let name = spec.name.to_ascii_lowercase();
        let only_key = match spec.keys {
            [one] if spec.more_keys.is_none() && !one.flags.has(NOT_KEY) => match (one.begin, one.find) {
                (Begin::Index(at), Find::Range { last: 0, .. }) => Some(at),
                _ => None,
            },
            _ => None,
        };
        Command {
            spec,
            number,
            full_name: container.map_or(name.clone(), |container| format!("{container}|{name}")),
            categories: Category::of(spec),
            subcommands: Vec::new(),
            only_key,
        }
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
