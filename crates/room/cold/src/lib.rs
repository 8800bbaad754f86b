//! The cold tier: persistent storage for tags.
//!
//! One implementation of [`nagaya_tiering::cold::ColdTier`] per database, each in a
//! module of its own with its SQL in files beside it.

pub mod postgres;
pub mod sqlite;

mod decode;
mod numbers;

pub use decode::{base64, bytes_as_json, value_as_json};
pub use nagaya_sqlite_client::SchemaError;
pub use postgres::PostgresCold;
pub use sqlite::{OpenError, Options, SqliteCold};
