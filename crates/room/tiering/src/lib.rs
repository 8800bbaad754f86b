//! The tiering protocol: what is hot, what is cold, and how data moves between
//! the two without being lost.
//!
//! A *tag* is the unit of loading, saving and eviction. While a tag is resident, memory
//! has the current data; otherwise the cold tier has it.

pub mod tag;

pub mod cold;
pub mod error;
pub mod hot;

pub mod protocol;

pub mod timing;

pub mod evictor;
pub mod loader;
pub mod saver;

pub mod access;
pub mod filter;

#[cfg(any(test, feature = "testing"))]
pub mod reference;
#[cfg(any(test, feature = "testing"))]
pub mod suite;
