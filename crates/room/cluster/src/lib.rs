//! room's hot tier on real Redis: Cluster, Sentinel or one server.
//!
//! [`proxy`] forwards what clients say; [`hot_tier`] keeps what the tiering protocol
//! needs beside the data, as scripts that run where the data is.

pub mod clock;
pub mod hot_tier;
pub mod metrics;
pub mod proxy;
pub mod workers;

mod stop;

pub use stop::Stop;
