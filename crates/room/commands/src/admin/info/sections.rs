//! The sections of INFO, in the order in which they appear.

use std::fmt::{Display, Write};
use std::sync::atomic::AtomicU64;
use std::sync::atomic::Ordering::Relaxed;

use nagaya_connections::pubsub::Kind;
use nagaya_exec::ctx::Ctx;
use nagaya_exec::server::Server;
use nagaya_exec::settings::show_percentile;
use nagaya_exec::stats::ThreadStats;
use nagaya_keyspace::figures::DatabaseFigures;
use nagaya_keyspace::memory::resident_bytes;

use super::process::{CpuTimes, human, system_bytes, system_name};

/// One section.
pub(super) struct Section {
    pub(super) name: &'static str,
    pub(super) title: &'static str,
    /// Shown to who asks for nothing in particular.
    pub(super) by_default: bool,
    pub(super) write: fn(&mut Lines, &Ctx<'_, '_>),
}

const fn section(name: &'static str, title: &'static str, write: fn(&mut Lines, &Ctx<'_, '_>)) -> Section {
    Section {
        name,
        title,
        by_default: true,
        write,
    }
}

impl Section {
    const fn on_request(mut self) -> Section {
        self.by_default = false;
        self
    }
}

pub(super) const SECTIONS: &[Section] = &[
    section("server", "Server", server),
    section("clients", "Clients", clients),
    section("memory", "Memory", memory),
    section("persistence", "Persistence", persistence),
    section("stats", "Stats", stats),
    section("replication", "Replication", replication),
    section("cpu", "CPU", cpu),
    section("modules", "Modules", |_, _| ()),
    section("commandstats", "Commandstats", commandstats).on_request(),
    section("errorstats", "Errorstats", errorstats),
    section("latencystats", "Latencystats", latencystats).on_request(),
    section("cluster", "Cluster", |lines, _| lines.put("cluster_enabled", 0)),
    section("keyspace", "Keyspace", keyspace),
    section("room", "Room", room),
];

/// The text under construction.
#[derive(Default)]
pub(super) struct Lines(String);

impl Lines {
    pub(super) fn title(&mut self, title: &str) {
        let gap = if self.0.is_empty() { "" } else { "\r\n" };
        // Writing to a string cannot fail; nor can it below.
        write!(self.0, "{gap}# {title}\r\n").ok();
    }

    pub(super) fn put(&mut self, field: &str, value: impl Display) {
        write!(self.0, "{field}:{value}\r\n").ok();
    }

    pub(super) fn text(&self) -> &str {
        &self.0
    }

    /// Writes fields that are always zero here.
    fn zeros(&mut self, fields: &[&str]) {
        fields.iter().for_each(|field| self.put(field, 0));
    }

    /// Writes a size as bytes and, in a second line, for people.
    fn size(&mut self, field: &str, bytes: usize) {
        self.put(field, bytes);
        self.put(&format!("{field}_human"), human(bytes));
    }
}

fn server(lines: &mut Lines, ctx: &Ctx<'_, '_>) {
    let (server, now_us) = (ctx.server(), ctx.now_us());
    let uptime_s = (now_us - server.started_us) / 1_000_000;
    let executable = std::env::current_exe().unwrap_or_default();
    lines.put("redis_version", &ctx.config().redis_version);
    lines.put("nagaya_version", env!("CARGO_PKG_VERSION"));
    lines.put("redis_git_sha1", "00000000");
    lines.put("redis_git_dirty", 0);
    lines.put("redis_build_id", 0);
    lines.put("redis_mode", "standalone");
    lines.put("os", system_name());
    lines.put("arch_bits", usize::BITS);
    lines.put("monotonic_clock", "POSIX clock_gettime");
    lines.put("multiplexing_api", "epoll");
    lines.put("atomicvar_api", "c11-builtin");
    lines.put("gcc_version", "0.0.0");
    lines.put("process_id", std::process::id());
    lines.put("process_supervised", "no");
    lines.put("run_id", server.run_id.lock());
    lines.put("tcp_port", ctx.config().port);
    lines.put("server_time_usec", now_us);
    lines.put("uptime_in_seconds", uptime_s);
    lines.put("uptime_in_days", uptime_s / 86_400);
    lines.put("hz", 10);
    lines.put("configured_hz", 10);
    lines.put("lru_clock", (now_us / 1_000_000) & 0xff_ffff);
    lines.put("executable", executable.display());
    lines.put("config_file", "");
    lines.put("io_threads_active", usize::from(server.thread_count() > 1));
}

fn clients(lines: &mut Lines, ctx: &Ctx<'_, '_>) {
    let all = ctx.server().subscribers.clients.all();
    let largest = |bytes: fn(&nagaya_connections::client::Client) -> usize| {
        all.iter().map(|client| bytes(client)).max()
    };
    lines.put("connected_clients", all.len());
    lines.put("cluster_connections", 0);
    lines.put("maxclients", ctx.config().maxclients);
    let input = largest(|client| client.input_bytes.load(Relaxed));
    lines.put("client_recent_max_input_buffer", input.unwrap_or(0));
    let output = largest(|client| client.output_bytes.load(Relaxed));
    lines.put("client_recent_max_output_buffer", output.unwrap_or(0));
    let waiting = all.iter().filter(|client| client.is_waiting()).count();
    lines.put("blocked_clients", waiting);
    lines.put(
        "tracking_clients",
        ctx.server().subscribers.tracking.stats().clients,
    );
    let timed = all.iter().filter(|client| {
        let blocked = client.blocked.lock();
        blocked.as_ref().is_some_and(|wait| wait.deadline_ms.is_some())
    });
    lines.put("clients_in_timeout_table", timed.count());
}

fn memory(lines: &mut Lines, ctx: &Ctx<'_, '_>) {
    let (server, config) = (ctx.server(), &ctx.config());
    let (used, peak) = server.keyspace.memory.used_and_peak();
    let resident = resident_bytes();
    let overhead = ctx.db.overhead_bytes();
    let percent = |part: usize, whole: usize| format!("{:.2}%", part as f64 * 100.0 / whole.max(1) as f64);
    let ratio = resident as f64 / used.max(1) as f64;
    let excess = resident as i64 - used as i64;
    lines.size("used_memory", used);
    lines.size("used_memory_rss", resident);
    lines.size("used_memory_peak", peak);
    lines.put("used_memory_peak_perc", percent(used, peak));
    lines.put("used_memory_overhead", overhead);
    lines.put("used_memory_startup", 0);
    lines.put("used_memory_dataset", used.saturating_sub(overhead));
    lines.put(
        "used_memory_dataset_perc",
        percent(used.saturating_sub(overhead), used),
    );
    lines.put("allocator_allocated", used);
    lines.put("allocator_active", used);
    lines.put("allocator_resident", resident);
    lines.size("total_system_memory", system_bytes());
    lines.zeros(&["used_memory_lua", "used_memory_vm_eval"]);
    lines.put("used_memory_lua_human", "0B");
    let (scripts, script_bytes) = server.scripts.sources_size();
    let libraries = server.scripts.libraries();
    let library_bytes = libraries.iter().map(|library| library.code.len()).sum::<usize>();
    lines.put("used_memory_scripts_eval", script_bytes);
    lines.put("number_of_cached_scripts", scripts);
    lines.put("number_of_functions", libraries.function_count());
    lines.put("number_of_libraries", libraries.count());
    lines.zeros(&["used_memory_vm_functions", "used_memory_vm_total"]);
    lines.put("used_memory_vm_total_human", "0B");
    lines.put("used_memory_functions", library_bytes);
    lines.size("used_memory_scripts", script_bytes + library_bytes);
    lines.size("maxmemory", config.maxmemory as usize);
    lines.put("maxmemory_policy", config.maxmemory_policy);
    lines.put("allocator_frag_ratio", "1.00");
    lines.put("allocator_frag_bytes", 0);
    lines.put("allocator_rss_ratio", format!("{ratio:.2}"));
    lines.put("allocator_rss_bytes", excess);
    lines.put("rss_overhead_ratio", "1.00");
    lines.put("rss_overhead_bytes", 0);
    lines.put("mem_fragmentation_ratio", format!("{ratio:.2}"));
    lines.put("mem_fragmentation_bytes", excess);
    lines.put(
        "mem_not_counted_for_evict",
        server.keyspace.memory.in_transit_bytes(),
    );
    lines.zeros(&[
        "mem_replication_backlog",
        "mem_total_replication_buffers",
        "mem_clients_slaves",
    ]);
    lines.put("mem_clients_normal", client_bytes(server));
    lines.put("mem_cluster_links", 0);
    lines.put("mem_aof_buffer", server.keyspace.memory.log_bytes());
    lines.put("mem_allocator", "rust");
    lines.zeros(&["active_defrag_running", "lazyfree_pending_objects"]);
    lines.put("lazyfreed_objects", server.keyspace.reclaimed());
}

/// Returns the bytes in the buffers of all connections.
pub(crate) fn client_bytes(server: &Server) -> usize {
    let bytes = |client: &std::sync::Arc<nagaya_connections::client::Client>| {
        let buffers = [
            &client.input_bytes,
            &client.input_free_bytes,
            &client.output_bytes,
            &client.queued_bytes,
        ];
        buffers.iter().map(|bytes| bytes.load(Relaxed)).sum::<usize>()
    };
    server.subscribers.clients.all().iter().map(bytes).sum()
}

fn persistence(lines: &mut Lines, ctx: &Ctx<'_, '_>) {
    lines.zeros(&[
        "loading",
        "async_loading",
        "current_cow_peak",
        "current_cow_size",
        "current_cow_size_age",
    ]);
    lines.put("current_fork_perc", "0.00");
    lines.zeros(&["current_save_keys_processed", "current_save_keys_total"]);
    lines.put(
        "rdb_changes_since_last_save",
        ctx.server().sum(|stats| stats.keyspace.changes.get()),
    );
    lines.put("rdb_bgsave_in_progress", 0);
    let saved_at_s = ctx
        .db
        .tiering
        .map_or(ctx.server().started_us / 1_000_000, |tiering| {
            tiering.saved_at_ms() / 1000
        });
    lines.put("rdb_last_save_time", saved_at_s);
    lines.put("rdb_last_bgsave_status", "ok");
    lines.put("rdb_last_bgsave_time_sec", -1);
    lines.put("rdb_current_bgsave_time_sec", -1);
    lines.zeros(&[
        "rdb_saves",
        "rdb_last_cow_size",
        "rdb_last_load_keys_expired",
        "rdb_last_load_keys_loaded",
    ]);
    lines.put("aof_enabled", i32::from(ctx.server().journal().is_some()));
    lines.zeros(&["aof_rewrite_in_progress", "aof_rewrite_scheduled"]);
    lines.put("aof_last_rewrite_time_sec", -1);
    lines.put("aof_current_rewrite_time_sec", -1);
    lines.put("aof_last_bgrewrite_status", "ok");
    lines.zeros(&["aof_rewrites", "aof_rewrites_consecutive_failures"]);
    let failed = ctx.server().journal_failure().is_some();
    lines.put("aof_last_write_status", if failed { "err" } else { "ok" });
    lines.zeros(&[
        "aof_last_cow_size",
        "module_fork_in_progress",
        "module_fork_last_cow_size",
    ]);
}

/// The tiers: what is in memory, what is not, and what moves between.
fn room(lines: &mut Lines, ctx: &Ctx<'_, '_>) {
    let server = ctx.server();
    let Some(tiering) = server.keyspace.tiering.get() else {
        lines.put("room_enabled", 0);
        return;
    };
    let counters = &tiering.counters;
    let count = |counter: &AtomicU64| counter.load(Relaxed);
    lines.put("room_enabled", 1);
    lines.put("room_hot_keys", ctx.db.keys_in_memory());
    lines.put("room_cold_keys", tiering.cold_keys());
    lines.put("room_loads", count(&counters.loads));
    lines.put("room_loads_failed", count(&counters.loads_failed));
    lines.put("room_load_waits", count(&counters.waits));
    lines.put("room_load_usec", count(&counters.load_us));
    lines.put("room_evicted_tags", count(&counters.evicted_tags));
    lines.put("room_evicted_keys", count(&counters.evicted_keys));
    lines.put("room_saved_tags", count(&counters.saved_tags));
    lines.put("room_saved_keys", count(&counters.saved_keys));
    lines.put("room_staleness_ms", ctx.db.staleness_ms());
    lines.put("room_saved_at_ms", tiering.saved_at_ms());
    lines.put("room_memory_slack", tiering.slack_bytes());
    lines.put("room_log_bytes", server.journal_bytes());
    lines.put("room_log_position", tiering.log_end());
    lines.put("room_checkpoint", tiering.checkpoint());
}

fn stats(lines: &mut Lines, ctx: &Ctx<'_, '_>) {
    let server = ctx.server();
    let sum = |counter: fn(&ThreadStats) -> u64| server.sum(counter);
    let commands = sum(|stats| stats.commands.iter().map(|command| command.calls.get()).sum());
    let input = sum(|stats| stats.net_input_bytes.get());
    let output = sum(|stats| stats.net_output_bytes.get());
    let [operations, input_rate, output_rate] = server.rates.look(ctx.now_us(), [commands, input, output]);
    lines.put(
        "total_connections_received",
        server.subscribers.clients.accepted.load(Relaxed),
    );
    lines.put("total_commands_processed", commands);
    lines.put("instantaneous_ops_per_sec", operations as u64);
    lines.put("total_net_input_bytes", input);
    lines.put("total_net_output_bytes", output);
    lines.zeros(&["total_net_repl_input_bytes", "total_net_repl_output_bytes"]);
    lines.put("instantaneous_input_kbps", format!("{:.2}", input_rate / 1024.0));
    lines.put(
        "instantaneous_output_kbps",
        format!("{:.2}", output_rate / 1024.0),
    );
    lines.put("instantaneous_input_repl_kbps", "0.00");
    lines.put("instantaneous_output_repl_kbps", "0.00");
    lines.put(
        "rejected_connections",
        server.subscribers.clients.rejected.load(Relaxed),
    );
    lines.zeros(&["sync_full", "sync_partial_ok", "sync_partial_err"]);
    lines.put("expired_keys", sum(|stats| stats.keyspace.expired_keys.get()));
    lines.put(
        "expired_subkeys",
        sum(|stats| stats.keyspace.expired_fields.get()),
    );
    lines.put("expired_stale_perc", "0.00");
    lines.zeros(&["expired_time_cap_reached_count", "expire_cycle_cpu_milliseconds"]);
    lines.put("evicted_keys", sum(|stats| stats.keyspace.evicted_keys.get()));
    let evicted_clients = &server.subscribers.clients.evicted;
    lines.put("evicted_clients", evicted_clients.load(Relaxed));
    lines.zeros(&["total_eviction_exceeded_time", "current_eviction_exceeded_time"]);
    lines.put("keyspace_hits", sum(|stats| stats.keyspace.hits.get()));
    lines.put("keyspace_misses", sum(|stats| stats.keyspace.misses.get()));
    pubsub_stats(lines, server);
    lines.zeros(&[
        "latest_fork_usec",
        "total_forks",
        "migrate_cached_sockets",
        "slave_expires_tracked_keys",
        "active_defrag_hits",
        "active_defrag_misses",
        "active_defrag_key_hits",
        "active_defrag_key_misses",
        "total_active_defrag_time",
        "current_active_defrag_time",
    ]);
    tracking_stats(lines, server);
    lines.put("unexpected_error_replies", 0);
    lines.put("total_error_replies", sum(|stats| stats.error_replies.get()));
    lines.put("dump_payload_sanitizations", 0);
    lines.put("total_reads_processed", sum(|stats| stats.reads.get()));
    lines.put("total_writes_processed", sum(|stats| stats.writes.get()));
    lines.zeros(&[
        "io_threaded_reads_processed",
        "io_threaded_writes_processed",
        "reply_buffer_shrinks",
        "reply_buffer_expands",
    ]);
}

fn pubsub_stats(lines: &mut Lines, server: &Server) {
    let count = |kind| {
        let mut topics = 0;
        server.subscribers.pubsub.each(kind, |_, _| topics += 1);
        topics
    };
    lines.put("pubsub_channels", count(Kind::Channel));
    lines.put("pubsub_patterns", server.subscribers.pubsub.patterns());
    lines.put("pubsubshard_channels", count(Kind::ShardChannel));
}

fn tracking_stats(lines: &mut Lines, server: &Server) {
    let stats = server.subscribers.tracking.stats();
    lines.put("tracking_total_keys", stats.keys);
    lines.put("tracking_total_items", stats.items);
    lines.put("tracking_total_prefixes", stats.prefixes);
}

fn replication(lines: &mut Lines, ctx: &Ctx<'_, '_>) {
    lines.put("role", "master");
    lines.put("connected_slaves", 0);
    lines.put("master_failover_state", "no-failover");
    lines.put("master_replid", ctx.server().replication_id.lock());
    lines.put("master_replid2", "0".repeat(40));
    lines.put("master_repl_offset", 0);
    lines.put("second_repl_offset", -1);
    lines.put("repl_backlog_active", 0);
    lines.put("repl_backlog_size", 1_048_576);
    lines.zeros(&["repl_backlog_first_byte_offset", "repl_backlog_histlen"]);
}

fn cpu(lines: &mut Lines, _: &Ctx<'_, '_>) {
    let (process, thread) = (CpuTimes::of_process(), CpuTimes::of_thread());
    for (field, seconds) in [
        ("used_cpu_sys", process.system),
        ("used_cpu_user", process.user),
        ("used_cpu_sys_children", process.children_system),
        ("used_cpu_user_children", process.children_user),
        ("used_cpu_sys_main_thread", thread.system),
        ("used_cpu_user_main_thread", thread.user),
    ] {
        lines.put(field, format!("{seconds:.6}"));
    }
}

fn commandstats(lines: &mut Lines, ctx: &Ctx<'_, '_>) {
    for command in ctx.table().every() {
        let server = ctx.server();
        let calls = server.sum(|stats| stats.commands[command.number].calls.get());
        let spent_us = server.sum(|stats| stats.commands[command.number].spent_ns.get()) / 1000;
        let rejected = server.sum(|stats| stats.commands[command.number].rejected.get());
        let failed = server.sum(|stats| stats.commands[command.number].failed.get());
        if calls + rejected + failed > 0 {
            let per_call = if calls == 0 {
                0.0
            } else {
                spent_us as f64 / calls as f64
            };
            let field = format!("cmdstat_{}", command.full_name);
            lines.put(
                &field,
                format_args!(
                    "calls={calls},usec={spent_us},usec_per_call={per_call:.2},rejected_calls={rejected},\
                     failed_calls={failed}"
                ),
            );
        }
    }
}

fn errorstats(lines: &mut Lines, ctx: &Ctx<'_, '_>) {
    for (kind, count) in ctx.server().errors() {
        // A script may have put anything into the name.
        let kind = kind.replace(['#', ':', '\n', '\r'], "_");
        lines.put(&format!("errorstat_{kind}"), format_args!("count={count}"));
    }
}

fn latencystats(lines: &mut Lines, ctx: &Ctx<'_, '_>) {
    if !ctx.config().latency_tracking {
        return;
    }
    for command in ctx.table().every() {
        let durations = ctx.server().durations(command.number);
        if durations.count == 0 {
            continue;
        }
        let percentiles = ctx
            .config()
            .latency_tracking_info_percentiles
            .iter()
            .map(|percentile| {
                let us = durations.percentile_ns(*percentile) as f64 / 1000.0;
                format!("p{}={us:.3}", show_percentile(*percentile))
            });
        let percentiles: Vec<String> = percentiles.collect();
        lines.put(
            &format!("latency_percentiles_usec_{}", command.full_name),
            percentiles.join(","),
        );
    }
}

fn keyspace(lines: &mut Lines, ctx: &Ctx<'_, '_>) {
    for database in 0..ctx.db.data().databases.count() {
        let DatabaseFigures {
            keys,
            volatile,
            average_ttl_ms,
            ..
        } = ctx.db.figures_of(database);
        if keys > 0 {
            lines.put(
                &format!("db{database}"),
                format_args!("keys={keys},expires={volatile},avg_ttl={average_ttl_ms}"),
            );
        }
    }
}
