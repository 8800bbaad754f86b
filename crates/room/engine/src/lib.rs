//! The embedded engine: threads, sockets and background tasks around the
//! command table of `nagaya-commands`.
//!
//! Suggested reading order: [`Engine::start`] binds the listeners and starts the
//! threads; an acceptor assigns each connection to one I/O thread; that thread's
//! event loop reads a batch, executes its commands and writes the replies with
//! one call.

mod config;
mod error;

mod engine;

mod acceptor;
mod connection;
mod event_loop;
mod inbox;

mod persistence;

mod memory;
pub mod metrics;
mod reclaimer;

pub use config::{Allowed, Fsync, RoomConfig};
pub use engine::{Bound, Engine, EngineStats, tls_config};
pub use error::Error;
pub use memory::{CountingAllocator, account_bytes, used_bytes};
pub use persistence::{RecoveryError, Storage, checkpoint, saved_databases};
