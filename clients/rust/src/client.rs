//! The calls of the REST interface.

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
use crate::new_job::NewJob;
use crate::queue::Queue;
use crate::schedule::{NewSchedule, Schedule};
use crate::transport::{Call, Repeat, Transport, encoded};

/// Longest wait asked of the house in one call; proxies cut longer ones.
const WAIT_MAX: Duration = Duration::from_secs(30);

/// A house, spoken to over kept-alive connections. Cheap to clone.
///
/// Calls that fail for a moment are repeated (see [`RetryPolicy`](crate::RetryPolicy)) where that is safe:
/// reads; registrations, which get an idempotency key if they have none; extensions, completions and
/// failures, which the house takes once per token; cancellations, pauses and settings. Claims, log lines
/// and retries are repeated only when the house certainly did nothing.
///
/// Every call is cancel safe in that dropping it leaves the client usable; what the house did of a dropped
/// call is unknown.
#[derive(Clone)]
pub struct Client {
    transport: Arc<Transport>,
    enqueue_keys: bool,
}

/// What a worker asks for.
#[derive(Clone, Debug, Serialize)]
pub struct Claim {
    /// Who asks, for people to see.
    pub worker: String,
    /// Most jobs to be given.
    pub max: usize,
    /// How long the house may hold the call until there is a job, in whole seconds.
    #[serde(rename = "wait_seconds", serialize_with = "whole_seconds")]
    pub wait: Duration,
}

/// One of many reports of success.
#[derive(Clone, Copy, Debug, Serialize)]
pub struct Completion<'a> {
    pub token: &'a str,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub result: Option<&'a RawValue>,
}

/// Which jobs a listing or a bulk action is about. Nothing said means all.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Filter {
    pub queue: Option<String>,
    pub state: Option<State>,
    pub kind: Option<String>,
    pub tag: Option<String>,
    pub limit: Option<u32>,
    /// Where to go on, from [`JobPage::next_cursor`].
    pub cursor: Option<String>,
}

impl Client {
    pub(crate) fn over(transport: Transport, enqueue_keys: bool) -> Client {
        Client {
            transport: Arc::new(transport),
            enqueue_keys,
        }
    }

    /// Where the house is.
    pub fn url(&self) -> String {
        self.transport.url()
    }

    /// Registers a job. When this returns, the house has it on disk.
    pub async fn enqueue(&self, job: NewJob) -> Result<Enqueued, Error> {
        let (job, repeat) = self.keyed(job);
        self.transport
            .ask(Call::post("/v1/jobs".into(), &job, repeat)?)
            .await
    }

    /// Registers many jobs at once. Each is judged by itself; the answers are in their order.
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

    /// Ends many jobs at once with their results. Each is judged by itself; the answers are in their order.
    pub async fn complete_many(&self, reports: &[Completion<'_>]) -> Result<Vec<Result<(), Problem>>, Error> {
        #[derive(Serialize)]
        struct Batch<'a> {
            jobs: &'a [Completion<'a>],
        }
        let batch = Batch { jobs: reports };
        let done = self.many::<IgnoredAny>("/v1/jobs/batch/complete", &batch, Repeat::Safe);
        Ok(done.await?.into_iter().map(|one| one.map(drop)).collect())
    }

    /// A call whose answer has one outcome for each of its items.
    async fn many<T: DeserializeOwned>(
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

    /// Takes jobs of a queue. An answer that is lost costs its jobs one attempt each: their leases run out.
    pub async fn claim(&self, queue: &str, claim: &Claim) -> Result<Vec<Claimed>, Error> {
        #[derive(Deserialize)]
        struct Answer {
            jobs: Vec<Claimed>,
        }
        let path = format!("/v1/queues/{}/claim", encoded(queue));
        let mut call = Call::post(path, claim, Repeat::Never)?;
        call.wait = claim.wait;
        Ok(self.transport.ask::<Answer>(call).await?.jobs)
    }

    /// Makes the lease hold from now for its length, or for another one.
    pub async fn extend(&self, id: &str, token: &str, timeout: Option<Duration>) -> Result<(), Error> {
        let body = match timeout {
            None => json!({ "token": token }),
            Some(timeout) => json!({ "token": token, "timeout_seconds": timeout.as_secs() }),
        };
        self.report(id, "extend", &body, Repeat::Safe).await
    }

    /// Tells how far an attempt is: a number from 0 to 1, and a few words.
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

    /// Ends the job with a result. Repeating the same completion is answered as the first one was.
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

    /// Ends the attempt without success; the job is tried again later unless the failure is permanent.
    pub async fn fail(&self, id: &str, token: &str, error: &str, permanent: bool) -> Result<(), Error> {
        let body = json!({ "token": token, "error": error, "permanent": permanent });
        self.report(id, "fail", &body, Repeat::Safe).await
    }

    async fn report(&self, id: &str, what: &str, body: &impl Serialize, repeat: Repeat) -> Result<(), Error> {
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

    /// Reads a job as soon as it has ended, or as it is when the time is over.
    pub async fn wait(&self, id: &str, limit: Duration) -> Result<Job, Error> {
        let until = tokio::time::Instant::now() + limit;
        loop {
            let left = until.saturating_duration_since(tokio::time::Instant::now());
            // At least a second, so that a house without patience is not asked in a tight circle.
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

    /// Lets a failed or cancelled job start over.
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

    /// Lets no job of the queue start until it is resumed.
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

    /// Sets a schedule up, or replaces the one of the same name.
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

    /// Any other GET of the interface.
    pub async fn get<T: DeserializeOwned>(&self, path: &str) -> Result<T, Error> {
        self.transport.ask(Call::get(path.to_owned())).await
    }

    /// Any DELETE of the interface; repeated only when it certainly was not done.
    pub async fn delete(&self, path: &str) -> Result<Value, Error> {
        let mut call = Call::get(path.to_owned());
        (call.method, call.repeat) = (Method::DELETE, Repeat::IfNotDone);
        self.transport.ask(call).await
    }

    /// Any other PUT of the interface; the same again changes nothing.
    pub async fn put(&self, path: &str, body: &impl Serialize) -> Result<Value, Error> {
        let mut call = Call::post(path.to_owned(), body, Repeat::Safe)?;
        call.method = Method::PUT;
        self.transport.ask(call).await
    }

    /// Any other POST of the interface; repeated only when it certainly was not done.
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
