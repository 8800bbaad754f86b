//! What processes do in the background.

mod access;
mod loads;
mod tasks;
mod whole;
