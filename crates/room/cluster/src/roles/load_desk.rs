//! Takes orders for loads and carries them out on threads of its own.
//!
//! However many ask for a tag, it is loaded once and all are told its end. Orders wait in a queue with a
//! bound; beyond it they are refused, so that a flood of cold tags cannot take all memory. Trouble in the
//! hot tier that passes by itself, such as a slot on the move or a failover, is waited out for a while,
//! since it concerns this tag alone; a cold tier that is down is told at once.

use std::collections::VecDeque;
use std::panic::{self, AssertUnwindSafe};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::thread::{self, JoinHandle};
use std::time::Duration;

use nagaya_redis_client::Backoff;
use nagaya_tiering::clock::Clock;
use nagaya_tiering::error::TieringError;
use nagaya_tiering::loader::{LoadCoalescer, Loader};

use crate::stop::Stop;

/// Called with the end of a load: nothing, or why the tag cannot be had now.
pub type LoadDone = Box<dyn FnOnce(Result<(), String>) + Send>;

/// How loads are carried out.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LoadConfig {
    /// Loads under way at a time.
    pub threads: usize,
    /// Tags that may wait for their load to begin.
    pub waiting_max: usize,
    /// How long trouble in the hot tier is waited out.
    pub retry_for: Duration,
}

impl Default for LoadConfig {
    fn default() -> LoadConfig {
        LoadConfig {
            threads: 16,
            waiting_max: 100_000,
            retry_for: Duration::from_secs(5),
        }
    }
}

/// Counts since the start, and the state now.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct LoadFigures {
    pub loaded: u64,
    pub failed: u64,
    /// Orders that joined a load under way.
    pub joined: u64,
    /// Orders that were refused because too many waited.
    pub refused: u64,
    pub waiting: u64,
}

/// Threads that load. They end when it is dropped; orders that wait then are refused.
pub struct LoadDesk {
    shared: Arc<Shared>,
    threads: Vec<JoinHandle<()>>,
}

struct Shared {
    loader: Loader,
    clock: Arc<dyn Clock>,
    config: LoadConfig,
    orders: Mutex<Orders>,
    has_order: Condvar,
    stop: Stop,
    loaded: AtomicU64,
    failed: AtomicU64,
    joined: AtomicU64,
    refused: AtomicU64,
}

#[derive(Default)]
struct Orders {
    loads: LoadCoalescer<LoadDone>,
    queue: VecDeque<Vec<u8>>,
    is_closed: bool,
}

impl LoadDesk {
    pub fn start(loader: Loader, clock: Arc<dyn Clock>, config: LoadConfig) -> std::io::Result<LoadDesk> {
        let shared = Arc::new(Shared {
            loader,
            clock,
            config,
            orders: Mutex::default(),
            has_order: Condvar::new(),
            stop: Stop::default(),
            loaded: AtomicU64::new(0),
            failed: AtomicU64::new(0),
            joined: AtomicU64::new(0),
            refused: AtomicU64::new(0),
        });
        let mut desk = LoadDesk {
            shared,
            threads: Vec::new(),
        };
        for number in 0..config.threads.max(1) {
            let shared = desk.shared.clone();
            let thread = thread::Builder::new().name(format!("room-load-{number}"));
            desk.threads.push(thread.spawn(move || shared.work())?);
        }
        Ok(desk)
    }

    /// Orders a load, or joins the one under way, and returns at once. `done` is called from any thread, also
    /// from this one when the order is refused.
    pub fn load(&self, tag: &[u8], done: LoadDone) {
        let mut orders = self.shared.orders();
        let is_full = orders.queue.len() >= self.shared.config.waiting_max;
        if orders.is_closed || is_full && !orders.loads.is_under_way(tag) {
            drop(orders);
            self.shared.refused.fetch_add(1, Ordering::Relaxed);
            return done(Err("too many tags wait to be loaded".into()));
        }
        if orders.loads.join(tag, done) {
            orders.queue.push_back(tag.to_vec());
            self.shared.has_order.notify_one();
        } else {
            self.shared.joined.fetch_add(1, Ordering::Relaxed);
        }
    }

    pub fn figures(&self) -> LoadFigures {
        let read = |counter: &AtomicU64| counter.load(Ordering::Relaxed);
        LoadFigures {
            loaded: read(&self.shared.loaded),
            failed: read(&self.shared.failed),
            joined: read(&self.shared.joined),
            refused: read(&self.shared.refused),
            waiting: self.shared.orders().queue.len() as u64,
        }
    }
}

impl Drop for LoadDesk {
    fn drop(&mut self) {
        self.shared.stop.tell();
        let mut orders = self.shared.orders();
        orders.is_closed = true;
        let waiting: Vec<Vec<u8>> = orders.queue.drain(..).collect();
        let waiters: Vec<LoadDone> = waiting.iter().flat_map(|tag| orders.loads.finish(tag)).collect();
        drop(orders);
        self.shared.has_order.notify_all();
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
        while let Some(tag) = self.next() {
            // Whoever waits is told, also when a tier panics.
            let ended = panic::catch_unwind(AssertUnwindSafe(|| self.load(&tag)));
            let ended = ended.unwrap_or_else(|_| Err("the load has panicked".into()));
            let counter = if ended.is_ok() { &self.loaded } else { &self.failed };
            counter.fetch_add(1, Ordering::Relaxed);
            let waiters = self.orders().loads.finish(&tag);
            for done in waiters {
                done(ended.clone());
            }
        }
    }

    /// Waits for an order; nothing when it is time to end.
    fn next(&self) -> Option<Vec<u8>> {
        let nothing_to_do = |orders: &mut Orders| orders.queue.is_empty() && !orders.is_closed;
        let orders = self.has_order.wait_while(self.orders(), nothing_to_do);
        orders.unwrap_or_else(PoisonError::into_inner).queue.pop_front()
    }

    fn load(&self, tag: &[u8]) -> Result<(), String> {
        let start = self.clock.now();
        let mut backoff = Backoff::new(Duration::from_millis(10), Duration::from_millis(500));
        loop {
            let error = match self.loader.load(tag) {
                Ok(()) => return Ok(()),
                Err(error) => error,
            };
            let may_pass = matches!(&*error, TieringError::Hot(error) if error.is_retryable());
            let is_over = self.clock.now().saturating_sub(start) >= self.config.retry_for;
            if !may_pass || is_over || self.stop.wait(backoff.next_wait()) {
                tracing::debug!(error = %error, "a load failed");
                return Err(error.to_string());
            }
        }
    }

    fn orders(&self) -> MutexGuard<'_, Orders> {
        self.orders.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
