//! The fleet's Lua scripts, one file each, prefixed with a shared prelude.

use nagaya_redis_client::Script;

const APP_KEYS: &[&str] = &[
    "instances",
    "places",
    "meta",
    "configs",
    "events",
    "health",
    "avoid",
];
const INSTANCE_KEYS: &[&str] = &[
    "instances",
    "places",
    "meta",
    "configs",
    "events",
    "health",
    "avoid",
    "workers",
    "heartbeat",
];

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

pub(super) static JOIN: Script = script!(
    "join",
    INSTANCE_KEYS,
    &[
        "name",
        "token",
        "run",
        "weight",
        "capacity",
        "zone",
        "labels",
        "heartbeat_ms",
        "timing"
    ]
);
pub(super) static HEARTBEAT: Script = script!(
    "heartbeat",
    INSTANCE_KEYS,
    &[
        "name",
        "inc",
        "run",
        "known",
        "running",
        "heartbeat_ms",
        "waited",
        "again",
        "health"
    ]
);
pub(super) static DEAD: Script = script!("dead", INSTANCE_KEYS, &["name", "inc", "beat"]);
pub(super) static FORGET: Script = script!("forget", APP_KEYS, &["name", "inc"]);
pub(super) static ASSIGN: Script = script!("assign", INSTANCE_KEYS, &["name", "inc", "run", "why", "items"]);
pub(super) static REVOKE: Script = script!("revoke", APP_KEYS, &["version", "why", "items"]);
pub(super) static STOPPED: Script = script!("stopped", INSTANCE_KEYS, &["name", "inc", "items"]);
pub(super) static LEAVE: Script = script!("leave", INSTANCE_KEYS, &["name", "inc", "state"]);
pub(super) static PUT: Script = script!("put", APP_KEYS, &["run", "items", "configs"]);
pub(super) static INSTALL: Script = script!(
    "install",
    INSTANCE_KEYS,
    &[
        "name",
        "inc",
        "run",
        "version",
        "worker",
        "config_name",
        "demand",
        "config"
    ]
);
pub(super) static UNINSTALL: Script = script!("uninstall", APP_KEYS, &["workers"]);
pub(super) static LOOK: Script = script!("look", APP_KEYS, &["workers", "worker", "known", "health"]);
pub(super) static AVOID: Script = script!("avoid", APP_KEYS, &["avoid_ms", "items"]);
pub(super) static SETTLE: Script = script!("settle", APP_KEYS, &["run", "birth"]);
pub(super) static GATE: Script = Script::new("gate", include_str!("lua/gate.lua"), &["gate"], &["epoch"]);
pub(super) static MANAGER: Script = Script::new(
    "manager",
    include_str!("lua/manager.lua"),
    &["managers", "heartbeat"],
    &["name", "heartbeat_ms"],
);
