//! Streams.

use nagaya_command_spec::spec::{
    ACCESS, BLOCKING, Begin, Category, DELETE, DENYOOM, FAST, Find, INSERT, KeySpec, LOADING, MOVABLE_KEYS,
    READONLY, RO, RW, STALE, UPDATE, WRITE, key,
};
use nagaya_exec::entry::{Entry, Handler, cmd};
use nagaya_exec::help::container;

mod add;
mod claim;
mod format;
mod group;
mod info;
mod pending;
mod range;
mod read;

pub(crate) const COMMANDS: &[Entry] = &[
    stream("XACK", -4, group::xack)
        .flags(WRITE.and(FAST))
        .keys(&[key(1, RW.and(UPDATE))])
        .about(
            "Takes entries off a group's list of unacknowledged deliveries.",
            "O(1) per id",
        ),
    stream("XADD", -5, add::xadd)
        .flags(WRITE.and(DENYOOM).and(FAST))
        .keys(&[key(1, RW.and(UPDATE))])
        .about(
            "Appends an entry and may trim old ones.",
            "O(1), O(N) for N trimmed entries",
        ),
    stream("XAUTOCLAIM", -6, claim::xautoclaim)
        .flags(WRITE.and(FAST))
        .keys(&[key(1, RW.and(DELETE))])
        .since("6.2.0")
        .about(
            "Gives long unacknowledged deliveries to another consumer, in the order of their ids.",
            "O(1) for a small COUNT",
        ),
    stream("XCLAIM", -6, claim::xclaim)
        .flags(WRITE.and(FAST))
        .keys(&[key(1, RW.and(UPDATE))])
        .about(
            "Gives unacknowledged deliveries to another consumer.",
            "O(log N) for N pending entries",
        ),
    stream("XDEL", -3, add::xdel)
        .flags(WRITE.and(FAST))
        .keys(&[key(1, RW.and(DELETE))])
        .about("Deletes entries by their ids.", "O(1) per id"),
    stream("XGROUP", -2, container)
        .acl(Category(0))
        .subcommands(GROUP)
        .about("Commands about consumer groups.", "Depends on the subcommand"),
    stream("XINFO", -2, container)
        .acl(Category(0))
        .subcommands(INFO)
        .about("Commands that look into streams.", "Depends on the subcommand"),
    stream("XLEN", 2, add::xlen)
        .flags(READONLY.and(FAST))
        .keys(&[key(1, RO)])
        .about("Returns the number of entries.", "O(1)"),
    stream("XPENDING", -3, pending::xpending)
        .flags(READONLY)
        .keys(&[key(1, RO.and(ACCESS))])
        .about(
            "Lists a group's unacknowledged deliveries.",
            "O(N) for N returned entries",
        ),
    stream("XRANGE", -4, range::xrange)
        .flags(READONLY)
        .keys(&[key(1, RO.and(ACCESS))])
        .about(
            "Returns the entries of a range of ids.",
            "O(N) for N returned entries",
        ),
    stream("XREAD", -4, read::xread)
        .flags(READONLY.and(BLOCKING).and(MOVABLE_KEYS))
        .keys(&[streams_after(1)])
        .about(
            "Returns entries after given ids of several streams, and may wait for them.",
            "O(N) for N returned entries",
        ),
    stream("XREADGROUP", -7, read::xreadgroup)
        .flags(WRITE.and(BLOCKING).and(MOVABLE_KEYS))
        .keys(&[streams_after(read::SEARCHED_FROM as i32)])
        .more_keys(read::hidden_keys)
        .about(
            "Returns new entries, or unacknowledged ones, to a consumer of a group.",
            "O(N) for N returned entries",
        ),
    stream("XREVRANGE", -4, range::xrevrange)
        .flags(READONLY)
        .keys(&[key(1, RO.and(ACCESS))])
        .about(
            "Returns the entries of a range of ids, last first.",
            "O(N) for N returned entries",
        ),
    stream("XSETID", -3, add::xsetid)
        .flags(WRITE.and(DENYOOM).and(FAST))
        .keys(&[key(1, RW.and(UPDATE))])
        .about("Sets the last id of a stream, for replication.", "O(1)"),
    stream("XTRIM", -4, add::xtrim)
        .flags(WRITE)
        .keys(&[key(1, RW.and(DELETE))])
        .about("Removes old entries.", "O(N) for N removed entries"),
];

const GROUP: &[Entry] = &[
    stream("CREATE", -5, group::create)
        .flags(WRITE.and(DENYOOM))
        .keys(&[key(2, RW.and(INSERT))])
        .about("Makes a group.", "O(1)"),
    stream("CREATECONSUMER", 5, group::create_consumer)
        .flags(WRITE.and(DENYOOM))
        .keys(&[key(2, RW.and(INSERT))])
        .since("6.2.0")
        .about("Makes a consumer of a group.", "O(1)"),
    stream("DELCONSUMER", 5, group::delete_consumer)
        .flags(WRITE)
        .keys(&[key(2, RW.and(DELETE))])
        .about(
            "Removes a consumer with its unacknowledged deliveries.",
            "O(N) for N pending entries",
        ),
    stream("DESTROY", 4, group::destroy)
        .flags(WRITE)
        .keys(&[key(2, RW.and(DELETE))])
        .about("Removes a group.", "O(N) for N pending entries"),
    stream("HELP", 2, group::help)
        .flags(LOADING.and(STALE))
        .about("Lists the subcommands.", "O(1)"),
    stream("SETID", -5, group::set_id)
        .flags(WRITE)
        .keys(&[key(2, RW.and(UPDATE))])
        .about("Sets the entry after which a group reads on.", "O(1)"),
];

const INFO: &[Entry] = &[
    stream("CONSUMERS", 4, info::consumers)
        .flags(READONLY)
        .keys(&[key(2, RO.and(ACCESS))])
        .about("Lists the consumers of a group.", "O(N) for N consumers"),
    stream("GROUPS", 3, info::groups)
        .flags(READONLY)
        .keys(&[key(2, RO.and(ACCESS))])
        .about("Lists the groups of a stream.", "O(N) for N groups"),
    stream("HELP", 2, info::help)
        .flags(LOADING.and(STALE))
        .about("Lists the subcommands.", "O(1)"),
    stream("STREAM", -3, info::stream)
        .flags(READONLY)
        .keys(&[key(2, RO.and(ACCESS))])
        .about(
            "Describes a stream, in full on request.",
            "O(1), O(N) for N shown entries when full",
        ),
];

const fn stream(name: &'static str, arity: i32, run: Handler) -> Entry {
    cmd(name, arity, run)
        .acl(Category::STREAM)
        .group("stream")
        .since("5.0.0")
}

/// The first half of what follows the word STREAMS.
const fn streams_after(from: i32) -> KeySpec {
    KeySpec {
        flags: RO.and(ACCESS),
        begin: Begin::Keyword("STREAMS", from),
        find: Find::Range {
            last: -1,
            step: 1,
            limit: 2,
        },
    }
}

#[cfg(test)]
mod tests;
