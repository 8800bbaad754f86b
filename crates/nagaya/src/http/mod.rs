//! The HTTP listener: health, readiness, metrics, version and what the services add.

mod auth;
mod config;
mod observe;
mod problem;
mod rights;
mod routes;
mod server;
mod tls;

pub use config::HttpConfig;
pub(crate) use config::{check_tls, check_token, scheme};
pub(crate) use problem::{Problem, echo};
pub use rights::{Needs, RIGHTS, Right, rights};
pub(crate) use routes::{HttpState, Readyz, Version};
pub(crate) use server::{HttpListener, HttpServer};
pub(crate) use tls::{ReloadingTls, TlsFiles, beside_reloads};
