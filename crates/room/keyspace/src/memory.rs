//! How much memory is used, and how much may be.

use std::sync::OnceLock;
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};

/// Returns the bytes that are allocated.
pub type Probe = Box<dyn Fn() -> usize + Send + Sync>;

/// Measures the memory in use and knows the settings that bound it.
#[derive(Default)]
pub struct MemoryGauge {
    /// Returns the bytes that are allocated. Not set, the resident memory stands in.
    pub probe: OnceLock<Probe>,
    /// Returns how many of them the log holds until the disk has them.
    pub log_probe: OnceLock<Probe>,
    /// Bytes of snapshots that are being saved.
    saving_bytes: AtomicUsize,
    /// The most bytes that were ever seen in use.
    peak: AtomicUsize,
    /// The setting `maxmemory`, in bytes; 0 for no bound.
    limit_bytes: AtomicU64,
    /// The policy removes keys when memory runs out; otherwise tags go to the cold tier.
    removes_keys: AtomicBool,
    /// The policy counts how often keys are used, not when.
    counts_uses: AtomicBool,
}

impl MemoryGauge {
    /// Takes the settings `maxmemory` and `maxmemory-policy`.
    pub fn configure(&self, limit_bytes: u64, policy: &str) {
        self.limit_bytes.store(limit_bytes, Ordering::Relaxed);
        self.removes_keys.store(policy != "noeviction", Ordering::Relaxed);
        self.counts_uses.store(policy.ends_with("lfu"), Ordering::Relaxed);
    }

    /// Returns the bytes allocated and the most that were ever seen.
    pub fn used_and_peak(&self) -> (usize, usize) {
        let used = self.probe.get().map_or_else(resident_bytes, |probe| probe());
        let before = self.peak.fetch_max(used, Ordering::Relaxed);
        (used, before.max(used))
    }

    /// Notes how much memory the snapshots take that are being saved.
    pub fn note_saving(&self, bytes: usize) {
        self.saving_bytes.store(bytes, Ordering::Relaxed);
    }

    /// Returns how many of the bytes in use are on their way to the disk. They do not count towards the limit:
    /// they go by themselves and have bounds of their own, and data evicted for their sake would be missed
    /// after every burst of writes.
    pub fn in_transit_bytes(&self) -> usize {
        self.log_bytes() + self.saving_bytes.load(Ordering::Relaxed)
    }

    /// Returns how many bytes the log holds until the disk has them.
    pub fn log_bytes(&self) -> usize {
        self.log_probe.get().map_or(0, |probe| probe())
    }

    /// Returns the bytes in use that count towards the limit.
    pub fn counted_bytes(&self) -> usize {
        self.used_and_peak().0.saturating_sub(self.in_transit_bytes())
    }

    /// Forgets the peak (CONFIG RESETSTAT).
    pub fn reset_peak(&self) {
        self.peak.store(0, Ordering::Relaxed);
    }

    pub fn limit_bytes(&self) -> u64 {
        self.limit_bytes.load(Ordering::Relaxed)
    }

    pub fn removes_keys(&self) -> bool {
        self.removes_keys.load(Ordering::Relaxed)
    }

    pub fn counts_uses(&self) -> bool {
        self.counts_uses.load(Ordering::Relaxed)
    }
}

/// Returns the memory this process has in RAM, in bytes.
pub fn resident_bytes() -> usize {
    kib("/proc/self/status", "VmRSS:").unwrap_or(0) << 10
}

fn kib(path: &str, field: &str) -> Option<usize> {
    let text = std::fs::read_to_string(path).ok()?;
    let line = text.lines().find_map(|line| line.strip_prefix(field))?;
    line.split_whitespace().next()?.parse().ok()
}
