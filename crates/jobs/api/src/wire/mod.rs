//! The JSON types of REST, converted by hand from and to the domain types.
//!
//! Requests borrow from the body: a payload is a slice of the received bytes, never parsed into a tree.

pub(crate) mod change;
pub(crate) mod event;
pub(crate) mod job;
pub(crate) mod lease;
pub(crate) mod new_job;
pub(crate) mod outgoing;
pub(crate) mod queue;
pub(crate) mod scalar;
pub(crate) mod schedule;
pub(crate) mod tenant;
pub(crate) mod wait;
pub(crate) mod work;
