//! Parts of an event loop: poller, inbox, slab, timers, listeners and transports.
//!
//! An I/O thread owns a [`Poller`], the connections in its [`Slab`] and an [`Inbox`] through which
//! other threads reach it. One turn of its loop is: [`Inbox::wait`], the events, the inbox, the
//! timers. The crate knows no protocol: what is read from and written to a [`Transport`] is the
//! business of its user.

mod accept;
mod address;
mod inbox;
mod listener;
mod poller;
mod slab;
mod timers;
mod transport;

pub use accept::accept_loop;
pub use address::Address;
pub use inbox::{Inbox, Waker};
pub use listener::Listener;
pub use poller::{Event, Events, Interest, Poller, Ready, reserved_number, reserved_token};
pub use slab::{Key, Slab};
pub use timers::Timers;
pub use transport::Transport;
