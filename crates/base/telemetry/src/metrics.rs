//! The metrics of a process: its own, those of the HTTP server, and what components add.
//!
//! A component declares its statistics in its own crate as [`Stats`] and registers how they are read;
//! they are read at each scrape. Clones of [`HttpMetrics`] share their counts.
//!
//! Labels come from closed sets only (routes as declared, methods, status codes): never from keys, ids or
//! anything else a peer makes up, or memory would grow with the number of peers.

use std::fmt;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use prometheus_client::collector::Collector;
use prometheus_client::encoding::text::encode;
use prometheus_client::encoding::{DescriptorEncoder, EncodeLabelSet, MetricEncoder, NoLabelSet};
use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::family::Family;
use prometheus_client::metrics::gauge::Gauge;
use prometheus_client::metrics::histogram::Histogram;
use prometheus_client::metrics::info::Info;
use prometheus_client::registry::{Registry, Unit};

use nagaya_clock::Clock;

use crate::process::ProcessCollector;

/// The media type of [`Metrics::render`].
pub const CONTENT_TYPE: &str = "application/openmetrics-text; version=1.0.0; charset=utf-8";

/// Upper ends of the latency buckets, in seconds: from a quick answer out of memory to a
/// long poll, about three to a decade.
const LATENCY_BUCKETS: [f64; 13] = [
    0.0005, 0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 10.0, 60.0,
];

/// All metrics of this process.
pub struct Metrics {
    /// Locked for a registration or a scrape only; counting does not need it.
    registry: Mutex<Registry>,
    pub http: HttpMetrics,
}

/// Statistics of a component at one moment. Each crate declares its own, with unit and help text.
pub trait Stats: 'static {
    fn encode(&self, encoder: DescriptorEncoder<'_>) -> fmt::Result;
}

/// Reads the statistics of a component at each scrape.
struct ScrapeCollector<S> {
    read: Box<dyn Fn() -> S + Send + Sync>,
}

impl<S> fmt::Debug for ScrapeCollector<S> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ScrapeCollector").finish_non_exhaustive()
    }
}

impl<S: Stats> Collector for ScrapeCollector<S> {
    fn encode(&self, encoder: DescriptorEncoder<'_>) -> fmt::Result {
        (self.read)().encode(encoder)
    }
}

/// A histogram of durations: counts by upper bound in seconds, and the sum.
#[derive(Clone, Debug, Default)]
pub struct LatencyStats {
    pub buckets: Vec<(f64, u64)>,
    pub seconds: f64,
}

impl LatencyStats {
    pub fn encode(&self, mut encoder: MetricEncoder<'_>) -> fmt::Result {
        let count = self.buckets.iter().map(|(_, count)| count).sum();
        encoder.encode_histogram::<NoLabelSet>(self.seconds, count, &self.buckets, None)
    }
}

/// Counters of the HTTP server.
#[derive(Clone, Debug)]
pub struct HttpMetrics {
    requests: Family<RequestLabels, Counter>,
    latency: Family<RouteLabels, Histogram>,
    pub connections_open: Gauge,
    pub connections_refused: Counter,
    pub connections_displaced: Counter,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
struct RequestLabels {
    method: &'static str,
    route: String,
    status: u16,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
struct RouteLabels {
    route: String,
}

impl Metrics {
    /// Declares the metrics of the process; `version` is that of the binary.
    pub fn new(version: &'static str, clock: Arc<dyn Clock>) -> Metrics {
        let mut registry = Registry::default();
        registry.register_collector(Box::new(ProcessCollector::new(clock)));
        let build = Info::new([("version", version)]);
        registry.register("nagaya_build", "Version of the running binary", build);
        let http = HttpMetrics::declare(registry.sub_registry_with_prefix("nagaya_http"));
        Metrics {
            registry: Mutex::new(registry),
            http,
        }
    }

    /// Adds a component whose statistics are read at each scrape.
    pub fn register<S: Stats>(&self, read: impl Fn() -> S + Send + Sync + 'static) {
        let collector = ScrapeCollector { read: Box::new(read) };
        self.lock().register_collector(Box::new(collector));
    }

    /// Writes all metrics as text, see [`CONTENT_TYPE`].
    pub fn render(&self) -> Result<String, fmt::Error> {
        let mut text = String::new();
        encode(&mut text, &self.lock())?;
        Ok(text)
    }

    fn lock(&self) -> std::sync::MutexGuard<'_, Registry> {
        self.registry
            .lock()
            .expect("a collector panicked during a scrape")
    }
}

impl HttpMetrics {
    fn declare(registry: &mut Registry) -> HttpMetrics {
        let metrics = HttpMetrics {
            requests: Family::default(),
            latency: Family::new_with_constructor(|| Histogram::new(LATENCY_BUCKETS)),
            connections_open: Gauge::default(),
            connections_refused: Counter::default(),
            connections_displaced: Counter::default(),
        };
        registry.register("requests", "Requests answered", metrics.requests.clone());
        registry.register_with_unit(
            "request_duration",
            "Time from a request's head to its answer's head",
            Unit::Seconds,
            metrics.latency.clone(),
        );
        registry.register(
            "connections_open",
            "Connections open now",
            metrics.connections_open.clone(),
        );
        registry.register(
            "connections_refused",
            "Connections answered 503 because the limit was reached",
            metrics.connections_refused.clone(),
        );
        registry.register(
            "connections_displaced",
            "Connections closed while they waited for their client, because a newcomer needed the place",
            metrics.connections_displaced.clone(),
        );
        metrics
    }

    /// Counts one answered request. `route` is the pattern as declared (`/v1/jobs/{id}`),
    /// never the path as asked.
    pub fn record(&self, method: &'static str, route: &str, status: u16, took: Duration) {
        let route = route.to_owned();
        self.latency
            .get_or_create(&RouteLabels { route: route.clone() })
            .observe(took.as_secs_f64());
        self.requests
            .get_or_create(&RequestLabels {
                method,
                route,
                status,
            })
            .inc();
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use nagaya_clock::ManualClock;

    #[test]
    fn a_scrape_tells_requests_uptime_and_version() {
        let clock = Arc::new(ManualClock::at_unix_ms(5_000));
        let metrics = Metrics::new("1.2.3", Arc::clone(&clock) as Arc<dyn Clock>);
        clock.advance(Duration::from_secs(90));
        metrics
            .http
            .record("GET", "/healthz", 200, Duration::from_millis(2));
        let text = metrics.render().unwrap();
        for line in [
            "nagaya_build_info{version=\"1.2.3\"} 1",
            "process_uptime_seconds 90.0",
            "process_start_time_seconds 5.0",
            "nagaya_http_requests_total{method=\"GET\",route=\"/healthz\",status=\"200\"} 1",
            "nagaya_http_request_duration_seconds_count{route=\"/healthz\"} 1",
            "nagaya_http_request_duration_seconds_bucket{le=\"0.0025\",route=\"/healthz\"} 1",
            "# UNIT nagaya_http_request_duration_seconds seconds",
            "# EOF",
        ] {
            assert!(
                text.lines().any(|found| found == line),
                "{line} is missing in\n{text}"
            );
        }
        if cfg!(target_os = "linux") {
            assert!(text.contains("process_resident_memory_bytes "), "{text}");
            assert!(text.contains("process_cpu_seconds_total "), "{text}");
        }
    }
}
