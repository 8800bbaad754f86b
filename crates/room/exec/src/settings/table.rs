//! Every setting, by subject.
//!
//! Rows made with [`idle`] are kept for clients and tests that read or set
//! them, and change nothing here; the comment above them says why.

use crate::settings::special;
use crate::settings::types::{Access, Field, Kind, Place, Setting, Unit};

const I32: i128 = i32::MAX as i128;
const I64: i128 = i64::MAX as i128;
const YES_NO_OR_LOCAL: &[&str] = &["no", "yes", "local"];

const fn row(name: &'static str, kind: Kind, place: Place) -> Setting {
    Setting {
        name,
        alias: None,
        kind,
        place,
        access: Access::Free,
        hidden: false,
        secret: false,
    }
}

/// A setting that changes nothing here.
const fn idle(name: &'static str, kind: Kind, starts_as: &'static str) -> Setting {
    row(name, kind, Place::Idle(starts_as))
}

const fn special(name: &'static str, place: Place) -> Setting {
    row(name, Kind::Special, place)
}

const fn number(min: i128, max: i128) -> Kind {
    Kind::Number {
        min,
        max,
        unit: Unit::None,
    }
}

const fn bytes(min: i128, max: i128) -> Kind {
    Kind::Number {
        min,
        max,
        unit: Unit::Bytes,
    }
}

impl Setting {
    const fn alias(mut self, name: &'static str) -> Setting {
        self.alias = Some(name);
        self
    }

    const fn fixed(mut self) -> Setting {
        self.access = Access::Fixed;
        self
    }

    const fn protected(mut self) -> Setting {
        self.access = Access::Protected;
        self
    }

    const fn kept(mut self, reason: &'static str) -> Setting {
        self.access = Access::Kept(reason);
        self
    }

    const fn hidden(mut self) -> Setting {
        self.hidden = true;
        self
    }

    const fn secret(mut self) -> Setting {
        self.secret = true;
        self
    }
}

/// The place of a setting that is a plain field of the configuration.
macro_rules! field {
    ($($path:ident).+) => {
        Place::Field {
            get: |config| config.$($path).+.show(),
            set: |config, value| config.$($path).+.put(value),
        }
    };
}

pub static SETTINGS: &[Setting] = &[
    // How values are kept.
    row(
        "hash-max-listpack-entries",
        number(0, I64),
        field!(limits.hash_max_listpack_entries),
    )
    .alias("hash-max-ziplist-entries"),
    row(
        "hash-max-listpack-value",
        bytes(0, I64),
        field!(limits.hash_max_listpack_value),
    )
    .alias("hash-max-ziplist-value"),
    row(
        "list-max-listpack-size",
        number(i32::MIN as i128, I32),
        field!(limits.list_max_listpack_size),
    )
    .alias("list-max-ziplist-size"),
    row(
        "list-compress-depth",
        number(0, I32),
        field!(limits.list_compress_depth),
    ),
    row(
        "set-max-intset-entries",
        number(0, I64),
        field!(limits.set_max_intset_entries),
    ),
    row(
        "zset-max-listpack-entries",
        number(0, I64),
        field!(limits.zset_max_listpack_entries),
    )
    .alias("zset-max-ziplist-entries"),
    row(
        "zset-max-listpack-value",
        bytes(0, I64),
        field!(limits.zset_max_listpack_value),
    )
    .alias("zset-max-ziplist-value"),
    row(
        "stream-node-max-bytes",
        bytes(0, I64),
        field!(limits.stream_node_max_bytes),
    ),
    row(
        "stream-node-max-entries",
        number(0, I64),
        field!(limits.stream_node_max_entries),
    ),
    row(
        "hll-sparse-max-bytes",
        bytes(0, I64),
        field!(limits.hll_sparse_max_bytes),
    ),
    // Keys that come and go.
    special(
        "notify-keyspace-events",
        Place::Special {
            get: special::get_notify,
            set: special::set_notify,
        },
    ),
    row(
        "active-expire-effort",
        number(1, 10),
        field!(active_expire_effort),
    ),
    row("maxmemory", bytes(0, u64::MAX as i128), field!(maxmemory)),
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
    ),
    row("maxmemory-samples", number(1, I32), field!(maxmemory_samples)),
    row(
        "maxmemory-clients",
        Kind::Number {
            min: 0,
            max: I64,
            unit: Unit::BytesOrPercent,
        },
        special::MAXMEMORY_CLIENTS,
    ),
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
        Place::Special {
            get: special::get_percentiles,
            set: special::set_percentiles,
        },
    ),
    row("acllog-max-len", number(0, I64), field!(acllog_max_len)),
    // Clients.
    row("timeout", number(0, I32), field!(timeout)),
    row("maxclients", number(1, u32::MAX as i128), field!(maxclients)),
    row("requirepass", Kind::Text, field!(requirepass)).secret(),
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
        Place::Special {
            get: special::get_output_limits,
            set: special::set_output_limits,
        },
    ),
    row(
        "tracking-table-max-keys",
        number(0, I64),
        field!(tracking_table_max_keys),
    ),
    row(
        "busy-reply-threshold",
        number(0, I64),
        field!(busy_reply_threshold),
    )
    .alias("lua-time-limit"),
    // Where the engine listens is decided at its start.
    row("port", number(0, 65535), field!(port)).kept("Unable to listen on this port. Check server logs."),
    row("bind", Kind::Text, field!(bind)).kept("Failed to bind to specified addresses."),
    idle("protected-mode", Kind::YesNo, "no"),
    idle("tcp-backlog", number(0, I32), "511").fixed(),
    idle("tcp-keepalive", number(0, I32), "300"),
    idle("unixsocket", Kind::Text, "").fixed(),
    idle(
        "unixsocketperm",
        Kind::Number {
            min: 0,
            max: 0o777,
            unit: Unit::Octal,
        },
        "0",
    )
    .fixed(),
    idle("bind-source-addr", Kind::Text, ""),
    idle("socket-mark-id", number(0, u32::MAX as i128), "0").fixed(),
    idle("io-threads", number(1, 128), "1").fixed(),
    idle("io-threads-do-reads", Kind::YesNo, "no").fixed(),
    // There is one database.
    idle("databases", number(1, I32), "1").fixed(),
    // Logs, process and crash handling are the surrounding program's.
    idle(
        "loglevel",
        Kind::OneOf(&["debug", "verbose", "notice", "warning"]),
        "notice",
    ),
    idle("logfile", Kind::Text, "").fixed(),
    idle("syslog-enabled", Kind::YesNo, "no").fixed(),
    idle("syslog-ident", Kind::Text, "redis").fixed(),
    idle("daemonize", Kind::YesNo, "no").fixed(),
    idle(
        "supervised",
        Kind::OneOf(&["upstart", "systemd", "auto", "no"]),
        "no",
    )
    .fixed(),
    idle("pidfile", Kind::Text, "").fixed(),
    idle("set-proc-title", Kind::YesNo, "no").fixed(),
    idle(
        "proc-title-template",
        Kind::Text,
        "{title} {listen-addr} {server-mode}",
    ),
    idle("always-show-logo", Kind::YesNo, "no").fixed(),
    idle("crash-log-enabled", Kind::YesNo, "no"),
    idle("crash-memcheck-enabled", Kind::YesNo, "no"),
    idle("use-exit-on-panic", Kind::YesNo, "no").hidden(),
    idle("watchdog-period", number(0, I32), "0").hidden(),
    idle("disable-thp", Kind::YesNo, "yes").fixed(),
    idle(
        "oom-score-adj",
        Kind::OneOf(&["no", "yes", "relative", "absolute"]),
        "no",
    ),
    special(
        "oom-score-adj-values",
        Place::Special {
            get: special::get_oom_values,
            set: special::set_oom_values,
        },
    ),
    idle("shutdown-timeout", number(0, I32), "10"),
    idle(
        "shutdown-on-sigint",
        Kind::SomeOf(&["default", "save", "nosave", "now", "force"]),
        "default",
    ),
    idle(
        "shutdown-on-sigterm",
        Kind::SomeOf(&["default", "save", "nosave", "now", "force"]),
        "default",
    ),
    idle("ignore-warnings", Kind::Text, ""),
    idle("enable-protected-configs", Kind::OneOf(YES_NO_OR_LOCAL), "no").fixed(),
    idle("enable-debug-command", Kind::OneOf(YES_NO_OR_LOCAL), "local").fixed(),
    idle("enable-module-command", Kind::OneOf(YES_NO_OR_LOCAL), "no").fixed(),
    // Snapshots and the append-only file do not exist: a log of our own keeps the data.
    special(
        "save",
        Place::Special {
            get: special::get_save,
            set: special::set_save,
        },
    ),
    idle("dir", Kind::Text, ".").protected(),
    idle("dbfilename", Kind::Text, "dump.rdb").protected(),
    idle("appendonly", Kind::YesNo, "no"),
    idle(
        "appendfsync",
        Kind::OneOf(&["everysec", "always", "no"]),
        "everysec",
    ),
    idle("appendfilename", Kind::Text, "appendonly.aof").fixed(),
    idle("appenddirname", Kind::Text, "appendonlydir").fixed(),
    idle("no-appendfsync-on-rewrite", Kind::YesNo, "no"),
    idle("auto-aof-rewrite-percentage", number(0, I32), "100"),
    idle("auto-aof-rewrite-min-size", bytes(0, I64), "67108864"),
    idle("aof-rewrite-incremental-fsync", Kind::YesNo, "yes"),
    idle("aof-load-truncated", Kind::YesNo, "yes"),
    idle("aof-use-rdb-preamble", Kind::YesNo, "yes"),
    idle("aof-timestamp-enabled", Kind::YesNo, "no"),
    idle("aof-disable-auto-gc", Kind::YesNo, "no"),
    idle("rdbcompression", Kind::YesNo, "yes"),
    idle("rdbchecksum", Kind::YesNo, "yes").fixed(),
    idle("rdb-del-sync-files", Kind::YesNo, "no"),
    idle("rdb-save-incremental-fsync", Kind::YesNo, "yes"),
    idle("rdb-key-save-delay", number(i32::MIN as i128, I32), "0").hidden(),
    idle("key-load-delay", number(i32::MIN as i128, I32), "0").hidden(),
    idle(
        "loading-process-events-interval-bytes",
        bytes(1024, I32),
        "2097152",
    )
    .hidden(),
    idle("stop-writes-on-bgsave-error", Kind::YesNo, "yes"),
    idle(
        "sanitize-dump-payload",
        Kind::OneOf(&["no", "yes", "clients"]),
        "yes",
    ),
    // Large values are always freed in the background.
    idle("lazyfree-lazy-eviction", Kind::YesNo, "no"),
    idle("lazyfree-lazy-expire", Kind::YesNo, "no"),
    idle("lazyfree-lazy-server-del", Kind::YesNo, "no"),
    idle("lazyfree-lazy-user-del", Kind::YesNo, "no"),
    idle("lazyfree-lazy-user-flush", Kind::YesNo, "no"),
    // The duties of the background need no tuning here, nor does the allocator.
    idle("hz", number(0, I32), "10"),
    idle("dynamic-hz", Kind::YesNo, "yes"),
    idle("activerehashing", Kind::YesNo, "yes"),
    idle("maxmemory-eviction-tenacity", number(0, 100), "10"),
    idle("lfu-log-factor", number(0, I32), "10"),
    idle("lfu-decay-time", number(0, I32), "1"),
    idle("jemalloc-bg-thread", Kind::YesNo, "yes"),
    idle("activedefrag", Kind::YesNo, "no").kept(
        "Active defragmentation cannot be enabled: it requires a Redis server compiled with a modified \
         Jemalloc like the one shipped by default with the Redis source distribution",
    ),
    idle("active-defrag-cycle-min", number(1, 99), "1"),
    idle("active-defrag-cycle-max", number(1, 99), "25"),
    idle("active-defrag-threshold-lower", number(0, 1000), "10"),
    idle("active-defrag-threshold-upper", number(0, 1000), "100"),
    idle("active-defrag-ignore-bytes", bytes(1, I64), "104857600"),
    idle("active-defrag-max-scan-fields", number(1, I64), "1000"),
    // There are no replicas of this kind.
    idle("replicaof", Kind::Text, "").alias("slaveof").fixed(),
    idle("masteruser", Kind::Text, "").secret(),
    idle("masterauth", Kind::Text, "").secret(),
    idle("replica-serve-stale-data", Kind::YesNo, "yes").alias("slave-serve-stale-data"),
    idle("replica-read-only", Kind::YesNo, "yes").alias("slave-read-only"),
    idle("replica-priority", number(0, I32), "100").alias("slave-priority"),
    idle("replica-announce-ip", Kind::Text, "").alias("slave-announce-ip"),
    idle("replica-announce-port", number(0, 65535), "0").alias("slave-announce-port"),
    idle("replica-announced", Kind::YesNo, "yes"),
    idle("replica-lazy-flush", Kind::YesNo, "no").alias("slave-lazy-flush"),
    idle("replica-ignore-maxmemory", Kind::YesNo, "yes").alias("slave-ignore-maxmemory"),
    idle("replica-ignore-disk-write-errors", Kind::YesNo, "no"),
    idle("repl-disable-tcp-nodelay", Kind::YesNo, "no"),
    idle("repl-diskless-sync", Kind::YesNo, "yes"),
    idle("repl-diskless-sync-delay", number(0, I32), "5"),
    idle("repl-diskless-sync-max-replicas", number(0, I32), "0"),
    idle(
        "repl-diskless-load",
        Kind::OneOf(&["disabled", "on-empty-db", "swapdb"]),
        "disabled",
    ),
    idle("repl-backlog-size", bytes(1, I64), "1048576"),
    idle("repl-backlog-ttl", number(0, I64), "3600"),
    idle("repl-timeout", number(1, I32), "60"),
    idle("repl-ping-replica-period", number(1, I32), "10").alias("repl-ping-slave-period"),
    idle("min-replicas-to-write", number(0, I32), "0").alias("min-slaves-to-write"),
    idle("min-replicas-max-lag", number(0, I32), "10").alias("min-slaves-max-lag"),
    idle(
        "propagation-error-behavior",
        Kind::OneOf(&["ignore", "panic", "panic-on-replicas"]),
        "ignore",
    ),
    // Nor is this a node of a cluster of this kind.
    idle("cluster-enabled", Kind::YesNo, "no").fixed(),
    idle("cluster-config-file", Kind::Text, "nodes.conf").fixed(),
    idle("cluster-port", number(0, 65535), "0").fixed(),
    idle("cluster-node-timeout", number(0, I64), "15000"),
    idle("cluster-require-full-coverage", Kind::YesNo, "yes"),
    idle("cluster-allow-reads-when-down", Kind::YesNo, "no"),
    idle("cluster-announce-ip", Kind::Text, ""),
    idle("cluster-announce-port", number(0, 65535), "0"),
    // Rules about users.
    special(
        "aclfile",
        Place::Special {
            get: special::get_acl_file,
            set: special::set_acl_file,
        },
    )
    .fixed(),
    special(
        "acl-pubsub-default",
        Place::Special {
            get: special::get_pubsub_default,
            set: special::set_pubsub_default,
        },
    ),
];
