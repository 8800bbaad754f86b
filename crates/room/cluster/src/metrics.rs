//! Metrics of a distributed room, read from its counters at each scrape.

use std::fmt;
use std::time::Duration;

use nagaya_telemetry::metrics::Stats;
use prometheus_client::encoding::{DescriptorEncoder, EncodeMetric};
use prometheus_client::metrics::counter::ConstCounter;
use prometheus_client::metrics::gauge::ConstGauge;
use prometheus_client::registry::Unit;

/// Statistics at one moment; zero for roles that this process does not have.
#[derive(Clone, Copy, Debug, Default)]
pub struct TiersStats {
    pub connections: u64,
    pub nodes_open: u64,
    pub commands: u64,
    pub redirects: u64,
    pub retries: u64,
    pub lost: u64,
    pub late: u64,
    pub touches: u64,
    pub leases_granted: u64,
    pub registrations: u64,
    pub waits: u64,
    pub loaded: u64,
    pub loads_failed: u64,
    pub loads_waiting: u64,
    pub shards: u64,
    pub saved: u64,
    pub saves_refused: u64,
    pub evicted: u64,
    pub nodes_full: u64,
    pub task_errors: u64,
    /// Age of the oldest change that is not known to be saved.
    pub staleness: Duration,
    pub news_delivered: u64,
    pub news_dropped: u64,
}

impl Stats for TiersStats {
    fn encode(&self, mut encoder: DescriptorEncoder<'_>) -> fmt::Result {
        let counters = [
            (
                "nagaya_tiers_commands",
                "Requests that clients sent.",
                self.commands,
            ),
            (
                "nagaya_tiers_redirects",
                "MOVED and ASK that were followed.",
                self.redirects,
            ),
            (
                "nagaya_tiers_retries",
                "Commands sent again because they surely had not run.",
                self.retries,
            ),
            (
                "nagaya_tiers_lost",
                "Commands whose connection broke under them.",
                self.lost,
            ),
            (
                "nagaya_tiers_late",
                "Replies that came too late to be told as such.",
                self.late,
            ),
            (
                "nagaya_tiers_touches",
                "Tags asked for on their nodes.",
                self.touches,
            ),
            ("nagaya_tiers_leases", "Leases granted.", self.leases_granted),
            (
                "nagaya_tiers_registrations",
                "Keys registered as about to be written.",
                self.registrations,
            ),
            (
                "nagaya_tiers_waits",
                "Commands that waited for their tag.",
                self.waits,
            ),
            ("nagaya_tiers_loads", "Tags brought into memory.", self.loaded),
            (
                "nagaya_tiers_loads_failed",
                "Loads that failed.",
                self.loads_failed,
            ),
            (
                "nagaya_tiers_saves",
                "Snapshots of tags committed to the cold tier.",
                self.saved,
            ),
            (
                "nagaya_tiers_saves_refused",
                "Snapshots refused because the cold tier has something newer.",
                self.saves_refused,
            ),
            ("nagaya_tiers_evictions", "Tags that left memory.", self.evicted),
            (
                "nagaya_tiers_task_errors",
                "Rounds of saving or evicting that failed.",
                self.task_errors,
            ),
            (
                "nagaya_tiers_news",
                "Tags whose use was written down.",
                self.news_delivered,
            ),
            (
                "nagaya_tiers_news_dropped",
                "Uses of tags that were forgotten.",
                self.news_dropped,
            ),
        ];
        for (name, help, value) in counters {
            let counter = ConstCounter::new(value);
            counter.encode(encoder.encode_descriptor(name, help, None, counter.metric_type())?)?;
        }
        let gauges = [
            ("nagaya_tiers_connections", "Clients connected.", self.connections),
            (
                "nagaya_tiers_nodes_open",
                "Nodes that requests can be sent to.",
                self.nodes_open,
            ),
            (
                "nagaya_tiers_loads_waiting",
                "Tags that wait to be loaded.",
                self.loads_waiting,
            ),
            (
                "nagaya_tiers_shards",
                "Parts of the slots that this process saves.",
                self.shards,
            ),
            (
                "nagaya_tiers_nodes_full",
                "Nodes above their high-water mark.",
                self.nodes_full,
            ),
        ];
        for (name, help, value) in gauges {
            let gauge = ConstGauge::new(value as f64);
            gauge.encode(encoder.encode_descriptor(name, help, None, gauge.metric_type())?)?;
        }
        let staleness = ConstGauge::new(self.staleness.as_secs_f64());
        let help = "Age of the oldest change that is not known to be saved.";
        staleness.encode(encoder.encode_descriptor(
            "nagaya_tiers_staleness",
            help,
            Some(&Unit::Seconds),
            staleness.metric_type(),
        )?)
    }
}
