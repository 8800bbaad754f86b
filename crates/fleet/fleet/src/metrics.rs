//! Metrics of the fleet's manager, read from its status at each scrape.

use std::fmt;
use std::time::Duration;

use nagaya_telemetry::metrics::Stats;
use prometheus_client::encoding::{DescriptorEncoder, EncodeMetric};
use prometheus_client::metrics::counter::ConstCounter;
use prometheus_client::metrics::gauge::ConstGauge;
use prometheus_client::registry::Unit;

/// Statistics at one moment, as one manager sees the fleet.
#[derive(Clone, Debug, Default)]
pub struct FleetStats {
    pub workers: u64,
    pub live_instances: u64,
    /// Workers that fit on no instance.
    pub unplaced: u64,
    /// Most minus fewest workers on the instances that accept any.
    pub spread: u64,
    /// Workers by health.
    pub healthy: u64,
    pub failing: u64,
    pub quarantined: u64,
    /// Instances that were emptied because many different workers failed on them.
    pub cordoned: Vec<String>,
    /// Stops that wait for a confirmation.
    pub held_stops: u64,
    pub placed: u64,
    /// Running workers that were asked to move.
    pub moves: u64,
    pub deaths: u64,
    /// Objects of the last list that could not be used.
    pub left_out: u64,
    pub syncs: u64,
    pub sync_failures: u64,
    /// Worker time without a running copy.
    pub dark: Duration,
    /// Worker time past a lease, the only time in which two copies can have run.
    pub double_run: Duration,
}

impl Stats for FleetStats {
    fn encode(&self, mut encoder: DescriptorEncoder<'_>) -> fmt::Result {
        let counters = [
            (
                "nagaya_fleet_placed",
                "Workers given to an instance by this manager.",
                self.placed,
            ),
            (
                "nagaya_fleet_moves",
                "Running workers that this manager asked to move.",
                self.moves,
            ),
            (
                "nagaya_fleet_deaths",
                "Instances that this manager declared dead.",
                self.deaths,
            ),
            (
                "nagaya_fleet_syncs",
                "Outside lists read and applied.",
                self.syncs,
            ),
            (
                "nagaya_fleet_sync_failures",
                "Outside lists that could not be read.",
                self.sync_failures,
            ),
        ];
        for (name, help, value) in counters {
            let counter = ConstCounter::new(value);
            counter.encode(encoder.encode_descriptor(name, help, None, counter.metric_type())?)?;
        }
        let times = [
            (
                "nagaya_fleet_dark",
                "Worker time without a running copy, as far as this manager saw it.",
                self.dark,
            ),
            (
                "nagaya_fleet_double_run",
                "Worker time past a lease, in which alone a second copy can have run.",
                self.double_run,
            ),
        ];
        for (name, help, value) in times {
            let counter = ConstCounter::new(value.as_secs_f64());
            let unit = Some(&Unit::Seconds);
            counter.encode(encoder.encode_descriptor(name, help, unit, counter.metric_type())?)?;
        }
        let gauges = [
            (
                "nagaya_fleet_workers",
                "Workers that are installed.",
                self.workers,
            ),
            (
                "nagaya_fleet_instances_live",
                "Instances that take workers.",
                self.live_instances,
            ),
            (
                "nagaya_fleet_unplaced",
                "Workers that fit nowhere.",
                self.unplaced,
            ),
            (
                "nagaya_fleet_workers_healthy",
                "Workers that have been up for a while.",
                self.healthy,
            ),
            (
                "nagaya_fleet_workers_failing",
                "Workers that failed since they were healthy last.",
                self.failing,
            ),
            (
                "nagaya_fleet_workers_quarantined",
                "Workers that fail again and again and are restarted rarely.",
                self.quarantined,
            ),
            (
                "nagaya_fleet_spread",
                "Most minus fewest workers on the instances that take any.",
                self.spread,
            ),
            (
                "nagaya_fleet_objects_left_out",
                "Objects of the last outside list that could not be used.",
                self.left_out,
            ),
            (
                "nagaya_fleet_held_stops",
                "Stops that wait for a confirmation.",
                self.held_stops,
            ),
        ];
        for (name, help, value) in gauges {
            let gauge = ConstGauge::new(value as f64);
            gauge.encode(encoder.encode_descriptor(name, help, None, gauge.metric_type())?)?;
        }
        let help = "Instances emptied because many different workers failed on them: 1 each.";
        let gauge = ConstGauge::new(1.0);
        let mut family =
            encoder.encode_descriptor("nagaya_fleet_instance_cordoned", help, None, gauge.metric_type())?;
        for name in &self.cordoned {
            gauge.encode(family.encode_family(&[("name", name.as_str())])?)?;
        }
        Ok(())
    }
}
