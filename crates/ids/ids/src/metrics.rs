//! Metrics of the id service, read from its own counters at each scrape.

use std::fmt;

use nagaya_telemetry::metrics::Stats;
use prometheus_client::encoding::{DescriptorEncoder, EncodeMetric};
use prometheus_client::metrics::counter::ConstCounter;
use prometheus_client::metrics::gauge::ConstGauge;
use prometheus_client::registry::Unit;

/// Statistics at one moment.
#[derive(Clone, Copy, Debug, Default)]
pub struct IdsStats {
    /// Memcached connections.
    pub connections: u64,
    pub connections_refused: u64,
    /// Requests for ids over all protocols.
    pub requests: u64,
    pub requests_failed: u64,
    pub issued: u64,
    /// The number and its fence, if one is held.
    pub worker: Option<(u64, u64)>,
    /// Whether ids may be made now.
    pub usable: bool,
    /// How far the wall clock is ahead of the one that ids are stamped with.
    pub clock_behind_ms: i64,
}

impl Stats for IdsStats {
    fn encode(&self, mut encoder: DescriptorEncoder<'_>) -> fmt::Result {
        let counters = [
            ("nagaya_ids_issued", "Ids given out.", self.issued),
            ("nagaya_ids_requests", "Requests for ids.", self.requests),
            (
                "nagaya_ids_requests_failed",
                "Requests for ids that got an error.",
                self.requests_failed,
            ),
            (
                "nagaya_ids_connections_refused",
                "Memcached clients turned away because the limit was reached.",
                self.connections_refused,
            ),
        ];
        for (name, help, value) in counters {
            let counter = ConstCounter::new(value);
            counter.encode(encoder.encode_descriptor(name, help, None, counter.metric_type())?)?;
        }
        let mut gauge = |name: &str, help: &str, unit: Option<&Unit>, value: f64| {
            let gauge = ConstGauge::new(value);
            gauge.encode(encoder.encode_descriptor(name, help, unit, gauge.metric_type())?)
        };
        gauge(
            "nagaya_ids_connections_open",
            "Memcached clients connected now.",
            None,
            self.connections as f64,
        )?;
        gauge(
            "nagaya_ids_usable",
            "1 while ids may be made, 0 while no number is held or its lease is late.",
            None,
            if self.usable { 1.0 } else { 0.0 },
        )?;
        let skew = self.clock_behind_ms as f64 / 1000.0;
        let help = "How far the wall clock is ahead of the clock that ids are stamped with.";
        gauge("nagaya_ids_clock_behind", help, Some(&Unit::Seconds), skew)?;
        if let Some((worker, fence)) = self.worker {
            gauge("nagaya_ids_worker", "The number in use.", None, worker as f64)?;
            gauge(
                "nagaya_ids_fence",
                "The fence of the number in use.",
                None,
                fence as f64,
            )?;
        }
        Ok(())
    }
}
