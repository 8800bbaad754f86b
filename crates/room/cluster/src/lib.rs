//! room's hot tier on real Redis: Cluster, Sentinel or one server.
//!
//! [`proxy`] forwards the requests of clients. [`hot_tier`] keeps the state of the tiering
//! protocol beside the data, in scripts that run where the data is. [`workers`] are the
//! threads around both: they load, save and evict.

pub mod hot_tier;
pub mod metrics;
pub mod proxy;
pub mod workers;

mod stop;

pub use stop::Stop;
