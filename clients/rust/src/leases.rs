//! Leases given back and extended together, lost ones, and waiting for several jobs.

use std::time::Duration;

use serde::{Deserialize, Serialize};
use serde_json::{Value, json};
use tokio::time::Instant;

use crate::client::{Client, WAIT_MAX};
use crate::error::{Error, Problem};
use crate::job::State;
use crate::transport::{Call, Repeat};

/// A lease that the worker no longer has: stop working on its job.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
pub struct LostLease {
    pub token: String,
    /// The token's job; absent for a token that the server does not know.
    #[serde(default)]
    pub id: Option<String>,
    /// `cancelled`, `expired` or `unknown`.
    pub reason: String,
}

/// Which of several jobs are waited for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Until {
    All,
    Any,
}

/// How a job stands that was waited for.
#[derive(Clone, Debug, Deserialize)]
pub struct Waited {
    pub id: String,
    /// Absent when there is no such job, or no longer.
    #[serde(default)]
    pub state: Option<State>,
    #[serde(default)]
    pub result: Option<Value>,
    #[serde(default)]
    pub error: Option<String>,
    /// The answer would have become too large: read the job itself for its result.
    #[serde(default)]
    pub left_out: bool,
}

impl Client {
    /// Gives a job back, to be started again after a delay. The attempt does not count.
    ///
    /// Repeated only if the server certainly did nothing: a lease that is given back is over.
    pub async fn release(&self, id: &str, token: &str, delay: Duration) -> Result<(), Error> {
        let body = json!({ "token": token, "delay_seconds": delay.as_secs_f64() });
        self.report(id, "release", &body, Repeat::IfNotDone).await
    }

    /// Extends leases by their own lengths. Each succeeds or fails on its own; the results are in the same order.
    pub async fn extend_many(&self, tokens: &[&str]) -> Result<Vec<Result<(), Problem>>, Error> {
        let leases: Vec<Value> = tokens.iter().map(|token| json!({ "token": token })).collect();
        let batch = json!({ "jobs": leases });
        let done = self.many::<serde::de::IgnoredAny>("/v1/jobs/batch/extend", &batch, Repeat::Safe);
        Ok(done.await?.into_iter().map(|one| one.map(drop)).collect())
    }

    /// Waits until one or all of up to 256 jobs have ended, and returns how they stand then or when the time is over.
    pub async fn wait_many(&self, ids: &[&str], until: Until, limit: Duration) -> Result<Vec<Waited>, Error> {
        #[derive(Deserialize)]
        struct Answer {
            jobs: Vec<Waited>,
            done: bool,
        }
        let end = Instant::now() + limit;
        loop {
            let left = end.saturating_duration_since(Instant::now());
            // At least a second, so that a server that does not wait is not polled in a tight loop.
            let wait = left.min(WAIT_MAX).max(Duration::from_secs(1));
            let body = json!({ "ids": ids, "until": until, "wait_seconds": wait.as_secs(), "results": true });
            let mut call = Call::post("/v1/jobs/wait".into(), &body, Repeat::Safe)?;
            call.wait = wait;
            let answer: Answer = self.ask(call).await?;
            if answer.done || Instant::now() >= end {
                return Ok(answer.jobs);
            }
        }
    }

    /// Returns the server's version. Every token may ask.
    pub async fn version(&self) -> Result<String, Error> {
        #[derive(Deserialize)]
        struct Answer {
            version: String,
        }
        let answer: Answer = self.ask(Call::get("/v1/version".into())).await?;
        Ok(answer.version)
    }
}
