//! Concurrency keys, rates, depth and pauses.

use super::{Harness, job, job_with, queue, seconds};
use crate::backoff::Backoff;
use crate::error::{Error, Fault};
use crate::job::{Concurrency, NewJob};
use crate::queue::QueueSettings;
use crate::rate::Rate;
use crate::state::State;
use crate::view::Explanation;

fn limited(key: &str, limit: u32) -> NewJob {
    job_with(|job| {
        job.concurrency = Some(Concurrency {
            key: key.into(),
            limit,
        });
        job.backoff = Some(Backoff::None);
    })
}

pub async fn no_more_jobs_of_a_key_run_than_its_limit(h: &Harness) {
    let ids = h.enqueue_many(vec![limited("k", 2); 5]).await;
    let mut leases = h.claim("q", 9).await;
    assert_eq!(leases.len(), 2);
    assert!(h.claim("q", 9).await.is_empty());
    h.check().await;
    let mut done = Vec::new();
    while let Some(lease) = leases.pop() {
        h.finish(lease.lease).await;
        done.push(lease.lease.id);
        let more = h.claim("q", 9).await;
        assert!(leases.len() + more.len() <= 2);
        leases.extend(more);
        h.check().await;
    }
    done.sort();
    assert_eq!(done, ids);
}

pub async fn blocked_jobs_do_not_hinder_others(h: &Harness) {
    h.enqueue_many(vec![limited("k", 1); 50]).await;
    let free = h.enqueue(job()).await;
    let other = h.enqueue(limited("other", 1)).await;
    let ids: Vec<_> = h.claim("q", 100).await.iter().map(|job| job.lease.id).collect();
    assert_eq!(ids.len(), 3);
    assert!(ids.contains(&free) && ids.contains(&other));
}

pub async fn a_place_is_given_back_whatever_the_end(h: &Harness) {
    h.enqueue_many(vec![limited("k", 1); 6]).await;
    h.finish(h.take().await).await;
    h.fail_for_good(h.take().await).await;
    h.cancel(h.take().await.id).await.unwrap();
    h.check().await;
    // One that is ready, and one that waits for a slot.
    let ready = h.store.list(Default::default(), None, 10).await.unwrap();
    let waiting: Vec<_> = ready
        .items
        .iter()
        .filter(|job| job.state == State::Waiting)
        .collect();
    assert_eq!(waiting.len(), 3);
    h.cancel(waiting[0].id).await.unwrap();
    h.cancel(waiting[2].id).await.unwrap();
    h.check().await;
    assert_eq!(h.take().await.id, waiting[1].id);
    h.pass(seconds(61)).await;
    h.finish(h.take().await).await;
    assert!(h.claim("q", 9).await.is_empty());
    h.check().await;
}

pub async fn a_retry_takes_its_place_again(h: &Harness) {
    let ids = h.enqueue_many(vec![limited("k", 1); 2]).await;
    h.fail(h.take().await).await;
    let second = h.take().await;
    assert_eq!(second.id, ids[1], "those that waited longer go first");
    assert!(h.claim("q", 9).await.is_empty());
    h.finish(second).await;
    assert_eq!(h.take().await.id, ids[0]);
    h.check().await;
}

pub async fn a_higher_limit_lets_more_in(h: &Harness) {
    h.enqueue_many(vec![limited("k", 1); 4]).await;
    assert_eq!(h.claim("q", 9).await.len(), 1);
    h.enqueue(limited("k", 3)).await;
    assert_eq!(h.claim("q", 9).await.len(), 2);
    h.check().await;
}

pub async fn a_full_queue_refuses_more(h: &Harness) {
    let settings = QueueSettings {
        depth_max: Some(3),
        ..QueueSettings::default()
    };
    h.store.put_queue(queue("q"), settings).await.unwrap();
    let answers = h.store.enqueue(vec![job(); 5]).await.unwrap();
    let fine: Vec<_> = answers.iter().map(Result::is_ok).collect();
    assert_eq!(fine, [true, true, true, false, false]);
    let error = h.try_enqueue(job()).await.unwrap_err();
    assert!(matches!(error, Error::QueueFull { depth_max: 3, .. }));
    assert_eq!((error.fault(), error.is_retryable()), (Fault::Load, true));
    h.take().await;
    h.enqueue(job()).await;
    h.check().await;
}

pub async fn a_rate_is_kept(h: &Harness) {
    let settings = QueueSettings {
        rate: Some(Rate {
            jobs: 2,
            per: seconds(10),
        }),
        ..QueueSettings::default()
    };
    h.store.put_queue(queue("q"), settings).await.unwrap();
    let ids = h.enqueue_many(vec![job(); 5]).await;
    assert_eq!(h.claim("q", 9).await.len(), 2);
    assert!(h.claim("q", 9).await.is_empty());
    let next_at_ms = h.now_ms() + 5_000;
    let why = h.store.explain(ids[4]).await.unwrap();
    assert_eq!(why, Some(Explanation::RateLimited { next_at_ms }));
    h.pass(seconds(5)).await;
    assert_eq!(h.claim("q", 9).await.len(), 1);
    h.pass(seconds(100)).await;
    let _ = h.claim("q", 9).await;
    h.check().await;
}

pub async fn a_paused_queue_gives_nothing(h: &Harness) {
    let id = h.enqueue(job()).await;
    h.store.set_paused(queue("q"), true).await.unwrap();
    h.store.set_paused(queue("q"), true).await.unwrap();
    assert!(h.claim("q", 9).await.is_empty());
    assert!(h.queue("q").await.unwrap().paused);
    assert_eq!(h.store.explain(id).await.unwrap(), Some(Explanation::Paused));
    h.enqueue(job()).await;
    h.store.set_paused(queue("q"), false).await.unwrap();
    assert_eq!(h.claim("q", 9).await.len(), 2);
}

pub async fn why_a_job_is_not_running(h: &Harness) {
    let first = h.enqueue(job()).await;
    let second = h.enqueue(job()).await;
    let why = async |id| h.store.explain(id).await.unwrap().unwrap();
    let ready = |ahead, last_claim_at_ms| Explanation::Ready {
        ahead,
        last_claim_at_ms,
    };
    assert_eq!(why(first).await, ready(0, None));
    assert_eq!(why(second).await, ready(1, None));
    let lease = h.take().await;
    assert_eq!(why(second).await, ready(0, Some(h.now_ms())));
    assert!(matches!(why(first).await, Explanation::Running(lease) if lease.worker == "w"));
    h.fail(lease).await;
    assert!(matches!(
        why(first).await,
        Explanation::Scheduled { attempt: 1, .. }
    ));
    h.clock.advance(seconds(3_600));
    assert_eq!(why(first).await, Explanation::Due);
    h.cancel(first).await.unwrap();
    assert_eq!(why(first).await, Explanation::Ended(State::Cancelled));
    h.enqueue(limited("k", 1)).await;
    h.enqueue(limited("k", 1)).await;
    let last = h.enqueue(limited("k", 1)).await;
    let limit = Explanation::KeyLimit {
        key: "k".into(),
        limit: 1,
        taken: 1,
        ahead: 1,
    };
    assert_eq!(why(last).await, limit);
    assert_eq!(
        h.store.explain(crate::JobId::new(5).unwrap()).await.unwrap(),
        None
    );
}
