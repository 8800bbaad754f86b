//! Retention, and work that is done in rounds.

use super::{Harness, job, job_with, one, queue, seconds};
use crate::event::EventFilter;
use crate::queue::{QueueSettings, Retention};

pub async fn ended_jobs_go_after_their_retention(h: &Harness) {
    let settings = QueueSettings {
        retention: Retention {
            succeeded: seconds(10),
            failed: seconds(20),
        },
        ..QueueSettings::default()
    };
    h.store.put_queue(queue("q"), settings).await.unwrap();
    let ids = h.enqueue_many(vec![job(); 3]).await;
    h.finish(h.take().await).await;
    h.fail_for_good(h.take().await).await;
    assert_eq!(h.view(ids[0]).await.purge_at_ms, Some(h.now_ms() + 10_000));
    assert_eq!(h.store.purge(100).await.unwrap().rows, 0);
    let there = async || {
        let states = h.store.states(ids.clone()).await.unwrap();
        states.iter().map(Option::is_some).collect::<Vec<_>>()
    };
    h.clock.advance(seconds(10));
    assert_eq!(h.store.purge(100).await.unwrap().rows, 1);
    assert_eq!(there().await, [false, true, true]);
    h.clock.advance(seconds(10));
    h.store.purge(100).await.unwrap();
    assert_eq!(there().await, [false, false, true]);
    h.clock.advance(seconds(1_000_000));
    h.store.purge(100).await.unwrap();
    assert_eq!(there().await, [false, false, true], "only what has ended goes");
    assert!(one(h.store.read(vec![ids[0]]).await.unwrap()).is_none());
    // The log outlives the jobs; their bodies are gone.
    let page = h
        .store
        .events_after(0, EventFilter::default(), 100)
        .await
        .unwrap();
    assert_eq!(page.events.len(), 7);
    h.check().await;
}

pub async fn a_jobs_own_retention_wins(h: &Harness) {
    let id = h.enqueue(job_with(|job| job.retention = Some(seconds(1)))).await;
    h.finish(h.take().await).await;
    h.clock.advance(seconds(1));
    h.store.purge(100).await.unwrap();
    assert_eq!(h.store.states(vec![id]).await.unwrap(), [None]);
}

pub async fn a_purge_stops_at_its_limit(h: &Harness) {
    h.enqueue_many(vec![job_with(|job| job.retention = Some(seconds(1))); 10])
        .await;
    for claimed in h.claim("q", 10).await {
        h.finish(claimed.lease).await;
    }
    h.clock.advance(seconds(1));
    let round = h.store.purge(4).await.unwrap();
    assert_eq!((round.rows, round.more), (4, true));
    assert_eq!(h.queue("q").await.unwrap().depth.succeeded, 6);
    let round = h.store.purge(100).await.unwrap();
    assert_eq!((round.rows, round.more), (6, false));
    h.check().await;
}

pub async fn due_jobs_move_in_rounds(h: &Harness) {
    let at_ms = h.now_ms() + 1_000;
    h.enqueue_many(vec![job_with(|job| job.run_at_ms = Some(at_ms)); 10])
        .await;
    h.clock.advance(seconds(1));
    let round = h.store.move_due(6).await.unwrap();
    assert_eq!((round.rows, round.more), (6, true));
    assert_eq!(h.claim("q", 100).await.len(), 6);
    let round = h.store.move_due(6).await.unwrap();
    assert_eq!((round.rows, round.more), (4, false));
    assert_eq!(h.claim("q", 100).await.len(), 4);
    h.check().await;
}
