//! Who is connected, as which user, and listening to what.
//!
//! Suggested reading order: [`client`] is what every thread sees of a
//! connection, [`registry`] finds connections by number, [`acl`] says what
//! their users may do, [`pubsub`] and [`tracking`] tell them of messages and of
//! changed keys. [`subscribers`] holds the three together.

pub mod acl;
pub mod blocking;
pub mod client;
pub mod cold_query;
pub mod pubsub;
pub mod registry;
pub mod subscribers;
pub mod tracking;
