//! The jobs' counters as metrics.
//!
//! What the store counts is read from it now and then, so that a scrape waits for nothing; what this server counts
//! is read at the scrape.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use nagaya_deliver::notify::Notifier;
use nagaya_deliver::webhook::Deliverer;
use nagaya_jobs::Visibility;
use nagaya_jobs::metrics::{CallStats, JobsStats, QueueStats};
use nagaya_jobs::queue::{Counted, QueueView};
use nagaya_jobs::service::{Jobs, Times};
use nagaya_telemetry::metrics::LatencyStats;
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;
use tracing::debug;

/// Queues with a label of their own, the first ones that there were; the others share one.
const QUEUES_MAX: usize = 50;
/// The label of the others.
const OTHERS: &str = "other";
/// Interval between two readings of the store.
const EVERY: Duration = Duration::from_secs(2);
/// Pause after a reading, as a multiple of its duration: counting a long queue in PostgreSQL is expensive.
const REST_FACTOR: u32 = 20;

/// The last reading of the store.
#[derive(Clone, Debug, Default)]
struct Sample {
    queues: Vec<QueueStats>,
    hindmost: Option<u64>,
}

/// Reads the statistics of jobs, webhooks and notices.
#[derive(Clone)]
pub(super) struct StatsReader {
    jobs: Jobs,
    deliverer: Arc<Deliverer>,
    notifier: Notifier,
    sample: Arc<Mutex<Sample>>,
}

impl StatsReader {
    pub(super) fn new(jobs: &Jobs, deliverer: &Arc<Deliverer>, notifier: &Notifier) -> StatsReader {
        StatsReader {
            jobs: jobs.clone(),
            deliverer: Arc::clone(deliverer),
            notifier: notifier.clone(),
            sample: Arc::default(),
        }
    }

    /// Reads the store's counts periodically until cancelled.
    pub(super) async fn run(self, stop: CancellationToken) {
        loop {
            let began = Instant::now();
            match self.look().await {
                Ok(sample) => *self.sample.lock().unwrap_or_else(PoisonError::into_inner) = sample,
                Err(error) => debug!(%error, "jobs could not be counted"),
            }
            let rest = EVERY.max(began.elapsed() * REST_FACTOR);
            tokio::select! {
                () = stop.cancelled() => return,
                () = tokio::time::sleep(rest) => (),
            }
        }
    }

    async fn look(&self) -> Result<Sample, nagaya_jobs::Error> {
        let store = self.jobs.store();
        let subscriptions = store.subscriptions(None).await?;
        Ok(Sample {
            queues: labelled(store.queues(Visibility::everything(), Counted::Open).await?),
            hindmost: subscriptions.iter().map(|one| one.cursor).min(),
        })
    }

    /// Reads all statistics for a scrape.
    pub(super) fn read(&self) -> JobsStats {
        let sample = self.sample.lock().unwrap_or_else(PoisonError::into_inner).clone();
        let own = self.jobs.stats();
        let webhooks = self.deliverer.stats();
        let (sent, not_sent) = self.notifier.tries();
        let calls = own.calls.iter().map(|one| CallStats {
            name: one.call.name(),
            batches: one.batches,
            items: one.items,
        });
        JobsStats {
            queues: sample.queues,
            calls: calls.collect(),
            until_start: latency(own.until_start),
            run: latency(own.run),
            log_head: own.log_head,
            log_lag: own.log_lag,
            subscription_lag: sample
                .hindmost
                .map_or(0, |cursor| own.log_head.saturating_sub(cursor)),
            deliveries: vec![
                ("delivered", webhooks.delivered),
                ("failed", webhooks.failed),
                ("gave_up", webhooks.gave_up),
                ("put_off", webhooks.put_off),
            ],
            notices: vec![("sent", sent), ("failed", not_sent)],
        }
    }
}

fn latency(times: Times) -> LatencyStats {
    LatencyStats {
        buckets: times.buckets,
        seconds: times.seconds,
    }
}

/// Gives the oldest queues a label each and adds the others up: a queue never changes its label, so no counter
/// goes backwards.
fn labelled(mut queues: Vec<QueueView>) -> Vec<QueueStats> {
    queues.sort_by(|one, other| (one.created_at_ms, &one.name).cmp(&(other.created_at_ms, &other.name)));
    let mut figures: BTreeMap<String, QueueStats> = BTreeMap::new();
    for (place, queue) in queues.iter().enumerate() {
        let name = if place < QUEUES_MAX {
            queue.name.as_str()
        } else {
            OTHERS
        };
        let sum = figures.entry(name.to_owned()).or_insert_with(|| QueueStats {
            name: name.to_owned(),
            ..QueueStats::default()
        });
        add(sum, queue);
    }
    figures.into_values().collect()
}

fn add(sum: &mut QueueStats, queue: &QueueView) {
    let (depth, throughput) = (&queue.depth, &queue.throughput);
    sum.waiting += depth.ready;
    sum.blocked += depth.blocked;
    sum.scheduled += depth.scheduled;
    sum.running += depth.running;
    sum.enqueued += throughput.enqueued;
    sum.started += throughput.started;
    sum.succeeded += throughput.succeeded;
    sum.failed += throughput.failed;
    sum.cancelled += throughput.cancelled;
    sum.retried += throughput.attempts_failed.saturating_sub(throughput.failed);
    sum.leases_lost += throughput.leases_lost;
    sum.late_reports += throughput.late_reports;
}

#[cfg(test)]
mod tests {
    use nagaya_jobs::QueueName;
    use nagaya_jobs::queue::{Depth, QueueSettings, Throughput};

    use super::*;

    fn queue(number: usize) -> QueueView {
        QueueView {
            name: QueueName::new(&format!("queue-{number}")).unwrap(),
            settings: QueueSettings::default(),
            paused: false,
            created_at_ms: number as i64,
            depth: Depth {
                ready: 1,
                ..Depth::default()
            },
            throughput: Throughput {
                attempts_failed: 5,
                failed: 2,
                ..Throughput::default()
            },
            oldest_ready_at_ms: None,
            last_claim_at_ms: None,
        }
    }

    #[test]
    fn queues_beyond_the_bound_share_a_label() {
        let all = labelled((0..QUEUES_MAX + 7).rev().map(queue).collect());
        assert_eq!(all.len(), QUEUES_MAX + 1);
        let others = all.iter().find(|one| one.name == OTHERS).unwrap();
        assert_eq!((others.waiting, others.retried), (7, 21));
        assert!(
            all.iter().any(|one| one.name == "queue-0"),
            "the oldest keep their own"
        );
    }
}
