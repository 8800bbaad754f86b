//! Fair shares between tenants.

use super::{Harness, job_with, tenant, wants};
use crate::job::NewJob;

fn of(name: &str) -> NewJob {
    job_with(|job| job.tenant = tenant(name))
}

async fn served(h: &Harness, max: usize, claims: usize) -> Vec<String> {
    let mut served = Vec::new();
    for _ in 0..claims {
        served.extend(
            h.claim("q", max)
                .await
                .into_iter()
                .map(|job| job.tenant.to_string()),
        );
    }
    served
}

fn count(served: &[String], name: &str) -> usize {
    served.iter().filter(|tenant| *tenant == name).count()
}

pub async fn a_large_tenant_does_not_starve_a_small_one(h: &Harness) {
    h.enqueue_many(vec![of("large"); 500]).await;
    h.enqueue_many(vec![of("small"); 3]).await;
    let served = served(h, 10, 1).await;
    assert_eq!((count(&served, "small"), count(&served, "large")), (3, 7));
    h.check().await;
}

pub async fn claims_of_one_take_turns(h: &Harness) {
    h.enqueue_many(vec![of("a"); 20]).await;
    h.enqueue_many(vec![of("b"); 20]).await;
    h.enqueue_many(vec![of("c"); 20]).await;
    let served = served(h, 1, 12).await;
    for name in ["a", "b", "c"] {
        assert_eq!(count(&served, name), 4, "{served:?}");
    }
}

pub async fn weights_give_larger_shares(h: &Harness) {
    h.store.put_tenant(tenant("heavy"), 3).await.unwrap();
    h.enqueue_many(vec![of("heavy"); 100]).await;
    h.enqueue_many(vec![of("light"); 100]).await;
    let served = served(h, 5, 8).await;
    let heavy = count(&served, "heavy");
    assert!((28..=32).contains(&heavy), "{heavy} of 40");
}

pub async fn a_worker_of_one_tenant_gets_only_its_jobs(h: &Harness) {
    h.enqueue_many(vec![of("a"), of("b"), of("a")]).await;
    let mut request = wants("q", 9);
    request.tenant = Some(tenant("a"));
    assert_eq!(h.ask(request.clone()).await.len(), 2);
    assert!(h.ask(request).await.is_empty());
    let mut nobody = wants("q", 9);
    nobody.tenant = Some(tenant("nobody"));
    assert!(h.ask(nobody).await.is_empty());
    assert_eq!(h.claim("q", 9).await.len(), 1);
    h.check().await;
}
