//! Counters that every command touches, one set per thread.
//!
//! A thread alone writes its own set, so an increment is a plain load and
//! store; readers sum over the threads.

use std::collections::BTreeMap;
use std::sync::OnceLock;

use nagaya_keyspace::stats::{Counter, KeyspaceStats};
use parking_lot::Mutex;

/// What one command did.
#[derive(Default)]
pub struct CommandStats {
    pub calls: Counter,
    /// Time spent in the handler, in nanoseconds.
    pub spent_ns: Counter,
    pub rejected: Counter,
    pub failed: Counter,
    /// How long the calls took, made when the first one is recorded.
    pub histogram: OnceLock<Box<Histogram>>,
}

impl CommandStats {
    fn reset(&self) {
        self.calls.reset();
        self.spent_ns.reset();
        self.rejected.reset();
        self.failed.reset();
        if let Some(histogram) = self.histogram.get() {
            histogram.buckets.iter().for_each(Counter::reset);
        }
    }
}

/// Counts of durations, four buckets per doubling: a bound is at most a quarter above what it stands for.
pub struct Histogram {
    buckets: [Counter; BUCKETS],
}

/// The last bucket begins at about 55 seconds.
const BUCKETS: usize = 140;

impl Default for Histogram {
    fn default() -> Self {
        Histogram {
            buckets: std::array::from_fn(|_| Counter::default()),
        }
    }
}

impl Histogram {
    /// Counts one duration. Only the owning thread may call this.
    #[inline]
    pub fn record(&self, ns: u64) {
        self.buckets[bucket(ns)].add(1);
    }
}

#[inline]
fn bucket(ns: u64) -> usize {
    let ns = ns.max(4);
    let octave = 63 - ns.leading_zeros() as usize;
    let at = (octave - 2) * 4 + (ns >> (octave - 2)) as usize - 4;
    at.min(BUCKETS - 1)
}

/// Returns the longest duration that a bucket counts.
fn bucket_max_ns(bucket: usize) -> u64 {
    let (octave, quarter) = (bucket / 4, bucket as u64 % 4);
    ((5 + quarter) << octave) - 1
}

/// The durations of one command on all threads.
pub struct Durations {
    buckets: [u64; BUCKETS],
    pub count: u64,
}

impl Default for Durations {
    fn default() -> Self {
        Durations {
            buckets: [0; BUCKETS],
            count: 0,
        }
    }
}

impl Durations {
    /// Adds one thread's counts.
    pub fn add(&mut self, histogram: &Histogram) {
        for (sum, bucket) in self.buckets.iter_mut().zip(&histogram.buckets) {
            let count = bucket.get();
            *sum += count;
            self.count += count;
        }
    }

    /// Returns a duration that this part (0 to 100) of the calls did not exceed, in nanoseconds.
    pub fn percentile_ns(&self, percentile: f64) -> u64 {
        let wanted = ((percentile / 100.0 * self.count as f64) + 0.5) as u64;
        let mut seen = 0;
        for (at, count) in self.buckets.iter().enumerate() {
            seen += count;
            if seen >= wanted.max(1) {
                return bucket_max_ns(at);
            }
        }
        0
    }

    /// Lists how many calls took no longer than 1.024, 2.048, 4.096 ... microseconds, each rounded down,
    /// leaving out what adds no call.
    pub fn cumulative_us(&self) -> Vec<(u64, u64)> {
        let mut lines = Vec::new();
        let (mut seen, mut at) = (0, 0);
        let mut bound_ns = 1024;
        while seen < self.count {
            let before = seen;
            while at < BUCKETS && (bucket_max_ns(at) < bound_ns || bound_ns >= 1 << 60) {
                seen += self.buckets[at];
                at += 1;
            }
            if seen > before {
                lines.push((bound_ns / 1000, seen));
            }
            bound_ns <<= 1;
        }
        lines
    }
}

/// Error kinds kept per thread; a script can make up any number of them.
const ERROR_KINDS_MAX: usize = 128;

/// What one thread did.
pub struct ThreadStats {
    /// Indexed by a command's number in the table.
    pub commands: Box<[CommandStats]>,
    pub keyspace: KeyspaceStats,
    /// Error replies by their first word. Locked for an error only.
    errors: Mutex<BTreeMap<String, u64>>,
    pub error_replies: Counter,
    /// Bytes read from and written to connections, counted by the I/O loop.
    pub net_input_bytes: Counter,
    pub net_output_bytes: Counter,
    /// Reads from and writes to sockets, counted by the I/O loop.
    pub reads: Counter,
    pub writes: Counter,
}

impl ThreadStats {
    /// Makes a set of counters for a table of `commands` commands.
    pub fn new(commands: usize) -> ThreadStats {
        ThreadStats {
            commands: (0..commands).map(|_| CommandStats::default()).collect(),
            keyspace: KeyspaceStats::default(),
            errors: Mutex::default(),
            error_replies: Counter::default(),
            net_input_bytes: Counter::default(),
            net_output_bytes: Counter::default(),
            reads: Counter::default(),
            writes: Counter::default(),
        }
    }

    /// Counts an error reply, given from its `-` on.
    pub fn count_error(&self, reply: &[u8]) {
        self.error_replies.add(1);
        let text = reply.strip_prefix(b"-").unwrap_or(reply);
        let end = text.iter().position(|byte| matches!(byte, b' ' | b'\r' | b'\n'));
        let kind = String::from_utf8_lossy(&text[..end.unwrap_or(text.len())]).into_owned();
        let mut errors = self.errors.lock();
        if errors.len() < ERROR_KINDS_MAX || errors.contains_key(&kind) {
            *errors.entry(kind).or_default() += 1;
        }
    }

    /// Adds this thread's error replies to a sum.
    pub fn add_errors(&self, sum: &mut BTreeMap<String, u64>) {
        for (kind, count) in self.errors.lock().iter() {
            *sum.entry(kind.clone()).or_default() += count;
        }
    }

    /// Sets everything back to zero.
    pub fn reset(&self) {
        self.commands.iter().for_each(CommandStats::reset);
        self.errors.lock().clear();
        self.keyspace.reset();
        let counters = [
            &self.error_replies,
            &self.net_input_bytes,
            &self.net_output_bytes,
            &self.reads,
            &self.writes,
        ];
        counters.into_iter().for_each(Counter::reset);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_duration_falls_into_a_bucket_that_reaches_it() {
        for ns in (0..2000).chain((10..35).flat_map(|bit| [(1 << bit) - 1, 1 << bit, (1 << bit) + 1])) {
            let at = bucket(ns);
            assert!(bucket_max_ns(at) >= ns, "{ns}");
            assert!(at == 0 || bucket_max_ns(at - 1) < ns, "{ns}");
        }
        assert_eq!(bucket(u64::MAX), BUCKETS - 1);
    }

    #[test]
    fn percentiles_and_sums_agree_with_what_was_recorded() {
        let histogram = Histogram::default();
        for ns in [500, 900, 1500, 3000, 100_000] {
            histogram.record(ns);
        }
        let mut durations = Durations::default();
        durations.add(&histogram);
        assert_eq!(durations.count, 5);
        assert_eq!(durations.cumulative_us(), [(1, 2), (2, 3), (4, 4), (131, 5)]);
        assert!((1500..1900).contains(&durations.percentile_ns(50.0)));
        assert!((100_000..125_000).contains(&durations.percentile_ns(100.0)));
        assert!((500..640).contains(&durations.percentile_ns(0.0)));
    }

    #[test]
    fn errors_are_counted_by_their_first_word() {
        let stats = ThreadStats::new(1);
        stats.count_error(b"-WRONGTYPE Operation\r\n");
        stats.count_error(b"-ERR syntax error\r\n");
        stats.count_error(b"-ERR\r\n");
        let mut sum = BTreeMap::new();
        stats.add_errors(&mut sum);
        assert_eq!(
            (sum["ERR"], sum["WRONGTYPE"], stats.error_replies.get()),
            (2, 1, 3)
        );
        stats.reset();
        assert_eq!(stats.error_replies.get(), 0);
    }
}
