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
