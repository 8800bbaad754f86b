//! The room on real engines: hot tags in Redis, cold ones in PostgreSQL.
//!
//! Three roles, in one process or in many: *servers* face the clients, *collectors* take from them which tags
//! are used, *tasks* save and evict. `nagaya up` has all three when the settings name both engines.

mod config;
mod doctor;
mod health;
mod open;
mod roles;
mod service;

pub use config::TiersConfig;
pub(crate) use open::Backends;
pub(crate) use roles::{RoleArgs, run};
pub(crate) use service::{Roles, TieredRoom};
