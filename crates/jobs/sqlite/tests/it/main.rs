//! Tests of the job store against real files and real faults of the disk.

#![allow(clippy::unwrap_used)]

mod support;

mod broken_disk;
mod crash;
mod full_disk;
