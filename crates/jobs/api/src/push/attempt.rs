//! One call to an endpoint, with its lease and its report.

use std::sync::Arc;
use std::time::Duration;

use nagaya_client::{Delivery, Endpoint, Outcome};
use nagaya_jobs::job::Body;
use nagaya_jobs::request::{Completion, Extension, Failure};
use nagaya_jobs::service::{Claimed, Jobs};
use nagaya_jobs::state::FailureTerms;
use nagaya_jobs::{Error, token::Lease};
use nagaya_telemetry::trace;
use tokio_util::sync::CancellationToken;
use tracing::{Instrument, Span, info_span};

/// A lease is extended this many times within its length, so that one lost extension does not lose it.
const EXTENSIONS_PER_LEASE: u32 = 3;
/// How often a report is attempted; the store may come back in between.
const REPORT_ATTEMPTS: u32 = 10;
const REPORT_PAUSE: Duration = Duration::from_millis(500);

pub(super) struct Attempt {
    jobs: Jobs,
    endpoint: Arc<Endpoint>,
    claimed: Claimed,
}

impl Attempt {
    pub(super) fn new(jobs: Jobs, endpoint: Arc<Endpoint>, claimed: Claimed) -> Attempt {
        Attempt {
            jobs,
            endpoint,
            claimed,
        }
    }

    fn lease(&self) -> Lease {
        self.claimed.job.lease
    }

    /// Calls the endpoint and reports the result, unless the lease is lost meanwhile.
    pub(super) async fn run(self, cut: CancellationToken) {
        let span = self.span();
        self.attend(cut, trace::traceparent(&span)).instrument(span).await;
    }

    /// Returns the span of the attempt in the job's trace, where spans are exported.
    fn span(&self) -> Span {
        let (job, lease) = (&self.claimed.job, self.lease());
        let Some(context) = job.trace.as_ref().filter(|_| trace::is_on()) else {
            return Span::none();
        };
        let span = info_span!("job_attempt", job = %lease.id, attempt = lease.attempt, queue = %job.queue, worker = "push");
        trace::hang(&span, Some(&context.parent), context.state.as_deref());
        span
    }

    async fn attend(&self, cut: CancellationToken, traceparent: Option<String>) {
        let id = self.lease().id.to_string();
        let delivery = Delivery {
            job: &id,
            attempt: self.lease().attempt,
            queue: self.claimed.job.queue.as_str(),
            token: &self.claimed.token,
            content_type: self.claimed.job.payload.content_type(),
            payload: &self.claimed.job.payload.bytes,
            traceparent: traceparent.as_deref().or(self
                .claimed
                .job
                .trace
                .as_ref()
                .map(|trace| trace.parent.as_str())),
        };
        let outcome = tokio::select! {
            outcome = self.endpoint.call(&delivery) => outcome,
            error = self.keep_lease() => {
                tracing::info!(job = id, %error, "lease of a pushed job lost, call dropped");
                return;
            }
            () = cut.cancelled() => {
                Err(nagaya_client::Failure::retry("the server was shut down before the endpoint answered"))
            }
        };
        self.report(outcome).await;
    }

    /// Extends the lease repeatedly. Returns when it is lost.
    async fn keep_lease(&self) -> Error {
        let every = self.claimed.job.lease_length / EXTENSIONS_PER_LEASE;
        loop {
            tokio::time::sleep(every).await;
            let extension = Extension {
                lease: self.lease(),
                length: None,
            };
            match one(self.jobs.extend(vec![extension]).await) {
                Ok(_) => (),
                Err(error @ (Error::LeaseLost { .. } | Error::NotFound { .. })) => return error,
                Err(error) => tracing::warn!(%error, "lease of a pushed job not extended, trying again"),
            }
        }
    }

    /// Reports until the store accepts or rejects it.
    async fn report(&self, mut outcome: Outcome) {
        for _ in 0..REPORT_ATTEMPTS {
            let error = match self.report_once(&outcome).await {
                Ok(()) => return,
                Err(error) => error,
            };
            match error {
                // Another attempt would not produce a smaller result.
                Error::TooLarge { .. } if outcome.is_ok() => {
                    outcome = Err(nagaya_client::Failure::permanent(error.to_string()));
                    continue;
                }
                error if !error.is_retryable() => {
                    tracing::warn!(%error, "outcome of a pushed job rejected");
                    return;
                }
                error => tracing::warn!(%error, "outcome of a pushed job not reported yet"),
            }
            tokio::time::sleep(REPORT_PAUSE).await;
        }
    }

    async fn report_once(&self, outcome: &Outcome) -> Result<(), Error> {
        match outcome {
            Ok(result) => {
                let body = result
                    .as_ref()
                    .map(|raw| Body::json(raw.get().as_bytes().to_vec()));
                let report = Completion {
                    lease: self.lease(),
                    result: body,
                };
                one(self.jobs.complete(vec![report]).await).map(drop)
            }
            Err(failure) => {
                let report = Failure {
                    lease: self.lease(),
                    error: failure.error.clone(),
                    terms: FailureTerms {
                        permanent: failure.permanent,
                        retry_after: None,
                    },
                };
                one(self.jobs.fail(vec![report]).await).map(drop)
            }
        }
    }
}

/// Unwraps the result of a batch of one.
fn one<T>(answers: Result<Vec<Result<T, Error>>, Error>) -> Result<T, Error> {
    answers?.pop().unwrap_or(Err(Error::Busy))
}
