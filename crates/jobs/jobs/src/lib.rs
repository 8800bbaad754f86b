//! Long-running work, executed at least once, by workers outside of this process.
//!
//! A *job* waits in a *queue* until a *worker* claims it. The claim returns one opaque *token*: lease, fence
//! and credential of that attempt. A job ends exactly once: succeeded, failed permanently, or cancelled. Every
//! change is an *event* in one ordered log, written in the same transaction as the change.
//!
//! The rules are plain functions that take the time as an argument; a [`store::JobStore`] keeps the rows.

pub mod id;
pub mod job;
pub mod json;
pub mod limits;
pub mod name;
pub mod url;

pub mod backoff;
pub mod fair;
pub mod rate;
pub mod schedule;
pub mod shares;
pub mod state;
pub mod token;

pub mod delivery;
pub mod event;
pub mod queue;
pub mod tenant;
pub mod view;
pub mod visibility;

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
pub use visibility::Visibility;
