//! MULTI, EXEC and DISCARD.
//!
//! Commands are queued in the session, with the same checks and replies as in Redis (see [`queueing`]),
//! and sent as one transaction to the node of their tag (see [`sending`]).

mod queueing;
mod sending;

pub(crate) use queueing::{discard, enqueue, multi};
pub(crate) use sending::Transactions;
