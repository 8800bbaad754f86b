//! `jobs` in the binary: its settings, its standalone server, and its component of `nagaya up`.
//!
//! `nagaya-jobs` runs jobs and `nagaya-jobs-api` serves them; this module chooses the store and the
//! credentials.

mod service;
pub(crate) mod tools;

pub(crate) use service::JobsService;
pub use service::{JobsConfig, NotifyConfig, WebhooksConfig};
