//! The tiering protocol on real Redis.

pub(crate) mod bench;
pub(crate) mod setup;

mod suite;

mod scripts;

mod defects;
mod faults;
mod moving;

mod doctor;
mod races;
mod server;
