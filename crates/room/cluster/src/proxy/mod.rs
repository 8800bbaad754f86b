//! Forwards what clients say to the node that holds their tag.
//!
//! Clients see one Redis. Behind it are the nodes of a Cluster, or one server that a
//! Sentinel names, or just one. Suggested reading order: [`worker`] is the loop;
//! [`frontend`] looks at requests, [`routes`] says what to do with each command, [`target`]
//! where it goes; [`send`] and [`replies`] take it there and back, [`slot_queue`] keeps the
//! order when something has to wait. [`leases`], [`touch`] and [`load`] are the
//! tiering protocol's part.

mod clients;
mod model;
mod worker;

mod frontend;

mod replies;
mod send;
mod slot_queue;

mod blocking;
mod cold_keys;
mod multi;
mod publish;
mod pubsub;
mod scatter;
mod scripts;
mod tag_admin;
mod tag_commands;
mod transaction;
mod watch;

mod leases;
mod load;
mod touch;
mod unregistered;

mod node_connection;
mod nodes;
mod slab;
mod transport;

mod acceptor;
mod inbox;
mod refresher;

mod compat;
mod config;
mod error;
mod metrics;
mod service;

pub use compat::ON_REDIS;
pub use config::{
    Accesses, ColdKeys, Config, CountDone, Kinds, LoadDone, Loads, ScanDone, Tiering, TlsListen,
};
pub use error::Error;
pub use metrics::{Counter, Metrics};
pub use service::{Handle, Proxy, Service};
pub use tag_admin::{ListedTag, Outcome, TagAdmin, TagCallback, TagCommand, TagOrder, TagQuery, TagStatus};
