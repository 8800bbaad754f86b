//! Holds a request against a user's rights.

use nagaya_command_spec::key_positions::each_key;
use nagaya_command_spec::spec::{ACCESS, MAY_REPLICATE, NO_AUTH, NOSCRIPT, PUBSUB, READONLY, TagSpec, WRITE};
use nagaya_command_spec::table::{Command, CommandTable};
use nagaya_resp::Args;
use nagaya_tiering::tag::tag_of;

use crate::acl::rules::Rules;
use crate::acl::selector::{Access, Selector};

/// What a user lacked, the most telling last.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Reason {
    Command,
    Key,
    Auth,
    Channel,
}

/// A request was refused.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Denied {
    pub reason: Reason,
    /// The argument that names the key or channel.
    pub at: usize,
}

impl Denied {
    /// Returns what the log shows: the command, the key or the channel.
    pub fn object(self, command: &Command, args: &Args<'_>) -> Vec<u8> {
        match self.reason {
            Reason::Command => command.full_name.clone().into_bytes(),
            Reason::Key | Reason::Channel | Reason::Auth => args[self.at].to_vec(),
        }
    }
}

impl Rules {
    /// Returns whether one of the selectors allows the request. When none does, the one that came closest
    /// gives the reason.
    pub fn check(&self, command: &Command, args: &Args<'_>) -> Result<(), Denied> {
        let mut closest = Denied {
            reason: Reason::Command,
            at: 0,
        };
        for selector in &self.selectors {
            match selector.check(command, args) {
                Ok(()) => return Ok(()),
                Err(denied) => closest = closest.max(denied),
            }
        }
        Err(closest)
    }

    /// Returns whether a request about a tag is allowed by a selector that also allows all these keys, which
    /// were found in the tag. Otherwise one of the keys is the reason.
    pub fn check_keys_of_tag(
        &self,
        command: &Command,
        args: &Args<'_>,
        keys: &[Vec<u8>],
    ) -> Result<(), Denied> {
        let needed = match command.spec.tags {
            Some(TagSpec::Named { flags, .. }) => Access::needed(flags),
            _ => Access::needed(ACCESS),
        };
        let is_enough = |selector: &Selector| {
            selector.check(command, args).is_ok() && keys.iter().all(|key| selector.allows_key(key, needed))
        };
        if self.selectors.iter().any(is_enough) {
            return Ok(());
        }
        self.check(command, args)?;
        Err(Denied {
            reason: Reason::Key,
            at: 1,
        })
    }

    /// Lists what a script may not call that this request runs: every command that scripts can call, unless
    /// a selector that allows the request allows the command too. Publishing needs every channel, since the
    /// channel is known to the script alone.
    pub fn denied_in_scripts<'t>(
        &self,
        table: &'t CommandTable,
        command: &Command,
        args: &Args<'_>,
    ) -> Vec<&'t str> {
        let able: Vec<&Selector> = self
            .selectors
            .iter()
            .filter(|selector| selector.check(command, args).is_ok())
            .collect();
        let may_call = |called: &Command| {
            able.iter().any(|selector| {
                let has_command = selector.all_commands || selector.commands.has(called.number);
                has_command && (selector.all_channels || channels_of(called).is_none())
            })
        };
        // The server itself denies writes to scripts that may only read.
        let never = if command.spec.flags.has(READONLY) {
            NOSCRIPT.and(WRITE).and(MAY_REPLICATE)
        } else {
            NOSCRIPT
        };
        let callable = table.every().filter(|called| !called.spec.flags.has(never));
        let denied = callable.filter(|called| called.subcommands.is_empty() && !may_call(called));
        denied.map(|called| called.full_name.as_str()).collect()
    }

    /// Returns which keys a script may use that this request runs, besides those it declares. Every selector
    /// that allows the request has to allow them for reading and writing: which of them allows a command that
    /// the script calls is not known here.
    pub fn keys_in_scripts(&self, command: &Command, args: &Args<'_>, tag: &[u8]) -> ScriptKeys {
        let both = Access {
            read: true,
            write: true,
        };
        let mut able = self.selectors.iter();
        let mut keys = ScriptKeys::All;
        while let Some(selector) = able.find(|selector| selector.check(command, args).is_ok()) {
            if !selector.allows_all_keys(both) {
                keys = ScriptKeys::OfTag;
                if !selector.allows_tag(tag, both) {
                    return ScriptKeys::Declared;
                }
            }
        }
        keys
    }

    /// Returns whether the request is allowed by a selector that also may read every key, as a command
    /// needs that reads keys its arguments do not name.
    pub fn allow_reading_all_keys(&self, command: &Command, args: &Args<'_>) -> bool {
        self.selectors.iter().any(|selector| {
            selector.allows_all_keys(Access::needed(ACCESS)) && selector.check(command, args).is_ok()
        })
    }
}

/// The keys that a script may use.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ScriptKeys {
    /// Only those it declares.
    Declared,
    /// Also those of the form `{tag}...`.
    OfTag,
    All,
}

impl Selector {
    fn check(&self, command: &Command, args: &Args<'_>) -> Result<(), Denied> {
        if !self.allows_command(command, args) {
            return Err(Denied {
                reason: Reason::Command,
                at: 0,
            });
        }
        if !self.all_keys
            && let Some(at) = self.first_denied_key(command, args)
        {
            return Err(Denied {
                reason: Reason::Key,
                at,
            });
        }
        if !self.all_channels
            && let Some(at) = self.first_denied_channel(command, args)
        {
            return Err(Denied {
                reason: Reason::Channel,
                at,
            });
        }
        Ok(())
    }

    fn allows_command(&self, command: &Command, args: &Args<'_>) -> bool {
        if self.all_commands || command.spec.flags.has(NO_AUTH) || self.commands.has(command.number) {
            return true;
        }
        let Some(first_arg) = args.get(1) else {
            return false;
        };
        self.first_args
            .get(&command.number)
            .is_some_and(|allowed| allowed.iter().any(|known| known.eq_ignore_ascii_case(first_arg)))
    }

    /// A request whose keys cannot all be told is one that its handler refuses; those found count.
    fn first_denied_key(&self, command: &Command, args: &Args<'_>) -> Option<usize> {
        if let Some(tags) = command.spec.tags {
            return self.first_denied_tag(tags, args);
        }
        let mut denied = None;
        each_key(command.spec, args, |at, flags| {
            if denied.is_none() && !self.allows_key(&args[at], Access::needed(flags)) {
                denied = Some(at);
            }
        })
        .ok();
        denied
    }

    fn first_denied_tag(&self, tags: TagSpec, args: &Args<'_>) -> Option<usize> {
        match tags {
            TagSpec::Named { at, to_end, flags } => {
                let end = if to_end { args.len() } else { at + 1 };
                let needed = Access::needed(flags);
                (at..end.min(args.len())).find(|&at| !self.allows_tag(tag_of(&args[at]), needed))
            }
            TagSpec::Listed { after } => {
                let needed = Access::needed(ACCESS);
                let by_name = args
                    .get(1)
                    .is_some_and(|word| word.eq_ignore_ascii_case(after.as_bytes()));
                match args.get(2) {
                    Some(prefix) if by_name => (!self.allows_tags_beginning(prefix, needed)).then_some(2),
                    _ => (!self.allows_all_keys(needed)).then_some(1),
                }
            }
        }
    }

    fn first_denied_channel(&self, command: &Command, args: &Args<'_>) -> Option<usize> {
        let channels = channels_of(command)?;
        let end = if channels.only_first { 2 } else { args.len() };
        (1..end.min(args.len())).find(|&at| !self.allows_channel(&args[at], channels.patterns))
    }
}

/// Which arguments of a command are channels, from the first on.
#[derive(Clone, Copy)]
struct Channels {
    only_first: bool,
    patterns: bool,
}

/// Leaving a channel needs no right, so the commands that do are not here.
fn channels_of(command: &Command) -> Option<Channels> {
    if !command.spec.flags.has(PUBSUB) {
        return None;
    }
    let (only_first, patterns) = match command.spec.name {
        "SUBSCRIBE" | "SSUBSCRIBE" => (false, false),
        "PSUBSCRIBE" => (false, true),
        "PUBLISH" | "SPUBLISH" => (true, false),
        _ => return None,
    };
    Some(Channels { only_first, patterns })
}
