//! `room` in the binary: on an engine of this process, or on Redis and PostgreSQL.
//!
//! What commands do is the business of `nagaya-commands`; here it is chosen which engine holds the data. [`tools`]
//! look after it from the command line, [`api`] over HTTP.

pub(crate) mod embedded;

pub(crate) mod distributed;

pub(crate) mod api;
pub(crate) mod tools;
