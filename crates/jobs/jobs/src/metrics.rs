//! Metrics of jobs, read at each scrape.
//!
//! What is counted by queue is the store's and the same on all servers that share it; the rest is this server's
//! own.

use std::fmt;

use nagaya_telemetry::metrics::{LatencyStats, Stats};
use prometheus_client::encoding::{DescriptorEncoder, EncodeMetric};
use prometheus_client::metrics::MetricType;
use prometheus_client::metrics::counter::ConstCounter;
use prometheus_client::metrics::gauge::ConstGauge;
use prometheus_client::registry::Unit;

/// Statistics at one moment.
#[derive(Clone, Debug, Default)]
pub struct JobsStats {
    pub queues: Vec<QueueStats>,
    pub calls: Vec<CallStats>,
    pub until_start: LatencyStats,
    pub run: LatencyStats,
    pub log_head: u64,
    pub log_lag: u64,
    /// How far the hindmost subscription is behind.
    pub subscription_lag: u64,
    /// Tries of webhooks and of notices, by outcome.
    pub deliveries: Vec<(&'static str, u64)>,
    pub notices: Vec<(&'static str, u64)>,
}

/// One queue, or all that have no label of their own.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct QueueStats {
    pub name: String,
    pub waiting: u64,
    pub blocked: u64,
    pub scheduled: u64,
    pub running: u64,
    pub enqueued: u64,
    pub started: u64,
    pub succeeded: u64,
    pub failed: u64,
    pub cancelled: u64,
    /// Attempts that failed and were followed by another.
    pub retried: u64,
    pub leases_lost: u64,
    pub late_reports: u64,
}

/// How often a call went to the store, and with how much.
#[derive(Clone, Debug, Default)]
pub struct CallStats {
    pub name: &'static str,
    pub batches: u64,
    pub items: u64,
}

impl Stats for JobsStats {
    fn encode(&self, mut encoder: DescriptorEncoder<'_>) -> fmt::Result {
        encode_queues(&mut encoder, &self.queues)?;
        let batches = self
            .calls
            .iter()
            .map(|call| ([("call", call.name)], call.batches));
        let help = "Batches that went to the store; each is at most one commit.";
        counters(&mut encoder, "nagaya_jobs_batches", help, batches)?;
        let items = self.calls.iter().map(|call| ([("call", call.name)], call.items));
        let help = "Jobs, reports or claimed jobs in those batches.";
        counters(&mut encoder, "nagaya_jobs_batch_items", help, items)?;
        let help = "Time from registration to the first attempt.";
        histogram(&mut encoder, "nagaya_jobs_until_start", help, &self.until_start)?;
        let help = "Time of attempts that were claimed and reported at this server.";
        histogram(&mut encoder, "nagaya_jobs_run", help, &self.run)?;
        encode_log(&mut encoder, self)?;
        let outcomes = |all: &[(&'static str, u64)]| {
            let label = |(outcome, count): &(&'static str, u64)| ([("outcome", *outcome)], *count);
            all.iter().map(label).collect::<Vec<_>>()
        };
        let help = "Tries of webhooks by this server, by outcome.";
        let deliveries = outcomes(&self.deliveries).into_iter();
        counters(&mut encoder, "nagaya_jobs_deliveries", help, deliveries)?;
        let help = "Tries of notices to administrators by this server, by outcome.";
        let notices = outcomes(&self.notices).into_iter();
        counters(&mut encoder, "nagaya_jobs_notices", help, notices)
    }
}

type Read = fn(&QueueStats) -> u64;

const GAUGES: [(&str, &str, Read); 4] = [
    ("nagaya_jobs_waiting", "Jobs that can be claimed.", |queue| {
        queue.waiting
    }),
    (
        "nagaya_jobs_blocked",
        "Jobs that wait for other jobs or for a place under their key.",
        |queue| queue.blocked,
    ),
    (
        "nagaya_jobs_scheduled",
        "Jobs whose time has not come.",
        |queue| queue.scheduled,
    ),
    ("nagaya_jobs_running", "Jobs that a worker has.", |queue| {
        queue.running
    }),
];

const COUNTERS: [(&str, &str, Read); 5] = [
    ("nagaya_jobs_enqueued", "Jobs registered.", |queue| queue.enqueued),
    ("nagaya_jobs_claimed", "Attempts begun.", |queue| queue.started),
    (
        "nagaya_jobs_retried",
        "Attempts that failed and were followed by another.",
        |queue| queue.retried,
    ),
    ("nagaya_jobs_leases_lost", "Leases that ran out.", |queue| {
        queue.leases_lost
    }),
    (
        "nagaya_jobs_late_reports",
        "Reports that came too late and changed nothing.",
        |queue| queue.late_reports,
    ),
];

fn encode_queues(encoder: &mut DescriptorEncoder<'_>, queues: &[QueueStats]) -> fmt::Result {
    for (name, help, read) in GAUGES {
        let mut family = encoder.encode_descriptor(name, help, None, MetricType::Gauge)?;
        for queue in queues {
            let label = [("queue", queue.name.as_str())];
            ConstGauge::new(read(queue) as f64).encode(family.encode_family(&label)?)?;
        }
    }
    for (name, help, read) in COUNTERS {
        let counts = queues
            .iter()
            .map(|queue| ([("queue", queue.name.as_str())], read(queue)));
        counters(encoder, name, help, counts)?;
    }
    let finished = queues.iter().flat_map(|queue| {
        let label = |state| [("queue", queue.name.as_str()), ("state", state)];
        [
            (label("succeeded"), queue.succeeded),
            (label("failed"), queue.failed),
            (label("cancelled"), queue.cancelled),
        ]
    });
    counters(
        encoder,
        "nagaya_jobs_finished",
        "Jobs that ended, by how.",
        finished,
    )
}

fn encode_log(encoder: &mut DescriptorEncoder<'_>, stats: &JobsStats) -> fmt::Result {
    let gauges = [
        (
            "nagaya_jobs_log_position",
            "The last position of the log of events.",
            stats.log_head,
        ),
        (
            "nagaya_jobs_log_lag",
            "Positions of the log that this server has not passed on yet.",
            stats.log_lag,
        ),
        (
            "nagaya_jobs_subscription_lag",
            "Positions that the hindmost subscription has not acknowledged.",
            stats.subscription_lag,
        ),
    ];
    for (name, help, value) in gauges {
        let gauge = ConstGauge::new(value as f64);
        gauge.encode(encoder.encode_descriptor(name, help, None, gauge.metric_type())?)?;
    }
    Ok(())
}

fn counters<'a, const N: usize>(
    encoder: &mut DescriptorEncoder<'_>,
    name: &str,
    help: &str,
    counts: impl Iterator<Item = ([(&'static str, &'a str); N], u64)>,
) -> fmt::Result {
    let mut family = encoder.encode_descriptor(name, help, None, MetricType::Counter)?;
    for (labels, count) in counts {
        ConstCounter::new(count).encode(family.encode_family(&labels)?)?;
    }
    Ok(())
}

fn histogram(
    encoder: &mut DescriptorEncoder<'_>,
    name: &str,
    help: &str,
    times: &LatencyStats,
) -> fmt::Result {
    times.encode(encoder.encode_descriptor(name, help, Some(&Unit::Seconds), MetricType::Histogram)?)
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use super::*;
    use nagaya_clock::ManualClock;
    use nagaya_telemetry::metrics::Metrics;

    #[test]
    fn a_scrape_tells_of_queues_batches_and_times() {
        let metrics = Metrics::new("1.2.3", Arc::new(ManualClock::at_unix_ms(0)));
        metrics.register(|| JobsStats {
            queues: vec![QueueStats {
                name: "mail".to_owned(),
                waiting: 3,
                enqueued: 9,
                failed: 2,
                ..QueueStats::default()
            }],
            calls: vec![CallStats {
                name: "claim",
                batches: 4,
                items: 40,
            }],
            run: LatencyStats {
                buckets: vec![(0.5, 1), (f64::INFINITY, 1)],
                seconds: 7.5,
            },
            log_lag: 5,
            deliveries: vec![("delivered", 6)],
            ..JobsStats::default()
        });
        let text = metrics.render().unwrap();
        for line in [
            "nagaya_jobs_waiting{queue=\"mail\"} 3.0",
            "nagaya_jobs_enqueued_total{queue=\"mail\"} 9",
            "nagaya_jobs_finished_total{queue=\"mail\",state=\"failed\"} 2",
            "nagaya_jobs_batch_items_total{call=\"claim\"} 40",
            "nagaya_jobs_run_seconds_bucket{le=\"0.5\"} 1",
            "nagaya_jobs_run_seconds_bucket{le=\"+Inf\"} 2",
            "nagaya_jobs_log_lag 5.0",
            "nagaya_jobs_deliveries_total{outcome=\"delivered\"} 6",
        ] {
            assert!(
                text.lines().any(|found| found == line),
                "{line} is missing in\n{text}"
            );
        }
    }
}
