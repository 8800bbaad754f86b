//! Tests of the service on a real store, and of what the stores have in common.

#![allow(clippy::unwrap_used)]

mod queries;
mod service;
