//! Deliveries to webhooks.

use super::{Harness, job, job_with, one, queue, seconds, tenant};
use crate::delivery::{
    Delivery, DeliveryFilter, DeliveryState, DeliveryTry, PutOff, TryOutcome, TryReport, Webhook,
};
use crate::event::EventKind;
use crate::job::NewJob;
use crate::queue::QueueSettings;
use crate::shares::{DeliveryClaim, TenantTarget};

fn hooked() -> NewJob {
    job_with(|job| job.webhook = Some(Webhook::to("https://example.test/hook")))
}

fn tried(delivery: &Delivery, number: u32, outcome: TryOutcome) -> TryReport {
    TryReport {
        id: delivery.id,
        attempt: DeliveryTry {
            number,
            at_ms: delivery.next_try_at_ms,
            latency: std::time::Duration::from_millis(12),
            status: Some(500),
            error: Some("no".into()),
            reply: b"oops".to_vec(),
        },
        outcome,
    }
}

async fn due(h: &Harness) -> Vec<Delivery> {
    let claim = DeliveryClaim::of(10, seconds(30));
    h.store.claim_deliveries(claim).await.unwrap()
}

pub async fn an_ending_makes_a_delivery(h: &Harness) {
    let id = h.enqueue(hooked()).await;
    let plain = h.enqueue(job()).await;
    assert!(due(h).await.is_empty());
    h.finish(h.take().await).await;
    h.finish(h.take().await).await;
    let delivery = one(due(h).await);
    assert_eq!(
        (delivery.job, delivery.kind, delivery.tries),
        (id, EventKind::Succeeded, 0)
    );
    assert_eq!(delivery.webhook, Webhook::to("https://example.test/hook"));
    assert_eq!(h.view(id).await.delivery_state(), Some(DeliveryState::Pending));
    assert_eq!(h.view(plain).await.delivery_state(), None);
    // A queue's webhook receives the events that it asks for, of jobs without their own.
    let mut webhook = Webhook::to("http://queue.test/");
    webhook.events = vec![EventKind::Retrying];
    let settings = QueueSettings {
        webhook: Some(webhook),
        ..QueueSettings::default()
    };
    h.store.put_queue(queue("q"), settings).await.unwrap();
    h.enqueue(job()).await;
    h.fail(h.take().await).await;
    assert_eq!(one(due(h).await).kind, EventKind::Retrying);
}

pub async fn a_delivery_is_handed_out_once_in_its_lease(h: &Harness) {
    h.enqueue(hooked()).await;
    h.finish(h.take().await).await;
    assert_eq!(due(h).await.len(), 1);
    assert!(due(h).await.is_empty());
    h.clock.advance(seconds(30));
    assert_eq!(h.store.next_times().await.unwrap().delivery_ms, Some(h.now_ms()));
    assert_eq!(due(h).await.len(), 1);
}

pub async fn a_delivery_given_back_is_due_when_it_says(h: &Harness) {
    h.enqueue(hooked()).await;
    h.finish(h.take().await).await;
    let delivery = one(due(h).await);
    let back = |tries, at_ms| {
        vec![PutOff {
            id: delivery.id,
            tries,
            at_ms,
        }]
    };
    h.store
        .put_off_deliveries(back(0, h.now_ms() + 2_000))
        .await
        .unwrap();
    h.clock.advance(seconds(1));
    assert!(due(h).await.is_empty());
    h.clock.advance(seconds(1));
    assert_eq!(due(h).await.len(), 1);
    h.store.put_off_deliveries(back(7, h.now_ms())).await.unwrap();
    assert!(due(h).await.is_empty(), "that was another's");
    let last = tried(&delivery, 1, TryOutcome::Delivered);
    h.store.report_tries(vec![last]).await.unwrap();
    h.store.put_off_deliveries(back(1, h.now_ms())).await.unwrap();
    assert!(due(h).await.is_empty(), "it has ended");
}

pub async fn tries_are_kept_and_numbered(h: &Harness) {
    let id = h.enqueue(hooked()).await;
    h.finish(h.take().await).await;
    let delivery = one(due(h).await);
    let at_ms = h.now_ms() + 5_000;
    let first = tried(&delivery, 1, TryOutcome::Again { at_ms });
    assert_eq!(h.store.report_tries(vec![first.clone()]).await.unwrap(), [true]);
    assert_eq!(
        h.store.report_tries(vec![first.clone()]).await.unwrap(),
        [false],
        "a repeat"
    );
    assert!(due(h).await.is_empty());
    h.clock.advance(seconds(5));
    assert_eq!(one(due(h).await).tries, 1);
    let second = tried(&delivery, 2, TryOutcome::GaveUp);
    assert_eq!(h.store.report_tries(vec![second.clone()]).await.unwrap(), [true]);
    let view = h.view(id).await;
    assert_eq!(view.delivery_state(), Some(DeliveryState::GaveUp));
    assert_eq!(view.deliveries[0].tries, [first.attempt, second.attempt]);
    h.clock.advance(seconds(500));
    assert!(due(h).await.is_empty());
}

pub async fn a_job_with_a_pending_delivery_stays(h: &Harness) {
    let mut kept = hooked();
    kept.retention = Some(seconds(1));
    let id = h.enqueue(kept).await;
    h.finish(h.take().await).await;
    h.clock.advance(seconds(100));
    h.store.purge(100).await.unwrap();
    let delivery = one(due(h).await);
    assert_eq!(delivery.job, id);
    h.store
        .report_tries(vec![tried(&delivery, 1, TryOutcome::Delivered)])
        .await
        .unwrap();
    h.store.purge(100).await.unwrap();
    assert_eq!(h.store.states(vec![id]).await.unwrap(), [None]);
    let page = h
        .store
        .deliveries(DeliveryFilter::default(), None, 10)
        .await
        .unwrap();
    assert!(page.items.is_empty());
}

pub async fn deliveries_can_be_replayed(h: &Harness) {
    h.enqueue_many(vec![hooked(); 3]).await;
    for _ in 0..3 {
        h.finish(h.take().await).await;
    }
    let all = due(h).await;
    let reports = vec![
        tried(&all[0], 1, TryOutcome::Delivered),
        tried(&all[1], 1, TryOutcome::GaveUp),
        tried(&all[2], 1, TryOutcome::GaveUp),
    ];
    assert_eq!(h.store.report_tries(reports).await.unwrap(), [true; 3]);
    let gave_up = DeliveryFilter {
        state: Some(DeliveryState::GaveUp),
        ..DeliveryFilter::default()
    };
    let page = h.store.deliveries(gave_up.clone(), None, 1).await.unwrap();
    assert_eq!((page.items.len(), page.items[0].delivery.id), (1, all[2].id));
    let rest = h.store.deliveries(gave_up.clone(), page.next, 5).await.unwrap();
    assert_eq!((rest.items[0].delivery.id, rest.next), (all[1].id, None));
    assert_eq!(h.store.replay(gave_up, 10).await.unwrap(), 2);
    let again = due(h).await;
    assert_eq!(again.len(), 2);
    assert_eq!(
        (again[0].seq, again[0].tries),
        (all[1].seq, 1),
        "the same event, one more try"
    );
    let since = DeliveryFilter {
        since_ms: Some(h.now_ms() + 1),
        ..DeliveryFilter::default()
    };
    assert_eq!(h.store.replay(since, 10).await.unwrap(), 0);
    let one_job = DeliveryFilter {
        job: Some(all[0].job),
        ..DeliveryFilter::default()
    };
    assert_eq!(h.store.replay(one_job, 10).await.unwrap(), 1);
    let one = DeliveryFilter {
        id: Some(all[1].id),
        ..DeliveryFilter::default()
    };
    let page = h.store.deliveries(one.clone(), None, 5).await.unwrap();
    assert_eq!((page.items.len(), page.items[0].delivery.id), (1, all[1].id));
    assert_eq!(h.store.replay(one, 10).await.unwrap(), 1);
}

/// Ends a job of a tenant whose webhook is at a host.
async fn deliver_to(h: &Harness, who: &str, host: &str) {
    let mut job = hooked();
    job.tenant = tenant(who);
    job.webhook = Some(Webhook::to(format!("http://{host}/hook")));
    h.enqueue(job).await;
    let claimed = h.claim("q", 1).await;
    h.finish(one(claimed).lease).await;
}

pub async fn a_claim_of_deliveries_has_shares_for_tenants_and_targets(h: &Harness) {
    for _ in 0..10 {
        for host in ["slow.test", "slower.test"] {
            deliver_to(h, "big", host).await;
        }
    }
    deliver_to(h, "small", "slow.test").await;
    let claim = |limit| DeliveryClaim {
        per_target: 3,
        ..DeliveryClaim::of(limit, seconds(30))
    };
    let of = |claimed: &[Delivery]| {
        let mut shares = std::collections::BTreeMap::<_, usize>::new();
        for one in claimed {
            *shares
                .entry((one.tenant.to_string(), one.target.clone()))
                .or_default() += 1;
        }
        shares
            .into_iter()
            .map(|((who, to), jobs)| format!("{who} {to} {jobs}"))
            .collect::<Vec<_>>()
    };
    let first = h.store.claim_deliveries(claim(12)).await.unwrap();
    assert_eq!(
        of(&first),
        [
            "big http://slow.test:80 3",
            "big http://slower.test:80 3",
            "small http://slow.test:80 1"
        ]
    );
    let in_order = first.windows(2).filter(|pair| pair[0].target == pair[1].target);
    assert!(
        in_order.clone().all(|pair| pair[0].id < pair[1].id),
        "the oldest first"
    );
    deliver_to(h, "small", "slow.test").await;
    let mut full = claim(12);
    full.tenants.insert(tenant("big"), 0);
    let second = h.swapped().store.claim_deliveries(full).await.unwrap();
    assert_eq!(of(&second), ["small http://slow.test:80 1"]);
    let mut busy = claim(12);
    let target = TenantTarget {
        tenant: tenant("big"),
        target: "http://slow.test:80".into(),
    };
    busy.targets.insert(target, 0);
    let third = h.store.claim_deliveries(busy).await.unwrap();
    assert_eq!(of(&third), ["big http://slower.test:80 3"]);
}
