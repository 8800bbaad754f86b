//! Hands work to a running house, and does it.
//!
//! [`Client`] speaks the REST interface of `jobs`: it registers, reads, waits, lists, cancels and retries.
//! [`Worker`] takes jobs of one queue and runs a [`Handler`] for each, keeps their leases alive and reports
//! how they ended. [`Push`] is a handler that passes each job on to an HTTP endpoint.
//!
//! Work is done at least once: a handler may meet a job again whose first run it had almost finished, so
//! what it does should bear repetition. What the client repeats by itself is only what the house can tell
//! apart from a second wish; [`Client`] says which calls those are.

mod client;
mod job;
mod new_job;
mod queue;
mod schedule;

mod worker;

mod push;

mod builder;
mod error;
mod options;
mod retry;
mod transport;

pub use builder::ClientBuilder;
pub use client::{Claim, Client, Completion, Filter};
pub use error::{Error, Failure, Problem};
pub use job::{Claimed, Enqueued, Job, JobPage, State};
pub use new_job::NewJob;
pub use push::{Delivery, Endpoint, Push, Secret, SecretError};
pub use queue::Queue;
pub use retry::RetryPolicy;
pub use schedule::{NewSchedule, Schedule};
pub use worker::{Attempt, Handler, Outcome, Stopped, Tally, Worker};

/// Bodies that are passed on as they are.
pub use serde_json::value::RawValue;
/// What ends a worker; cancel it to let it drain.
pub use tokio_util::sync::CancellationToken;
