//! The command families and the table made of them.
//!
//! Suggested reading order: a family file such as `string` lists its commands
//! and their handlers, [`table`] makes one registry of all families. Families
//! of data types know their keys and their reply alone; commands about the
//! server itself are in `admin`. How a request gets here is in `nagaya-exec`.

pub mod table;

mod bitmap;
mod collection;
mod geo;
mod hash;
mod hll;
mod keys;
mod list;
mod set;
mod stream;
mod string;
mod zset;

mod admin;
mod function;
mod pubsub;
mod scripting;
mod tiering;
mod transaction;

pub mod compat;
pub mod rights;

#[cfg(any(test, feature = "testing"))]
pub mod testing;
#[cfg(test)]
mod tests;
