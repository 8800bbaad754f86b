//! `room` in the binary: on an engine of this process, or on Redis and PostgreSQL.
//!
//! `nagaya-commands` executes commands; this module chooses which engine holds the data. [`tools`] manage it
//! from the command line, [`api`] over HTTP.

pub(crate) mod embedded;
pub(crate) mod redis_conf;

pub(crate) mod distributed;

pub(crate) mod api;
pub(crate) mod tools;
