//! Idempotency keys and unique keys.

use std::time::Duration;

use super::{Harness, job_with, queue, seconds, tenant};
use crate::error::Error;
use crate::job::{Body, Idempotency, NewJob};
use crate::request::FoundBy;
use crate::state::State;

fn keyed(key: &str, window: Option<Duration>) -> NewJob {
    job_with(|job| {
        job.idempotency = Some(Idempotency {
            key: key.into(),
            window,
            fingerprint: None,
        });
    })
}

fn unique(key: &str) -> NewJob {
    job_with(|job| job.unique_key = Some(key.into()))
}

pub async fn an_idempotency_key_finds_the_first_registration(h: &Harness) {
    let first = h.enqueue(keyed("k", None)).await;
    let again = h.try_enqueue(keyed("k", None)).await.unwrap();
    assert_eq!((again.id, again.found_by), (first, Some(FoundBy::IdempotencyKey)));
    h.finish(h.take().await).await;
    let ended = h.try_enqueue(keyed("k", None)).await.unwrap();
    assert_eq!((ended.id, ended.state), (first, State::Succeeded));
    let other = h.try_enqueue(keyed("other", None)).await.unwrap();
    assert_ne!(other.id, first);
    assert_eq!(h.view(other.id).await.idempotency_key.as_deref(), Some("other"));
}

pub async fn an_idempotency_key_is_forgotten_after_its_window(h: &Harness) {
    let first = h.enqueue(keyed("k", Some(seconds(10)))).await;
    h.clock.advance(seconds(9));
    assert_eq!(h.enqueue(keyed("k", Some(seconds(10)))).await, first);
    h.clock.advance(seconds(1));
    let second = h.try_enqueue(keyed("k", Some(seconds(10)))).await.unwrap();
    assert_eq!(second.found_by, None);
    assert_ne!(second.id, first);
    h.clock.advance(seconds(5));
    assert_eq!(h.enqueue(keyed("k", None)).await, second.id);
}

pub async fn keys_of_tenants_and_queues_are_apart(h: &Harness) {
    let mut ids = std::collections::HashSet::new();
    for make in [keyed("k", None), unique("k")] {
        for (name, who) in [("a", "x"), ("a", "y"), ("b", "x")] {
            let mut job = make.clone();
            job.queue = queue(name);
            job.tenant = tenant(who);
            ids.insert(h.enqueue(job).await);
        }
    }
    assert_eq!(ids.len(), 6);
}

pub async fn two_items_of_one_call_with_one_key_are_one_job(h: &Harness) {
    let jobs = vec![keyed("k", None), keyed("k", None), unique("u"), unique("u")];
    let ids = h.enqueue_many(jobs).await;
    assert_eq!((ids[0], ids[2]), (ids[1], ids[3]));
    assert_eq!(h.claim("q", 9).await.len(), 2);
    h.check().await;
}

pub async fn many_registrations_at_once_with_one_key_are_one_job(h: &Harness) {
    let calls = (0..20).map(|_| h.try_enqueue(keyed("k", None)));
    let answers = futures_util::future::join_all(calls).await;
    let first = answers[0].as_ref().unwrap().id;
    assert!(answers.iter().all(|answer| answer.as_ref().unwrap().id == first));
    assert_eq!(h.claim("q", 9).await.len(), 1);
    h.check().await;
}

pub async fn a_unique_key_is_free_again_after_the_end(h: &Harness) {
    let first = h.enqueue(unique("u")).await;
    assert_eq!(h.enqueue(unique("u")).await, first);
    let lease = h.take().await;
    let running = h.try_enqueue(unique("u")).await.unwrap();
    assert_eq!(
        (running.id, running.state, running.found_by),
        (first, State::Running, Some(FoundBy::UniqueKey))
    );
    h.finish(lease).await;
    let second = h.enqueue(unique("u")).await;
    assert_ne!(second, first);
    h.cancel(second).await.unwrap();
    assert_ne!(h.enqueue(unique("u")).await, second);
    h.check().await;
}

pub async fn a_retry_does_not_steal_a_unique_key(h: &Harness) {
    let first = h.enqueue(unique("u")).await;
    h.cancel(first).await.unwrap();
    let second = h.enqueue(unique("u")).await;
    let error = h.retry(first).await.unwrap_err();
    assert!(
        matches!(error, Error::WrongState { id, .. } if id == second),
        "{error}"
    );
    h.cancel(second).await.unwrap();
    h.retry(first).await.unwrap();
    assert_eq!(h.enqueue(unique("u")).await, first);
    h.check().await;
}

pub async fn an_idempotency_key_outlives_its_job(h: &Harness) {
    let short = || {
        let mut job = keyed("k", Some(seconds(3_600)));
        job.retention = Some(seconds(1));
        job
    };
    let first = h.enqueue(short()).await;
    h.finish(h.take().await).await;
    h.clock.advance(seconds(2));
    while h.store.purge(100).await.unwrap().more {}
    assert_eq!(
        h.store.states(vec![first]).await.unwrap(),
        [None],
        "the job is gone"
    );
    for server in [h, &h.swapped()] {
        let again = server.try_enqueue(short()).await.unwrap();
        assert_eq!((again.id, again.found_by), (first, Some(FoundBy::IdempotencyKey)));
        assert_eq!(again.state, State::Succeeded);
    }
    let failed = h.enqueue(job_with(|job| {
        job.idempotency = keyed("f", None).idempotency;
        job.retention = Some(seconds(1));
    }));
    let failed = failed.await;
    h.fail_for_good(h.take().await).await;
    h.clock.advance(seconds(2));
    while h.store.purge(100).await.unwrap().more {}
    let again = h.try_enqueue(keyed("f", None)).await.unwrap();
    assert_eq!((again.id, again.state), (failed, State::Failed));
    h.clock.advance(seconds(3_600));
    assert_ne!(h.enqueue(short()).await, first, "its window is over");
}

pub async fn a_key_used_again_for_something_else_is_refused(h: &Harness) {
    let holding = |payload: &str, key: &str| {
        let mut job = keyed(key, None);
        job.payload = Body::json(payload.to_owned());
        let fingerprint = Some(job.payload.fingerprint());
        job.idempotency = job.idempotency.map(|one| Idempotency { fingerprint, ..one });
        job
    };
    let first = h.enqueue(holding("1", "k")).await;
    assert_eq!(h.enqueue(holding("1", "k")).await, first);
    for server in [h, &h.swapped()] {
        let refused = server.try_enqueue(holding("2", "k")).await;
        assert!(matches!(refused, Err(Error::KeyReused { id }) if id == first));
    }
    // Also in one call with the first, and of a job that is gone.
    let both = h
        .store
        .enqueue(vec![holding("1", "m"), holding("2", "m")])
        .await
        .unwrap();
    assert!(both[0].is_ok() && matches!(both[1], Err(Error::KeyReused { .. })));
    assert_eq!(
        h.enqueue(keyed("k", None)).await,
        first,
        "who does not say what it holds is not compared"
    );
    h.check().await;
}
