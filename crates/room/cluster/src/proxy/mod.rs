//! Forwards what clients say to the node that holds their tag.
//!
//! Clients see one Redis. Behind it are the nodes of a Cluster, or one server that a
//! Sentinel names, or just one. Suggested reading order: [`worker`] is the loop;
//! [`front`] looks at requests, [`routes`] says what to do with each command, [`aim`]
//! where it goes; [`send`] and [`replies`] take it there and back, [`holds`] keeps the
//! order when something has to wait. [`gate`], [`touch`] and [`residency`] are the
//! tiering protocol's part.

mod clients;
mod worker;

mod aim;
mod front;
mod routes;

mod flight;
mod holds;
mod replies;
mod send;

mod block;
mod burst;
mod cold_names;
mod ears;
mod hub;
mod room;
mod script_guard;
mod scripts;
mod split;
mod tag_admin;
mod transaction;
mod watch;

mod gate;
mod residency;
mod touch;
mod unregistered;

mod backend;
mod nodes;
mod ring;
mod session;
mod slab;
mod slots;
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
