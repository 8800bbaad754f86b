//! What every SQLite file of the house needs: a schema with a history, and failures with a meaning.

mod failure;
mod schema;

pub use failure::{Meaning, meaning, strange_value};
pub use schema::{Migration, Schema, SchemaError};
