//! `jobs` in the binary: its section, its server, and its part of the house.
//!
//! What jobs are is the business of `nagaya-jobs`, how they are spoken of that of `nagaya-jobs-api`; here it is
//! chosen where they rest and who may come.

mod config;
mod deliver;
mod figures;
mod serve;
mod service;

pub use config::JobsConfig;
pub use deliver::{NotifyConfig, WebhooksConfig};
pub(crate) use serve::{SERVE_EXAMPLES, ServeArgs, serve};
pub(crate) use service::JobsService;
