//! ROOM.*: where tags are, and how they come and go.

pub use nagaya_keyspace::residency::{
    ColdRequest, GENERATION, KeyFigures, LOAD_BOUNDS_US, LoadOrder, TagError, TagFigures, TagPlace, Taken,
    Tiering,
};

pub(crate) mod commands;
#[cfg(test)]
mod defects;
mod tags;
#[cfg(test)]
mod tests;
