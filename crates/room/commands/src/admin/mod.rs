//! Commands about the server itself: connections, users, settings, statistics.

pub(crate) mod acl;
pub(crate) mod auth;
pub(crate) mod client;
pub(crate) mod command;
pub(crate) mod config;
pub(crate) mod debug;
pub(crate) mod info;
pub(crate) mod latency;
pub(crate) mod memory;
pub(crate) mod monitor;
pub(crate) mod server;
pub(crate) mod slowlog;
