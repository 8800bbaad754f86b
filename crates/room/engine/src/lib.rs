//! The embedded engine: threads, sockets and background duties around the
//! command table of `nagaya-commands`.
//!
//! Suggested reading order: [`Engine::start`] binds the listeners and starts the
//! threads; an acceptor hands each connection to one I/O thread for good; that
//! thread's event loop reads a batch, runs its commands inline and writes the
//! replies back in one go.

mod config;
mod error;

mod engine;

mod acceptor;
mod connection;
mod event_loop;
mod inbox;

mod tiers;

mod memory;
pub mod metrics;
mod reclaimer;

pub use config::{Fsync, RoomConfig};
pub use engine::{Bound, Engine, Figures, tls_config};
pub use error::Error;
pub use memory::{CountingAllocator, used_bytes};
pub use tiers::{RecoveryError, Storage, checkpoint};
