//! Tenants, tokens, facts and the listener.

use std::sync::Arc;

use parking_lot::Mutex;

use super::{Harness, job, job_with, queue, tenant};
use crate::delivery::Webhook;
use crate::event::EventKind;
use crate::id::JobId;
use crate::name::QueueName;
use crate::request::Listener;
use crate::tenant::{ApiToken, Scopes};

pub async fn tenants_have_weights(h: &Harness) {
    h.enqueue(job()).await;
    h.store.put_tenant(tenant("shop"), 4).await.unwrap();
    h.store.put_tenant(tenant("shop"), 7).await.unwrap();
    let tenants = h.store.tenants().await.unwrap();
    let weights: Vec<_> = tenants
        .iter()
        .map(|tenant| (tenant.id.as_str(), tenant.weight))
        .collect();
    assert_eq!(weights, [("default", 1), ("shop", 7)]);
}

pub async fn tokens_are_found_by_hash(h: &Harness) {
    let token = |name: &str, byte: u8| ApiToken {
        name: name.into(),
        tenant: tenant("shop"),
        hash: [byte; 32],
        scopes: Scopes {
            enqueue: true,
            read: true,
            ..Scopes::default()
        },
        queues: vec!["mail".into(), "images".into()],
        created_at_ms: 5,
        expires_at_ms: Some(9),
    };
    h.store.put_token(token("web", 1)).await.unwrap();
    h.store.put_token(token("app", 2)).await.unwrap();
    assert_eq!(h.store.token([1; 32]).await.unwrap(), Some(token("web", 1)));
    assert_eq!(h.store.token([9; 32]).await.unwrap(), None);
    h.store.put_token(token("web", 3)).await.unwrap();
    assert_eq!(
        h.store.token([1; 32]).await.unwrap(),
        None,
        "the new one replaced it"
    );
    let listed = h.store.tokens(None).await.unwrap();
    assert_eq!(listed, [token("app", 2), token("web", 3)]);
    assert!(h.store.tokens(Some(tenant("other"))).await.unwrap().is_empty());
    assert!(h.store.revoke_token(tenant("shop"), "web".into()).await.unwrap());
    assert!(!h.store.revoke_token(tenant("shop"), "web".into()).await.unwrap());
    assert_eq!(h.store.token([3; 32]).await.unwrap(), None);
}

pub async fn facts_are_kept_and_the_first_one_wins(h: &Harness) {
    assert_eq!(h.store.metadata("a".into()).await.unwrap(), None);
    assert_eq!(
        h.store.metadata_or_insert("a".into(), vec![1]).await.unwrap(),
        [1]
    );
    assert_eq!(
        h.store.metadata_or_insert("a".into(), vec![2]).await.unwrap(),
        [1]
    );
    h.store.set_metadata("a".into(), vec![3]).await.unwrap();
    assert_eq!(h.store.metadata("a".into()).await.unwrap(), Some(vec![3]));
    assert_eq!(h.store.now_ms().await.unwrap(), h.now_ms());
}

#[derive(Default)]
struct Notes {
    ready: Mutex<Vec<QueueName>>,
    head: Mutex<u64>,
    ended: Mutex<Vec<(JobId, EventKind)>>,
    deliveries: Mutex<usize>,
}

impl Listener for Notes {
    fn ready(&self, queues: &[QueueName]) {
        self.ready.lock().extend_from_slice(queues);
    }

    fn logged(&self, head: u64) {
        *self.head.lock() = head;
    }

    fn deliveries(&self) {
        *self.deliveries.lock() += 1;
    }

    fn ended(&self, jobs: &[(JobId, EventKind)]) {
        self.ended.lock().extend_from_slice(jobs);
    }
}

pub async fn a_listener_is_told(h: &Harness) {
    let notes = Arc::new(Notes::default());
    h.store.set_listener(Arc::clone(&notes) as Arc<dyn Listener>);
    let id = h.enqueue(job()).await;
    let lease = h.take().await;
    h.finish(lease).await;
    // Another call comes after the news of those before it.
    h.store.set_paused(queue("other"), true).await.unwrap();
    assert!(notes.ready.lock().contains(&queue("q")));
    assert_eq!(*notes.ended.lock(), [(id, EventKind::Succeeded)]);
    let head = h.store.log_bounds().await.unwrap().head;
    assert_eq!(*notes.head.lock(), head);
    assert_eq!(*notes.deliveries.lock(), 0, "nobody asked for any");
    h.enqueue(job_with(|job| {
        job.webhook = Some(Webhook::to("http://example.test/"))
    }))
    .await;
    h.finish(h.take().await).await;
    h.store.set_paused(queue("other"), true).await.unwrap();
    // A store may tell again what it hears from itself by way of the database.
    assert!(*notes.deliveries.lock() >= 1);
}
