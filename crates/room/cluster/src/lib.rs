//! room's hot tier on real Redis: Cluster, Sentinel or one server.
//!
//! [`proxy`] forwards what clients say; [`tier`] keeps what the tiering protocol
//! needs beside the data, as scripts that run where the data is.

pub mod clock;
pub mod metrics;
pub mod proxy;
pub mod roles;
pub mod tier;

mod stop;

pub use stop::Stop;
