//! Undelivered results.
//!
//! A delivery that is given up creates a job in a reserved queue. It is registered before the last attempt is
//! recorded, so that a crash cannot lose it. The notifier fails that job permanently. So its event is
//! reported like any other failure, and the failed jobs of the queue are the list of undelivered results.

use nagaya_jobs::delivery::Delivery;
use nagaya_jobs::job::{Body, Idempotency};
use nagaya_jobs::store::JobQueue;
use nagaya_jobs::{Error, NewJob, QueueName};
use serde_json::json;

/// Returns the queue of undelivered results. The kind of its jobs is the queue of the original job.
pub fn queue() -> QueueName {
    QueueName::new("_undelivered").expect("the name fits")
}

/// Registers an undelivered result. Registering it again has no effect.
pub(crate) async fn note(store: &dyn JobQueue, delivery: &Delivery, why: &str) -> Result<(), Error> {
    let url = &delivery.webhook.url;
    let error = format!("the result of job {} did not reach {url}: {why}", delivery.job);
    let payload = json!({ "job": delivery.job.to_string(), "url": url, "error": error });
    let mut job = NewJob::new(delivery.tenant.clone(), queue(), Body::json(payload.to_string()));
    job.kind = Some(delivery.queue.to_string());
    job.max_retries = Some(0);
    job.idempotency = Some(Idempotency {
        key: format!("delivery-{}-{}", delivery.id.0, delivery.tries),
        window: None,
        fingerprint: None,
    });
    store
        .enqueue(vec![job])
        .await?
        .into_iter()
        .try_for_each(|answer| answer.map(drop))
}

/// Reads the words of a job that [`note`] registered.
pub(crate) fn error_of(payload: &[u8]) -> String {
    let read: Option<serde_json::Value> = serde_json::from_slice(payload).ok();
    let error = read
        .as_ref()
        .and_then(|read| read.get("error"))
        .and_then(|error| error.as_str());
    error.unwrap_or("a result did not arrive").to_owned()
}
