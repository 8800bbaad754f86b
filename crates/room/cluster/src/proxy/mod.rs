//! Forwards the requests of clients to the nodes that hold their tags.
//!
//! Clients see one Redis. Behind it are the nodes of a Cluster, or one server that a
//! Sentinel names, or just one. Suggested reading order: [`worker`] is the loop, and with
//! [`clients`], [`frontend`] and [`delivery`] the only place that knows all parts. [`model`] has the plain
//! types: [`model::routes`] says what to do with each command, [`model::target`] where it
//! goes. [`forwarder`] takes requests to their nodes, through [`upstream`] and, under the
//! tiering protocol, [`leases`]. [`features`] is everything that is more than one request
//! to one node.

mod model;

mod clients;
mod delivery;
mod frontend;
mod worker;

mod env;
mod features;
mod forwarder;
mod leases;
mod upstream;

mod acceptor;
mod inbox;
mod refresher;

mod compat;
mod config;
mod error;
mod metrics;
mod service;
mod tag_admin;

pub use compat::ON_REDIS;
pub use config::{
    Accesses, ColdKeys, Config, CountDone, Kinds, LoadDone, Loads, ScanDone, Tiering, TlsListen,
};
pub use error::Error;
pub use metrics::{Counter, Metrics};
pub use service::{Handle, Proxy, Service};
pub use tag_admin::{
    KeyPlace, ListedTag, Outcome, TagAdmin, TagCallback, TagCommand, TagOrder, TagQuery, TagStatus,
};
