//! The HTTP front door: health, readiness, metrics and version, on one listener.

mod auth;
mod config;
mod observe;
mod problem;
mod routes;
mod server;

pub use config::HttpConfig;
pub(crate) use problem::{Problem, echo};
pub(crate) use routes::{HttpState, Readyz, Version};
pub(crate) use server::{HttpListener, HttpServer};
