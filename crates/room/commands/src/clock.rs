//! The clocks of the engine.
//!
//! The wall clock is read once per batch of commands. How long one command takes is measured with the
//! processor's own counter ([`ticks`]), which costs a few nanoseconds where a clock call costs tens.

pub use nagaya_clock::{Clock, SystemClock, TickRate, ticks};
