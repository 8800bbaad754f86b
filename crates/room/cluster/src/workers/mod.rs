//! What the processes of a distributed room do beside forwarding commands.
//!
//! [`Tasks`] saves and evicts, [`LoadDesk`] brings tags into memory, [`AccessDesk`] and [`Collector`] carry
//! the news of which tags are used to the cold tier, [`ColdKeysDesk`] lists what is only there, and
//! [`TagDesk`] answers what clients ask about tags.

mod shards;

mod cleaner;
mod schedule;
mod tasks;

mod load_desk;

mod access_desk;
mod collector;

mod cold_keys;
mod for_proxy;
mod tag_desk;
mod tag_list;

mod figures;

pub use crate::hot_tier::keys::RANGES;
pub use access_desk::{
    AccessConfig, AccessDesk, AccessFigures, ColdOutlet, CollectorOutlet, DeliveryError, Outlet,
};
pub use cleaner::CleanConfig;
pub use cold_keys::ColdKeysDesk;
pub use collector::{Collector, CollectorConfig};
pub use figures::TaskFigures;
pub use load_desk::{LoadConfig, LoadDesk, LoadDone, LoadFigures};
pub use tag_desk::TagDesk;
pub use tasks::{Tasks, TasksConfig};
