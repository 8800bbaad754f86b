//! What operators change: jobs that wait, jobs that have ended, queues.

use super::{Harness, job, job_with, one, queue, seconds};
use crate::delivery::Webhook;
use crate::error::Error;
use crate::event::EventFilter;
use crate::id::JobId;
use crate::job::{Body, Concurrency};
use crate::queue::QueueSettings;
use crate::request::Edit;
use crate::state::State;

fn edit(id: JobId) -> Edit {
    Edit::of(id)
}

async fn change(h: &Harness, edit: Edit) -> Result<(), Error> {
    one(h.store.edit(vec![edit]).await.unwrap())
}

pub async fn a_job_that_waits_can_be_changed(h: &Harness) {
    let (first, second) = (h.enqueue(job()).await, h.enqueue(job()).await);
    let later = h
        .enqueue(job_with(|job| job.run_at_ms = Some(h.now_ms() + 3_600_000)))
        .await;
    let held = || {
        Some(Concurrency {
            key: "k".into(),
            limit: 1,
        })
    };
    let _slot = h.enqueue(job_with(|job| job.concurrency = held())).await;
    let waiting = h.enqueue(job_with(|job| job.concurrency = held())).await;
    let child = h.enqueue(job_with(|job| job.depends_on = vec![first])).await;
    for id in [second, later, waiting, child] {
        let changed = Edit {
            priority: Some(7),
            payload: Some(Body::json("{\"new\":true}")),
            timeout: Some(seconds(9)),
            max_retries: Some(2),
            ..edit(id)
        };
        change(&h.swapped(), changed).await.unwrap();
        let view = h.view(id).await;
        assert_eq!((view.summary.priority, view.summary.max_retries), (7, 2));
        assert_eq!(view.payload, Body::json("{\"new\":true}"));
        assert_eq!(view.timeout, seconds(9));
    }
    h.check().await;
    assert_eq!(h.state(later).await, State::Scheduled, "its time stays");
    let now_ms = h.now_ms();
    let soon = Edit {
        run_at_ms: Some(now_ms),
        ..edit(later)
    };
    change(h, soon).await.unwrap();
    assert_eq!(h.state(later).await, State::Waiting, "run now");
    let claimed = h.claim("q", 2).await;
    let ids: Vec<_> = claimed.iter().map(|job| job.lease.id).collect();
    assert!(ids.contains(&second) && ids.contains(&later), "they go first now");
    assert_eq!(claimed[0].payload, Body::json("{\"new\":true}"));
    assert_eq!(claimed[0].lease_length, seconds(9));
    let off = Edit {
        run_at_ms: Some(now_ms + 60_000),
        ..edit(first)
    };
    change(h, off).await.unwrap();
    assert_eq!(h.state(first).await, State::Scheduled);
    h.check().await;
}

pub async fn a_job_that_waits_can_be_moved_to_another_queue(h: &Harness) {
    let held = || {
        Some(Concurrency {
            key: "k".into(),
            limit: 1,
        })
    };
    let ready = h.enqueue(job_with(|job| job.unique_key = Some("u".into()))).await;
    let later = h
        .enqueue(job_with(|job| job.run_at_ms = Some(h.now_ms() + 3_600_000)))
        .await;
    let slot = h.enqueue(job_with(|job| job.concurrency = held())).await;
    let waiting = h.enqueue(job_with(|job| job.concurrency = held())).await;
    let child = h.enqueue(job_with(|job| job.depends_on = vec![ready])).await;
    let moved = |id| Edit {
        queue: Some(queue("other")),
        ..edit(id)
    };
    for id in [ready, later, waiting, child] {
        change(&h.swapped(), moved(id)).await.unwrap();
        assert_eq!(h.view(id).await.summary.queue, queue("other"));
        h.check().await;
    }
    change(h, moved(ready)).await.unwrap();
    let depth = h.queue("other").await.unwrap().depth;
    assert_eq!((depth.ready, depth.scheduled, depth.blocked), (2, 1, 1));
    let of_q: Vec<JobId> = h.claim("q", 9).await.iter().map(|job| job.lease.id).collect();
    assert_eq!(of_q, [slot]);
    let claimed = h.claim("other", 9).await;
    let mut ids: Vec<JobId> = claimed.iter().map(|job| job.lease.id).collect();
    ids.sort();
    assert_eq!(ids, [ready, waiting], "each queue has slots of its own");
    // The unique key went along, and is free where it was.
    let again = h.enqueue(job_with(|job| job.unique_key = Some("u".into()))).await;
    assert!(matches!(
        change(h, moved(again)).await,
        Err(Error::Invalid { .. })
    ));
    for job in &claimed {
        h.finish(job.lease).await;
    }
    h.settle().await;
    assert_eq!(h.claim("other", 9).await[0].lease.id, child);
    change(h, moved(again)).await.unwrap();
    let full = QueueSettings {
        depth_max: Some(1),
        ..QueueSettings::default()
    };
    h.store.put_queue(queue("full"), full).await.unwrap();
    let into_full = |id| Edit {
        queue: Some(queue("full")),
        ..edit(id)
    };
    change(h, into_full(again)).await.unwrap();
    let refused = change(h, into_full(later)).await;
    assert!(matches!(refused, Err(Error::QueueFull { .. })), "{refused:?}");
    h.check().await;
}

pub async fn a_job_that_has_started_cannot_be_changed(h: &Harness) {
    let id = h.enqueue(job()).await;
    let lease = h.take().await;
    let faster = || Edit {
        priority: Some(1),
        ..edit(id)
    };
    let refused = change(h, faster()).await;
    assert!(matches!(
        refused,
        Err(Error::WrongState {
            state: State::Running,
            ..
        })
    ));
    h.finish(lease).await;
    assert!(matches!(change(h, faster()).await, Err(Error::WrongState { .. })));
    let unknown = change(h, edit(JobId::new(17).unwrap())).await;
    assert!(matches!(unknown, Err(Error::NotFound { .. })));
}

pub async fn an_ended_job_can_be_removed(h: &Harness) {
    let id = h
        .enqueue(job_with(|job| {
            job.webhook = Some(Webhook::to("http://example.test/"))
        }))
        .await;
    let remove = async |id| one(h.store.remove(vec![id]).await.unwrap());
    assert!(matches!(remove(id).await, Err(Error::WrongState { .. })));
    h.finish(h.take().await).await;
    remove(id).await.unwrap();
    assert!(matches!(remove(id).await, Err(Error::NotFound { .. })));
    assert_eq!(h.swapped().store.states(vec![id]).await.unwrap(), [None]);
    let depth = h.queue("q").await.unwrap().depth;
    assert_eq!(depth.succeeded, 0);
    h.check().await;
}

pub async fn a_queue_can_be_deleted_and_used_again(h: &Harness) {
    let settings = QueueSettings {
        max_retries: 0,
        ..QueueSettings::default()
    };
    h.store.put_queue(queue("q"), settings).await.unwrap();
    for _ in 0..5 {
        h.enqueue(job()).await;
    }
    let delete = async || {
        loop {
            let done = h.store.delete_queue(queue("q"), 2).await?;
            if !done.more {
                return Ok::<_, Error>(());
            }
        }
    };
    assert!(matches!(
        delete().await,
        Err(Error::QueueNotEmpty { jobs: 5, .. })
    ));
    for job in h.claim("q", 9).await {
        h.finish(job.lease).await;
    }
    delete().await.unwrap();
    for server in [h, &h.swapped()] {
        assert_eq!(server.queue("q").await, None);
    }
    assert!(matches!(delete().await, Err(Error::NotFound { .. })));
    // Readers of the log still find the queue's name.
    let page = h
        .store
        .events_after(0, EventFilter::default(), 1_000)
        .await
        .unwrap();
    assert!(page.events.iter().all(|event| event.queue == queue("q")));
    let id = h.swapped().enqueue(job()).await;
    assert_eq!(
        h.view(id).await.summary.max_retries,
        5,
        "a new queue with the usual settings"
    );
    let again = h.queue("q").await.unwrap();
    assert_eq!((again.depth.ready, again.throughput.enqueued), (1, 1));
    h.check().await;
}
