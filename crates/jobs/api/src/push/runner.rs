//! The worker of one queue.

use std::sync::Arc;
use std::time::Duration;

use nagaya_client::Endpoint;
use nagaya_jobs::QueueName;
use nagaya_jobs::request::ClaimRequest;
use nagaya_jobs::service::Jobs;
use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

use super::attempt::Attempt;

/// How long a claim waits for jobs.
const WAIT: Duration = Duration::from_secs(20);
/// Delay after a failed claim.
const FAILED_PAUSE: Duration = Duration::from_secs(1);
/// How long a pending claim may still be answered at shutdown: jobs in a reply that is not read lose an
/// attempt.
const LAST_CLAIM: Duration = Duration::from_millis(500);
/// Shown as the worker of each attempt.
const WORKER: &str = "push";

pub(super) struct Runner {
    jobs: Jobs,
    queue: QueueName,
    endpoint: Arc<Endpoint>,
    places: Arc<Semaphore>,
}

impl Runner {
    pub(super) fn new(jobs: Jobs, queue: QueueName, endpoint: Endpoint, concurrency: u32) -> Runner {
        Runner {
            jobs,
            queue,
            endpoint: Arc::new(endpoint),
            places: Arc::new(Semaphore::new(concurrency.max(1) as usize)),
        }
    }

    /// Claims and calls until told to stop, then waits for open calls. `cut` ends those at once.
    pub(super) async fn run(self, stop: CancellationToken, cut: CancellationToken) {
        let calls = TaskTracker::new();
        loop {
            let places = tokio::select! {
                biased;
                () = stop.cancelled() => break,
                places = self.free_places() => places,
            };
            let request = ClaimRequest {
                worker: WORKER.to_owned(),
                queues: vec![self.queue.clone()],
                tenant: None,
                max: places.len(),
                lease: None,
            };
            let claimed = tokio::select! {
                claimed = self.jobs.claim(request, WAIT) => claimed,
                () = after(&stop, LAST_CLAIM) => break,
            };
            match claimed {
                Ok(jobs) => {
                    for (claimed, place) in jobs.into_iter().zip(places) {
                        let attempt = Attempt::new(self.jobs.clone(), Arc::clone(&self.endpoint), claimed);
                        let cut = cut.clone();
                        calls.spawn(async move {
                            attempt.run(cut).await;
                            drop(place);
                        });
                    }
                }
                Err(error) => {
                    tracing::warn!(queue = %self.queue, %error, "claim for push failed, trying again");
                    tokio::select! {
                        () = stop.cancelled() => break,
                        () = tokio::time::sleep(FAILED_PAUSE) => (),
                    }
                }
            }
        }
        calls.close();
        calls.wait().await;
    }

    /// Waits for a free slot and takes all that are free then.
    async fn free_places(&self) -> Vec<OwnedSemaphorePermit> {
        let take = || Arc::clone(&self.places);
        let first = take().acquire_owned().await.expect("the places are never closed");
        let more = std::iter::from_fn(|| take().try_acquire_owned().ok());
        std::iter::once(first).chain(more).collect()
    }
}

/// Resolves a given time after the token was cancelled.
async fn after(stop: &CancellationToken, pause: Duration) {
    stop.cancelled().await;
    tokio::time::sleep(pause).await;
}
