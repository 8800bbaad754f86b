//! The calls of the REST API.

use std::fmt::Write as _;
use std::sync::Arc;
use std::time::Duration;

use http::Method;
use serde::de::{DeserializeOwned, IgnoredAny};
use serde::{Deserialize, Serialize};
use serde_json::value::RawValue;
use serde_json::{Value, json};

use crate::error::{Document, Error, Problem};
use crate::job::{Claimed, Enqueued, Job, JobPage, State};
use crate::leases::LostLease;
use crate::new_job::NewJob;
use crate::queue::Queue;
use crate::schedule::{NewSchedule, Schedule};
use crate::transport::{Call, Repeat, Transport, encoded};

/// Longest wait per call; proxies cut longer ones.
pub(crate) const WAIT_MAX: Duration = Duration::from_secs(30);

/// A client for one server, over pooled connections. Cheap to clone.
///
/// Calls that fail temporarily are repeated (see [`RetryPolicy`](crate::RetryPolicy)) where that is safe:
/// reads; registrations, which get an idempotency key if they have none; extensions, completions and
/// failures, which the server accepts once per token; cancellations, pauses and settings. Claims, log lines
/// and retries are repeated only if the server certainly did nothing.
///
/// Every call is cancel safe in that dropping it leaves the client usable. Whether the server executed a
/// dropped call is unknown.
#[derive(Clone)]
pub struct Client {
    transport: Arc<Transport>,
    enqueue_keys: bool,
}

/// A request for jobs.
#[derive(Clone, Debug, Serialize)]
pub struct Claim {
    /// The worker's name, for display.
    pub worker: String,
    /// Most jobs to return.
    pub max: usize,
    /// How long the server may hold the call until there is a job, in whole seconds.
    #[serde(rename = "wait_seconds", serialize_with = "whole_seconds")]
    pub wait: Duration,
    /// Tokens of jobs that the worker has under way, 1024 at most: those that are lost are told, and end the wait.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub holding: Vec<String>,
}

/// The answer to a request for jobs.
#[derive(Clone, Debug, Deserialize)]
pub struct ClaimAnswer {
    pub jobs: Vec<Claimed>,
    /// Those of [`Claim::holding`] that are lost.
    #[serde(default)]
    pub lost: Vec<LostLease>,
}

/// One success report of a batch.
#[derive(Clone, Copy, Debug, Serialize)]
pub struct Completion<'a> {
    pub token: &'a str,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub result: Option<&'a RawValue>,
}

/// Selects the jobs of a listing or a bulk action; all jobs by default.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Filter {
    pub queue: Option<String>,
    pub state: Option<State>,
    pub kind: Option<String>,
    pub tag: Option<String>,
    pub limit: Option<u32>,
    /// Where to continue, from [`JobPage::next_cursor`].
    pub cursor: Option<String>,
}

impl Client {
    pub(crate) fn over(transport: Transport, enqueue_keys: bool) -> Client {
        Client {
            transport: Arc::new(transport),
            enqueue_keys,
        }
    }

    /// Returns the address of the server.
    pub fn url(&self) -> String {
        self.transport.url()
    }

    /// Registers a job. When this returns, the server has it on disk.
    pub async fn enqueue(&self, job: NewJob) -> Result<Enqueued, Error> {
        let (job, repeat) = self.keyed(job);
        self.transport
            .ask(Call::post("/v1/jobs".into(), &job, repeat)?)
            .await
    }

    /// Registers many jobs in one call. Each succeeds or fails on its own; the results are in the same order.
    pub async fn enqueue_many(&self, jobs: Vec<NewJob>) -> Result<Vec<Result<Enqueued, Problem>>, Error> {
        #[derive(Serialize)]
        struct Batch {
            jobs: Vec<NewJob>,
        }
        let mut repeat = Repeat::Safe;
        let keyed = jobs.into_iter().map(|job| {
            let (job, one) = self.keyed(job);
            if one == Repeat::IfNotDone {
                repeat = one;
            }
            job
        });
        let batch = Batch {
            jobs: keyed.collect(),
        };
        self.many("/v1/jobs/batch", &batch, repeat).await
    }

    /// Completes many jobs in one call. Each succeeds or fails on its own; the results are in the same order.
    pub async fn complete_many(&self, reports: &[Completion<'_>]) -> Result<Vec<Result<(), Problem>>, Error> {
        #[derive(Serialize)]
        struct Batch<'a> {
            jobs: &'a [Completion<'a>],
        }
        let batch = Batch { jobs: reports };
        let done = self.many::<IgnoredAny>("/v1/jobs/batch/complete", &batch, Repeat::Safe);
        Ok(done.await?.into_iter().map(|one| one.map(drop)).collect())
    }

    /// Sends a call whose response has one result per item.
    pub(crate) async fn many<T: DeserializeOwned>(
        &self,
        path: &str,
        batch: &impl Serialize,
        repeat: Repeat,
    ) -> Result<Vec<Result<T, Problem>>, Error> {
        #[derive(Deserialize)]
        #[serde(untagged)]
        enum Item<T> {
            Problem { error: Document },
            Done(T),
        }
        #[derive(Deserialize)]
        struct Answer<T> {
            jobs: Vec<Item<T>>,
        }
        let answer: Answer<T> = self
            .transport
            .ask(Call::post(path.into(), batch, repeat)?)
            .await?;
        let each = answer.jobs.into_iter().map(|item| match item {
            Item::Done(done) => Ok(done),
            Item::Problem { error } => Err(error.into()),
        });
        Ok(each.collect())
    }

    fn keyed(&self, job: NewJob) -> (NewJob, Repeat) {
        let job = if self.enqueue_keys { job.with_key() } else { job };
        let repeat = match job.idempotency_key {
            Some(_) => Repeat::Safe,
            None => Repeat::IfNotDone,
        };
        (job, repeat)
    }

    /// Claims jobs of a queue. If the response is lost, its jobs lose one attempt each, because their leases
    /// expire.
    pub async fn claim(&self, queue: &str, claim: &Claim) -> Result<Vec<Claimed>, Error> {
        Ok(self.claim_holding(queue, claim).await?.jobs)
    }

    /// The same, and tells which of the jobs are lost that the worker has under way.
    pub async fn claim_holding(&self, queue: &str, claim: &Claim) -> Result<ClaimAnswer, Error> {
        let path = format!("/v1/queues/{}/claim", encoded(queue));
        let mut call = Call::post(path, claim, Repeat::Never)?;
        call.wait = claim.wait;
        self.transport.ask(call).await
    }

    /// Extends the lease from now by its own length, or by another one.
    pub async fn extend(&self, id: &str, token: &str, timeout: Option<Duration>) -> Result<(), Error> {
        let body = match timeout {
            None => json!({ "token": token }),
            Some(timeout) => json!({ "token": token, "timeout_seconds": timeout.as_secs() }),
        };
        self.report(id, "extend", &body, Repeat::Safe).await
    }

    /// Reports the progress of an attempt: a number from 0 to 1, and a short message.
    pub async fn progress(
        &self,
        id: &str,
        token: &str,
        done: Option<f64>,
        message: Option<&str>,
    ) -> Result<(), Error> {
        #[derive(Serialize)]
        struct Body<'a> {
            token: &'a str,
            #[serde(skip_serializing_if = "Option::is_none")]
            progress: Option<f64>,
            #[serde(skip_serializing_if = "Option::is_none")]
            message: Option<&'a str>,
        }
        let body = Body {
            token,
            progress: done.map(|done| done.clamp(0.0, 1.0)),
            message,
        };
        self.report(id, "progress", &body, Repeat::Safe).await
    }

    /// Appends lines to the job's log.
    pub async fn log(&self, id: &str, token: &str, lines: &[String]) -> Result<(), Error> {
        let body = json!({ "token": token, "lines": lines });
        self.report(id, "log", &body, Repeat::IfNotDone).await
    }

    /// Completes the job with a result. Repeating the same completion returns the same response.
    pub async fn complete(&self, id: &str, token: &str, result: Option<&RawValue>) -> Result<(), Error> {
        #[derive(Serialize)]
        struct Body<'a> {
            token: &'a str,
            #[serde(skip_serializing_if = "Option::is_none")]
            result: Option<&'a RawValue>,
        }
        self.report(id, "complete", &Body { token, result }, Repeat::Safe)
            .await
    }

    /// Fails the attempt. The job is retried later unless the failure is permanent.
    pub async fn fail(&self, id: &str, token: &str, error: &str, permanent: bool) -> Result<(), Error> {
        let body = json!({ "token": token, "error": error, "permanent": permanent });
        self.report(id, "fail", &body, Repeat::Safe).await
    }

    pub(crate) async fn ask<T: DeserializeOwned>(&self, call: Call) -> Result<T, Error> {
        self.transport.ask(call).await
    }

    pub(crate) async fn report(
        &self,
        id: &str,
        what: &str,
        body: &impl Serialize,
        repeat: Repeat,
    ) -> Result<(), Error> {
        let path = format!("/v1/jobs/{}/{what}", encoded(id));
        self.transport
            .ask::<IgnoredAny>(Call::post(path, body, repeat)?)
            .await?;
        Ok(())
    }

    /// Reads a job.
    pub async fn job(&self, id: &str) -> Result<Job, Error> {
        self.transport
            .ask(Call::get(format!("/v1/jobs/{}", encoded(id))))
            .await
    }

    /// Returns a job as soon as it has ended, or in its current state when the time is over.
    pub async fn wait(&self, id: &str, limit: Duration) -> Result<Job, Error> {
        let until = tokio::time::Instant::now() + limit;
        loop {
            let left = until.saturating_duration_since(tokio::time::Instant::now());
            // At least a second, so that a server that does not wait is not polled in a tight loop.
            let wait = left.min(WAIT_MAX).max(Duration::from_secs(1));
            let path = format!("/v1/jobs/{}?wait={}s", encoded(id), wait.as_secs());
            let mut call = Call::get(path);
            call.wait = wait;
            let job: Job = self.transport.ask(call).await?;
            if job.state.is_over() || tokio::time::Instant::now() >= until {
                return Ok(job);
            }
        }
    }

    /// Reads one page of jobs, newest first.
    pub async fn list(&self, filter: &Filter) -> Result<JobPage, Error> {
        self.transport
            .ask(Call::get(format!("/v1/jobs{}", filter.query())))
            .await
    }

    /// Cancels a job that has not ended; a running attempt loses its lease.
    pub async fn cancel(&self, id: &str) -> Result<(), Error> {
        self.report(id, "cancel", &json!({}), Repeat::Safe).await
    }

    /// Restarts a failed or cancelled job.
    pub async fn retry(&self, id: &str) -> Result<(), Error> {
        self.report(id, "retry", &json!({}), Repeat::IfNotDone).await
    }

    /// Reads all queues.
    pub async fn queues(&self) -> Result<Vec<Queue>, Error> {
        #[derive(Deserialize)]
        struct Answer {
            queues: Vec<Queue>,
        }
        Ok(self
            .transport
            .ask::<Answer>(Call::get("/v1/queues".into()))
            .await?
            .queues)
    }

    /// Starts no further job of the queue until it is resumed.
    pub async fn pause(&self, queue: &str) -> Result<(), Error> {
        self.queue_action(queue, "pause").await
    }

    pub async fn resume(&self, queue: &str) -> Result<(), Error> {
        self.queue_action(queue, "resume").await
    }

    async fn queue_action(&self, queue: &str, action: &str) -> Result<(), Error> {
        let path = format!("/v1/queues/{}/{action}", encoded(queue));
        let call = Call::post(path, &json!({}), Repeat::Safe)?;
        self.transport.ask::<IgnoredAny>(call).await?;
        Ok(())
    }

    /// Reads all schedules.
    pub async fn schedules(&self) -> Result<Vec<Schedule>, Error> {
        #[derive(Deserialize)]
        struct Answer {
            schedules: Vec<Schedule>,
        }
        let call = Call::get("/v1/schedules".into());
        Ok(self.transport.ask::<Answer>(call).await?.schedules)
    }

    /// Creates a schedule, or replaces the one with the same name.
    pub async fn set_schedule(&self, schedule: &NewSchedule) -> Result<(), Error> {
        let path = format!("/v1/schedules/{}", encoded(&schedule.name));
        let mut call = Call::post(path, schedule, Repeat::Safe)?;
        call.method = Method::PUT;
        self.transport.ask::<IgnoredAny>(call).await?;
        Ok(())
    }

    pub async fn remove_schedule(&self, name: &str) -> Result<(), Error> {
        let mut call = Call::get(format!("/v1/schedules/{}", encoded(name)));
        (call.method, call.repeat) = (Method::DELETE, Repeat::IfNotDone);
        self.transport.ask::<IgnoredAny>(call).await?;
        Ok(())
    }

    /// Sends any other GET of the API.
    pub async fn get<T: DeserializeOwned>(&self, path: &str) -> Result<T, Error> {
        self.transport.ask(Call::get(path.to_owned())).await
    }

    /// Sends any DELETE of the API; repeated only if it certainly was not executed.
    pub async fn delete(&self, path: &str) -> Result<Value, Error> {
        let mut call = Call::get(path.to_owned());
        (call.method, call.repeat) = (Method::DELETE, Repeat::IfNotDone);
        self.transport.ask(call).await
    }

    /// Sends any other PUT of the API, which is idempotent.
    pub async fn put(&self, path: &str, body: &impl Serialize) -> Result<Value, Error> {
        let mut call = Call::post(path.to_owned(), body, Repeat::Safe)?;
        call.method = Method::PUT;
        self.transport.ask(call).await
    }

    /// Sends any PATCH of the API. Those there are set what they are given, so they are idempotent.
    pub async fn patch(&self, path: &str, body: &impl Serialize) -> Result<Value, Error> {
        let mut call = Call::post(path.to_owned(), body, Repeat::Safe)?;
        call.method = Method::PATCH;
        self.transport.ask(call).await
    }

    /// Returns the path of a job.
    pub fn job_path(id: &str) -> String {
        format!("/v1/jobs/{}", encoded(id))
    }

    /// Returns the path of a queue.
    pub fn queue_path(queue: &str) -> String {
        format!("/v1/queues/{}", encoded(queue))
    }

    /// Sends any other POST of the API; repeated only if it certainly was not executed.
    pub async fn post(&self, path: &str, body: &impl Serialize) -> Result<Value, Error> {
        let call = Call::post(path.to_owned(), body, Repeat::IfNotDone)?;
        self.transport.ask(call).await
    }
}

impl Filter {
    fn query(&self) -> String {
        let limit = self.limit.map(|limit| limit.to_string());
        let fields = [
            ("queue", self.queue.as_deref()),
            ("state", self.state.map(State::name)),
            ("kind", self.kind.as_deref()),
            ("tag", self.tag.as_deref()),
            ("limit", limit.as_deref()),
            ("cursor", self.cursor.as_deref()),
        ];
        let mut query = String::new();
        for (name, value) in fields {
            if let Some(value) = value {
                let mark = if query.is_empty() { '?' } else { '&' };
                write!(query, "{mark}{name}={}", encoded(value)).expect("writing to a string cannot fail");
            }
        }
        query
    }
}

fn whole_seconds<S: serde::Serializer>(wait: &Duration, out: S) -> Result<S::Ok, S::Error> {
    out.serialize_u64(wait.as_secs())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn filters_become_queries() {
        assert_eq!(Filter::default().query(), "");
        let filter = Filter {
            queue: Some("a b".into()),
            state: Some(State::Failed),
            limit: Some(5),
            ..Filter::default()
        };
        assert_eq!(filter.query(), "?queue=a%20b&state=failed&limit=5");
    }
}
