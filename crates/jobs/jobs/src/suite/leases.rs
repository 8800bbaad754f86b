//! Leases that are given back, extended together, and looked at.

use super::{Harness, job, job_with, one, seconds};
use crate::error::{Error, LostWhy};
use crate::event::{EventData, EventFilter, EventKind};
use crate::job::Concurrency;
use crate::request::{Extension, Failed, Release, Released};
use crate::state::{FailureTerms, Next, State};
use crate::token::Lease;

async fn release(h: &Harness, lease: Lease, delay_seconds: u64) -> Result<Released, Error> {
    let delay = seconds(delay_seconds);
    one(h.store.release(vec![Release { lease, delay }]).await.unwrap())
}

pub async fn a_job_given_back_costs_no_attempt(h: &Harness) {
    let id = h.enqueue(job_with(|job| job.max_retries = Some(0))).await;
    for _ in 0..3 {
        let lease = h.take().await;
        assert_eq!(lease.attempt, 1, "the number is used again");
        assert_eq!(release(h, lease, 0).await.unwrap(), Released::Waiting);
        assert_eq!(h.state(id).await, State::Waiting);
    }
    let view = h.view(id).await;
    assert_eq!((view.attempts.len(), view.summary.attempt), (0, 0));
    let events = h
        .store
        .events_after(0, EventFilter::default(), 100)
        .await
        .unwrap();
    let told = events
        .events
        .iter()
        .filter(|event| event.kind == EventKind::Released);
    let without_error = |data: &EventData| matches!(data, EventData::Retry { error: None, .. });
    assert!(told.clone().all(|event| without_error(&event.data)));
    assert_eq!(told.count(), 3);
    let lease = h.take().await;
    assert_eq!(
        h.fail(lease).await,
        Failed::Taken(Next::Failed),
        "the only attempt"
    );
    let queue = h.queue("q").await.unwrap();
    assert_eq!((queue.depth.failed, queue.throughput.attempts_failed), (1, 1));
    h.check().await;
}

pub async fn a_job_given_back_waits_as_long_as_it_is_told(h: &Harness) {
    let id = h.enqueue(job()).await;
    let lease = h.take().await;
    let at_ms = h.now_ms() + 30_000;
    assert_eq!(
        release(h, lease, 30).await.unwrap(),
        Released::Scheduled { at_ms }
    );
    assert_eq!(h.state(id).await, State::Scheduled);
    assert_eq!(h.store.next_times().await.unwrap().due_ms, Some(at_ms));
    h.pass(seconds(29)).await;
    assert!(h.claim("q", 1).await.is_empty());
    h.pass(seconds(1)).await;
    let lease = h.take().await;
    assert_eq!(lease.attempt, 1);
    h.finish(lease).await;
    h.check().await;
}

pub async fn a_lease_that_was_given_back_is_worth_nothing(h: &Harness) {
    let id = h.enqueue(job()).await;
    let old = h.take().await;
    release(h, old, 0).await.unwrap();
    let lost = |answer: Result<_, Error>| matches!(answer, Err(Error::LeaseLost { .. }));
    assert!(lost(release(h, old, 0).await.map(drop)), "given back before");
    let new = h.take().await;
    assert_eq!((new.attempt, new.nonce == old.nonce), (1, false));
    assert!(lost(h.complete(old, None).await.map(drop)));
    assert!(lost(release(h, old, 0).await.map(drop)));
    let failed = h.fail_with(old, "late", FailureTerms::default()).await;
    assert!(lost(failed.map(drop)));
    assert_eq!(h.state(id).await, State::Running, "the new lease stands");
    h.finish(new).await;
    h.check().await;
}

pub async fn a_job_given_back_leaves_its_place_to_others(h: &Harness) {
    let limited = || {
        job_with(|job| {
            job.concurrency = Some(Concurrency {
                key: "k".into(),
                limit: 1,
            });
        })
    };
    let ids = h.enqueue_many(vec![limited(), limited()]).await;
    let first = h.take().await;
    assert_eq!(first.id, ids[0]);
    release(h, first, 0).await.unwrap();
    let second = h.take().await;
    assert_eq!(second.id, ids[1], "the job that was given back goes behind");
    assert!(h.claim("q", 1).await.is_empty());
    h.finish(second).await;
    h.finish(h.take().await).await;
    h.check().await;
}

pub async fn leases_are_extended_together(h: &Harness) {
    h.enqueue_many(vec![job(), job(), job()]).await;
    let leases: Vec<Lease> = h.claim("q", 3).await.iter().map(|job| job.lease).collect();
    h.finish(leases[1]).await;
    let extension = |at: usize, length| Extension {
        lease: leases[at],
        length,
    };
    let answers = h
        .store
        .extend(vec![
            extension(2, Some(seconds(100))),
            extension(1, None),
            extension(0, None),
            extension(2, Some(seconds(200))),
        ])
        .await
        .unwrap();
    let now_ms = h.now_ms();
    let until_ms = |at: usize| answers[at].as_ref().ok().copied();
    assert_eq!(until_ms(0), Some(now_ms + 100_000));
    assert!(matches!(answers[1], Err(Error::LeaseLost { .. })));
    assert_eq!(until_ms(2), Some(now_ms + 60_000));
    assert_eq!(until_ms(3), Some(now_ms + 200_000));
    h.check().await;
}

pub async fn lost_leases_are_known_without_a_trace(h: &Harness) {
    let ids = h.enqueue_many(vec![job(), job(), job(), job()]).await;
    let leases: Vec<Lease> = h.claim("q", 4).await.iter().map(|job| job.lease).collect();
    h.cancel(ids[0]).await.unwrap();
    h.finish(leases[1]).await;
    let length = Some(seconds(600));
    let extension = Extension {
        lease: leases[2],
        length,
    };
    one(h.store.extend(vec![extension]).await.unwrap()).unwrap();
    h.pass(seconds(61)).await;
    let foreign = Lease {
        nonce: leases[2].nonce.wrapping_add(1),
        ..leases[2]
    };
    let mut asked = leases.clone();
    asked.push(foreign);
    let lost = h.store.lost(asked).await.unwrap();
    assert_eq!(
        lost,
        [
            Some(LostWhy::Cancelled),
            Some(LostWhy::Reported),
            None,
            Some(LostWhy::Expired),
            Some(LostWhy::Unknown),
        ]
    );
    for id in ids {
        assert_eq!(h.view(id).await.late_reports_count, 0);
    }
    assert_eq!(h.store.lost(Vec::new()).await.unwrap(), []);
    assert_eq!(h.queue("q").await.unwrap().throughput.late_reports, 0);
}
