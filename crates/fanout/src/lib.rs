//! One request in, one copy to every endpoint, every answer in a store and accounted for.
//!
//! Compatible with serinin: its config file, its replies and the bytes it stores. Beside each answer there
//! is an outcome, and a mark when nothing more will come. One deadline spans all that happens for an
//! endpoint; everything is bounded, and what does not fit is shed and named.
//!
//! Suggested reading order: the settings, the rules (pure, with time passed in), the way of a request from
//! the listener through the service and its runner to jobs and endpoints, the client, the stores, and how
//! requests are read back.

mod config;
mod endpoints;
mod go_duration;
mod names;
pub mod serinin;

mod breaker;
mod deadline;
mod outcome;

mod server;
mod service;

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
mod edges;

mod complaint;
mod error;
mod figures;
mod ids;
pub mod metrics;
mod traced;

pub use client::{Fetch, FetchError, Fetched, Place};
pub use config::{FanoutConfig, NodeChoice, RequestIdKind, StoreKind};
pub use deadline::Receipt;
pub use endpoint::{Endpoint, EndpointSet, ShedReason};
pub use endpoints::{ENDPOINTS_MAX, EndpointConfig, Endpoints};
pub use error::Error;
pub use figures::{BOUNDS_MS, Counts, EndpointCounts, Latency, Turned};
pub use ids::IdSource;
pub use outcome::{Outcome, State};
pub use recent::RecentRequest;
pub use request::{DEADLINE_HEADER, ID_HEADER, Outgoing, VIA_HEADER};
pub use server::{Cut, Server};
pub use service::Fanout;
pub use store::{
    Answer, Batch, DiscardStore, MemcachedStore, MemoryStore, Record, RedisStore, Store, StoreError, Stored,
    Written, open_store,
};
