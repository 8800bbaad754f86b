//! What a client of ours can do, over whichever protocol.

use std::future::Future;
use std::time::Duration;

/// The queue that is measured.
pub(super) const QUEUE: &str = "bench";

/// A job that was claimed.
pub(super) struct Taken {
    pub(super) token: String,
    /// The payload: when the job was registered, in nanoseconds of the bench's own clock.
    pub(super) at_ns: u64,
}

/// Registers, claims and completes. Clones share connections.
pub(super) trait Caller: Clone + Send + Sync + 'static {
    /// Registers many jobs in one call.
    fn enqueue_many(&self, count: usize) -> impl Future<Output = anyhow::Result<()>> + Send;

    /// Registers one job that carries a time.
    fn enqueue(&self, at_ns: u64) -> impl Future<Output = anyhow::Result<()>> + Send;

    fn claim(&self, max: usize, wait: Duration) -> impl Future<Output = anyhow::Result<Vec<Taken>>> + Send;

    fn complete(&self, jobs: Vec<Taken>) -> impl Future<Output = anyhow::Result<()>> + Send;
}
