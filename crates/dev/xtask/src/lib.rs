//! Checks of the source tree, run as tests: `cargo test -p nagaya-xtask`.
//!
//! Each module is one rule that a reviewer would otherwise repeat by hand. A rule with exceptions
//! lists them by name, and a listed exception that no longer occurs fails the test as well: the
//! lists can only shrink.

pub mod functions;
pub mod imports;
pub mod source;
pub mod workspace;

#[cfg(test)]
mod tests;
