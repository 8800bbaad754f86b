//! FCALL and the FUNCTION container.
//!
//! The engine keeps the text of every library with what it registered
//! ([`library`]); each thread runs a library's text in its own Lua environment
//! when it first needs it. A library's local variables are therefore one
//! thread's, not the engine's.

mod call;
mod commands;
mod dump;
mod library;
mod load;

pub(crate) use commands::COMMANDS;
pub(crate) use library::{Libraries, Library};

#[cfg(test)]
mod tests;
