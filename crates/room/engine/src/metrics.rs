//! Metrics of the engine, read from its counters at each scrape.

use std::fmt;

use nagaya_telemetry::metrics::Stats;
use prometheus_client::encoding::{DescriptorEncoder, EncodeMetric, NoLabelSet};
use prometheus_client::metrics::MetricType;
use prometheus_client::metrics::counter::ConstCounter;
use prometheus_client::metrics::gauge::ConstGauge;
use prometheus_client::registry::Unit;

/// Counters of one command.
#[derive(Clone, Copy, Debug)]
pub struct CommandStats {
    /// A name of the command table: a closed set.
    pub name: &'static str,
    pub calls: u64,
    pub failed: u64,
}

/// Statistics of the engine at one moment.
#[derive(Clone, Debug, Default)]
pub struct RoomStats {
    pub connections: u64,
    pub connections_refused: u64,
    pub keys: u64,
    pub hits: u64,
    pub misses: u64,
    pub expired: u64,
    pub used_bytes: u64,
    /// `None` when memory has no limit.
    pub limit_bytes: Option<u64>,
    /// Tags in memory; `None` where they are not counted.
    pub tags: Option<u64>,
    pub commands: Vec<CommandStats>,
    pub tiers: TierStats,
}

/// The contents of the tiers and the movements between them.
#[derive(Clone, Debug, Default)]
pub struct TierStats {
    pub cold_keys: u64,
    /// Tags that the cold tier has, those in memory as well.
    pub cold_tags: u64,
    pub cold_bytes: u64,
    pub log_bytes: u64,
    pub staleness_ms: u64,
    pub load_waits: u64,
    pub loads_failed: u64,
    pub evicted_tags: u64,
    pub saved_keys: u64,
    /// A histogram of load times: upper bounds in seconds and counts; the last has no bound.
    pub load_times: Vec<(f64, u64)>,
    pub load_seconds: f64,
}

impl Stats for RoomStats {
    fn encode(&self, mut encoder: DescriptorEncoder<'_>) -> fmt::Result {
        let gauges = [
            (
                "nagaya_room_connections_open",
                "Redis clients connected now.",
                None,
                self.connections,
            ),
            ("nagaya_room_keys", "Keys in memory.", None, self.keys),
            (
                "nagaya_room_memory_used",
                "Memory that the room has allocated and not freed.",
                Some(&Unit::Bytes),
                self.used_bytes,
            ),
            (
                "nagaya_room_cold_keys",
                "Keys that are only in the cold tier.",
                None,
                self.tiers.cold_keys,
            ),
            (
                "nagaya_room_cold_tags",
                "Tags that the cold tier has.",
                None,
                self.tiers.cold_tags,
            ),
            (
                "nagaya_room_cold",
                "Space that the cold tier takes on its disk.",
                Some(&Unit::Bytes),
                self.tiers.cold_bytes,
            ),
            (
                "nagaya_room_log",
                "Length of the write-ahead log.",
                Some(&Unit::Bytes),
                self.tiers.log_bytes,
            ),
        ];
        let known = [
            (
                "nagaya_room_memory_limit",
                "Memory that data, overhead and buffers may take.",
                Some(&Unit::Bytes),
                self.limit_bytes,
            ),
            ("nagaya_room_tags", "Tags in memory, about.", None, self.tags),
        ];
        let known = known
            .into_iter()
            .filter_map(|(name, help, unit, value)| Some((name, help, unit, value?)));
        for (name, help, unit, value) in gauges.into_iter().chain(known) {
            let gauge = ConstGauge::new(value as f64);
            gauge.encode(encoder.encode_descriptor(name, help, unit, gauge.metric_type())?)?;
        }
        let counters = [
            (
                "nagaya_room_connections_refused",
                "Clients turned away because the limit was reached.",
                self.connections_refused,
            ),
            ("nagaya_room_hits", "Lookups that found their key.", self.hits),
            ("nagaya_room_misses", "Lookups that found no key.", self.misses),
            (
                "nagaya_room_expired",
                "Keys removed because their time had come.",
                self.expired,
            ),
            (
                "nagaya_room_load_waits",
                "Requests that waited for a tag to be loaded.",
                self.tiers.load_waits,
            ),
            (
                "nagaya_room_loads_failed",
                "Loads that the cold tier could not answer.",
                self.tiers.loads_failed,
            ),
            (
                "nagaya_room_evicted_tags",
                "Tags that left memory and stayed in the cold tier.",
                self.tiers.evicted_tags,
            ),
            (
                "nagaya_room_saved_keys",
                "Keys written to the cold tier.",
                self.tiers.saved_keys,
            ),
        ];
        for (name, help, value) in counters {
            let counter = ConstCounter::new(value);
            counter.encode(encoder.encode_descriptor(name, help, None, counter.metric_type())?)?;
        }
        let staleness = ConstGauge::new(self.tiers.staleness_ms as f64 / 1000.0);
        staleness.encode(encoder.encode_descriptor(
            "nagaya_room_staleness",
            "Age of the oldest change that the cold tier lacks.",
            Some(&Unit::Seconds),
            staleness.metric_type(),
        )?)?;
        encode_loads(&mut encoder, &self.tiers)?;
        encode_commands(
            &mut encoder,
            "nagaya_room_commands",
            "Commands run.",
            &self.commands,
            |command| command.calls,
        )?;
        let help = "Commands that ended in an error reply.";
        encode_commands(
            &mut encoder,
            "nagaya_room_commands_failed",
            help,
            &self.commands,
            |command| command.failed,
        )
    }
}

/// Encodes how long loads took as a histogram.
fn encode_loads(encoder: &mut DescriptorEncoder<'_>, tiers: &TierStats) -> fmt::Result {
    let mut loads = encoder.encode_descriptor(
        "nagaya_room_load",
        "Time to load a tag from the cold tier.",
        Some(&Unit::Seconds),
        MetricType::Histogram,
    )?;
    let count = tiers.load_times.iter().map(|(_, count)| count).sum();
    loads.encode_histogram::<NoLabelSet>(tiers.load_seconds, count, &tiers.load_times, None)
}

/// Encodes one count per command; commands that never ran are left out.
fn encode_commands(
    encoder: &mut DescriptorEncoder<'_>,
    name: &str,
    help: &str,
    commands: &[CommandStats],
    count: impl Fn(&CommandStats) -> u64,
) -> fmt::Result {
    let kind = ConstCounter::new(0u64).metric_type();
    let mut family = encoder.encode_descriptor(name, help, None, kind)?;
    for command in commands.iter().filter(|command| command.calls > 0) {
        let labels = [("command", command.name)];
        ConstCounter::new(count(command)).encode(family.encode_family(&labels)?)?;
    }
    Ok(())
}
