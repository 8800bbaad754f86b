//! A command's entry: its spec and the handler that runs it.
//!
//! A family file lists its commands as constants built with [`cmd`]:
//!
//! ```text
//! cmd("GETDEL", 2, getdel)
//!     .flags(WRITE.and(FAST))
//!     .acl(Category::STRING)
//!     .keys(&[key(1, RW.and(ACCESS).and(DELETE))])
//!     .since("6.2.0")
//!     .about("Returns a string and removes its key.", "O(1)")
//! ```
//!
//! A [`Registry`] is made of the entries of all families.

use nagaya_command_spec::error::CommandError;
use nagaya_command_spec::spec::{Category, CommandSpec, Flags, KeyFlags, KeySpec, TagSpec};
use nagaya_command_spec::table::{Command, CommandTable, SpecTree};
use nagaya_resp::Args;

use crate::ctx::Ctx;

/// Runs one command under the locks of its keys and writes its reply.
pub type Handler = fn(&mut Ctx<'_, '_>) -> Result<(), CommandError>;

/// One command, or one subcommand of a container, with its handler.
#[derive(Clone, Copy)]
pub struct Entry {
    pub spec: CommandSpec,
    pub run: Handler,
    /// Set for a container such as CONFIG.
    pub subcommands: &'static [Entry],
}

/// Starts the entry of a command.
pub const fn cmd(name: &'static str, arity: i32, run: Handler) -> Entry {
    Entry {
        spec: CommandSpec::new(name, arity),
        run,
        subcommands: &[],
    }
}

impl Entry {
    /// Sets the flags.
    pub const fn flags(mut self, flags: Flags) -> Self {
        self.spec = self.spec.flags(flags);
        self
    }

    /// Sets the explicit ACL categories.
    pub const fn acl(mut self, categories: Category) -> Self {
        self.spec = self.spec.acl(categories);
        self
    }

    /// Sets the group that COMMAND DOCS names.
    pub const fn group(mut self, group: &'static str) -> Self {
        self.spec = self.spec.group(group);
        self
    }

    /// Sets where the keys are.
    pub const fn keys(mut self, keys: &'static [KeySpec]) -> Self {
        self.spec = self.spec.keys(keys);
        self
    }

    /// Sets a function that finds the keys the specs cannot describe.
    pub const fn more_keys(mut self, find: fn(&Args<'_>) -> Vec<usize>) -> Self {
        self.spec = self.spec.more_keys(find);
        self
    }

    /// Sets a function that returns what the arguments make of a key with variable flags.
    pub const fn key_use(mut self, tell: fn(&Args<'_>) -> KeyFlags) -> Self {
        self.spec = self.spec.key_use(tell);
        self
    }

    /// Sets which arguments name whole tags.
    pub const fn tags(mut self, tags: TagSpec) -> Self {
        self.spec = self.spec.tags(tags);
        self
    }

    /// Sets the Redis version that brought the command.
    pub const fn since(mut self, version: &'static str) -> Self {
        self.spec = self.spec.since(version);
        self
    }

    /// Sets the summary and the complexity.
    pub const fn about(mut self, summary: &'static str, complexity: &'static str) -> Self {
        self.spec = self.spec.about(summary, complexity);
        self
    }

    /// Makes the command a container.
    pub const fn subcommands(mut self, subcommands: &'static [Entry]) -> Self {
        self.subcommands = subcommands;
        self
    }
}

/// All commands of an engine: the table that describes them and their handlers.
pub struct Registry {
    pub table: CommandTable,
    /// Indexed by [`Command::number`].
    handlers: Box<[Handler]>,
}

impl Registry {
    /// Makes a registry of the entries of some families, in their order.
    pub fn new(families: &[&'static [Entry]]) -> Registry {
        let entries = || families.iter().flat_map(|family| family.iter());
        let specs: Vec<SpecTree> = entries()
            .map(|entry| SpecTree {
                spec: &entry.spec,
                subcommands: entry.subcommands.iter().map(|sub| &sub.spec).collect(),
            })
            .collect();
        // The table numbers a container, then its subcommands.
        let handlers = entries().flat_map(|entry| std::iter::once(entry).chain(entry.subcommands));
        Registry {
            table: CommandTable::new(&specs),
            handlers: handlers.map(|entry| entry.run).collect(),
        }
    }

    /// Returns the handler of a command of this registry's table.
    #[inline]
    pub fn handler(&self, command: &Command) -> Handler {
        self.handlers[command.number]
    }
}
