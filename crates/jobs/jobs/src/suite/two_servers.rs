//! Two servers on one database: whatever one has done, the other goes on from.

use std::time::Duration;

use super::{Harness, job, job_with, one, queue, seconds, wants};
use crate::state::State;

/// Notifications between servers are batched, so that one may take a moment.
const NOTICE: Duration = Duration::from_secs(10);

pub async fn each_step_of_a_job_may_go_through_another_server(h: &Harness) {
    for (one, other) in [(h.clone(), h.swapped()), (h.swapped(), h.clone())] {
        let id = one.enqueue(job()).await;
        let lease = other.take().await;
        one.fail(lease).await;
        assert_eq!(other.state(id).await, State::Scheduled);
        other.pass(seconds(120)).await;
        let lease = one.take().await;
        other.finish(lease).await;
        assert_eq!(one.state(id).await, State::Succeeded);
        other.retry(id).await.unwrap();
        one.cancel(id).await.unwrap();
        assert_eq!(other.state(id).await, State::Cancelled);
    }
    h.check().await;
}

pub async fn priority_holds_across_servers(h: &Harness) {
    let backlog = (0..700).map(|_| job()).collect();
    h.enqueue_many(backlog).await;
    let other = h.swapped();
    for _ in 0..3 {
        assert_eq!(other.claim("q", 10).await.len(), 10);
    }
    let urgent = h.enqueue(job_with(|job| job.priority = 900)).await;
    // Before the notice has come, a server may go on where it was. It comes within moments, not after hundreds
    // of jobs.
    let deadline = tokio::time::Instant::now() + NOTICE;
    let mut ordinary = 0;
    loop {
        tokio::time::sleep(Duration::from_millis(50)).await;
        let claimed = one(other.store.claim(vec![wants("q", 10)]).await.unwrap());
        if claimed.iter().any(|job| job.lease.id == urgent) {
            break;
        }
        ordinary += claimed.len();
        assert!(
            tokio::time::Instant::now() < deadline,
            "{ordinary} ordinary jobs first"
        );
    }
    assert!(ordinary <= 100, "{ordinary} ordinary jobs first");
}

pub async fn a_queue_may_have_any_name(h: &Harness) {
    for name in ["log", "ready", "all"] {
        let id = h.enqueue(job_with(|job| job.queue = queue(name))).await;
        let claimed = h.swapped().claim(name, 1).await;
        assert_eq!(one(claimed).lease.id, id);
    }
}

pub async fn what_passed_is_counted_by_all_servers_together(h: &Harness) {
    let other = h.swapped();
    for _ in 0..3 {
        h.enqueue(job()).await;
        other.enqueue(job()).await;
        h.finish(other.take().await).await;
        h.fail_for_good(h.take().await).await;
    }
    for reader in [h, &other] {
        let passed = reader.queue("q").await.unwrap().throughput;
        assert_eq!((passed.enqueued, passed.started), (6, 6));
        assert_eq!(
            (passed.succeeded, passed.failed, passed.attempts_failed),
            (3, 3, 3)
        );
    }
}

pub async fn counts_are_committed_with_what_they_count(h: &Harness) {
    let seen_elsewhere = async || {
        let passed = h.swapped().queue("q").await.unwrap().throughput;
        (
            passed.enqueued,
            passed.started,
            passed.succeeded,
            passed.attempts_failed,
        )
    };
    // What another server sees right away is what a kill cannot take back.
    for number in 1..=4 {
        h.enqueue(job()).await;
        assert_eq!(seen_elsewhere().await, (number, number - 1, number - 1, 0));
        let lease = h.take().await;
        assert_eq!(seen_elsewhere().await, (number, number, number - 1, 0));
        h.finish(lease).await;
        assert_eq!(seen_elsewhere().await, (number, number, number, 0));
    }
    h.enqueue(job()).await;
    h.fail_for_good(h.take().await).await;
    assert_eq!(seen_elsewhere().await, (5, 5, 4, 1));
    h.settle().await;
    assert_eq!(seen_elsewhere().await, (5, 5, 4, 1), "adding up changes no sum");
}
