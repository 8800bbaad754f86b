//! Tests of the service on a real store.

#![allow(clippy::unwrap_used)]

mod service;
