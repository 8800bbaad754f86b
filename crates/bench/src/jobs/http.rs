//! Ours over HTTP.

use std::time::Duration;

use anyhow::bail;
use nagaya_client::{Claim, Client, Completion, NewJob, RetryPolicy};

use super::caller::{Caller, QUEUE, Taken};
use super::nagaya_server::NagayaServer;

#[derive(Clone)]
pub(super) struct Http {
    client: Client,
}

impl Http {
    pub(super) fn connect(server: &NagayaServer) -> anyhow::Result<Http> {
        // Failures must be visible, so nothing is retried, and a peer's jobs carry no keys either.
        let client = Client::builder(&server.url())
            .retry(RetryPolicy::NONE)
            .without_enqueue_keys();
        Ok(Http {
            client: client.build()?,
        })
    }
}

impl Caller for Http {
    async fn enqueue_many(&self, count: usize) -> anyhow::Result<()> {
        let job = NewJob::new(QUEUE, &0)?;
        for outcome in self.client.enqueue_many(vec![job; count]).await? {
            if let Err(problem) = outcome {
                bail!("a job was refused: {problem}");
            }
        }
        Ok(())
    }

    async fn enqueue(&self, at_ns: u64) -> anyhow::Result<()> {
        self.client.enqueue(NewJob::new(QUEUE, &at_ns)?).await?;
        Ok(())
    }

    async fn claim(&self, max: usize, wait: Duration) -> anyhow::Result<Vec<Taken>> {
        let claim = Claim {
            worker: "bench".to_owned(),
            max,
            wait,
            holding: Vec::new(),
        };
        let jobs = self.client.claim(QUEUE, &claim).await?;
        let taken = jobs.into_iter().map(|job| Taken {
            at_ns: job.raw_payload().parse().unwrap_or(0),
            token: job.token,
        });
        Ok(taken.collect())
    }

    async fn complete(&self, jobs: Vec<Taken>) -> anyhow::Result<()> {
        let report = |job| Completion {
            token: Taken::token(job),
            result: None,
        };
        let reports: Vec<Completion<'_>> = jobs.iter().map(report).collect();
        for outcome in self.client.complete_many(&reports).await? {
            if let Err(problem) = outcome {
                bail!("a completion was refused: {problem}");
            }
        }
        Ok(())
    }
}

impl Taken {
    fn token(&self) -> &str {
        &self.token
    }
}
