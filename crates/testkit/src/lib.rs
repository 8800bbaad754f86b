//! Real servers for tests: started on free ports in temporary folders, ended
//! whatever happens to the test, and broken on purpose by one-line calls.
//!
//! Everything here is synchronous and panics with an explanation when a server
//! cannot be started: a missing server is a failed test, never a skipped one.

pub mod http;
mod nagaya;
mod process;

mod error;
mod folder;
mod ports;
mod spawner;
pub mod wait;

pub use error::Error;
pub use folder::Folder;
pub use nagaya::{Nagaya, NagayaBuilder};
pub use ports::free_port;
pub use process::{Launch, Process, User};
