//! Clocks that are set, and servers that were away.

use super::{Harness, job_with, one, seconds};
use crate::clock::Clock;
use crate::error::Error;
use crate::request::Extension;
use crate::state::State;

const HOUR_MS: i64 = 3_600_000;

pub async fn a_clock_that_is_set_ahead_costs_no_lease(h: &Harness) {
    let id = h.enqueue(job_with(|job| job.timeout = Some(seconds(60)))).await;
    let lease = h.take().await;
    h.settle().await;
    h.clock.advance(seconds(5));
    h.clock.set(h.now_ms() + HOUR_MS);
    for server in [h, &h.swapped()] {
        server.settle().await;
        assert_eq!(server.state(id).await, State::Running);
    }
    let extension = Extension { lease, length: None };
    let until_ms = one(h.store.extend(vec![extension]).await.unwrap()).unwrap();
    assert_eq!(until_ms, h.clock.unix_ms() + 60_000);
    // The lease is as long as ever on the new clock.
    h.pass(seconds(59)).await;
    assert_eq!(h.state(id).await, State::Running);
    h.pass(seconds(2)).await;
    assert_eq!(h.state(id).await, State::Waiting);
    assert_eq!(h.view(id).await.attempts.len(), 1);
    h.check().await;
}

pub async fn a_clock_that_is_set_back_makes_no_lease_longer(h: &Harness) {
    let id = h.enqueue(job_with(|job| job.timeout = Some(seconds(2)))).await;
    let lease = h.take().await;
    h.settle().await;
    h.clock.set(h.now_ms() - HOUR_MS);
    h.swapped().settle().await;
    h.settle().await;
    assert_eq!(h.state(id).await, State::Running);
    h.pass(seconds(5)).await;
    assert_eq!(h.state(id).await, State::Waiting, "not an hour later");
    let late = h.complete(lease, None).await;
    assert!(matches!(late, Err(Error::LeaseLost { .. })));
    h.check().await;
}

pub async fn a_servers_downtime_does_not_count_against_leases(h: &Harness) {
    h.settle().await;
    let ids = h
        .enqueue_many(vec![job_with(|job| job.timeout = Some(seconds(2))); 3])
        .await;
    let leases: Vec<_> = h.claim("q", 3).await.iter().map(|job| job.lease).collect();
    let h = h.restart_after(seconds(4)).await;
    h.settle().await;
    for (id, lease) in ids.into_iter().zip(leases) {
        assert_eq!(h.state(id).await, State::Running);
        h.finish(lease).await;
        assert_eq!(h.view(id).await.attempts.len(), 1, "no attempt is lost");
    }
    h.check().await;
    h.store.close().await;
}

pub async fn leases_end_after_a_start_when_nobody_is_heard(h: &Harness) {
    h.settle().await;
    let short = h.enqueue(job_with(|job| job.timeout = Some(seconds(2)))).await;
    let long = h
        .enqueue(job_with(|job| job.timeout = Some(seconds(3_600))))
        .await;
    assert_eq!(h.claim("q", 2).await.len(), 2);
    let h = h.restart_after(seconds(2 * 3_600)).await;
    h.settle().await;
    h.pass(seconds(3)).await;
    assert_eq!(h.state(short).await, State::Waiting, "its own length is over");
    assert_eq!(h.state(long).await, State::Running);
    h.pass(seconds(60)).await;
    assert_eq!(h.state(long).await, State::Waiting, "a minute is over");
    h.check().await;
    h.store.close().await;
}
