//! What the table says about a command: name, arity, flags, keys, documents.
//!
//! The handler is not part of it: the crate that executes commands pairs specs
//! with handlers. Lookup, arity and ACL checks, locking, COMMAND, metrics and
//! COMPAT.md read a command's spec.

use nagaya_resp::Args;

/// One command, or one subcommand of a container.
#[derive(Clone, Copy)]
pub struct CommandSpec {
    /// Upper-case name; of a subcommand, the part after the container's.
    pub name: &'static str,
    /// As Redis counts: the name included, negative for "at least".
    pub arity: i32,
    pub flags: Flags,
    /// Categories beyond those that follow from the flags.
    pub acl: Category,
    pub group: &'static str,
    pub keys: &'static [KeySpec],
    /// Finds the keys that the key specs cannot describe (SORT's STORE, MIGRATE's KEYS).
    pub more_keys: Option<fn(&Args<'_>) -> Vec<usize>>,
    /// Returns what the arguments make of a key whose spec says [`VARIABLE_FLAGS`].
    pub key_use: Option<fn(&Args<'_>) -> KeyFlags>,
    /// The arguments that name whole tags. ACL rules are held against them instead of against `keys`.
    pub tags: Option<TagSpec>,
    pub since: &'static str,
    pub summary: &'static str,
    pub complexity: &'static str,
}

impl CommandSpec {
    /// Describes a command of which only the name and the arity are known yet.
    pub const fn new(name: &'static str, arity: i32) -> CommandSpec {
        CommandSpec {
            name,
            arity,
            flags: Flags(0),
            acl: Category(0),
            group: "generic",
            keys: &[],
            more_keys: None,
            key_use: None,
            tags: None,
            since: "1.0.0",
            summary: "",
            complexity: "",
        }
    }

    /// Sets the flags.
    pub const fn flags(mut self, flags: Flags) -> Self {
        self.flags = flags;
        self
    }

    /// Sets the explicit ACL categories.
    pub const fn acl(mut self, categories: Category) -> Self {
        self.acl = categories;
        self
    }

    /// Sets the group that COMMAND DOCS names.
    pub const fn group(mut self, group: &'static str) -> Self {
        self.group = group;
        self
    }

    /// Sets where the keys are.
    pub const fn keys(mut self, keys: &'static [KeySpec]) -> Self {
        self.keys = keys;
        self
    }

    /// Sets a function that finds the keys the specs cannot describe.
    pub const fn more_keys(mut self, find: fn(&Args<'_>) -> Vec<usize>) -> Self {
        self.more_keys = Some(find);
        self
    }

    /// Sets a function that tells what the arguments make of a key with variable flags.
    pub const fn key_use(mut self, tell: fn(&Args<'_>) -> KeyFlags) -> Self {
        self.key_use = Some(tell);
        self
    }

    /// Sets which arguments name whole tags.
    pub const fn tags(mut self, tags: TagSpec) -> Self {
        self.tags = Some(tags);
        self
    }

    /// Sets the Redis version that brought the command.
    pub const fn since(mut self, version: &'static str) -> Self {
        self.since = version;
        self
    }

    /// Sets the summary and the complexity.
    pub const fn about(mut self, summary: &'static str, complexity: &'static str) -> Self {
        self.summary = summary;
        self.complexity = complexity;
        self
    }

    /// Returns whether an argument count (name included) fits.
    #[inline]
    pub fn accepts(&self, count: usize) -> bool {
        if self.arity >= 0 {
            count == self.arity as usize
        } else {
            count >= self.arity.unsigned_abs() as usize
        }
    }
}

/// Properties of a command, named as Redis names them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Flags(pub u32);

impl Flags {
    /// Joins two sets of flags.
    #[inline]
    pub const fn and(self, other: Flags) -> Flags {
        Flags(self.0 | other.0)
    }

    /// Returns whether any flag of `other` is set here.
    #[inline]
    pub const fn has(self, other: Flags) -> bool {
        self.0 & other.0 != 0
    }

    /// Lists the names that COMMAND INFO prints, in Redis's order.
    pub fn names(self) -> impl Iterator<Item = &'static str> {
        FLAG_NAMES
            .iter()
            .filter(move |(flag, _)| self.has(*flag))
            .map(|(_, name)| *name)
    }
}

pub const NONE: Flags = Flags(0);
pub const WRITE: Flags = Flags(1);
pub const READONLY: Flags = Flags(1 << 1);
pub const DENYOOM: Flags = Flags(1 << 2);
pub const ADMIN: Flags = Flags(1 << 3);
pub const PUBSUB: Flags = Flags(1 << 4);
pub const NOSCRIPT: Flags = Flags(1 << 5);
pub const BLOCKING: Flags = Flags(1 << 6);
pub const LOADING: Flags = Flags(1 << 7);
pub const STALE: Flags = Flags(1 << 8);
pub const SKIP_MONITOR: Flags = Flags(1 << 9);
pub const SKIP_SLOWLOG: Flags = Flags(1 << 10);
pub const ASKING: Flags = Flags(1 << 11);
pub const FAST: Flags = Flags(1 << 12);
pub const NO_AUTH: Flags = Flags(1 << 13);
pub const MAY_REPLICATE: Flags = Flags(1 << 14);
pub const NO_MANDATORY_KEYS: Flags = Flags(1 << 15);
pub const PROTECTED: Flags = Flags(1 << 16);
pub const NO_ASYNC_LOADING: Flags = Flags(1 << 17);
pub const NO_MULTI: Flags = Flags(1 << 18);
pub const ALLOW_BUSY: Flags = Flags(1 << 19);
pub const MOVABLE_KEYS: Flags = Flags(1 << 20);
/// Ours: reads or writes keys that the arguments do not name, so every shard is locked.
pub const ALL_SHARDS: Flags = Flags(1 << 30);
/// Ours: takes the locks that it needs itself (EXEC).
pub const OWN_LOCKS: Flags = Flags(1 << 31);

/// Redis keeps `may_replicate` and `protected` to itself, and so do we.
const FLAG_NAMES: &[(Flags, &str)] = &[
    (WRITE, "write"),
    (READONLY, "readonly"),
    (DENYOOM, "denyoom"),
    (ADMIN, "admin"),
    (PUBSUB, "pubsub"),
    (NOSCRIPT, "noscript"),
    (BLOCKING, "blocking"),
    (LOADING, "loading"),
    (STALE, "stale"),
    (SKIP_MONITOR, "skip_monitor"),
    (SKIP_SLOWLOG, "skip_slowlog"),
    (ASKING, "asking"),
    (FAST, "fast"),
    (NO_AUTH, "no_auth"),
    (NO_MANDATORY_KEYS, "no_mandatory_keys"),
    (NO_ASYNC_LOADING, "no_async_loading"),
    (NO_MULTI, "no_multi"),
    (MOVABLE_KEYS, "movablekeys"),
    (ALLOW_BUSY, "allow_busy"),
];

/// A set of ACL categories.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Category(pub u32);

impl Category {
    pub const KEYSPACE: Category = Category(1);
    pub const READ: Category = Category(1 << 1);
    pub const WRITE: Category = Category(1 << 2);
    pub const SET: Category = Category(1 << 3);
    pub const SORTEDSET: Category = Category(1 << 4);
    pub const LIST: Category = Category(1 << 5);
    pub const HASH: Category = Category(1 << 6);
    pub const STRING: Category = Category(1 << 7);
    pub const BITMAP: Category = Category(1 << 8);
    pub const HYPERLOGLOG: Category = Category(1 << 9);
    pub const GEO: Category = Category(1 << 10);
    pub const STREAM: Category = Category(1 << 11);
    pub const PUBSUB: Category = Category(1 << 12);
    pub const ADMIN: Category = Category(1 << 13);
    pub const FAST: Category = Category(1 << 14);
    pub const SLOW: Category = Category(1 << 15);
    pub const BLOCKING: Category = Category(1 << 16);
    pub const DANGEROUS: Category = Category(1 << 17);
    pub const CONNECTION: Category = Category(1 << 18);
    pub const TRANSACTION: Category = Category(1 << 19);
    pub const SCRIPTING: Category = Category(1 << 20);

    /// Every category with its name, in Redis's order.
    pub const ALL: &'static [(Category, &'static str)] = &[
        (Category::KEYSPACE, "keyspace"),
        (Category::READ, "read"),
        (Category::WRITE, "write"),
        (Category::SET, "set"),
        (Category::SORTEDSET, "sortedset"),
        (Category::LIST, "list"),
        (Category::HASH, "hash"),
        (Category::STRING, "string"),
        (Category::BITMAP, "bitmap"),
        (Category::HYPERLOGLOG, "hyperloglog"),
        (Category::GEO, "geo"),
        (Category::STREAM, "stream"),
        (Category::PUBSUB, "pubsub"),
        (Category::ADMIN, "admin"),
        (Category::FAST, "fast"),
        (Category::SLOW, "slow"),
        (Category::BLOCKING, "blocking"),
        (Category::DANGEROUS, "dangerous"),
        (Category::CONNECTION, "connection"),
        (Category::TRANSACTION, "transaction"),
        (Category::SCRIPTING, "scripting"),
    ];

    /// Finds a category by its name, letter case ignored.
    pub fn named(name: &[u8]) -> Option<Category> {
        let found = Category::ALL
            .iter()
            .find(|(_, known)| known.as_bytes().eq_ignore_ascii_case(name));
        found.map(|(category, _)| *category)
    }

    /// Joins two sets.
    #[inline]
    pub const fn and(self, other: Category) -> Category {
        Category(self.0 | other.0)
    }

    /// Returns whether any category of `other` is in this set.
    #[inline]
    pub const fn has(self, other: Category) -> bool {
        self.0 & other.0 != 0
    }

    /// Returns the categories of a command: its own, and those its flags imply.
    pub fn of(spec: &CommandSpec) -> Category {
        let flags = spec.flags;
        let mut all = spec.acl;
        if flags.has(WRITE) {
            all = all.and(Category::WRITE);
        }
        if flags.has(READONLY) && !spec.acl.has(Category::SCRIPTING) {
            all = all.and(Category::READ);
        }
        if flags.has(ADMIN) {
            all = all.and(Category::ADMIN).and(Category::DANGEROUS);
        }
        if flags.has(PUBSUB) {
            all = all.and(Category::PUBSUB);
        }
        if flags.has(FAST) {
            all = all.and(Category::FAST);
        }
        if flags.has(BLOCKING) {
            all = all.and(Category::BLOCKING);
        }
        if all.has(Category::FAST) {
            all
        } else {
            all.and(Category::SLOW)
        }
    }
}

/// What a command does with a key, named as Redis's key specs name it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct KeyFlags(pub u16);

impl KeyFlags {
    /// Joins two sets of flags.
    #[inline]
    pub const fn and(self, other: KeyFlags) -> KeyFlags {
        KeyFlags(self.0 | other.0)
    }

    /// Returns whether any flag of `other` is set here.
    #[inline]
    pub const fn has(self, other: KeyFlags) -> bool {
        self.0 & other.0 != 0
    }

    /// Lists the names that COMMAND INFO prints.
    pub fn names(self) -> impl Iterator<Item = &'static str> {
        KEY_FLAG_NAMES
            .iter()
            .filter(move |(flag, _)| self.has(*flag))
            .map(|(_, name)| *name)
    }
}

pub const RO: KeyFlags = KeyFlags(1);
pub const RW: KeyFlags = KeyFlags(1 << 1);
pub const OW: KeyFlags = KeyFlags(1 << 2);
pub const RM: KeyFlags = KeyFlags(1 << 3);
pub const ACCESS: KeyFlags = KeyFlags(1 << 4);
pub const UPDATE: KeyFlags = KeyFlags(1 << 5);
pub const INSERT: KeyFlags = KeyFlags(1 << 6);
pub const DELETE: KeyFlags = KeyFlags(1 << 7);
pub const NOT_KEY: KeyFlags = KeyFlags(1 << 8);
pub const INCOMPLETE: KeyFlags = KeyFlags(1 << 9);
pub const VARIABLE_FLAGS: KeyFlags = KeyFlags(1 << 10);

const KEY_FLAG_NAMES: &[(KeyFlags, &str)] = &[
    (RO, "RO"),
    (RW, "RW"),
    (OW, "OW"),
    (RM, "RM"),
    (ACCESS, "access"),
    (UPDATE, "update"),
    (INSERT, "insert"),
    (DELETE, "delete"),
    (NOT_KEY, "not_key"),
    (INCOMPLETE, "incomplete"),
    (VARIABLE_FLAGS, "variable_flags"),
];

/// Where one group of keys begins and how to find the rest of it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct KeySpec {
    pub flags: KeyFlags,
    pub begin: Begin,
    pub find: Find,
}

/// Where a key spec starts looking.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Begin {
    Index(usize),
    /// After this word, searched from this argument (negative: from the end, backwards).
    Keyword(&'static str, i32),
    Unknown,
}

/// How the keys of a spec follow its start.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Find {
    /// Up to `last` (relative to the first; negative: from the end), every `step`, only the first
    /// 1/limit of the rest when `limit` is over 1.
    Range {
        last: i32,
        step: usize,
        limit: usize,
    },
    /// A count at `count_at`, then that many keys from `first`, both relative to the start.
    KeyNum {
        count_at: usize,
        first: usize,
        step: usize,
    },
    Unknown,
}

/// Which arguments of a command name tags, with all of their keys.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TagSpec {
    /// The argument at this place names one, and with `to_end` all that follow it; the flags say what is done
    /// to their keys.
    Named {
        at: usize,
        to_end: bool,
        flags: KeyFlags,
    },
    /// Tags are listed: after this word those that begin with the next argument, without it any.
    Listed { after: &'static str },
}

/// One key at a fixed place.
pub const fn key(at: usize, flags: KeyFlags) -> KeySpec {
    KeySpec {
        flags,
        begin: Begin::Index(at),
        find: Find::Range {
            last: 0,
            step: 1,
            limit: 0,
        },
    }
}

/// Keys from `first` to `last` (negative: from the end, -1 is the last argument), every `step`.
pub const fn keys_to(first: usize, last: i32, step: usize, flags: KeyFlags) -> KeySpec {
    // Key specs count `last` from the first key when it is not negative.
    let last = if last < 0 { last } else { last - first as i32 };
    KeySpec {
        flags,
        begin: Begin::Index(first),
        find: Find::Range { last, step, limit: 0 },
    }
}

/// A count at an argument, then that many keys right after it.
pub const fn counted_keys(at: usize, flags: KeyFlags) -> KeySpec {
    KeySpec {
        flags,
        begin: Begin::Index(at),
        find: Find::KeyNum {
            count_at: 0,
            first: 1,
            step: 1,
        },
    }
}

/// One key after a word.
pub const fn key_after(word: &'static str, from: i32, flags: KeyFlags) -> KeySpec {
    KeySpec {
        flags,
        begin: Begin::Keyword(word, from),
        find: Find::Range {
            last: 0,
            step: 1,
            limit: 0,
        },
    }
}
