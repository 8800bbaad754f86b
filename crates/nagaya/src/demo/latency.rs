//! How long things took.

use std::time::Duration;

/// Samples that are kept; later ones take the places of the first.
const SAMPLES_MAX: usize = 50_000;

/// Lengths of time, and what was usual among them.
#[derive(Clone, Debug, Default)]
pub(super) struct Latencies {
    us: Vec<u32>,
    seen: usize,
}

impl Latencies {
    pub(super) fn add(&mut self, took: Duration) {
        let us = u32::try_from(took.as_micros()).unwrap_or(u32::MAX);
        if self.us.len() < SAMPLES_MAX {
            self.us.push(us)
        } else {
            self.us[self.seen % SAMPLES_MAX] = us
        }
        self.seen += 1;
    }

    /// Returns a percentile in milliseconds; `None` without samples.
    pub(super) fn percentile_ms(&self, percent: usize) -> Option<f64> {
        let mut sorted = self.us.clone();
        sorted.sort_unstable();
        let last = sorted.len().checked_sub(1)?;
        Some(f64::from(sorted[last * percent / 100]) / 1_000.0)
    }

    /// The middle one, for people.
    pub(super) fn usual(&self) -> String {
        match self.percentile_ms(50) {
            Some(ms) if ms < 10.0 => format!("{ms:.2} ms"),
            Some(ms) => format!("{ms:.0} ms"),
            None => "-".to_owned(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn percentiles_are_of_the_samples_and_there_are_none_without() {
        let mut latencies = Latencies::default();
        assert_eq!(
            (latencies.percentile_ms(50), latencies.usual()),
            (None, "-".into())
        );
        for ms in 1..=101 {
            latencies.add(Duration::from_millis(ms));
        }
        assert_eq!(latencies.percentile_ms(50), Some(51.0));
        assert_eq!(latencies.percentile_ms(100), Some(101.0));
        assert_eq!(latencies.usual(), "51 ms");
    }

    #[test]
    fn samples_are_bounded() {
        let mut latencies = Latencies::default();
        for _ in 0..SAMPLES_MAX + 10 {
            latencies.add(Duration::from_micros(3));
        }
        assert_eq!(latencies.us.len(), SAMPLES_MAX);
    }
}
