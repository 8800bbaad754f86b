//! How fast counters rise.

use parking_lot::Mutex;

/// Rates between this look and an earlier one.
#[derive(Default)]
pub struct Rates {
    last: Mutex<Look>,
}

#[derive(Default)]
struct Look {
    at_us: i64,
    counts: [u64; 3],
    per_second: [f64; 3],
}

impl Rates {
    /// Returns how fast counters have risen since the last look, which is at least a tenth of a second
    /// ago.
    pub fn look(&self, now_us: i64, counts: [u64; 3]) -> [f64; 3] {
        let mut last = self.last.lock();
        let elapsed_us = now_us - last.at_us;
        if elapsed_us >= 100_000 {
            if last.at_us != 0 {
                let before = last.counts;
                for (at, rate) in last.per_second.iter_mut().enumerate() {
                    let risen = counts[at].saturating_sub(before[at]) as f64;
                    *rate = risen * 1e6 / elapsed_us as f64;
                }
            }
            last.at_us = now_us;
            last.counts = counts;
        }
        last.per_second
    }
}
