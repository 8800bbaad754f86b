//! The proxy's part of COMPAT.md.

use nagaya_command_spec::table::Command;
use nagaya_commands::compat::OnRedis;

use super::model::routes::{NodeMerge, Route, Routes, Script, TagMerge};

/// The column and the notes for data on Redis servers.
pub const ON_REDIS: OnRedis = OnRedis {
    general: GENERAL,
    served,
};

const GENERAL: &[&str] = &[
    "With one server behind us (or Sentinel) a command, transaction, WATCH or script may have keys of up to 1024 hash tags, as on that server; undeclared keys of a script have a tag of the declared ones. Tags are saved one by one: when the server loses its memory, a change of several tags may come back in part. The next two points are about a Cluster.",
    "The keys of one command share a hash tag; others are refused with CROSSSLOT. MGET, DEL, UNLINK, EXISTS and TOUCH over several tags run tag by tag, and so does MSET where the settings allow it: others may see a part of it done.",
    "The keys of a transaction share a tag, and those that it watches. Commands about all nodes and subscriptions cannot be part of one. One whose user has lost a right since is discarded as a whole.",
    "Scripts and functions may use undeclared keys of the hash tag of those they declare; at least one has to be declared. A user who may not use every key of the tag is held to declared ones. KEYS and SCAN in a script list the keys of its tag. FLUSHALL, FLUSHDB, RANDOMKEY, DBSIZE, SELECT, SWAPDB, MOVE and MIGRATE are not available to scripts, and neither are commands of modules. Hashes are the usual ones; an error of `redis.call` tells line 1. Functions are those that were loaded through us: libraries that were loaded into the nodes directly, or through a version before this one, are not found until they are loaded again, because nothing would register what they write. FUNCTION LIST shows names that begin with `_room_`, and WITHCODE and FUNCTION DUMP show a line of our own.",
    "Names that begin with `_room:` are refused, and left out of KEYS, SCAN, RANDOMKEY and DBSIZE. The keys of the house's pool of ids and of its fleet on the same Redis are not listed either, but counted.",
    "SCAN tells of each key in memory by its node and of all others from the cold tier, last. A tag that comes into memory on a node that was done already, before the cold tier's turn, may be missed.",
    "ROOM.WAITCOLD waits for everybody's writes. ROOM.EVICT takes as long as leases of the tag may run, twice when the tag was changed; a tag that is used meanwhile stays. ROOM.STATUS calls keys unsaved until no write to them can be under way. ROOM.TAGS tells keys and bytes as they were saved last.",
    "A command whose connection to its node broke gets an error that says that it may have run; it is not sent again.",
    "PUBLISH and SPUBLISH count all clients of this server that listen; another server like this one, and all its clients, count as one.",
    "INFO tells the keys of all nodes, and of the cold tier as DBSIZE counts them; INFO of all sections at once takes a count of the last ten seconds. `expires` and `avg_ttl` are of the keys in memory.",
    "WAIT asks the nodes that this connection has written to, one after the other, and returns the fewest replicas among them; of a connection that wrote to more than 16 slots, or to none, it asks all nodes.",
    "INFO, CONFIG, ACL, SLOWLOG, LATENCY, CLIENT and COMMAND tell of the server that the client is connected to, not of the nodes.",
    "ACL users belong to the server that the client is connected to. With `room.acl_file` each server reads its file at its start and by ACL LOAD, and ACL SAVE writes it; several servers may read one file, and each needs ACL LOAD after a change. Without it users end with the process.",
    "Scripts cannot use `_G`, `load` and `loadstring`. They may call what the rule (selector) that allows them allows, and publish if that allows every channel. Functions need a user who may run all commands that functions can call, with every channel.",
    "SORT with a BY or GET pattern reads keys that it does not name and is refused, as in a Cluster.",
    "CLIENT REPLY, RESP3 and Pub/Sub work as everywhere.",
    "Client tracking works with RESP3 and with REDIRECT, in all modes. Loads, evictions, and the loss of a connection to a node tell more than changes do. NOLOOP is taken and own changes are told all the same. XREAD, other blocking commands and transactions that watch keys are not tracked. While any client uses BCAST, every node tells this server of all its changes.",
    "CONFIG SET `notify-keyspace-events` sets it on every primary, and CONFIG GET of that name asks one of them; a replica that takes over needs it in its own file, and so does a node that is restarted. Who listens to `__keyspace@0__:*` and `__keyevent@0__:*` hears the events of all nodes; loads and evictions are not told, and neither is the expiry of keys that are only in the cold tier. A message that a client publishes on such a channel comes once per node.",
    "FLUSHALL and FLUSHDB delete key by key, those in the cold tier after loading their tags, and answer when all are gone, ASYNC or not: time and memory grow with the data, requests of others run in between, and a key that is written meanwhile may stay or go. They cannot be part of a transaction or a script.",
    "MONITOR shows what the clients of this server ask for, those of a transaction when they are queued, and nothing that scripts call.",
];

fn served(command: &Command) -> &'static str {
    if !command.subcommands.is_empty() {
        return "yes";
    }
    match Routes::new().of(command) {
        Route::Refused(_) => "no",
        Route::Split(TagMerge::Pairs) => "yes, one tag",
        Route::Split(TagMerge::Values | TagMerge::Sum) => "yes, tag by tag",
        Route::Everywhere(NodeMerge::Scan) => "yes, node by node",
        Route::Everywhere(_)
        | Route::Script(Script::Load | Script::Flush | Script::Exists | Script::FunctionLoad) => {
            "yes, on all nodes"
        }
        Route::Script(Script::FunctionRestore) => "no",
        Route::Anywhere => "yes, on any node",
        Route::Keys
        | Route::Tags(_)
        | Route::Script(Script::Eval | Script::EvalSha | Script::Call)
        | Route::Here
        | Route::Info
        | Route::HereInTurn
        | Route::Settings
        | Route::Tracking
        | Route::Blocking
        | Route::Replicas
        | Route::Multi
        | Route::Exec
        | Route::Discard
        | Route::Watch
        | Route::Unwatch
        | Route::Subscribe
        | Route::Unsubscribe
        | Route::Publish
        | Route::ShardPublish
        | Route::Quit
        | Route::Reset => "yes",
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_committed_compat_file_is_up_to_date() {
        let path = concat!(env!("CARGO_MANIFEST_DIR"), "/../../../COMPAT.md");
        let wanted = nagaya_commands::compat::compat_markdown(&ON_REDIS);
        if std::env::var_os("UPDATE_DOCS").is_some() {
            std::fs::write(path, &wanted).unwrap();
        }
        let found = std::fs::read_to_string(path).unwrap_or_default();
        assert!(
            found == wanted,
            "COMPAT.md is stale: run this test with UPDATE_DOCS=1"
        );
    }
}
