//! The settings that are in force, by subject. Those that are not are in `idle.rs`.

use nagaya_keyspace::databases::DATABASES_MAX;

use crate::settings::rows::{I32, I64, bytes, number, row, special};
use crate::settings::special;
use crate::settings::types::{Effect, Field, Kind, Place, Setting, Unit};

const NO_YES_LOCAL: &[&str] = &["no", "yes", "local"];

const BY_NODES: &str = "the Redis servers decide it by their own settings";
const ON_NODES: &str = "it has to be set on the Redis servers that hold the data";

/// The place of a setting that is a plain field of the configuration.
macro_rules! field {
    ($($path:ident).+) => {
        Place::Field {
            get: |config| config.$($path).+.show(),
            set: |config, value| config.$($path).+.put(value),
        }
    };
}

pub(crate) static IN_FORCE: &[Setting] = &[
    // How values are kept.
    row(
        "hash-max-listpack-entries",
        number(0, I64),
        field!(limits.hash_max_listpack_entries),
    )
    .alias("hash-max-ziplist-entries")
    .on_redis(Effect::Harmless(BY_NODES)),
    row(
        "hash-max-listpack-value",
        bytes(0, I64),
        field!(limits.hash_max_listpack_value),
    )
    .alias("hash-max-ziplist-value")
    .on_redis(Effect::Harmless(BY_NODES)),
    row(
        "list-max-listpack-size",
        number(i32::MIN as i128, I32),
        field!(limits.list_max_listpack_size),
    )
    .alias("list-max-ziplist-size")
    .on_redis(Effect::Harmless(BY_NODES)),
    row(
        "list-compress-depth",
        number(0, I32),
        field!(limits.list_compress_depth),
    )
    .has(Effect::Harmless("list nodes are never compressed")),
    row(
        "set-max-intset-entries",
        number(0, I64),
        field!(limits.set_max_intset_entries),
    )
    .on_redis(Effect::Harmless(BY_NODES)),
    row(
        "zset-max-listpack-entries",
        number(0, I64),
        field!(limits.zset_max_listpack_entries),
    )
    .alias("zset-max-ziplist-entries")
    .on_redis(Effect::Harmless(BY_NODES)),
    row(
        "zset-max-listpack-value",
        bytes(0, I64),
        field!(limits.zset_max_listpack_value),
    )
    .alias("zset-max-ziplist-value")
    .on_redis(Effect::Harmless(BY_NODES)),
    row(
        "stream-node-max-bytes",
        bytes(0, I64),
        field!(limits.stream_node_max_bytes),
    )
    .on_redis(Effect::Harmless(BY_NODES)),
    row(
        "stream-node-max-entries",
        number(0, I64),
        field!(limits.stream_node_max_entries),
    )
    .on_redis(Effect::Harmless(BY_NODES)),
    row(
        "hll-sparse-max-bytes",
        bytes(0, I64),
        field!(limits.hll_sparse_max_bytes),
    )
    .on_redis(Effect::Harmless(BY_NODES)),
    row("databases", number(1, DATABASES_MAX as i128), field!(databases)).fixed(),
    // Keys that come and go.
    special("notify-keyspace-events", special::get_notify, special::set_notify),
    row(
        "active-expire-effort",
        number(1, 10),
        field!(active_expire_effort),
    )
    .has(Effect::Harmless(
        "expired keys are removed as they fall due, at no chosen effort",
    )),
    row("maxmemory", bytes(0, u64::MAX as i128), field!(maxmemory)).on_redis(Effect::Refused(
        "memory is that of the Redis servers: set `maxmemory` there, or `tiers.memory_max` here",
    )),
    row(
        "maxmemory-policy",
        Kind::OneOf(&[
            "volatile-lru",
            "volatile-lfu",
            "volatile-random",
            "volatile-ttl",
            "allkeys-lru",
            "allkeys-lfu",
            "allkeys-random",
            "noeviction",
        ]),
        field!(maxmemory_policy),
    )
    .on_redis(Effect::Refused(ON_NODES)),
    row("maxmemory-samples", number(1, I32), field!(maxmemory_samples)).on_redis(Effect::Harmless(BY_NODES)),
    row(
        "maxmemory-clients",
        Kind::Number {
            min: 0,
            max: I64,
            unit: Unit::BytesOrPercent,
        },
        special::MAXMEMORY_CLIENTS,
    )
    .on_redis(Effect::Refused(
        "connections are not closed to save memory: `room.output_buffer_max` and `room.max_clients` bound what \
         they take",
    )),
    // Looking in.
    row(
        "slowlog-log-slower-than",
        number(-1, I64),
        field!(slowlog_log_slower_than),
    ),
    row("slowlog-max-len", number(0, I64), field!(slowlog_max_len)),
    row(
        "latency-monitor-threshold",
        number(0, I64),
        field!(latency_monitor_threshold),
    ),
    row("latency-tracking", Kind::YesNo, field!(latency_tracking)),
    special(
        "latency-tracking-info-percentiles",
        special::get_percentiles,
        special::set_percentiles,
    ),
    row("acllog-max-len", number(0, I64), field!(acllog_max_len)),
    // Clients.
    row("timeout", number(0, I32), field!(timeout)),
    row("maxclients", number(1, u32::MAX as i128), field!(maxclients)),
    special(
        "requirepass",
        |config| config.requirepass.clone(),
        special::set_password,
    )
    .secret(),
    row(
        "proto-max-bulk-len",
        bytes(1 << 20, I64),
        field!(proto_max_bulk_len),
    ),
    row(
        "client-query-buffer-limit",
        bytes(1 << 20, I64),
        field!(client_query_buffer_limit),
    ),
    special(
        "client-output-buffer-limit",
        special::get_output_limits,
        special::set_output_limits,
    )
    .on_redis(Effect::Refused(
        "replies that wait for a client are bounded by `room.output_buffer_max`",
    )),
    row(
        "tracking-table-max-keys",
        number(0, I64),
        field!(tracking_table_max_keys),
    )
    .on_redis(Effect::Harmless(BY_NODES)),
    row(
        "busy-reply-threshold",
        number(0, I64),
        field!(busy_reply_threshold),
    )
    .alias("lua-time-limit")
    .on_redis(Effect::Refused(ON_NODES)),
    // When writes are safe.
    special("appendfsync", special::get_sync, special::set_sync).on_redis(Effect::Refused(ON_NODES)),
    row(
        "min-replicas-to-write",
        number(0, I32),
        field!(min_replicas_to_write),
    )
    .alias("min-slaves-to-write")
    .on_redis(Effect::Refused(ON_NODES)),
    row(
        "min-replicas-max-lag",
        number(0, I32),
        field!(min_replicas_max_lag),
    )
    .alias("min-slaves-max-lag")
    .on_redis(Effect::Refused(ON_NODES)),
    // Where the engine listens is decided at its start.
    row("port", number(0, 65535), field!(port)).has(Effect::Refused(
        "Unable to listen on this port. Check server logs.",
    )),
    row("bind", Kind::Text, field!(bind)).has(Effect::Refused("Failed to bind to specified addresses.")),
    // Rules about users, and about commands that look inside.
    special("aclfile", special::get_acl_file, special::set_acl_file).fixed(),
    special(
        "acl-pubsub-default",
        special::get_pubsub_default,
        special::set_pubsub_default,
    ),
    row(
        "enable-debug-command",
        Kind::OneOf(NO_YES_LOCAL),
        field!(enable_debug_command),
    )
    .fixed(),
    row(
        "enable-module-command",
        Kind::OneOf(NO_YES_LOCAL),
        field!(enable_module_command),
    )
    .fixed(),
    row(
        "enable-protected-configs",
        Kind::OneOf(NO_YES_LOCAL),
        Place::Idle("no"),
    )
    .fixed(),
];
