//! CLUSTER, which every subcommand refuses: this is not a node of a Redis cluster.

use nagaya_command_spec::error::CommandError;
use nagaya_command_spec::spec::{ADMIN, Flags, LOADING, NO_ASYNC_LOADING, NOSCRIPT, STALE};
use nagaya_exec::ctx::Ctx;
use nagaya_exec::entry::{Entry, cmd};
use nagaya_exec::help::container;

const CHANGES: Flags = NO_ASYNC_LOADING.and(ADMIN).and(STALE);
const LOOKS: Flags = STALE;

const fn sub(name: &'static str, arity: i32, flags: Flags, since: &'static str) -> Entry {
    cmd(name, arity, disabled)
        .flags(flags)
        .group("cluster")
        .since(since)
        .about("Refuses: this is not a node of a cluster.", "O(1)")
}

pub(super) const CLUSTER: Entry = cmd("CLUSTER", -2, container)
    .group("cluster")
    .since("3.0.0")
    .about("Refuses: this is not a node of a cluster.", "O(1)")
    .subcommands(&[
        sub("ADDSLOTS", -3, CHANGES, "3.0.0"),
        sub("ADDSLOTSRANGE", -4, CHANGES, "7.0.0"),
        sub("BUMPEPOCH", 2, CHANGES, "3.0.0"),
        sub("COUNT-FAILURE-REPORTS", 3, ADMIN.and(STALE), "3.0.0"),
        sub("COUNTKEYSINSLOT", 3, LOOKS, "3.0.0"),
        sub("DELSLOTS", -3, CHANGES, "3.0.0"),
        sub("DELSLOTSRANGE", -4, CHANGES, "7.0.0"),
        sub("FAILOVER", -2, CHANGES, "3.0.0"),
        sub("FLUSHSLOTS", 2, CHANGES, "3.0.0"),
        sub("FORGET", 3, CHANGES, "3.0.0"),
        sub("GETKEYSINSLOT", 4, LOOKS, "3.0.0"),
        sub("HELP", 2, LOADING.and(STALE), "5.0.0"),
        sub("INFO", 2, LOOKS, "3.0.0"),
        sub("KEYSLOT", 3, LOOKS, "3.0.0"),
        sub("LINKS", 2, LOOKS, "7.0.0"),
        sub("MEET", -4, CHANGES, "3.0.0"),
        sub("MYID", 2, LOOKS, "3.0.0"),
        sub("NODES", 2, LOOKS, "3.0.0"),
        sub("REPLICAS", 3, ADMIN.and(STALE), "5.0.0"),
        sub("REPLICATE", 3, CHANGES, "3.0.0"),
        sub("RESET", -2, ADMIN.and(STALE).and(NOSCRIPT), "3.0.0"),
        sub("SAVECONFIG", 2, CHANGES, "3.0.0"),
        sub("SET-CONFIG-EPOCH", 3, CHANGES, "3.0.0"),
        sub("SETSLOT", -4, CHANGES, "3.0.0"),
        sub("SHARDS", 2, LOOKS, "7.0.0"),
        sub("SLAVES", 3, ADMIN.and(STALE), "3.0.0"),
        sub("SLOTS", 2, LOOKS, "3.0.0"),
    ]);

fn disabled(_: &mut Ctx<'_, '_>) -> Result<(), CommandError> {
    Err(CommandError::err("This instance has cluster support disabled"))
}
