//! Reports which tags are used.
//!
//! Accesses are merged per tag and delivered in batches at intervals. What cannot be delivered is kept and
//! merged with later accesses. Beyond a limit of tags further ones are dropped and counted. A lost access
//! costs accuracy in the choice of what to evict and in statistics, never data.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::thread::JoinHandle;
use std::time::Duration;

use nagaya_clock::Sleep;
use nagaya_redis_client::{Backoff, Client, reply};
use nagaya_tiering::access::{self, Use};
use nagaya_tiering::cold::{Access, ColdTier};
use tokio::runtime::Handle;

use super::wire::NOTE;
use crate::stop::Stop;

/// The longest wait after a failed delivery: a collector that is back is used within it.
const LONGEST_WAIT: Duration = Duration::from_secs(30);

/// Why a batch was not delivered. It is kept and delivered later.
pub type DeliveryError = Box<dyn std::error::Error + Send + Sync>;

/// The receiver of accesses. Calls block.
pub trait AccessSink: Send + 'static {
    fn deliver(&self, accesses: &[Access]) -> Result<(), DeliveryError>;
}

/// Writes accesses into the cold tier.
pub struct ColdTierSink {
    pub cold: Arc<dyn ColdTier>,
}

impl AccessSink for ColdTierSink {
    fn deliver(&self, accesses: &[Access]) -> Result<(), DeliveryError> {
        Ok(self.cold.note_access(accesses)?)
    }
}

/// Sends accesses to a collector, which acknowledges each batch.
pub struct CollectorSink {
    pub client: Client,
    pub runtime: Handle,
}

impl AccessSink for CollectorSink {
    fn deliver(&self, accesses: &[Access]) -> Result<(), DeliveryError> {
        let mut words = vec![NOTE.as_bytes().to_vec()];
        for access in accesses {
            let time = |at_ms: Option<i64>| at_ms.unwrap_or(0).to_string().into_bytes();
            words.extend([
                access.tag.clone(),
                time(access.read_at_ms),
                time(access.written_at_ms),
            ]);
        }
        let answer = self.runtime.block_on(self.client.call(b"", &words))?;
        match reply::unsigned(&answer) {
            Some(count) if count == accesses.len() as u64 => Ok(()),
            _ => Err(reply::unexpected(NOTE, &answer).into()),
        }
    }
}

/// Limits of the access log.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct AccessConfig {
    /// Tags with undelivered accesses; accesses of further ones are dropped.
    pub tags_max: usize,
    /// How often accesses are delivered.
    pub every: Duration,
    /// Tags in one delivery.
    pub batch_tags: usize,
}

impl Default for AccessConfig {
    fn default() -> AccessConfig {
        AccessConfig {
            tags_max: 1_000_000,
            every: Duration::from_secs(5),
            batch_tags: 1000,
        }
    }
}

/// Counts since the start.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct AccessStats {
    /// Tags whose accesses were delivered.
    pub delivered: u64,
    /// Accesses that were dropped because too many tags had undelivered ones.
    pub dropped: u64,
    pub errors: u64,
}

/// A log of accesses and the thread that delivers it. Dropping it delivers what is left.
pub struct AccessLog {
    shared: Arc<Shared>,
    thread: Option<JoinHandle<()>>,
}

struct Shared {
    log: access::AccessLog,
    clock: Arc<dyn Sleep>,
    config: AccessConfig,
    stop: Stop,
    delivered: AtomicU64,
    errors: AtomicU64,
}

impl AccessLog {
    pub fn start(
        sink: impl AccessSink,
        clock: Arc<dyn Sleep>,
        config: AccessConfig,
    ) -> std::io::Result<AccessLog> {
        let shared = Arc::new(Shared {
            log: access::AccessLog::new(config.tags_max),
            clock,
            config,
            stop: Stop::default(),
            delivered: AtomicU64::new(0),
            errors: AtomicU64::new(0),
        });
        let worker = shared.clone();
        let thread = nagaya_threads::spawn("room-access", move || worker.work(&sink))?;
        Ok(AccessLog {
            shared,
            thread: Some(thread),
        })
    }

    /// Notes an access that just happened. Only waits for a short lock.
    pub fn note(&self, tag: &[u8], used: Use) {
        self.shared.log.note(tag, used, self.shared.clock.unix_ms());
    }

    /// Adds accesses of another server; returns false if there are too many.
    pub fn take(&self, accesses: Vec<Access>) -> bool {
        if self.shared.log.len() + accesses.len() > self.shared.config.tags_max {
            return false;
        }
        self.shared.log.put_back(accesses);
        true
    }

    pub fn stats(&self) -> AccessStats {
        AccessStats {
            delivered: self.shared.delivered.load(Ordering::Relaxed),
            dropped: self.shared.log.dropped(),
            errors: self.shared.errors.load(Ordering::Relaxed),
        }
    }
}

impl Drop for AccessLog {
    fn drop(&mut self) {
        self.shared.stop.set();
        if self.thread.take().is_some_and(|thread| thread.join().is_err()) {
            tracing::error!("the thread that delivers uses has panicked");
        }
    }
}

impl Shared {
    fn work(&self, sink: &impl AccessSink) {
        let mut backoff = Backoff::new(self.config.every, LONGEST_WAIT.max(self.config.every));
        let mut pause = self.config.every;
        loop {
            let is_last = self.stop.wait(pause);
            pause = match self.deliver(sink) {
                Ok(()) => {
                    backoff.reset();
                    self.config.every
                }
                Err(error) => {
                    self.errors.fetch_add(1, Ordering::Relaxed);
                    tracing::warn!(%error, "uses of tags could not be delivered");
                    backoff.next_wait()
                }
            };
            if is_last {
                return;
            }
        }
    }

    fn deliver(&self, sink: &impl AccessSink) -> Result<(), DeliveryError> {
        let accesses = self.log.drain();
        for (number, batch) in accesses.chunks(self.config.batch_tags.max(1)).enumerate() {
            if let Err(error) = sink.deliver(batch) {
                let done = number * self.config.batch_tags.max(1);
                self.log.put_back(accesses[done..].to_vec());
                return Err(error);
            }
            self.delivered.fetch_add(batch.len() as u64, Ordering::Relaxed);
        }
        Ok(())
    }
}
