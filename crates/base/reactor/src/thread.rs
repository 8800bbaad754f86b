//! Threads that the process cannot do without.

use std::io;
use std::thread::JoinHandle;

/// Starts a thread of a service.
pub fn spawn(name: String, work: impl FnOnce() + Send + 'static) -> io::Result<JoinHandle<()>> {
    std::thread::Builder::new().name(name).spawn(work)
}
