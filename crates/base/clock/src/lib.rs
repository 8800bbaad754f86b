//! Clocks that rules are handed.
