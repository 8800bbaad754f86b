//! Loads tags into memory on a pool of threads.
//!
//! Concurrent requests for a tag share one load. Requests wait in a bounded queue; beyond it they are
//! refused, so that a flood of cold tags cannot take all memory. Errors of the hot tier that pass by
//! themselves, such as a slot that is being moved or a failover, are retried for a while, since they concern
//! this tag alone. A cold tier that does not answer is tried again for as long as requests may wait for it; a
//! request that waited that long in the queue is refused without another try.

use std::collections::VecDeque;
use std::panic::{self, AssertUnwindSafe};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::thread::JoinHandle;
use std::time::Duration;

use nagaya_clock::Sleep;
use nagaya_redis_client::Backoff;
use nagaya_tiering::error::TieringError;
use nagaya_tiering::loader::{LoadCoalescer, Loader};
use parking_lot::{Condvar, Mutex, MutexGuard};

use crate::stop::Stop;

/// Called with the result of a load, or why the tag cannot be loaded now.
pub type LoadDone = Box<dyn FnOnce(Result<(), String>) + Send>;

/// What a request is told that has waited for the cold tier long enough.
const COLD_AWAY: &str = "the cold tier does not answer";

/// Limits of loads.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LoadConfig {
    /// Concurrent loads.
    pub threads: usize,
    /// Tags that may wait in the queue.
    pub waiting_max: usize,
    /// How long passing errors of the hot tier are retried.
    pub retry_for: Duration,
    /// How long a request waits for a cold tier that does not answer.
    pub cold_wait: Duration,
}

impl Default for LoadConfig {
    fn default() -> LoadConfig {
        LoadConfig {
            threads: 16,
            waiting_max: 100_000,
            retry_for: Duration::from_secs(5),
            cold_wait: Duration::from_secs(5),
        }
    }
}

/// Counts since the start, and the state now.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct LoadStats {
    pub loaded: u64,
    pub failed: u64,
    /// Requests that joined a load under way.
    pub joined: u64,
    /// Requests that were refused because the queue was full.
    pub refused: u64,
    pub waiting: u64,
}

/// The threads that load. They end when it is dropped; requests in the queue are refused then.
pub struct LoadPool {
    shared: Arc<Shared>,
    threads: Vec<JoinHandle<()>>,
}

struct Shared {
    loader: Loader,
    clock: Arc<dyn Sleep>,
    config: LoadConfig,
    queue: Mutex<LoadQueue>,
    not_empty: Condvar,
    stop: Stop,
    loaded: AtomicU64,
    failed: AtomicU64,
    joined: AtomicU64,
    refused: AtomicU64,
}

#[derive(Default)]
struct LoadQueue {
    loads: LoadCoalescer<LoadDone>,
    /// The tags to load, each with the time of its first request.
    tags: VecDeque<(Vec<u8>, Duration)>,
    /// When the cold tier was last asked and did not answer.
    cold_away: Option<Duration>,
    is_closed: bool,
}

impl LoadPool {
    pub fn start(loader: Loader, clock: Arc<dyn Sleep>, config: LoadConfig) -> std::io::Result<LoadPool> {
        let shared = Arc::new(Shared {
            loader,
            clock,
            config,
            queue: Mutex::default(),
            not_empty: Condvar::new(),
            stop: Stop::default(),
            loaded: AtomicU64::new(0),
            failed: AtomicU64::new(0),
            joined: AtomicU64::new(0),
            refused: AtomicU64::new(0),
        });
        let mut pool = LoadPool {
            shared,
            threads: Vec::new(),
        };
        for number in 0..config.threads.max(1) {
            let shared = pool.shared.clone();
            let name = format!("room-load-{number}");
            pool.threads
                .push(nagaya_threads::spawn(name, move || shared.work())?);
        }
        Ok(pool)
    }

    /// Queues a load, or joins the one under way, and returns at once. `done` is called from any thread, also
    /// from this one if the request is refused.
    pub fn load(&self, tag: &[u8], done: LoadDone) {
        let mut queue = self.shared.queue();
        let is_full = queue.tags.len() >= self.shared.config.waiting_max;
        if queue.is_closed || is_full && !queue.loads.is_under_way(tag) {
            drop(queue);
            self.shared.refused.fetch_add(1, Ordering::Relaxed);
            return done(Err("too many tags wait to be loaded".into()));
        }
        if queue.loads.join(tag, done) {
            let since = self.shared.clock.steady();
            queue.tags.push_back((tag.to_vec(), since));
            self.shared.not_empty.notify_one();
        } else {
            self.shared.joined.fetch_add(1, Ordering::Relaxed);
        }
    }

    pub fn stats(&self) -> LoadStats {
        let read = |counter: &AtomicU64| counter.load(Ordering::Relaxed);
        LoadStats {
            loaded: read(&self.shared.loaded),
            failed: read(&self.shared.failed),
            joined: read(&self.shared.joined),
            refused: read(&self.shared.refused),
            waiting: self.shared.queue().tags.len() as u64,
        }
    }
}

impl Drop for LoadPool {
    fn drop(&mut self) {
        self.shared.stop.set();
        let mut queue = self.shared.queue();
        queue.is_closed = true;
        let waiting: Vec<(Vec<u8>, Duration)> = queue.tags.drain(..).collect();
        let waiters: Vec<LoadDone> = waiting
            .iter()
            .flat_map(|(tag, _)| queue.loads.finish(tag))
            .collect();
        drop(queue);
        self.shared.not_empty.notify_all();
        for done in waiters {
            done(Err("the server is about to stop".into()));
        }
        for thread in self.threads.drain(..) {
            if thread.join().is_err() {
                tracing::error!("a thread that loads has panicked");
            }
        }
    }
}

impl Shared {
    fn work(&self) {
        while let Some((tag, since)) = self.next() {
            // The callbacks are called even if a tier panics.
            let ended = panic::catch_unwind(AssertUnwindSafe(|| self.load(&tag, since)));
            let ended = ended.unwrap_or_else(|_| Err("the load has panicked".into()));
            let counter = if ended.is_ok() { &self.loaded } else { &self.failed };
            counter.fetch_add(1, Ordering::Relaxed);
            let waiters = self.queue().loads.finish(&tag);
            for done in waiters {
                done(ended.clone());
            }
        }
    }

    /// Waits for a request; none when the pool ends.
    fn next(&self) -> Option<(Vec<u8>, Duration)> {
        let nothing_to_do = |queue: &mut LoadQueue| queue.tags.is_empty() && !queue.is_closed;
        let mut queue = self.queue();
        self.not_empty.wait_while(&mut queue, nothing_to_do);
        queue.tags.pop_front()
    }

    /// Loads a tag that was first asked for at `since`.
    fn load(&self, tag: &[u8], since: Duration) -> Result<(), String> {
        let start = self.clock.steady();
        let mut backoff = Backoff::new(Duration::from_millis(10), Duration::from_millis(500));
        let is_tried = self.queue().cold_away.is_some_and(|asked| asked >= since);
        if is_tried && start.saturating_sub(since) > self.config.cold_wait {
            return Err(COLD_AWAY.to_owned());
        }
        loop {
            let asked = self.clock.steady();
            let error = match self.loader.load(tag) {
                Ok(()) => {
                    self.queue().cold_away = None;
                    return Ok(());
                }
                Err(error) => error,
            };
            let now = self.clock.steady();
            let may_pass = match &*error {
                TieringError::Hot(error) => {
                    error.is_retryable() && now.saturating_sub(start) < self.config.retry_for
                }
                TieringError::Cold(error) => {
                    self.queue().cold_away = error.is_retryable().then_some(asked);
                    error.is_retryable() && now.saturating_sub(since) < self.config.cold_wait
                }
            };
            if !may_pass || self.stop.wait(backoff.next_wait()) {
                tracing::debug!(error = %error, "a load failed");
                return Err(error.to_string());
            }
        }
    }

    fn queue(&self) -> MutexGuard<'_, LoadQueue> {
        self.queue.lock()
    }
}
