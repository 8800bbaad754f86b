//! The tiering protocol's part in forwarding a command.
//!
//! A tag may be used while this worker holds a lease on it: until L minus a margin
//! after it *sent* the touch that was granted. Under a lease a read costs nothing and
//! a write costs one registration per key. A tag without a lease is touched; its
//! commands wait in order, also while it is being loaded.
//!
//! Leases belong to a node and to the connections this worker has with it: when one is
//! lost, when the slot goes elsewhere or when the node starts another run, they are
//! over. The node's run is read again behind each batch of touches, on the same
//! connection, and the grants count only if it is the one that was passed.
//!
//! [`state`] is what is known of each tag, [`touch`] asks for leases, [`load`] brings tags into memory
//! and renews leases, [`unregistered`] deals with registrations that failed.

mod load;
mod state;
mod touch;
mod unregistered;

pub(crate) use state::{Lease, Leases};
pub(crate) use unregistered::ReplyCheck;
