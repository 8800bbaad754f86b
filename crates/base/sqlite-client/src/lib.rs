//! What every SQLite file of this workspace needs: a schema with a recorded history, and classes of errors.

mod error_class;
mod scalar;
mod schema;

pub use error_class::{ErrorClass, classify, unexpected_value};
pub use nagaya_sql::Migration;
pub use scalar::scalar;
pub use schema::{Schema, SchemaError};
