//! `jobs` in the binary: its section, its server, and its part of the house.
//!
//! What jobs are is the business of `nagaya-jobs`, how they are spoken of that of `nagaya-jobs-api`; here it is
//! chosen where they rest and who may come.

mod service;
pub(crate) mod tools;

pub(crate) use service::JobsService;
pub use service::{JobsConfig, NotifyConfig, WebhooksConfig};
