//! What the tests share.

use std::time::Duration;

use nagaya_jobs::job::{Body, NewJob};
use nagaya_jobs::request::ClaimRequest;
use nagaya_jobs::{QueueName, TenantId};

pub(crate) fn job(bytes: usize) -> NewJob {
    let payload = Body::json(vec![b'1'; bytes]);
    let mut job = NewJob::new(TenantId::default_tenant(), QueueName::new("q").unwrap(), payload);
    job.timeout = Some(Duration::from_secs(1));
    job
}

pub(crate) fn wants(max: usize) -> ClaimRequest {
    ClaimRequest {
        worker: "w".into(),
        queues: vec![QueueName::new("q").unwrap()],
        tenant: None,
        max,
        lease: None,
    }
}
