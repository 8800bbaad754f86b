//! EVAL and its kin, and the SCRIPT container.

mod commands;
mod eval;
#[cfg(test)]
mod tests;

pub(crate) use commands::{COMMANDS, READ_KEYS, RUNS, WRITTEN_KEYS};
