//! What all threads of an engine share.

use std::collections::BTreeMap;
use std::convert::Infallible;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, OnceLock};

use nagaya_clock::Clock;
use nagaya_connections::acl::Acl;
use nagaya_connections::subscribers::Subscribers;
use nagaya_keyspace::effects::{Journal, JournalError, SyncWhen};
use nagaya_keyspace::keyspace::Keyspace;
use nagaya_keyspace::reclaim::Reclaimer;
use nagaya_store::rng::Rng;
use parking_lot::{Mutex, RwLock};

use crate::config::Config;
use crate::deferred::DeferredWork;
use crate::entry::Registry;
use crate::latency::LatencyMonitor;
use crate::monitor::Monitors;
use crate::rates::Rates;
use crate::scripts::shared::Scripts;
use crate::slowlog::SlowLog;
use crate::stats::{Durations, ThreadStats};

/// The state of one engine.
pub struct Server {
    /// Every command with its handler.
    pub registry: &'static Registry,
    pub keyspace: Keyspace,
    pub subscribers: Subscribers,
    pub clock: Arc<dyn Clock>,
    pub acl: Acl,
    pub scripts: Scripts,
    pub deferred: DeferredWork,
    pub monitors: Monitors,
    pub slowlog: SlowLog,
    pub latency: LatencyMonitor,
    /// A client requested a shutdown (SHUTDOWN); the engine's owner polls this.
    pub shutdown_requested: AtomicBool,
    pub rates: Rates,
    /// Expired keys are removed in the background (DEBUG SET-ACTIVE-EXPIRE).
    pub active_expire: AtomicBool,
    /// When the engine was made, in Unix microseconds.
    pub started_us: i64,
    pub run_id: Mutex<String>,
    pub replication_id: Mutex<String>,
    journal: OnceLock<Arc<dyn Journal>>,
    /// Why the journal takes no more records; the flag tells whether there is a reason.
    journal_failure: RwLock<Option<JournalError>>,
    journal_failed: AtomicBool,
    config: RwLock<Arc<Config>>,
    config_version: AtomicU64,
    threads: Mutex<Vec<Arc<ThreadStats>>>,
}

impl Server {
    /// Sends a message that was published on another server to those connections that listen and that
    /// `is_meant` names; returns how many.
    pub fn relay(
        &self,
        message: &nagaya_connections::pubsub::Relayed<'_>,
        is_meant: impl Fn(u64) -> bool,
    ) -> usize {
        self.subscribers.pubsub.relay(message, is_meant)
    }

    /// Returns how many connections would get a message to a channel, or to a shard channel.
    pub fn receivers(&self, kind: nagaya_connections::pubsub::Kind, channel: &[u8]) -> usize {
        match kind {
            nagaya_connections::pubsub::Kind::Channel => self.subscribers.pubsub.receivers(channel),
            kind => self.subscribers.pubsub.listeners(kind, channel),
        }
    }

    /// Returns whether any of the connections that `is_meant` names listens to a channel or pattern.
    pub fn is_heard(
        &self,
        kind: nagaya_connections::pubsub::Kind,
        name: &[u8],
        is_meant: impl Fn(u64) -> bool,
    ) -> bool {
        self.subscribers.pubsub.is_heard(kind, name, is_meant)
    }

    /// Makes an empty engine.
    pub fn new(
        registry: &'static Registry,
        shards: usize,
        config: Config,
        clock: Arc<dyn Clock>,
        reclaimer: Box<dyn Reclaimer>,
    ) -> Server {
        let keyspace = Keyspace::new(shards, config.databases, Arc::clone(&clock), reclaimer);
        keyspace
            .memory
            .configure(config.maxmemory, config.maxmemory_policy);
        Server {
            registry,
            keyspace,
            subscribers: Subscribers::default(),
            started_us: clock.unix_us(),
            clock,
            acl: Acl::new(&registry.table, config.requirepass.as_bytes()),
            scripts: Scripts::default(),
            deferred: DeferredWork::default(),
            monitors: Monitors::default(),
            slowlog: SlowLog::default(),
            latency: LatencyMonitor::default(),
            shutdown_requested: AtomicBool::new(false),
            rates: Rates::default(),
            active_expire: AtomicBool::new(true),
            run_id: Mutex::new(random_id()),
            replication_id: Mutex::new(random_id()),
            journal: OnceLock::new(),
            journal_failure: RwLock::new(None),
            journal_failed: AtomicBool::new(false),
            config: RwLock::new(Arc::new(config)),
            config_version: AtomicU64::new(0),
            threads: Mutex::default(),
        }
    }

    /// Records what commands do from now on; false when there is a journal already.
    pub fn set_journal(&self, journal: Arc<dyn Journal>) -> bool {
        self.journal.set(journal).is_ok()
    }

    /// Returns the length of the journal in bytes.
    pub fn journal_bytes(&self) -> u64 {
        self.journal().map_or(0, |journal| journal.bytes())
    }

    #[inline]
    pub fn journal(&self) -> Option<&dyn Journal> {
        self.journal.get().map(|journal| &**journal)
    }

    /// Returns why the journal takes no more records, while it does not.
    #[inline]
    pub fn journal_failure(&self) -> Option<JournalError> {
        if !self.journal_failed.load(Ordering::Acquire) {
            return None;
        }
        self.journal_failure.read().clone()
    }

    /// Refuses writes from now on. The first reason stays.
    pub fn fail_journal(&self, error: JournalError) {
        self.journal_failure.write().get_or_insert(error);
        self.journal_failed.store(true, Ordering::Release);
    }

    /// Takes writes again. Whatever ran unrecorded must have been saved by other means.
    pub fn journal_works_again(&self) {
        *self.journal_failure.write() = None;
        self.journal_failed.store(false, Ordering::Release);
    }

    /// Returns the settings in force.
    pub fn config(&self) -> Arc<Config> {
        Arc::clone(&self.config.read())
    }

    /// Changes the settings; threads see it with their next batch of commands.
    pub fn update_config(&self, change: impl FnOnce(&mut Config)) {
        let changed: Result<(), Infallible> = self.try_update_config(|config| {
            change(config);
            Ok(())
        });
        let Ok(()) = changed;
    }

    /// Changes the settings, or leaves all of them as they were when the change fails.
    pub fn try_update_config<E>(&self, change: impl FnOnce(&mut Config) -> Result<(), E>) -> Result<(), E> {
        let mut config = self.config.write();
        let mut changed = Config::clone(&config);
        change(&mut changed)?;
        let is_password_new =
            changed.requirepass != config.requirepass || changed.requirepass_sets != config.requirepass_sets;
        *config = Arc::new(changed);
        // Under the lock of the settings, so that of two changes at once the same one wins in both places.
        if is_password_new {
            self.acl.set_default_password(config.requirepass.as_bytes());
        }
        self.config_taken(&config);
        Ok(())
    }

    /// Updates the copies of settings that other parts keep. The settings are still locked.
    fn config_taken(&self, config: &Config) {
        self.keyspace
            .memory
            .configure(config.maxmemory, config.maxmemory_policy);
        if let Some(journal) = self.journal() {
            journal.set_sync(match config.appendfsync {
                "always" => SyncWhen::Always,
                "no" => SyncWhen::Never,
                _ => SyncWhen::EverySecond,
            });
        }
        self.config_version.fetch_add(1, Ordering::Release);
    }

    #[inline]
    pub fn config_version(&self) -> u64 {
        self.config_version.load(Ordering::Acquire)
    }

    /// Adds the counters of a thread that is about to serve.
    pub fn register_thread(&self, stats: Arc<ThreadStats>) {
        let mut threads = self.threads.lock();
        if !threads.iter().any(|known| Arc::ptr_eq(known, &stats)) {
            threads.push(stats);
        }
    }

    /// Sums a counter over all threads.
    pub fn sum(&self, counter: impl Fn(&ThreadStats) -> u64) -> u64 {
        self.threads.lock().iter().map(|stats| counter(stats)).sum()
    }

    /// Returns how long the calls of a command took, on all threads.
    pub fn durations(&self, command: usize) -> Durations {
        let mut durations = Durations::default();
        for stats in self.threads.lock().iter() {
            if let Some(histogram) = stats.commands[command].histogram.get() {
                durations.add(histogram);
            }
        }
        durations
    }

    /// Counts the error replies by their first word.
    pub fn errors(&self) -> BTreeMap<String, u64> {
        let mut errors = BTreeMap::new();
        self.threads
            .lock()
            .iter()
            .for_each(|stats| stats.add_errors(&mut errors));
        errors
    }

    /// Sets the counters back to zero.
    pub fn reset_stats(&self) {
        self.threads.lock().iter().for_each(|stats| stats.reset());
        self.subscribers.clients.accepted.store(0, Ordering::Relaxed);
        self.subscribers.clients.rejected.store(0, Ordering::Relaxed);
        self.subscribers.clients.evicted.store(0, Ordering::Relaxed);
        self.keyspace.reset_stats();
    }

    /// Returns whether there is a user of this name.
    pub fn has_user(&self, name: &[u8]) -> bool {
        self.acl.account(name).is_some()
    }

    /// Returns the number of threads that serve.
    pub fn thread_count(&self) -> usize {
        self.threads.lock().len()
    }
}

/// Makes an id as Redis makes its run ids: forty random hexadecimal digits.
pub fn random_id() -> String {
    let mut rng = Rng::from_entropy();
    let digits: String = (0..3).map(|_| format!("{:016x}", rng.next_u64())).collect();
    digits[..40].to_owned()
}
