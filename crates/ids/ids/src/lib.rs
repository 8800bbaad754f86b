//! Exclusively leased worker numbers, and the unique ids made with them.
//!
//! Suggested reading order: the clock, the rights of a holder (`permit`), the pool in Redis, the lease
//! on top of it, and the supervisor that gives a number to a command. Then how ids are made from a
//! number (`layout`, `mint`), served (`server`) and examined.

pub mod id_clock;
pub mod permit;
mod random;

pub mod pool;

pub mod lease;

pub mod run;

pub mod layout;
pub mod lease_follower;
pub mod mint;
pub mod server;
pub mod spelling;

pub mod metrics;

pub mod audit;
pub mod decode;
pub mod utc;

pub use id_clock::IdClock;
pub use permit::{Ceiling, FixedPermit, Permit, Stop};
