//! FCALL and the FUNCTION container.
//!
//! The engine keeps the text of every library with what it registered
//! (`scripts::library`); each thread runs a library's text in its own Lua environment
//! when it first needs it. A library's local variables are therefore one
//! thread's, not the engine's.

mod call;
mod commands;
mod dump;

mod load;

pub(crate) use commands::COMMANDS;

#[cfg(test)]
mod tests;
