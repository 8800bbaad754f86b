//! The counters as metrics.

use std::sync::atomic::Ordering;

use nagaya_fanout::metrics::{EndpointStats, FanoutStats, StoreStats};
use nagaya_fanout::{Endpoint, Fanout, Latency, RejectReason, State};
use nagaya_telemetry::metrics::LatencyStats;

/// Reads all statistics for a scrape.
pub(super) fn read(fanout: &Fanout) -> FanoutStats {
    let counts = fanout.counts();
    let count = |counter: &std::sync::atomic::AtomicU64| counter.load(Ordering::Relaxed);
    let (handlers, requests, jobs) = fanout.in_flight();
    FanoutStats {
        accepted: count(&counts.accepted),
        answers_ok: counts.outcome(State::Ok),
        sheds: counts.outcome(State::Shed),
        turned_away: RejectReason::ALL
            .iter()
            .map(|why| (why.word(), counts.rejected(*why)))
            .collect(),
        handlers: handlers as u64,
        handlers_limit: fanout.handlers_limit() as u64,
        requests: requests as u64,
        jobs: jobs as u64,
        store: StoreStats {
            kind: fanout.store().kind(),
            records: count(&counts.records),
            batches: count(&counts.batches),
            answers: count(&counts.answers),
            failures: count(&counts.store_failures),
            latency: latency(&counts.store_latency),
        },
        endpoints: fanout
            .endpoints()
            .iter()
            .map(|endpoint| read_endpoint(endpoint))
            .collect(),
    }
}

fn read_endpoint(endpoint: &Endpoint) -> EndpointStats {
    let counts = endpoint.counts();
    let (in_flight, queued) = endpoint.jobs();
    EndpointStats {
        name: endpoint.name().to_owned(),
        outcomes: State::ALL
            .iter()
            .map(|state| (state.word(), counts.outcome(*state)))
            .collect(),
        in_flight: in_flight as u64,
        queued: queued as u64,
        is_down: endpoint.is_down(),
        latency: latency(&counts.latency),
    }
}

fn latency(latency: &Latency) -> LatencyStats {
    LatencyStats {
        buckets: latency.buckets(),
        seconds: latency.seconds(),
    }
}
