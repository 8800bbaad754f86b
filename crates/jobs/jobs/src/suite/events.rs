//! The log of events.

use super::{Harness, job, job_with, one, queue, seconds, tenant};
use crate::backoff::Backoff;
use crate::event::{Event, EventData, EventFilter, EventKind};
use crate::job::Body;
use crate::queue::{EventDetail, QueueSettings};
use crate::request::ProgressReport;
use crate::view::Progress;

async fn all(h: &Harness) -> Vec<Event> {
    h.store
        .events_after(0, EventFilter::default(), 1_000)
        .await
        .unwrap()
        .events
}

fn kinds(events: &[Event]) -> Vec<&'static str> {
    events.iter().map(|event| event.kind.name()).collect()
}

pub async fn every_change_is_told_in_order(h: &Harness) {
    let id = h.enqueue(job_with(|job| job.backoff = Some(Backoff::None))).await;
    h.fail(h.take().await).await;
    h.take().await;
    h.pass(seconds(61)).await;
    h.finish(h.take().await).await;
    let events = all(h).await;
    let told = [
        "enqueued",
        "started",
        "retrying",
        "started",
        "lease_lost",
        "retrying",
        "started",
        "succeeded",
    ];
    assert_eq!(kinds(&events), told);
    assert!(events.is_sorted_by(|a, b| a.seq < b.seq));
    assert!(
        events
            .iter()
            .all(|event| event.job == id && event.queue == queue("q"))
    );
    let attempts: Vec<_> = events.iter().map(|event| event.attempt).collect();
    assert_eq!(attempts, [0, 1, 1, 2, 2, 2, 3, 3]);
    assert_eq!(events[7].at_ms, h.now_ms());
    let other = h.enqueue(job()).await;
    h.cancel(other).await.unwrap();
    h.retry(other).await.unwrap();
    assert_eq!(kinds(&all(h).await)[8..], ["enqueued", "cancelled", "retrying"]);
}

pub async fn endings_carry_their_body(h: &Harness) {
    let first = h.enqueue(job()).await;
    h.complete(h.take().await, Some(Body::json("7"))).await.unwrap();
    h.enqueue(job()).await;
    h.fail_for_good(h.take().await).await;
    let third = h.enqueue(job_with(|job| job.kind = Some("mail".into()))).await;
    h.cancel(third).await.unwrap();
    let events = all(h).await;
    let data = |kind| &events.iter().find(|event| event.kind == kind).unwrap().data;
    assert_eq!(*data(EventKind::Succeeded), EventData::Result(Body::json("7")));
    assert_eq!(
        *data(EventKind::Failed),
        EventData::Error("broken for good".into())
    );
    assert_eq!(
        *data(EventKind::Cancelled),
        EventData::Error("no longer wanted".into())
    );
    assert_eq!(events.last().unwrap().job_kind.as_deref(), Some("mail"));
    // After a retry by hand the old ending has no body any more.
    h.retry(first).await.unwrap();
    let events = all(h).await;
    let succeeded = events
        .iter()
        .find(|event| event.kind == EventKind::Succeeded)
        .unwrap();
    assert_eq!(succeeded.data, EventData::None);
    let retrying = events.last().unwrap();
    assert_eq!(
        retrying.data,
        EventData::Retry {
            error: None,
            run_at_ms: h.now_ms()
        }
    );
}

pub async fn only_ends_when_the_queue_says_so(h: &Harness) {
    let settings = QueueSettings {
        events: EventDetail::Ends,
        ..QueueSettings::default()
    };
    h.store.put_queue(queue("q"), settings).await.unwrap();
    h.enqueue_many(vec![job(), job()]).await;
    h.fail(h.take().await).await;
    h.finish(h.take().await).await;
    assert_eq!(kinds(&all(h).await), ["retrying", "succeeded"]);
    h.check().await;
}

pub async fn progress_is_told_now_and_then(h: &Harness) {
    h.enqueue(job()).await;
    let lease = h.take().await;
    for per_mille in 0..10 {
        let progress = Progress {
            per_mille: Some(per_mille),
            ..Progress::default()
        };
        one(h
            .store
            .progress(vec![ProgressReport { lease, progress }])
            .await
            .unwrap())
        .unwrap();
        h.clock.advance(std::time::Duration::from_millis(250));
    }
    let told: Vec<_> = all(h)
        .await
        .into_iter()
        .filter_map(|event| match event.data {
            EventData::Progress(progress) => progress.per_mille,
            _ => None,
        })
        .collect();
    assert_eq!(told, [0, 4, 8]);
}

pub async fn a_filter_leaves_the_rest_out(h: &Harness) {
    let ours = h.enqueue(job_with(|job| job.tenant = tenant("us"))).await;
    h.enqueue(job_with(|job| job.queue = queue("other"))).await;
    h.finish(h.take().await).await;
    let read = async |filter| {
        let page = h.store.events_after(0, filter, 100).await.unwrap();
        assert_eq!(page.next, page.bounds.head, "all of it was looked at");
        kinds(&page.events)
    };
    let all = EventFilter::default();
    assert_eq!(
        read(all.clone()).await,
        ["enqueued", "enqueued", "started", "succeeded"]
    );
    let by_tenant = EventFilter {
        tenant: Some(tenant("us")),
        ..all.clone()
    };
    assert_eq!(read(by_tenant).await, ["enqueued", "started", "succeeded"]);
    let by_queue = EventFilter {
        queue: Some(queue("other")),
        ..all.clone()
    };
    assert_eq!(read(by_queue).await, ["enqueued"]);
    let by_kind = EventFilter {
        kinds: vec![EventKind::Started, EventKind::Succeeded],
        ..all.clone()
    };
    assert_eq!(read(by_kind).await, ["started", "succeeded"]);
    let by_job = EventFilter {
        job: Some(ours),
        ..all
    };
    assert_eq!(read(by_job).await, ["enqueued", "started", "succeeded"]);
}

pub async fn pages_go_on_where_the_last_ended(h: &Harness) {
    h.enqueue_many(vec![job(); 25]).await;
    for limit in [1, 4, 25, 100] {
        let (mut after, mut seen) = (0, Vec::new());
        loop {
            let page = h
                .store
                .events_after(after, EventFilter::default(), limit)
                .await
                .unwrap();
            assert!(page.events.len() <= limit);
            if page.events.is_empty() {
                break;
            }
            after = page.next;
            seen.extend(page.events.into_iter().map(|event| event.seq));
        }
        assert_eq!(seen.len(), 25);
        assert!(seen.is_sorted_by(|a, b| a < b));
    }
}

pub async fn a_reader_that_fell_behind_sees_the_gap(h: &Harness) {
    h.enqueue_many(vec![job(); 10]).await;
    let head = h.store.log_bounds().await.unwrap().head;
    h.clock.advance(seconds(100));
    h.enqueue_many(vec![job(); 2]).await;
    let before_ms = h.now_ms() - 1;
    let round = h.store.trim_events(before_ms, 4).await.unwrap();
    assert_eq!((round.rows, round.more), (4, true));
    let round = h.store.trim_events(before_ms, 100).await.unwrap();
    assert_eq!((round.rows, round.more), (6, false));
    let bounds = h.store.log_bounds().await.unwrap();
    assert_eq!(bounds.trimmed, head);
    let page = h
        .store
        .events_after(3, EventFilter::default(), 100)
        .await
        .unwrap();
    assert!(page.has_gap(3));
    assert_eq!(page.events.len(), 2);
    let page = h
        .store
        .events_after(head, EventFilter::default(), 100)
        .await
        .unwrap();
    assert!(!page.has_gap(head));
    // Numbers go on above, even when the whole log has been cut off.
    h.store.trim_events(h.now_ms() + 1, 100).await.unwrap();
    let bounds = h.store.log_bounds().await.unwrap();
    assert_eq!(bounds.trimmed, bounds.head);
    h.enqueue(job()).await;
    assert!(h.store.log_bounds().await.unwrap().head > bounds.head);
    h.check().await;
}

pub async fn a_reader_never_finds_an_event_late(h: &Harness) {
    let writers = (0..8).map(|_| async {
        for _ in 0..25 {
            h.enqueue(job()).await;
        }
    });
    let reader = async {
        let (mut after, mut seen) = (0, 0);
        while seen < 200 {
            let page = h
                .store
                .events_after(after, EventFilter::default(), 7)
                .await
                .unwrap();
            seen += page.events.len();
            after = page.next;
        }
        seen
    };
    let (_, seen) = futures_util::future::join(futures_util::future::join_all(writers), reader).await;
    assert_eq!(seen, 200);
}

pub async fn subscriptions_keep_their_cursor(h: &Harness) {
    let filter = EventFilter {
        queue: Some(queue("q")),
        kinds: vec![EventKind::Failed],
        ..EventFilter::default()
    };
    let made = h
        .store
        .subscribe(tenant("t"), "mail".into(), filter.clone(), 5)
        .await
        .unwrap();
    assert_eq!((made.cursor, &made.filter), (5, &filter));
    assert_eq!(h.store.advance(tenant("t"), "mail".into(), 9).await.unwrap(), 9);
    assert_eq!(
        h.store.advance(tenant("t"), "mail".into(), 7).await.unwrap(),
        9,
        "never back"
    );
    let found = h
        .store
        .subscribe(tenant("t"), "mail".into(), EventFilter::default(), 0)
        .await
        .unwrap();
    assert_eq!((found.cursor, found.filter), (9, filter));
    h.store
        .subscribe(tenant("s"), "mail".into(), EventFilter::default(), 0)
        .await
        .unwrap();
    assert_eq!(h.store.subscriptions(None).await.unwrap().len(), 2);
    assert_eq!(h.store.subscriptions(Some(tenant("t"))).await.unwrap().len(), 1);
    assert!(h.store.unsubscribe(tenant("t"), "mail".into()).await.unwrap());
    assert!(!h.store.unsubscribe(tenant("t"), "mail".into()).await.unwrap());
    assert!(h.store.advance(tenant("t"), "mail".into(), 9).await.is_err());
}

pub async fn a_subscription_takes_a_new_filter_and_keeps_its_cursor(h: &Harness) {
    h.enqueue(job()).await;
    let of = |kinds| EventFilter {
        kinds,
        ..EventFilter::default()
    };
    let put = async |filter, cursor| {
        let name = "reader".to_owned();
        let made = h.store.put_subscription(tenant("t"), name, filter, cursor).await;
        made.unwrap()
    };
    let made = put(of(vec![EventKind::Failed]), 1).await;
    assert_eq!((made.cursor, made.filter.kinds), (1, vec![EventKind::Failed]));
    let changed = put(of(vec![EventKind::Succeeded]), 0).await;
    assert_eq!(
        (changed.cursor, changed.filter.kinds),
        (1, vec![EventKind::Succeeded])
    );
    let listed = h.swapped().store.subscriptions(Some(tenant("t"))).await.unwrap();
    assert_eq!(listed.len(), 1);
    assert_eq!(listed[0].filter.kinds, [EventKind::Succeeded]);
    let name = "reader".to_owned();
    let found = h
        .store
        .subscribe(tenant("t"), name, of(Vec::new()), 1)
        .await
        .unwrap();
    assert_eq!(
        found.filter.kinds,
        [EventKind::Succeeded],
        "who only subscribes changes nothing"
    );
}
