//! The cold tier: where tags rest on disk.
//!
//! One implementation of [`nagaya_room::cold::ColdTier`] per database, each in a
//! module of its own with its SQL in files beside it.

pub mod sqlite;

mod decode;

pub use sqlite::{OpenError, Options, SqliteCold};
