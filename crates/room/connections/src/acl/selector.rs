//! One set of rights: which commands, on which keys and channels.
//!
//! A rule such as `+@read`, `-get`, `~app:*` or `&news` changes a [`Selector`];
//! a user has a root selector and any number of further ones, and may run a
//! command that one of them allows completely.

use std::collections::BTreeMap;

use nagaya_command_spec::spec::{ACCESS, Category, DELETE, INSERT, KeyFlags, UPDATE};
use nagaya_command_spec::table::{Command, CommandTable};

/// Why a rule was refused, in Redis's words.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum RuleError {
    #[error("Unknown command or category name in ACL")]
    UnknownName,
    #[error("Syntax error")]
    Syntax,
    #[error(
        "Adding a pattern after the * pattern (or the 'allkeys' flag) is not valid and does not have any \
         effect. Try 'resetkeys' to start with an empty list of patterns"
    )]
    PatternAfterAllKeys,
    #[error(
        "Adding a pattern after the * pattern (or the 'allchannels' flag) is not valid and does not have any \
         effect. Try 'resetchannels' to start with an empty list of channels"
    )]
    PatternAfterAllChannels,
    #[error("The password you are trying to remove from the user does not exist")]
    NoSuchPassword,
    #[error(
        "The password hash must be exactly 64 characters and contain only lowercase hexadecimal characters"
    )]
    BadHash,
    #[error("Allowing first-arg of a subcommand is not supported")]
    FirstArgOfSubcommand,
}

/// A set of command numbers.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CommandSet(Box<[u64]>);

impl CommandSet {
    fn empty(table: &CommandTable) -> CommandSet {
        CommandSet(vec![0; table.count().div_ceil(64)].into())
    }

    fn fill(&mut self, table: &CommandTable, value: bool) {
        table.every().for_each(|command| self.put(command.number, value));
    }

    fn put(&mut self, number: usize, value: bool) {
        let bit = 1 << (number % 64);
        if value {
            self.0[number / 64] |= bit;
        } else {
            self.0[number / 64] &= !bit;
        }
    }

    pub fn has(&self, number: usize) -> bool {
        self.0[number / 64] & (1 << (number % 64)) != 0
    }
}

/// What a key pattern permits.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Access {
    pub read: bool,
    pub write: bool,
}

impl Access {
    /// Returns what a command needs that uses a key like this.
    pub fn needed(flags: KeyFlags) -> Access {
        Access {
            read: flags.has(ACCESS),
            write: flags.has(INSERT.and(DELETE).and(UPDATE)),
        }
    }

    fn covers(self, needed: Access) -> bool {
        (self.read || !needed.read) && (self.write || !needed.write)
    }
}

/// Keys by pattern, and what may be done with them.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct KeyPattern {
    pub pattern: Vec<u8>,
    pub access: Access,
}

/// One set of rights.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Selector {
    pub commands: CommandSet,
    /// Every command, without a look at the set: `+@all` was given and nothing taken away since.
    pub all_commands: bool,
    /// The set began as `+@all`; it is described by what is missing from it.
    pub began_with_all: bool,
    /// First arguments with which a command outside the set may run, by its number.
    pub first_args: BTreeMap<usize, Vec<Vec<u8>>>,
    pub all_keys: bool,
    pub keys: Vec<KeyPattern>,
    pub all_channels: bool,
    pub channels: Vec<Vec<u8>>,
}

impl Selector {
    /// Makes a selector that allows nothing, save perhaps every channel.
    pub fn new(table: &CommandTable, all_channels: bool) -> Selector {
        Selector {
            commands: CommandSet::empty(table),
            all_commands: false,
            began_with_all: false,
            first_args: BTreeMap::new(),
            all_keys: false,
            keys: Vec::new(),
            all_channels,
            channels: Vec::new(),
        }
    }

    /// Makes the selector of a rule in parentheses.
    pub fn parse(table: &CommandTable, rule: &[u8], all_channels: bool) -> Result<Selector, RuleError> {
        let mut selector = Selector::new(table, all_channels);
        let inside = &rule[1..rule.len() - 1];
        for op in inside.split(u8::is_ascii_whitespace).filter(|op| !op.is_empty()) {
            selector.apply(table, op)?;
        }
        Ok(selector)
    }

    /// Returns whether this selector alone allows everything.
    pub fn allows_everything(&self) -> bool {
        self.all_commands && self.all_keys && self.all_channels
    }

    /// Changes the rights by one rule.
    pub fn apply(&mut self, table: &CommandTable, op: &[u8]) -> Result<(), RuleError> {
        let is = |word: &str| op.eq_ignore_ascii_case(word.as_bytes());
        if is("allkeys") || is("~*") {
            self.all_keys = true;
            self.keys.clear();
        } else if is("resetkeys") {
            self.all_keys = false;
            self.keys.clear();
        } else if is("allchannels") || is("&*") {
            self.all_channels = true;
            self.channels.clear();
        } else if is("resetchannels") {
            self.all_channels = false;
            self.channels.clear();
        } else if is("allcommands") || is("+@all") {
            self.permit_all(table, true);
        } else if is("nocommands") || is("-@all") {
            self.permit_all(table, false);
        } else {
            match op {
                [b'~', pattern @ ..] => self.add_keys(
                    pattern,
                    Access {
                        read: true,
                        write: true,
                    },
                )?,
                [b'%', rest @ ..] => {
                    let (access, pattern) = parse_access(rest)?;
                    self.add_keys(pattern, access)?;
                }
                [b'&', pattern @ ..] => self.add_channels(pattern)?,
                [sign @ (b'+' | b'-'), b'@', category @ ..] => {
                    let category = Category::named(category).ok_or(RuleError::UnknownName)?;
                    self.permit_category(table, category, *sign == b'+');
                }
                [b'+', name @ ..] => self.permit_named(table, name)?,
                [b'-', name @ ..] => {
                    let command = table.find_full(name).ok_or(RuleError::UnknownName)?;
                    self.permit(command, false);
                }
                _ => return Err(RuleError::Syntax),
            }
        }
        Ok(())
    }

    pub fn permit_all(&mut self, table: &CommandTable, allow: bool) {
        self.commands.fill(table, allow);
        self.all_commands = allow;
        self.began_with_all = allow;
        self.first_args.clear();
    }

    pub fn permit_category(&mut self, table: &CommandTable, category: Category, allow: bool) {
        table
            .every()
            .filter(|command| command.categories.has(category))
            .for_each(|command| self.permit(command, allow));
    }

    /// Allows or forbids a command together with its subcommands.
    pub fn permit(&mut self, command: &Command, allow: bool) {
        self.first_args.remove(&command.number);
        for command in std::iter::once(command).chain(&command.subcommands) {
            self.commands.put(command.number, allow);
        }
        self.all_commands &= allow;
    }

    /// Allows `command`, `container|subcommand` or, of a command without subcommands,
    /// `command|first-argument`.
    fn permit_named(&mut self, table: &CommandTable, name: &[u8]) -> Result<(), RuleError> {
        let Some(bar) = memchr::memrchr(b'|', name) else {
            let command = table.find(name).ok_or(RuleError::UnknownName)?;
            self.permit(command, true);
            return Ok(());
        };
        let (before, after) = (&name[..bar], &name[bar + 1..]);
        let command = table.find_full(before).ok_or(RuleError::UnknownName)?;
        if before.contains(&b'|') {
            return Err(RuleError::FirstArgOfSubcommand);
        }
        if after.is_empty() {
            return Err(RuleError::Syntax);
        }
        if command.subcommands.is_empty() {
            let allowed = self.first_args.entry(command.number).or_default();
            if !allowed.iter().any(|known| known.eq_ignore_ascii_case(after)) {
                allowed.push(after.to_vec());
            }
        } else {
            let sub = command.subcommand(after).ok_or(RuleError::UnknownName)?;
            self.permit(sub, true);
        }
        Ok(())
    }

    fn add_keys(&mut self, pattern: &[u8], access: Access) -> Result<(), RuleError> {
        if self.all_keys {
            return Err(RuleError::PatternAfterAllKeys);
        }
        if has_space(pattern) {
            return Err(RuleError::Syntax);
        }
        match self.keys.iter_mut().find(|known| known.pattern == pattern) {
            Some(known) => {
                known.access.read |= access.read;
                known.access.write |= access.write;
            }
            None => self.keys.push(KeyPattern {
                pattern: pattern.to_vec(),
                access,
            }),
        }
        Ok(())
    }

    fn add_channels(&mut self, pattern: &[u8]) -> Result<(), RuleError> {
        if self.all_channels {
            return Err(RuleError::PatternAfterAllChannels);
        }
        if has_space(pattern) {
            return Err(RuleError::Syntax);
        }
        if !self.channels.iter().any(|known| known == pattern) {
            self.channels.push(pattern.to_vec());
        }
        Ok(())
    }

    /// Returns whether a key may be used like this.
    pub fn allows_key(&self, key: &[u8], needed: Access) -> bool {
        self.all_keys
            || self.keys.iter().any(|known| {
                known.access.covers(needed) && nagaya_command_spec::glob::matches(&known.pattern, key)
            })
    }

    /// Returns whether all keys of a tag, those of the form `{tag}...`, may be used like this.
    ///
    /// A name with a closing brace cannot stand in braces: as a tag it has one key, itself.
    pub fn allows_tag(&self, tag: &[u8], needed: Access) -> bool {
        if tag.contains(&b'}') {
            return self.allows_key(tag, needed);
        }
        self.allows_beginning(&[b"{", tag, b"}"].concat(), needed)
    }

    /// Returns whether all tags whose names begin like this may be listed.
    pub fn allows_tags_beginning(&self, prefix: &[u8], needed: Access) -> bool {
        self.allows_all_keys(needed)
            || !prefix.contains(&b'}') && self.allows_beginning(&[b"{", prefix].concat(), needed)
    }

    fn allows_beginning(&self, prefix: &[u8], needed: Access) -> bool {
        self.all_keys
            || self.keys.iter().any(|known| {
                known.access.covers(needed)
                    && nagaya_command_spec::glob::matches_all_beginning_with(&known.pattern, prefix)
            })
    }

    /// Returns whether every key may be used like this.
    pub fn allows_all_keys(&self, needed: Access) -> bool {
        self.all_keys
            || self
                .keys
                .iter()
                .any(|known| known.access.covers(needed) && known.pattern == b"*")
    }

    /// Returns whether a channel may be used, or a pattern listened to. A pattern has to be in the rules
    /// as it stands, because it could reach more than a rule that merely matches it.
    pub fn allows_channel(&self, channel: &[u8], is_pattern: bool) -> bool {
        self.all_channels
            || self.channels.iter().any(|known| {
                if is_pattern {
                    known == channel
                } else {
                    nagaya_command_spec::glob::matches(known, channel)
                }
            })
    }
}

/// Reads what stands between `%` and the pattern: `R~`, `W~` or both letters.
fn parse_access(rest: &[u8]) -> Result<(Access, &[u8]), RuleError> {
    let tilde = memchr::memchr(b'~', rest).ok_or(RuleError::Syntax)?;
    let mut access = Access {
        read: false,
        write: false,
    };
    for letter in &rest[..tilde] {
        let granted = match letter.to_ascii_uppercase() {
            b'R' => &mut access.read,
            b'W' => &mut access.write,
            _ => return Err(RuleError::Syntax),
        };
        if std::mem::replace(granted, true) {
            return Err(RuleError::Syntax);
        }
    }
    if tilde == 0 {
        return Err(RuleError::Syntax);
    }
    Ok((access, &rest[tilde + 1..]))
}

/// Returns whether a name or pattern holds what the file format cannot: white space or a zero byte.
pub fn has_space(text: &[u8]) -> bool {
    text.iter()
        .any(|byte| matches!(byte, b' ' | b'\t' | b'\n' | b'\r' | 0x0b | 0x0c | 0))
}
