//! The pool's Lua scripts, one file each, behind a prelude that they share.

use nagaya_redis_client::Script;

macro_rules! script {
    ($file:literal, $keys:expr, $args:expr) => {
        Script::new(
            $file,
            concat!(
                include_str!("lua/prelude.lua"),
                include_str!(concat!("lua/", $file, ".lua"))
            ),
            $keys,
            $args,
        )
    };
}

pub(super) static INIT: Script = script!(
    "init",
    &["ids", "stats", "leases"],
    &["min", "max", "members", "bound_ms", "born", "run"]
);

pub(super) static RIPE: Script = script!("ripe", &["leases"], &["born"]);

pub(super) static REBOUND: Script = script!(
    "rebound",
    &["ids", "leases"],
    &["bound_ms", "idle_s", "born", "caller_now"]
);

pub(super) static FREE: Script = script!(
    "free",
    &["ids", "clients", "leases"],
    &["member", "forget_ceiling", "caller_now"]
);

pub(super) static RESIZE: Script = script!(
    "resize",
    &["ids", "clients", "stats", "leases"],
    &[
        "old_min",
        "old_max",
        "min",
        "max",
        "added",
        "removed",
        "caller_now"
    ]
);

pub(super) static GET: Script = script!(
    "get",
    &["ids", "clients", "stats", "leases"],
    &[
        "owner",
        "name",
        "token",
        "run",
        "ceil_ms",
        "reserve_s",
        "proof",
        "caller_now",
        "now_ms",
        "ahead_ms",
        "bound_ms"
    ]
);

pub(super) static EXTEND: Script = script!(
    "extend",
    &["ids", "clients", "stats", "leases"],
    &[
        "member",
        "owner",
        "token",
        "fence",
        "run",
        "seen_run",
        "ceil_ms",
        "reserve_s",
        "phase",
        "caller_now",
        "bound_ms"
    ]
);

pub(super) static RELEASE: Script = script!(
    "release",
    &["ids", "clients", "leases"],
    &[
        "member",
        "owner",
        "token",
        "fence",
        "run",
        "ceil_ms",
        "caller_now",
        "exact"
    ]
);
