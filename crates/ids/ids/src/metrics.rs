//! Metrics of the id service, read from its own counters at each scrape.

use std::fmt;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use nagaya_telemetry::metrics::Stats;
use prometheus_client::encoding::{DescriptorEncoder, EncodeMetric};
use prometheus_client::metrics::counter::ConstCounter;
use prometheus_client::metrics::gauge::ConstGauge;
use prometheus_client::registry::Unit;

use crate::lease::LeaseStats;

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
    /// Of the lease, if the number is leased.
    pub lease: Option<LeaseNow>,
}

/// The lease at one moment.
#[derive(Clone, Copy, Debug, Default)]
pub struct LeaseNow {
    pub renewals_failed: u64,
    pub none_free: u64,
    pub late: u64,
    /// Numbers that nobody has reserved, as of the last renewal.
    pub free: u64,
    /// How long the number may still be used without a renewal.
    pub window_left: Duration,
}

impl LeaseNow {
    /// Reads a holder's counts; `window_left` is for the caller to say.
    pub fn of(stats: &LeaseStats, window_left: Duration) -> LeaseNow {
        let read = |count: &AtomicU64| count.load(Ordering::Relaxed);
        LeaseNow {
            renewals_failed: read(&stats.renewals_failed),
            none_free: read(&stats.none_free),
            late: read(&stats.late),
            free: read(&stats.free),
            window_left,
        }
    }

    fn encode(&self, encoder: &mut DescriptorEncoder<'_>) -> fmt::Result {
        let counters = [
            (
                "nagaya_ids_renewals_failed",
                "Renewals of the number that were not confirmed.",
                self.renewals_failed,
            ),
            (
                "nagaya_ids_none_free",
                "Tries to get a number that found all of them reserved.",
                self.none_free,
            ),
            (
                "nagaya_ids_late",
                "Tries to get a number that found this machine's clock behind all that are free.",
                self.late,
            ),
        ];
        for (name, help, value) in counters {
            let counter = ConstCounter::new(value);
            counter.encode(encoder.encode_descriptor(name, help, None, counter.metric_type())?)?;
        }
        let free = ConstGauge::new(self.free as f64);
        let help = "Numbers of the pool that nobody has reserved, as of the last renewal.";
        free.encode(encoder.encode_descriptor("nagaya_ids_numbers_free", help, None, free.metric_type())?)?;
        let left = ConstGauge::new(self.window_left.as_secs_f64());
        let help = "How long the number may still be used if it is not renewed.";
        let unit = Some(&Unit::Seconds);
        left.encode(encoder.encode_descriptor("nagaya_ids_window_left", help, unit, left.metric_type())?)
    }
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
        if let Some(lease) = &self.lease {
            lease.encode(&mut encoder)?;
        }
        Ok(())
    }
}
