//! Sends a copy of one request to every endpoint, and stores every answer with its outcome.
//!
//! Compatible with serinin: its config file, its replies and the bytes it stores. Beside each answer there is
//! an outcome, and a marker once nothing more will come. One deadline covers all work for an endpoint.
//! Everything is bounded; what exceeds a bound is shed and named.
//!
//! Suggested reading order: the settings; the rules (pure, with time passed in); the path of a request from
//! the listener through the service and its runner to jobs and endpoints; the client; the stores; reading
//! requests back.

mod config;
mod endpoints;
mod go_duration;
mod names;
pub mod serinin;

mod breaker;
mod budget;
mod deadline;
mod gather;
mod handlers;
mod load;
mod outcome;
mod preferences;
mod rate;

mod server;
mod service;

mod request_task;
mod runner;

mod job;

mod endpoint;
mod request;
mod target;

mod client;

mod store;

mod live;
mod read_back;
mod recent;

#[cfg(test)]
mod deadline_tests;

mod error;
mod ids;
mod log_limiter;
pub mod metrics;
mod stats;
mod traced;

pub use breaker::Tally;
pub use client::{Fetch, FetchError, Fetched, Place};
pub use config::{FanoutConfig, NodeChoice, Redirects, RequestIdKind, StoreKind};
pub use deadline::Receipt;
pub use endpoint::{Endpoint, EndpointSet, ShedReason};
pub use endpoints::{ENDPOINTS_MAX, EndpointConfig, Endpoints};
pub use error::Error;
pub use ids::IdSource;
pub use outcome::{Outcome, State};
pub use recent::RecentRequest;
pub use request::{DEADLINE_HEADER, ID_HEADER, Outgoing, VIA_HEADER};
pub use server::{Access, Cut, Server};
pub use service::Fanout;
pub use stats::{BOUNDS_MS, Counts, EndpointCounts, Latency, RejectReason};
pub use store::{
    Answer, Batch, DiscardStore, MemcachedStore, MemoryStore, Record, RedisStore, Store, StoreError, Stored,
    Written, open_store,
};
