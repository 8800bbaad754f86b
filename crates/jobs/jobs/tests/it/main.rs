//! Tests of the job store against real files, real servers and real faults.

#![allow(clippy::unwrap_used)]

mod support;

mod broken_disk;
mod crash;
mod full_disk;
mod postgres;
mod postgres_faults;
