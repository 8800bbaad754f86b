//! The settings that are not in force: accepted because nothing depends on them, or refused because something
//! would. Each says why.

use crate::settings::rows::{I32, I64, bytes, harmless, number, refused, special};
use crate::settings::special;
use crate::settings::types::{Effect, Kind, Setting, Unit};

const START: &str = "the server chooses it";
const START_SOCKET: &str = "set `room.unix_socket` instead";
const PROCESS: &str = "the process around it decides: see `[telemetry]` and the service manager";
const STOP: &str = "a stop always saves what is unsaved";
const LOG: &str = "there are no RDB and AOF files: `room`'s log and cold tier keep the data";
const DUTIES: &str = "the duties of the background need no tuning";
const ALLOCATOR: &str = "the allocator is not jemalloc";
const CLUSTER: &str = "there is no cluster mode";
const REPLICAS: &str = "there are no replicas of Redis's kind";

pub(crate) static IDLE: &[Setting] = &[
    // Sockets.
    refused(
        "protected-mode",
        Kind::YesNo,
        "no",
        "a listener that other machines can reach needs `room.password` at the start instead",
    ),
    harmless("tcp-backlog", number(0, I32), "511", START).fixed(),
    refused(
        "tcp-keepalive",
        number(0, I32),
        "300",
        "idle connections are probed after 300 seconds; `timeout` closes them earlier",
    ),
    harmless("unixsocket", Kind::Text, "", START_SOCKET).fixed(),
    harmless(
        "unixsocketperm",
        Kind::Number {
            min: 0,
            max: 0o777,
            unit: Unit::Octal,
        },
        "0",
        "the socket's folder decides who may use it",
    )
    .fixed(),
    harmless("bind-source-addr", Kind::Text, "", REPLICAS),
    harmless("socket-mark-id", number(0, u32::MAX as i128), "0", START).fixed(),
    harmless("io-threads", number(1, 128), "1", "set `room.io_threads` instead").fixed(),
    harmless(
        "io-threads-do-reads",
        Kind::YesNo,
        "no",
        "I/O threads always read",
    )
    .fixed(),
    // Logs, process and crash handling.
    harmless(
        "loglevel",
        Kind::OneOf(&["debug", "verbose", "notice", "warning"]),
        "notice",
        "set `telemetry.log_level` instead",
    ),
    harmless("logfile", Kind::Text, "", PROCESS).fixed(),
    harmless("syslog-enabled", Kind::YesNo, "no", PROCESS).fixed(),
    harmless("syslog-ident", Kind::Text, "redis", PROCESS).fixed(),
    harmless("daemonize", Kind::YesNo, "no", PROCESS).fixed(),
    harmless(
        "supervised",
        Kind::OneOf(&["upstart", "systemd", "auto", "no"]),
        "no",
        PROCESS,
    )
    .fixed(),
    harmless("pidfile", Kind::Text, "", PROCESS).fixed(),
    harmless("set-proc-title", Kind::YesNo, "no", PROCESS).fixed(),
    harmless(
        "proc-title-template",
        Kind::Text,
        "{title} {listen-addr} {server-mode}",
        PROCESS,
    ),
    harmless("always-show-logo", Kind::YesNo, "no", PROCESS).fixed(),
    harmless("crash-log-enabled", Kind::YesNo, "no", PROCESS),
    harmless("crash-memcheck-enabled", Kind::YesNo, "no", PROCESS),
    harmless("use-exit-on-panic", Kind::YesNo, "no", PROCESS).hidden(),
    harmless("watchdog-period", number(0, I32), "0", PROCESS).hidden(),
    harmless("disable-thp", Kind::YesNo, "yes", PROCESS).fixed(),
    refused(
        "oom-score-adj",
        Kind::OneOf(&["no", "yes", "relative", "absolute"]),
        "no",
        "the service manager decides it: `OOMScoreAdjust=` in a systemd unit",
    ),
    special(
        "oom-score-adj-values",
        special::get_oom_values,
        special::set_oom_values,
    )
    .has(Effect::Harmless("`oom-score-adj` is off")),
    harmless("shutdown-timeout", number(0, I32), "10", REPLICAS),
    harmless(
        "shutdown-on-sigint",
        Kind::SomeOf(&["default", "save", "nosave", "now", "force"]),
        "default",
        STOP,
    ),
    harmless(
        "shutdown-on-sigterm",
        Kind::SomeOf(&["default", "save", "nosave", "now", "force"]),
        "default",
        STOP,
    ),
    harmless("ignore-warnings", Kind::Text, "", PROCESS),
    // Snapshots and the append-only file, in whose place a log of our own keeps the data.
    special("save", special::get_save, special::set_save).has(Effect::Harmless(LOG)),
    special("appendonly", special::get_append_only, special::set_append_only).has(Effect::Harmless(LOG)),
    harmless("dir", Kind::Text, ".", "set `house.data` instead").protected(),
    harmless("dbfilename", Kind::Text, "dump.rdb", LOG).protected(),
    harmless("appendfilename", Kind::Text, "appendonly.aof", LOG).fixed(),
    harmless("appenddirname", Kind::Text, "appendonlydir", LOG).fixed(),
    harmless("no-appendfsync-on-rewrite", Kind::YesNo, "no", LOG),
    harmless(
        "auto-aof-rewrite-percentage",
        number(0, I32),
        "100",
        "the log is bounded by `room.log_max`",
    ),
    harmless(
        "auto-aof-rewrite-min-size",
        bytes(0, I64),
        "67108864",
        "the log is bounded by `room.log_max`",
    ),
    harmless("aof-rewrite-incremental-fsync", Kind::YesNo, "yes", LOG),
    refused(
        "aof-load-truncated",
        Kind::YesNo,
        "yes",
        "a record that a crash cut short is always dropped at the start",
    ),
    harmless("aof-use-rdb-preamble", Kind::YesNo, "yes", LOG),
    refused(
        "aof-timestamp-enabled",
        Kind::YesNo,
        "no",
        "the log has no timestamps to go back to: restore a backup instead",
    ),
    harmless("aof-disable-auto-gc", Kind::YesNo, "no", LOG),
    harmless("rdbcompression", Kind::YesNo, "yes", LOG),
    harmless(
        "rdbchecksum",
        Kind::YesNo,
        "yes",
        "the log and the cold tier have checksums of their own",
    )
    .fixed(),
    harmless("rdb-del-sync-files", Kind::YesNo, "no", REPLICAS),
    harmless("rdb-save-incremental-fsync", Kind::YesNo, "yes", LOG),
    harmless("rdb-key-save-delay", number(i32::MIN as i128, I32), "0", LOG).hidden(),
    harmless("key-load-delay", number(i32::MIN as i128, I32), "0", LOG).hidden(),
    harmless(
        "loading-process-events-interval-bytes",
        bytes(1024, I32),
        "2097152",
        LOG,
    )
    .hidden(),
    harmless(
        "stop-writes-on-bgsave-error",
        Kind::YesNo,
        "yes",
        "writes are refused whenever the log cannot take them, and only then",
    ),
    harmless(
        "sanitize-dump-payload",
        Kind::OneOf(&["no", "yes", "clients"]),
        "yes",
        "payloads are always checked in full",
    ),
    // Duties of the background, and the allocator.
    harmless(
        "lazyfree-lazy-eviction",
        Kind::YesNo,
        "no",
        "values are always freed off the request path",
    ),
    harmless(
        "lazyfree-lazy-expire",
        Kind::YesNo,
        "no",
        "values are always freed off the request path",
    ),
    harmless(
        "lazyfree-lazy-server-del",
        Kind::YesNo,
        "no",
        "values are always freed off the request path",
    ),
    harmless(
        "lazyfree-lazy-user-del",
        Kind::YesNo,
        "no",
        "values are always freed off the request path",
    ),
    harmless(
        "lazyfree-lazy-user-flush",
        Kind::YesNo,
        "no",
        "values are always freed off the request path",
    ),
    harmless("hz", number(0, I32), "10", DUTIES),
    harmless("dynamic-hz", Kind::YesNo, "yes", DUTIES),
    harmless("activerehashing", Kind::YesNo, "yes", DUTIES),
    harmless("maxmemory-eviction-tenacity", number(0, 100), "10", DUTIES),
    harmless(
        "lfu-log-factor",
        number(0, I32),
        "10",
        "the default always counts",
    ),
    harmless("lfu-decay-time", number(0, I32), "1", "the default always counts"),
    harmless("jemalloc-bg-thread", Kind::YesNo, "yes", ALLOCATOR),
    refused(
        "activedefrag",
        Kind::YesNo,
        "no",
        "Active defragmentation cannot be enabled: it requires a Redis server compiled with a modified Jemalloc \
         like the one shipped by default with the Redis source distribution",
    ),
    harmless("active-defrag-cycle-min", number(1, 99), "1", ALLOCATOR),
    harmless("active-defrag-cycle-max", number(1, 99), "25", ALLOCATOR),
    harmless("active-defrag-threshold-lower", number(0, 1000), "10", ALLOCATOR),
    harmless("active-defrag-threshold-upper", number(0, 1000), "100", ALLOCATOR),
    harmless(
        "active-defrag-ignore-bytes",
        bytes(1, I64),
        "104857600",
        ALLOCATOR,
    ),
    harmless("active-defrag-max-scan-fields", number(1, I64), "1000", ALLOCATOR),
    // Replication, of which there is none of this kind.
    harmless("replicaof", Kind::Text, "", REPLICAS)
        .alias("slaveof")
        .fixed(),
    refused(
        "masteruser",
        Kind::Text,
        "",
        "this server follows no master that would ask for it",
    )
    .secret(),
    refused(
        "masterauth",
        Kind::Text,
        "",
        "this server follows no master that would ask for it",
    )
    .secret(),
    harmless("replica-serve-stale-data", Kind::YesNo, "yes", REPLICAS).alias("slave-serve-stale-data"),
    harmless("replica-read-only", Kind::YesNo, "yes", REPLICAS).alias("slave-read-only"),
    harmless("replica-priority", number(0, I32), "100", REPLICAS).alias("slave-priority"),
    harmless("replica-announce-ip", Kind::Text, "", REPLICAS).alias("slave-announce-ip"),
    harmless("replica-announce-port", number(0, 65535), "0", REPLICAS).alias("slave-announce-port"),
    harmless("replica-announced", Kind::YesNo, "yes", REPLICAS),
    harmless("replica-lazy-flush", Kind::YesNo, "no", REPLICAS).alias("slave-lazy-flush"),
    harmless("replica-ignore-maxmemory", Kind::YesNo, "yes", REPLICAS).alias("slave-ignore-maxmemory"),
    harmless("replica-ignore-disk-write-errors", Kind::YesNo, "no", REPLICAS),
    harmless("repl-disable-tcp-nodelay", Kind::YesNo, "no", REPLICAS),
    harmless("repl-diskless-sync", Kind::YesNo, "yes", REPLICAS),
    harmless("repl-diskless-sync-delay", number(0, I32), "5", REPLICAS),
    harmless("repl-diskless-sync-max-replicas", number(0, I32), "0", REPLICAS),
    harmless(
        "repl-diskless-load",
        Kind::OneOf(&["disabled", "on-empty-db", "swapdb"]),
        "disabled",
        REPLICAS,
    ),
    harmless("repl-backlog-size", bytes(1, I64), "1048576", REPLICAS),
    harmless("repl-backlog-ttl", number(0, I64), "3600", REPLICAS),
    harmless("repl-timeout", number(1, I32), "60", REPLICAS),
    harmless("repl-ping-replica-period", number(1, I32), "10", REPLICAS).alias("repl-ping-slave-period"),
    harmless(
        "propagation-error-behavior",
        Kind::OneOf(&["ignore", "panic", "panic-on-replicas"]),
        "ignore",
        REPLICAS,
    ),
    // Nor is this a node of Redis Cluster.
    harmless("cluster-enabled", Kind::YesNo, "no", CLUSTER).fixed(),
    harmless("cluster-config-file", Kind::Text, "nodes.conf", CLUSTER).fixed(),
    harmless("cluster-port", number(0, 65535), "0", CLUSTER).fixed(),
    harmless("cluster-node-timeout", number(0, I64), "15000", CLUSTER),
    harmless("cluster-require-full-coverage", Kind::YesNo, "yes", CLUSTER),
    harmless("cluster-allow-reads-when-down", Kind::YesNo, "no", CLUSTER),
    harmless("cluster-announce-ip", Kind::Text, "", CLUSTER),
    harmless("cluster-announce-port", number(0, 65535), "0", CLUSTER),
];
