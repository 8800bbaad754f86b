//! What every SQLite file of the house needs: a schema with a history, and failures with a meaning.

mod error_class;
mod scalar;
mod schema;

pub use error_class::{ErrorClass, classify, strange_value};
pub use nagaya_sql::Migration;
pub use scalar::scalar;
pub use schema::{Schema, SchemaError};
