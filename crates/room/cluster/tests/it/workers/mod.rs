//! What processes do in the background.

mod access;
mod flush;
mod loads;
mod outage;
mod random_faults;
mod tags;
mod tasks;
mod whole;
