//! What one tenant, or one queue's token, must not see of others.

use super::{Harness, job, job_with, queue, tenant};
use crate::error::Error;
use crate::job::NewJob;
use crate::queue::{Counted, Depth, Throughput};
use crate::visibility::Visibility;

fn of(name: &str, change: impl FnOnce(&mut NewJob)) -> NewJob {
    job_with(|job| {
        job.tenant = tenant(name);
        change(job);
    })
}

pub async fn a_job_of_another_tenant_is_no_dependency(h: &Harness) {
    let shops = h.enqueue(of("shop", |_| ())).await;
    let banks = of("bank", |job| job.depends_on = vec![shops]);
    let refused = h.try_enqueue(banks.clone()).await;
    assert!(matches!(refused, Err(Error::DependencyUnknown { id }) if id == shops));
    // A refusal does not tell whether the job has ended, nor how.
    h.fail_for_good(h.take().await).await;
    let refused = h.try_enqueue(banks).await;
    assert!(matches!(refused, Err(Error::DependencyUnknown { id }) if id == shops));
    let own = h.enqueue(of("shop", |_| ())).await;
    h.enqueue(of("shop", |job| job.depends_on = vec![own])).await;
    h.check().await;
}

pub async fn a_tenant_sees_its_own_queues_and_counts(h: &Harness) {
    let shop = || Visibility::of_tenant(tenant("shop"));
    h.enqueue(of("shop", |_| ())).await;
    h.clock.advance(super::seconds(60));
    h.enqueue(of("shop", |_| ())).await;
    h.clock.advance(super::seconds(60));
    let banks_ms = h.now_ms();
    h.enqueue(of("bank", |_| ())).await;
    h.enqueue(of("bank", |job| job.queue = queue("vault"))).await;
    h.store.set_paused(queue("unused"), true).await.unwrap();
    let names = async |seen| {
        let queues = h.store.queues(seen, Counted::All).await.unwrap();
        queues
            .into_iter()
            .map(|view| view.name.to_string())
            .collect::<Vec<_>>()
    };
    assert_eq!(names(shop()).await, ["q"]);
    assert_eq!(names(Visibility::of_tenant(tenant("bank"))).await, ["q", "vault"]);
    assert_eq!(names(Visibility::of_tenant(tenant("nobody"))).await, [""; 0]);
    assert_eq!(names(Visibility::everything()).await, ["q", "unused", "vault"]);
    assert!(h.queue_as("vault", shop()).await.is_none());
    let claimed = h.ask(super::ClaimRequest {
        tenant: Some(tenant("shop")),
        ..super::wants("q", 2)
    });
    for job in claimed.await {
        h.finish(job.lease).await;
    }
    let shops = h.queue_as("q", shop()).await.unwrap();
    let expected = Depth {
        succeeded: 2,
        ..Depth::default()
    };
    assert_eq!(shops.depth, expected);
    let passed = Throughput {
        enqueued: 2,
        started: 2,
        succeeded: 2,
        ..Throughput::default()
    };
    assert_eq!(shops.throughput, passed);
    assert_eq!(shops.oldest_ready_at_ms, None);
    let banks = h
        .queue_as("q", Visibility::of_tenant(tenant("bank")))
        .await
        .unwrap();
    assert_eq!((banks.depth.ready, banks.depth.succeeded), (1, 0));
    assert_eq!(banks.throughput.succeeded, 0);
    assert!((banks.oldest_ready_at_ms.unwrap() - banks_ms).abs() < 1_000);
}

pub async fn a_caller_bound_to_queues_sees_those(h: &Harness) {
    h.enqueue(job()).await;
    h.enqueue(job_with(|job| job.queue = queue("other"))).await;
    let seen = Visibility::everything().within(vec![queue("other")]);
    let queues = h.store.queues(seen.clone(), Counted::All).await.unwrap();
    assert_eq!(queues.len(), 1);
    assert_eq!(queues[0].name.as_str(), "other");
    assert!(h.queue_as("q", seen).await.is_none());
}

pub async fn counts_are_as_much_work_as_asked_for(h: &Harness) {
    h.enqueue(job()).await;
    h.finish(h.take().await).await;
    h.enqueue(job()).await;
    let read = async |counted| {
        let queue = h.store.queue(queue("q"), Visibility::everything(), counted).await;
        queue.unwrap().unwrap()
    };
    assert_eq!(read(Counted::Nothing).await.depth, Depth::default());
    assert_eq!(read(Counted::Open).await.depth.ready, 1);
    assert_eq!(read(Counted::Open).await.throughput.succeeded, 1);
    let all = read(Counted::All).await.depth;
    assert_eq!((all.ready, all.succeeded), (1, 1));
}
