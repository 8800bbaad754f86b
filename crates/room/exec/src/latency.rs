//! Samples of events that took long (LATENCY).
//!
//! Events that take at least `latency-monitor-threshold` milliseconds leave a
//! sample, the worst of each second, in a ring per kind of event.

use std::collections::{BTreeMap, VecDeque};

use nagaya_command_spec::spec::FAST;
use nagaya_command_spec::table::Command;
use parking_lot::{Mutex, MutexGuard};

use crate::config::Config;

/// Samples kept per kind of event.
const SAMPLES_MAX: usize = 160;

/// Samples by kind of event.
pub type Events = BTreeMap<&'static str, Samples>;

/// Keeps how long slow events took.
#[derive(Default)]
pub struct LatencyMonitor {
    events: Mutex<Events>,
}

/// How long an event took.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Sample {
    pub at_s: i64,
    pub ms: u64,
}

/// The samples of one kind of event.
#[derive(Default)]
pub struct Samples {
    /// Oldest first.
    pub kept: VecDeque<Sample>,
    /// The worst ever, also of samples no longer kept.
    pub worst_ms: u64,
}

impl Samples {
    fn add(&mut self, sample: Sample) {
        self.worst_ms = self.worst_ms.max(sample.ms);
        match self.kept.back_mut() {
            Some(last) if last.at_s == sample.at_s => last.ms = last.ms.max(sample.ms),
            _ => {
                if self.kept.len() == SAMPLES_MAX {
                    self.kept.pop_front();
                }
                self.kept.push_back(sample);
            }
        }
    }
}

impl LatencyMonitor {
    /// Locks the samples.
    pub fn events(&self) -> MutexGuard<'_, Events> {
        self.events.lock()
    }

    /// Keeps how long an event took, when that is long enough.
    #[inline]
    pub fn note(&self, config: &Config, event: &'static str, spent_ns: u64, now_s: i64) {
        if config.latency_monitor_threshold > 0 {
            let sample = Sample {
                at_s: now_s,
                ms: spent_ns / 1_000_000,
            };
            if sample.ms >= config.latency_monitor_threshold as u64 {
                self.events.lock().entry(event).or_default().add(sample);
            }
        }
    }

    /// Keeps how long a command took, when that is long enough.
    pub fn note_command(&self, config: &Config, command: &Command, spent_ns: u64, now_s: i64) {
        let event = if command.spec.flags.has(FAST) {
            "fast-command"
        } else {
            "command"
        };
        self.note(config, event, spent_ns, now_s);
    }
}
