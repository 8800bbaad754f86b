//! Numbers nobody else holds, and unique ids made from them.
//!
//! Suggested reading order: the clocks, what a holder may do with its number, the pool in Redis, the
//! lease on top of it, and the supervisor that gives a number to a command. Then how ids are made
//! from a number (`layout`, `mint`), given out (`server`) and examined.

pub mod clock;
pub mod permit;

pub mod pool;

pub mod lease;

pub mod run;

pub mod layout;
pub mod lease_follower;
pub mod mint;
pub mod running_clock;
pub mod server;

pub mod metrics;

pub mod audit;
pub mod decode;
pub mod utc;

pub use clock::{BootClock, BootTime, IdClock, SystemBootClock};
pub use permit::{Ceiling, FixedPermit, Permit, Stop};
