//! Checks of the source tree.
