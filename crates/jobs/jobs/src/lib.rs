//! Long work, done at least once, by anybody's workers.
//!
//! A *job* waits in a *queue* until a *worker* claims it. The claim gives one opaque *token*: lease, fence and
//! credential of that attempt. A job ends exactly once: succeeded, failed for good, or cancelled. Whatever
//! happens to it is an *event* in one ordered log, written together with the change it tells of.
//!
//! The rules are plain functions that are given the time; a [`store::JobStore`] keeps the rows.

pub mod id;
pub mod job;
pub mod limits;
pub mod name;

pub mod backoff;
pub mod fair;
pub mod rate;
pub mod schedule;
pub mod state;
pub mod token;

pub mod delivery;
pub mod event;
pub mod queue;
pub mod tenant;
pub mod view;

pub mod clock;
pub mod error;
pub mod record;
pub mod request;
pub mod store;

pub mod service;

pub mod metrics;

#[cfg(any(test, feature = "suite"))]
pub mod suite;

pub use error::Error;
pub use id::JobId;
pub use job::NewJob;
pub use name::{QueueName, TenantId};
pub use state::State;
pub use store::JobStore;
