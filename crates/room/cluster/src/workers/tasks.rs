//! Saves and evicts in the background; several processes share the work.
//!
//! One thread renews leases of shards (see [`super::shards`]) and reads which node has which; some threads
//! save, one evicts. An error ends the round of one node's part of one shard only, and is retried after a
//! growing wait.

use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::thread::{self, JoinHandle};
use std::time::Duration;

use nagaya_clock::Sleep;
use nagaya_tiering::cold::ColdTier;
use nagaya_tiering::saver::{Saver, SaverConfig};
use parking_lot::Mutex;

use super::evictor::{EvictConfig, Evictor};
use super::schedule::Schedule;
use super::shards::{Shard, ShardLeases};
use super::stats::{TaskCounters, TaskStats};
use crate::hot_tier::{RedisHotTier, TierPart};
use crate::stop::Stop;

/// How long savers wait when nothing is due: short against the staleness that is allowed.
const REST: Duration = Duration::from_millis(20);
/// Bounds of the interval at which a shard is checked for dirty tags.
const LOOK_EVERY_MIN: Duration = Duration::from_millis(50);
const LOOK_EVERY_MAX: Duration = Duration::from_secs(1);

/// Settings of the background work.
#[derive(Clone, Debug)]
pub struct TasksConfig {
    /// The unique name of this worker.
    pub name: String,
    pub save: SaverConfig,
    pub evict: EvictConfig,
    /// Threads that save.
    pub savers: usize,
    /// How long a shard stays with a worker that does not renew its lease.
    pub shard_lease: Duration,
}

/// The threads of the background work. They end when it is stopped or dropped.
pub struct Tasks {
    shared: Arc<Shared>,
    threads: Vec<JoinHandle<()>>,
}

struct Shared {
    tier: RedisHotTier,
    cold: Arc<dyn ColdTier>,
    clock: Arc<dyn Sleep>,
    config: TasksConfig,
    schedule: Schedule,
    held: Mutex<Vec<Shard>>,
    counters: Arc<TaskCounters>,
    stop: Stop,
}

impl Tasks {
    /// Starts the threads. Servers may be down; work begins once they answer.
    pub fn start(
        tier: RedisHotTier,
        cold: Arc<dyn ColdTier>,
        clock: Arc<dyn Sleep>,
        config: TasksConfig,
    ) -> std::io::Result<Tasks> {
        let savers = config.savers.max(1);
        let shared = Arc::new(Shared {
            tier,
            cold,
            clock,
            config,
            schedule: Schedule::default(),
            held: Mutex::default(),
            counters: Arc::default(),
            stop: Stop::default(),
        });
        let mut tasks = Tasks {
            shared,
            threads: Vec::new(),
        };
        tasks.spawn("room-shards", Shared::keep_shards)?;
        tasks.spawn("room-clean", Shared::evict)?;
        for number in 0..savers {
            tasks.spawn(&format!("room-save-{number}"), Shared::save)?;
        }
        Ok(tasks)
    }

    fn spawn(&mut self, name: &str, run: fn(&Shared)) -> std::io::Result<()> {
        let shared = self.shared.clone();
        self.threads
            .push(nagaya_threads::spawn(name, move || run(&shared))?);
        Ok(())
    }

    pub fn stats(&self) -> TaskStats {
        let shared = &self.shared;
        let staleness = shared.schedule.staleness();
        shared.counters.stats(shared.held().len(), staleness)
    }

    /// Ends the threads after their current rounds, and releases the shards. Dirty tags are saved by the next
    /// worker that takes the shards.
    pub fn stop(mut self) {
        self.end();
    }

    fn end(&mut self) {
        self.shared.stop.set();
        for thread in self.threads.drain(..) {
            if thread.join().is_err() {
                tracing::error!("a thread of the background work has panicked");
            }
        }
    }
}

impl Drop for Tasks {
    fn drop(&mut self) {
        self.end();
    }
}

impl Shared {
    /// Renews the leases of our shards and keeps the schedule in step with them.
    fn keep_shards(&self) {
        let ttl = self.config.shard_lease;
        // A node that does not answer must not delay the renewal of leases on others.
        let tier = self
            .tier
            .with_reply_limit(ttl / 8)
            .unwrap_or_else(|_| self.tier.clone());
        let mut leases = ShardLeases::new(tier.clone(), self.clock.clone(), self.config.name.clone(), ttl);
        let mut shards = Vec::new();
        loop {
            match Shard::all(&tier) {
                Ok(found) => shards = found,
                Err(error) => tracing::warn!(%error, "the nodes are not known"),
            }
            let beyond = leases.renew(&shards).unwrap_or_else(|error| {
                tracing::warn!(%error, "shards cannot be leased");
                Vec::new()
            });
            let held = leases.held();
            let is_kept = |shard: &&Shard| held.contains(&shard.first()) && !beyond.contains(&shard.first());
            self.plan(shards.iter().filter(is_kept).cloned().collect());
            let is_free = |shard: &u16| !self.schedule.is_busy(*shard);
            let free: Vec<u16> = beyond.into_iter().filter(is_free).collect();
            leases.release(&free);
            if self.stop.wait(ttl / 4) {
                break;
            }
        }
        self.plan(Vec::new());
        // The leases are released after the savers' rounds, so that other workers need not wait for their
        // end.
        let held = leases.held();
        while held.iter().any(|shard| self.schedule.is_busy(*shard)) {
            thread::sleep(REST);
        }
        leases.release(&held);
    }

    fn plan(&self, shards: Vec<Shard>) {
        let make = |part: &TierPart| {
            // Savers use the connections with the longer reply limit.
            let hot = Arc::new(self.tier.within(part.tier.slots().iter().copied()));
            Saver::new(hot, self.cold.clone(), self.clock.clone(), self.config.save)
        };
        self.schedule.set(&shards, self.clock.steady(), make);
        *self.held.lock() = shards;
    }

    fn save(&self) {
        let pause = (self.config.save.max_staleness / 4).clamp(LOOK_EVERY_MIN, LOOK_EVERY_MAX);
        while !self.stop.is_set() {
            let Some(mut work) = self.schedule.take(self.clock.steady(), self.config.savers) else {
                self.stop.wait(REST);
                continue;
            };
            let ended = work.saver.round();
            let now = self.clock.steady();
            match ended {
                Ok(report) => {
                    self.counters.note_save(report);
                    let pause = report.ripe_in.map_or(pause, |wait| wait.min(pause));
                    self.schedule.done(work, now + pause, report.oldest);
                }
                Err(error) => {
                    self.counters.save_errors.fetch_add(1, Ordering::Relaxed);
                    tracing::warn!(%error, "a round of saves failed");
                    self.schedule.failed(work, now);
                }
            }
        }
    }

    fn evict(&self) {
        let evictor = Evictor {
            cold: self.cold.clone(),
            clock: self.clock.clone(),
            config: self.config.evict,
            counters: self.counters.clone(),
            stop: self.stop.clone(),
        };
        loop {
            let held = self.held();
            let slots: Vec<u16> = held
                .iter()
                .flat_map(|shard| shard.part.tier.slots().to_vec())
                .collect();
            let is_full = !slots.is_empty() && evictor.round(&self.tier.within(slots));
            // A full node gets the next round at once; the round itself has waited for the leases.
            let pause = if is_full { REST } else { self.config.evict.every };
            if self.stop.wait(pause) {
                return;
            }
        }
    }

    fn held(&self) -> Vec<Shard> {
        self.held.lock().clone()
    }
}
