//! Tests of the job store against real servers and real faults.

#![allow(clippy::unwrap_used)]

mod support;

mod faults;
mod suite;
