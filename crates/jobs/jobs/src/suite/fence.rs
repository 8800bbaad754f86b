//! What a token is worth, and when it is worth nothing.

use std::collections::HashSet;

use super::{Harness, job, job_with, one, seconds, wants};
use crate::backoff::Backoff;
use crate::error::{Error, LostWhy};
use crate::id::JobId;
use crate::job::Body;
use crate::limits::LATE_REPORTS_MAX;
use crate::request::{Completed, Extension, Failed, LogReport, ProgressReport};
use crate::state::{FailureTerms, State};
use crate::token::Lease;
use crate::view::Progress;

fn why<T: std::fmt::Debug>(answer: Result<T, Error>) -> LostWhy {
    match answer {
        Err(Error::LeaseLost { why, .. }) => why,
        other => panic!("not refused: {other:?}"),
    }
}

pub async fn a_repeated_completion_is_idempotent(h: &Harness) {
    let id = h.enqueue(job()).await;
    let lease = h.take().await;
    let result = Some(Body::json("{\"a\":1}"));
    assert_eq!(h.complete(lease, result.clone()).await.unwrap(), Completed::Done);
    let head = h.store.log_bounds().await.unwrap().head;
    for _ in 0..3 {
        assert_eq!(
            h.complete(lease, result.clone()).await.unwrap(),
            Completed::Repeated
        );
    }
    assert_eq!(
        h.store.log_bounds().await.unwrap().head,
        head,
        "a repeat is no event"
    );
    assert_eq!(h.view(id).await.late_reports_count, 0);
    h.check().await;
}

pub async fn a_completion_with_another_result_is_refused(h: &Harness) {
    let id = h.enqueue(job()).await;
    let lease = h.take().await;
    h.complete(lease, Some(Body::json("1"))).await.unwrap();
    assert_eq!(
        why(h.complete(lease, Some(Body::json("2"))).await),
        LostWhy::Conflict
    );
    assert_eq!(why(h.complete(lease, None).await), LostWhy::Conflict);
    let view = h.view(id).await;
    assert_eq!(view.result, Some(Body::json("1")));
    assert_eq!(view.late_reports_count, 2);
    assert_eq!(
        why(h.fail_with(lease, "x", FailureTerms::default()).await),
        LostWhy::Reported
    );
}

pub async fn a_repeated_failure_is_idempotent(h: &Harness) {
    let id = h.enqueue(job()).await;
    let lease = h.take().await;
    h.fail(lease).await;
    let again = h
        .fail_with(lease, "broken", FailureTerms::default())
        .await
        .unwrap();
    assert_eq!(again, Failed::Repeated);
    let other = h.fail_with(lease, "another", FailureTerms::default()).await;
    assert_eq!(why(other), LostWhy::Conflict);
    assert_eq!(why(h.complete(lease, None).await), LostWhy::Reported);
    assert_eq!(h.view(id).await.attempts.len(), 1);
    h.check().await;
}

pub async fn a_late_completion_changes_nothing_and_is_shown(h: &Harness) {
    let id = h.enqueue(job()).await;
    let lease = h.take().await;
    h.pass(seconds(61)).await;
    let answer = h.complete(lease, Some(Body::json("1"))).await;
    match answer {
        Err(Error::LeaseLost { why, state }) => {
            assert_eq!((why, state), (LostWhy::Expired, Some(State::Waiting)));
        }
        other => panic!("{other:?}"),
    }
    let view = h.view(id).await;
    assert_eq!((view.summary.state, view.result), (State::Waiting, None));
    assert_eq!(view.late_reports_count, 1);
    let late = &view.late_reports[0];
    assert_eq!(
        (late.attempt, late.what.as_str(), late.why.as_str()),
        (1, "complete", "expired")
    );
    assert_eq!(late.at_ms, h.now_ms());
    h.check().await;
}

pub async fn an_old_attempt_cannot_speak_for_the_new_one(h: &Harness) {
    let id = h.enqueue(job_with(|job| job.backoff = Some(Backoff::None))).await;
    let first = h.take().await;
    h.pass(seconds(61)).await;
    let second = h.take().await;
    assert_ne!((first.attempt, first.nonce), (second.attempt, second.nonce));
    assert_eq!(why(h.complete(first, None).await), LostWhy::Expired);
    assert_eq!(
        why(h.fail_with(first, "x", FailureTerms::default()).await),
        LostWhy::Expired
    );
    assert_eq!(h.state(id).await, State::Running);
    h.finish(second).await;
    assert_eq!(why(h.complete(first, None).await), LostWhy::Expired);
    h.check().await;
}

pub async fn a_foreign_nonce_is_refused(h: &Harness) {
    let id = h.enqueue(job()).await;
    let lease = h.take().await;
    let foreign = Lease {
        nonce: lease.nonce.wrapping_add(1),
        ..lease
    };
    let future = Lease { attempt: 2, ..lease };
    assert_eq!(why(h.complete(foreign, None).await), LostWhy::Unknown);
    assert_eq!(why(h.complete(future, None).await), LostWhy::Unknown);
    assert_eq!(h.state(id).await, State::Running);
    assert_eq!(h.view(id).await.late_reports_count, 2);
    h.finish(lease).await;
}

pub async fn a_cancelled_job_refuses_its_worker(h: &Harness) {
    let id = h.enqueue(job()).await;
    let lease = h.take().await;
    h.cancel(id).await.unwrap();
    let extension = Extension { lease, length: None };
    assert_eq!(
        why(one(h.store.extend(vec![extension]).await.unwrap())),
        LostWhy::Cancelled
    );
    assert_eq!(why(h.complete(lease, None).await), LostWhy::Cancelled);
    let progress = ProgressReport {
        lease,
        progress: Progress::default(),
    };
    assert_eq!(
        why(one(h.store.progress(vec![progress]).await.unwrap())),
        LostWhy::Cancelled
    );
    let lines = LogReport {
        lease,
        lines: vec!["x".into()],
    };
    assert_eq!(
        why(one(h.store.log(vec![lines]).await.unwrap())),
        LostWhy::Cancelled
    );
    assert_eq!(h.state(id).await, State::Cancelled);
    h.check().await;
}

pub async fn a_lease_holds_until_it_is_taken_back(h: &Harness) {
    let id = h.enqueue(job()).await;
    let lease = h.take().await;
    h.clock.advance(seconds(3_600));
    h.finish(lease).await;
    h.settle().await;
    assert_eq!(h.state(id).await, State::Succeeded);
}

pub async fn a_heartbeat_after_expiry_is_refused(h: &Harness) {
    h.enqueue(job()).await;
    let lease = h.take().await;
    h.pass(seconds(61)).await;
    let extension = Extension { lease, length: None };
    assert_eq!(
        why(one(h.store.extend(vec![extension]).await.unwrap())),
        LostWhy::Expired
    );
    assert_eq!(h.take().await.attempt, 2);
}

pub async fn unknown_jobs_are_refused_without_a_trace(h: &Harness) {
    let lease = Lease {
        id: JobId::new(99).unwrap(),
        attempt: 1,
        nonce: 5,
    };
    match h.complete(lease, None).await {
        Err(Error::LeaseLost { why, state }) => assert_eq!((why, state), (LostWhy::Unknown, None)),
        other => panic!("{other:?}"),
    }
    h.check().await;
}

pub async fn late_reports_are_counted_and_the_last_ones_kept(h: &Harness) {
    let id = h.enqueue(job()).await;
    let lease = h.take().await;
    h.pass(seconds(61)).await;
    for _ in 0..LATE_REPORTS_MAX + 5 {
        h.clock.advance(seconds(1));
        why(h.complete(lease, None).await);
    }
    let view = h.view(id).await;
    assert_eq!(view.late_reports_count as usize, LATE_REPORTS_MAX + 5);
    assert_eq!(view.late_reports.len(), LATE_REPORTS_MAX);
    assert_eq!(view.late_reports.last().unwrap().at_ms, h.now_ms());
}

pub async fn one_of_two_sweepers_takes_a_lease(h: &Harness) {
    h.enqueue_many(vec![job(); 20]).await;
    h.claim("q", 20).await;
    h.clock.advance(seconds(61));
    let sweeps = (0..4).map(|_| h.store.sweep_expired(100));
    let swept = futures_util::future::join_all(sweeps).await;
    let rows: usize = swept.into_iter().map(|round| round.unwrap().rows).sum();
    assert_eq!(rows, 20);
    h.check().await;
}

pub async fn many_claims_at_once_give_each_job_once(h: &Harness) {
    let ids: HashSet<JobId> = h.enqueue_many(vec![job(); 200]).await.into_iter().collect();
    let claims = (0..40).map(|_| h.ask(wants("q", 7)));
    let claimed = futures_util::future::join_all(claims).await;
    let mut seen = HashSet::new();
    for job in claimed.into_iter().flatten() {
        assert!(seen.insert(job.lease.id), "{} was given twice", job.lease.id);
    }
    // A claim that met others may have come back short.
    while let Some(job) = h.claim("q", 1).await.first() {
        assert!(seen.insert(job.lease.id));
    }
    assert_eq!(seen, ids);
    h.check().await;
}
