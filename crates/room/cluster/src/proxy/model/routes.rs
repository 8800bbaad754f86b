//! The route of each command.
//!
//! Commands with keys go to the node of their tag. Commands about the connection,
//! the command table or this server's own settings are answered here, by the same
//! handlers as in the embedded engine, on an engine without data. The rest is
//! listed below by name.

use nagaya_command_spec::spec::BLOCKING;
use nagaya_command_spec::table::Command;
use nagaya_commands::table;

/// How a command is processed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Route {
    /// Send it to the node of its keys.
    Keys,
    /// As [`Route::Keys`], or in one part per tag if it has several.
    Split(TagMerge),
    /// Send it to any node.
    Anywhere,
    /// Send it to every primary and merge the replies.
    Everywhere(NodeMerge),
    /// Answer it here.
    Here,
    /// Answer it here, with the keys of all nodes.
    Info,
    /// Answer it here once all earlier requests are answered: it changes the connection's state.
    HereInTurn,
    Blocking,
    /// CONFIG GET and SET: some settings are those of the nodes.
    Settings,
    /// CLIENT TRACKING: answer it as [`Route::HereInTurn`], and let nodes tell of changed keys.
    Tracking,
    /// WAIT: ask the nodes that the client has written to.
    Replicas,
    Multi,
    Exec,
    Discard,
    Watch,
    Unwatch,
    Subscribe,
    Unsubscribe,
    Publish,
    /// Send it to the node of its channel's slot.
    ShardPublish,
    Quit,
    Reset,
    Script(Script),
    /// Run it as a command about tags.
    Tags(TagCommandKind),
    Refused(&'static str),
}

/// Which command about scripts it is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Script {
    Eval,
    EvalSha,
    /// FCALL: a call of a function.
    Call,
    Load,
    Exists,
    Flush,
    FunctionLoad,
    FunctionRestore,
}

/// How the replies of a command over several tags are merged.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum TagMerge {
    /// Elements go back to the places of their keys.
    Values,
    /// Counts are added up.
    Sum,
    /// All must succeed; the arguments are pairs of keys and values.
    Pairs,
}

/// Which command about tags it is (ROOM.*).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum TagCommandKind {
    Status,
    Tags,
    Warm,
    Evict,
    Erase,
    /// FLUSHALL, FLUSHDB.
    Flush,
    WaitCold,
}

/// How the replies of all nodes are merged.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum NodeMerge {
    /// All are the same: the first one is taken, unless one is an error.
    Same,
    Sum,
    /// Lists of names, without reserved ones.
    Names,
    /// Lists of 0 or 1: 1 where all nodes have 1.
    All,
    /// One node after the other; the cursor includes the position of the node.
    Scan,
    /// Any key of any node.
    AnyName,
}

const NOT_HERE: &str = "ERR this command is not available through this server";

const NAMED: &[(&str, Route)] = &[
    ("mget", Route::Split(TagMerge::Values)),
    ("del", Route::Split(TagMerge::Sum)),
    ("unlink", Route::Split(TagMerge::Sum)),
    ("exists", Route::Split(TagMerge::Sum)),
    ("touch", Route::Split(TagMerge::Sum)),
    ("mset", Route::Split(TagMerge::Pairs)),
    ("keys", Route::Everywhere(NodeMerge::Names)),
    ("scan", Route::Everywhere(NodeMerge::Scan)),
    ("dbsize", Route::Everywhere(NodeMerge::Sum)),
    ("randomkey", Route::Everywhere(NodeMerge::AnyName)),
    ("eval", Route::Script(Script::Eval)),
    ("eval_ro", Route::Script(Script::Eval)),
    ("evalsha", Route::Script(Script::EvalSha)),
    ("evalsha_ro", Route::Script(Script::EvalSha)),
    ("fcall", Route::Script(Script::Call)),
    ("fcall_ro", Route::Script(Script::Call)),
    ("script|load", Route::Script(Script::Load)),
    ("script|flush", Route::Script(Script::Flush)),
    ("script|exists", Route::Script(Script::Exists)),
    ("script|kill", Route::Everywhere(NodeMerge::Same)),
    ("function|load", Route::Script(Script::FunctionLoad)),
    ("function|delete", Route::Everywhere(NodeMerge::Same)),
    ("function|flush", Route::Everywhere(NodeMerge::Same)),
    ("function|restore", Route::Script(Script::FunctionRestore)),
    ("function|kill", Route::Everywhere(NodeMerge::Same)),
    ("function|list", Route::Anywhere),
    ("function|dump", Route::Anywhere),
    ("function|stats", Route::Anywhere),
    ("publish", Route::Publish),
    ("time", Route::Anywhere),
    ("spublish", Route::ShardPublish),
    ("info", Route::Info),
    ("hello", Route::HereInTurn),
    ("multi", Route::Multi),
    ("exec", Route::Exec),
    ("discard", Route::Discard),
    ("watch", Route::Watch),
    ("unwatch", Route::Unwatch),
    ("subscribe", Route::Subscribe),
    ("psubscribe", Route::Subscribe),
    ("ssubscribe", Route::Subscribe),
    ("unsubscribe", Route::Unsubscribe),
    ("punsubscribe", Route::Unsubscribe),
    ("sunsubscribe", Route::Unsubscribe),
    ("quit", Route::Quit),
    ("reset", Route::Reset),
    ("flushall", Route::Tags(TagCommandKind::Flush)),
    ("flushdb", Route::Tags(TagCommandKind::Flush)),
    ("swapdb", Route::Refused("ERR there is only one database here")),
    ("move", Route::Refused("ERR there is only one database here")),
    ("client|tracking", Route::Tracking),
    ("client|caching", Route::HereInTurn),
    ("config|get", Route::Settings),
    ("config|set", Route::Settings),
    ("client|pause", Route::Refused(NOT_HERE)),
    ("client|unblock", Route::Refused(NOT_HERE)),
    ("monitor", Route::HereInTurn),
    ("migrate", Route::Refused(NOT_HERE)),
    ("wait", Route::Replicas),
    ("shutdown", Route::Refused(NOT_HERE)),
    ("room.status", Route::Tags(TagCommandKind::Status)),
    ("room.tags", Route::Tags(TagCommandKind::Tags)),
    ("room.warm", Route::Tags(TagCommandKind::Warm)),
    ("room.evict", Route::Tags(TagCommandKind::Evict)),
    ("room.erase", Route::Tags(TagCommandKind::Erase)),
    ("room.waitcold", Route::Tags(TagCommandKind::WaitCold)),
    ("script|debug", Route::Refused(NOT_HERE)),
    ("memory|stats", Route::Anywhere),
    ("memory|malloc-stats", Route::Anywhere),
    ("memory|purge", Route::Everywhere(NodeMerge::Same)),
];

/// The route of every command, by its number in the table.
pub(crate) struct Routes {
    by_number: Vec<Route>,
}

impl Routes {
    pub(crate) fn new() -> Routes {
        let mut by_number = vec![Route::Here; table::count()];
        for command in table::every() {
            by_number[command.number] = route(command);
        }
        Routes { by_number }
    }

    #[inline]
    pub(crate) fn of(&self, command: &Command) -> Route {
        self.by_number[command.number]
    }
}

fn route(command: &Command) -> Route {
    if let Some((_, route)) = NAMED.iter().find(|(name, _)| *name == command.full_name) {
        return *route;
    }
    if command.spec.flags.has(BLOCKING) {
        return Route::Blocking;
    }
    let has_keys = !command.spec.keys.is_empty() || command.spec.more_keys.is_some();
    if has_keys && !command.full_name.starts_with("command") {
        Route::Keys
    } else {
        Route::Here
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(name: &str) -> Route {
        Routes::new().of(table::find_full(name.as_bytes()).unwrap())
    }

    #[test]
    fn every_listed_name_is_a_command() {
        for (name, _) in NAMED {
            let is_known = table::find_full(name.as_bytes()).is_some();
            assert!(is_known || *name == "room.tags", "{name}");
        }
    }

    #[test]
    fn commands_go_where_they_belong() {
        for name in [
            "get",
            "set",
            "object|encoding",
            "xinfo|stream",
            "memory|usage",
            "sort",
        ] {
            assert_eq!(of(name), Route::Keys, "{name}");
        }
        for name in ["blpop", "bzmpop", "xread", "xreadgroup", "brpoplpush"] {
            assert_eq!(of(name), Route::Blocking, "{name}");
        }
        for name in [
            "ping",
            "auth",
            "client|list",
            "command|docs",
            "select",
            "acl|list",
        ] {
            assert_eq!(of(name), Route::Here, "{name}");
        }
    }
}
