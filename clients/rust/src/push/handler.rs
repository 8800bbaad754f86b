//! A handler that calls an endpoint.

use super::endpoint::{Delivery, Endpoint};
use crate::error::Failure;
use crate::worker::{Attempt, Handler, Outcome};

/// Passes each job on to an [`Endpoint`].
pub struct Push {
    endpoint: Endpoint,
}

impl Push {
    pub fn new(endpoint: Endpoint) -> Push {
        Push { endpoint }
    }
}

impl Handler for Push {
    async fn run(&self, attempt: Attempt) -> Outcome {
        let payload = attempt.claimed().payload_bytes();
        let delivery = Delivery {
            job: attempt.id(),
            attempt: attempt.number(),
            queue: attempt.queue(),
            token: attempt.token(),
            content_type: attempt.claimed().content_type(),
            payload: &payload,
            traceparent: attempt.claimed().traceparent.as_deref(),
        };
        tokio::select! {
            outcome = self.endpoint.call(&delivery) => outcome,
            // Dropping the open call closes its connection, which tells the endpoint that its response is no
            // longer wanted.
            why = attempt.stopped() => Err(Failure::retry(format!("stopped while the endpoint worked: {why:?}"))),
        }
    }
}
