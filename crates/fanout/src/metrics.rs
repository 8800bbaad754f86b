//! Metrics of the fan-out, read from its counters at each scrape.

use std::fmt;

use nagaya_telemetry::metrics::{LatencyStats, Stats};
use prometheus_client::encoding::{DescriptorEncoder, EncodeMetric};
use prometheus_client::metrics::MetricType;
use prometheus_client::metrics::counter::ConstCounter;
use prometheus_client::metrics::gauge::ConstGauge;
use prometheus_client::registry::Unit;

/// Statistics at one moment.
#[derive(Clone, Debug, Default)]
pub struct FanoutStats {
    pub accepted: u64,
    /// Outcomes of all endpoints together: stored answers, and endpoints that were shed.
    pub answers_ok: u64,
    pub sheds: u64,
    /// Rejected requests, by reason.
    pub turned_away: Vec<(&'static str, u64)>,
    /// Requests between arrival and reply, requests in progress, jobs in progress.
    pub handlers: u64,
    pub handlers_limit: u64,
    pub requests: u64,
    pub jobs: u64,
    pub store: StoreStats,
    pub endpoints: Vec<EndpointStats>,
}

/// Calls to the store.
#[derive(Clone, Debug, Default)]
pub struct StoreStats {
    pub kind: &'static str,
    pub records: u64,
    pub batches: u64,
    pub answers: u64,
    pub failures: u64,
    pub latency: LatencyStats,
}

/// One endpoint. Its name comes from the settings, so there are few.
#[derive(Clone, Debug, Default)]
pub struct EndpointStats {
    pub name: String,
    pub outcomes: Vec<(&'static str, u64)>,
    pub in_flight: u64,
    pub queued: u64,
    /// Whether its breaker is open.
    pub is_down: bool,
    pub latency: LatencyStats,
}

impl Stats for FanoutStats {
    fn encode(&self, mut encoder: DescriptorEncoder<'_>) -> fmt::Result {
        let accepted = ConstCounter::new(self.accepted);
        let help = "Requests taken.";
        accepted.encode(encoder.encode_descriptor(
            "nagaya_fanout_requests",
            help,
            None,
            accepted.metric_type(),
        )?)?;
        let sums = [
            (
                "nagaya_fanout_answers_ok",
                "Answers that came in time and are kept.",
                self.answers_ok,
            ),
            (
                "nagaya_fanout_sheds",
                "Endpoints that were not asked because too much was under way or they were down.",
                self.sheds,
            ),
        ];
        for (name, help, value) in sums {
            let counter = ConstCounter::new(value);
            counter.encode(encoder.encode_descriptor(name, help, None, counter.metric_type())?)?;
        }
        let help = "Requests not taken, by reason.";
        let turned = self
            .turned_away
            .iter()
            .map(|(why, count)| ([("reason", *why)], *count));
        counters(&mut encoder, "nagaya_fanout_turned_away", help, turned)?;
        encode_gauges(&mut encoder, self)?;
        encode_store(&mut encoder, &self.store)?;
        encode_endpoints(&mut encoder, &self.endpoints)
    }
}

fn counters<'a, const N: usize>(
    encoder: &mut DescriptorEncoder<'_>,
    name: &str,
    help: &str,
    counts: impl Iterator<Item = ([(&'static str, &'a str); N], u64)>,
) -> fmt::Result {
    let kind = ConstCounter::new(0u64).metric_type();
    let mut family = encoder.encode_descriptor(name, help, None, kind)?;
    for (labels, count) in counts {
        ConstCounter::new(count).encode(family.encode_family(&labels)?)?;
    }
    Ok(())
}

fn encode_gauges(encoder: &mut DescriptorEncoder<'_>, stats: &FanoutStats) -> fmt::Result {
    let gauges = [
        (
            "nagaya_fanout_handlers_busy",
            "Requests between arrival and reply.",
            stats.handlers,
        ),
        (
            "nagaya_fanout_handlers_limit",
            "Requests that may be between arrival and reply at the moment.",
            stats.handlers_limit,
        ),
        (
            "nagaya_fanout_requests_open",
            "Requests whose endpoints have not all answered.",
            stats.requests,
        ),
        (
            "nagaya_fanout_jobs_open",
            "Endpoints being asked or waiting to be.",
            stats.jobs,
        ),
    ];
    for (name, help, value) in gauges {
        let gauge = ConstGauge::new(value as f64);
        gauge.encode(encoder.encode_descriptor(name, help, None, gauge.metric_type())?)?;
    }
    Ok(())
}

fn encode_store(encoder: &mut DescriptorEncoder<'_>, store: &StoreStats) -> fmt::Result {
    let label = [("store", store.kind)];
    let counts = [
        (
            "nagaya_fanout_store_records",
            "Requests written to the store.",
            store.records,
        ),
        (
            "nagaya_fanout_store_batches",
            "Writes of answers that finished together.",
            store.batches,
        ),
        (
            "nagaya_fanout_store_answers",
            "Answers in those writes.",
            store.answers,
        ),
        (
            "nagaya_fanout_store_failures",
            "Writes that failed; some were tried again.",
            store.failures,
        ),
    ];
    for (name, help, count) in counts {
        counters(encoder, name, help, std::iter::once((label, count)))?;
    }
    let help = "Time of a write to the store.";
    let name = "nagaya_fanout_store_write";
    let mut family = encoder.encode_descriptor(name, help, Some(&Unit::Seconds), MetricType::Histogram)?;
    store.latency.encode(family.encode_family(&label)?)
}

fn encode_endpoints(encoder: &mut DescriptorEncoder<'_>, endpoints: &[EndpointStats]) -> fmt::Result {
    let outcomes = endpoints.iter().flat_map(|endpoint| {
        let name = endpoint.name.as_str();
        let outcomes = endpoint.outcomes.iter();
        outcomes.map(move |(outcome, count)| ([("endpoint", name), ("outcome", *outcome)], *count))
    });
    let help = "What became of endpoints.";
    counters(encoder, "nagaya_fanout_outcomes", help, outcomes)?;
    type Read = fn(&EndpointStats) -> u64;
    let gauges: [(&str, &str, Read); 3] = [
        (
            "nagaya_fanout_endpoint_busy",
            "Jobs being done for an endpoint.",
            |endpoint| endpoint.in_flight,
        ),
        (
            "nagaya_fanout_endpoint_queued",
            "Jobs waiting for an endpoint.",
            |endpoint| endpoint.queued,
        ),
        (
            "nagaya_fanout_endpoint_down",
            "1 while an endpoint is left alone because it is down.",
            |endpoint| u64::from(endpoint.is_down),
        ),
    ];
    for (name, help, read) in gauges {
        let mut family = encoder.encode_descriptor(name, help, None, MetricType::Gauge)?;
        for endpoint in endpoints {
            let label = [("endpoint", endpoint.name.as_str())];
            ConstGauge::new(read(endpoint) as f64).encode(family.encode_family(&label)?)?;
        }
    }
    let help = "Time from a request's arrival to the end of the fetch.";
    let name = "nagaya_fanout_fetch";
    let mut family = encoder.encode_descriptor(name, help, Some(&Unit::Seconds), MetricType::Histogram)?;
    for endpoint in endpoints {
        let label = [("endpoint", endpoint.name.as_str())];
        endpoint.latency.encode(family.encode_family(&label)?)?;
    }
    Ok(())
}
