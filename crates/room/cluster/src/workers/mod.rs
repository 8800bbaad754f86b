//! Background work of the processes of a distributed room.
//!
//! [`Tasks`] saves and evicts, [`LoadPool`] loads tags into memory, [`AccessLog`] and [`Collector`] report
//! to the cold tier which tags are used, [`ColdKeyService`] lists the keys that are only there, and
//! [`TagService`] runs the commands about tags.

mod shards;

mod evictor;
mod schedule;
mod tasks;

mod load_pool;

mod access_log;
mod collector;
mod wire;

mod cold_key_service;
mod for_proxy;
mod state;
mod tag_list;
mod tag_service;

mod stats;

pub use crate::hot_tier::keys::RANGES;
pub use access_log::{
    AccessConfig, AccessLog, AccessSink, AccessStats, ColdTierSink, CollectorSink, DeliveryError,
};
pub use cold_key_service::ColdKeyService;
pub use collector::{Collector, CollectorConfig};
pub use evictor::EvictConfig;
pub use load_pool::{LoadConfig, LoadDone, LoadPool, LoadStats};
pub use stats::TaskStats;
pub use tag_service::TagService;
pub use tasks::{Tasks, TasksConfig};
