//! The JSON forms of REST, converted by hand from and to the domain's types.
//!
//! Requests borrow from the body: a payload is a slice of what was received, never parsed into a tree.

pub(crate) mod event;
pub(crate) mod job;
pub(crate) mod new_job;
pub(crate) mod outgoing;
pub(crate) mod queue;
pub(crate) mod scalar;
pub(crate) mod schedule;
pub(crate) mod tenant;
pub(crate) mod work;
