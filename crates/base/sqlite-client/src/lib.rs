//! What every SQLite file of the house needs: a schema with a history, and failures with a meaning.

mod failure;
mod scalar;
mod schema;

pub use failure::{Meaning, meaning, strange_value};
pub use nagaya_sql::Migration;
pub use scalar::scalar;
pub use schema::{Schema, SchemaError};
