//! What the command table says of a command, and what follows from it alone.
//!
//! Suggested reading order: [`spec`] describes one command, [`table`] finds
//! commands by name, [`key_positions`] finds the keys among the arguments of a
//! request. Nothing here runs a command.

pub mod error;
pub mod glob;
pub mod key_positions;
pub mod spec;
pub mod table;
