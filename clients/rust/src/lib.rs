//! Submits jobs to a server, and runs them.
//!
//! [`Client`] speaks the REST API of `jobs`: it registers, reads, waits, lists, cancels and retries.
//! [`Worker`] claims jobs of one queue, runs a [`Handler`] for each, extends their leases and reports how
//! they ended. [`Push`] is a handler that passes each job on to an HTTP endpoint.
//!
//! Jobs run at least once: a handler may get a job again whose first run had almost finished, so handlers
//! should be idempotent. The client only repeats calls that the server can recognise as repetitions; see
//! [`Client`] for the list.

mod client;
mod job;
mod leases;
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
pub use client::{Claim, ClaimAnswer, Client, Completion, Filter};
pub use error::{Error, Failure, Problem};
pub use job::{Claimed, Enqueued, Job, JobPage, State};
pub use leases::{LostLease, Until, Waited};
pub use new_job::NewJob;
pub use push::{Delivery, Endpoint, Push, Secret, SecretError};
pub use queue::Queue;
pub use retry::RetryPolicy;
pub use schedule::{NewSchedule, Schedule};
pub use worker::{Attempt, Handler, Outcome, Stopped, Tally, Worker};

/// JSON that is passed on unparsed.
pub use serde_json::value::RawValue;
/// Ends a worker: cancel it to start a drain.
pub use tokio_util::sync::CancellationToken;
