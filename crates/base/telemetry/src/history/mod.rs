//! The metrics of the last hours, kept in memory.
//!
//! Every step all metrics are read and one point per series is added: gauges as they are, counters as
//! their rate per second since the step before, histograms as the rate of their count (`NAME_count`) and
//! estimates of two quantiles of what was added (`NAME_p50`, `NAME_p99`). A point that is not known is a
//! gap. Series and points are bounded, so it never takes more than a few megabytes.

mod readings;

use std::collections::{BTreeMap, VecDeque};

use readings::Reading;
pub use readings::Readings;

/// The time between two points.
pub const STEP_SECONDS: u64 = 10;
/// The points of a series: six hours.
pub const POINTS_MAX: usize = 6 * 3600 / STEP_SECONDS as usize;
/// The most series, which bounds the memory; further ones are dropped.
const SERIES_MAX: usize = 400;
/// The shortest time between two readings for a rate.
const RATE_SPAN_MIN_MS: u64 = 2_000;

/// The points of all series.
#[derive(Debug, Default)]
pub struct History {
    /// All series end at the same step; a gap is NaN.
    series: BTreeMap<String, VecDeque<f32>>,
    /// The latest readings and the ones before.
    last: Option<Taken>,
    before_last: Option<Taken>,
}

#[derive(Clone, Debug)]
struct Taken {
    at_ms: u64,
    readings: Readings,
}

/// Current metrics, with an earlier reading.
#[derive(Clone, Debug, Default)]
pub struct Now {
    readings: Readings,
    before: Option<Readings>,
    seconds: f64,
}

impl History {
    /// Adds a point to every series. Steps that were missed become gaps.
    pub fn push(&mut self, at_ms: u64, readings: Readings) {
        if let Some(last) = &self.last {
            let steps = at_ms.saturating_sub(last.at_ms) as f64 / (STEP_SECONDS * 1000) as f64;
            let missed = (steps.round() as usize).saturating_sub(1);
            (0..missed.min(POINTS_MAX)).for_each(|_| self.add(BTreeMap::new()));
        }
        let points = match &self.last {
            Some(last) => points(&readings, Some((&last.readings, last.at_ms)), at_ms),
            None => points(&readings, None, at_ms),
        };
        self.add(points);
        self.before_last = self.last.replace(Taken { at_ms, readings });
    }

    fn add(&mut self, mut points: BTreeMap<String, f64>) {
        for (name, series) in &mut self.series {
            series.push_back(points.remove(name).map_or(f32::NAN, |point| point as f32));
            if series.len() > POINTS_MAX {
                series.pop_front();
            }
        }
        for (name, point) in points {
            if self.series.len() < SERIES_MAX {
                self.series.insert(name, VecDeque::from([point as f32]));
            }
        }
    }

    /// Returns the names of all series.
    pub fn names(&self) -> Vec<&str> {
        self.series.keys().map(String::as_str).collect()
    }

    /// Returns when the latest points were taken, Unix milliseconds.
    pub fn to_ms(&self) -> Option<u64> {
        self.last.as_ref().map(|last| last.at_ms)
    }

    /// Returns the latest points of a series, oldest first, filled up with gaps; `None` if there is no such series.
    pub fn points(&self, name: &str, count: usize) -> Option<Vec<Option<f64>>> {
        let series = self.series.get(name)?;
        let count = count.min(POINTS_MAX);
        let known = series.len().min(count);
        let gaps = std::iter::repeat_n(None, count - known);
        let points = series.range(series.len() - known..);
        let points = points.map(|point| (!point.is_nan()).then_some(f64::from(*point)));
        Some(gaps.chain(points).collect())
    }

    /// Metrics of this moment beside those of the latest step that is old enough for rates.
    pub fn now(&self, at_ms: u64, readings: Readings) -> Now {
        let is_old = |taken: &&Taken| at_ms.saturating_sub(taken.at_ms) >= RATE_SPAN_MIN_MS;
        let earlier = self.last.as_ref().filter(is_old).or(self.before_last.as_ref());
        // In the first seconds there is no older reading.
        let earlier = earlier.or(self.last.as_ref());
        Now {
            readings,
            before: earlier.map(|taken| taken.readings.clone()),
            seconds: earlier.map_or(0.0, |taken| at_ms.saturating_sub(taken.at_ms) as f64 / 1000.0),
        }
    }
}

impl Now {
    /// Returns a gauge, or the total of a counter; nothing if there is no such metric.
    pub fn value(&self, name: &str) -> Option<f64> {
        self.readings.value(name)
    }

    /// Returns the increase of a counter since the earlier reading.
    pub fn growth(&self, name: &str) -> Option<f64> {
        let now = self.total(&self.readings, name)?;
        // An absent counter has counted nothing.
        let before = self.before.as_ref()?;
        Some((now - self.total(before, name).unwrap_or(0.0)).max(0.0))
    }

    /// Returns the increase of a counter per second; of a histogram, of its number of observations.
    pub fn rate(&self, name: &str) -> Option<f64> {
        let growth = self.growth(name)?;
        (self.seconds > 0.0).then(|| growth / self.seconds)
    }

    fn total(&self, readings: &Readings, name: &str) -> Option<f64> {
        match readings.get(name)? {
            Reading::Gauge(value) | Reading::Counter(value) => Some(*value),
            Reading::Histogram(buckets) => Some(buckets.total()),
        }
    }
}

fn points(readings: &Readings, before: Option<(&Readings, u64)>, at_ms: u64) -> BTreeMap<String, f64> {
    let mut points = BTreeMap::new();
    let seconds = before.map_or(0.0, |(_, before_ms)| {
        at_ms.saturating_sub(before_ms) as f64 / 1000.0
    });
    for (name, reading) in readings.iter() {
        let earlier = before.and_then(|(readings, _)| readings.get(name));
        match (reading, earlier) {
            (Reading::Gauge(value), _) => {
                points.insert(name.to_owned(), *value);
            }
            (Reading::Counter(value), Some(Reading::Counter(earlier)))
                if value >= earlier && seconds > 0.0 =>
            {
                points.insert(name.to_owned(), (value - earlier) / seconds);
            }
            (Reading::Histogram(buckets), Some(Reading::Histogram(earlier))) if seconds > 0.0 => {
                let since = buckets.since(earlier);
                points.insert(format!("{name}_count"), since.total() / seconds);
                for (suffix, share) in [("p50", 0.5), ("p99", 0.99)] {
                    let quantile = since.quantile(share).unwrap_or(f64::NAN);
                    points.insert(format!("{name}_{suffix}"), quantile);
                }
            }
            // A counter that has gone back was set to zero; its rate is not known.
            (Reading::Counter(_) | Reading::Histogram(_), _) => (),
        }
    }
    points
}

#[cfg(test)]
mod tests {
    use super::*;

    const STEP_MS: u64 = STEP_SECONDS * 1000;

    fn readings(keys: f64, calls: u64) -> Readings {
        Readings::parse(&format!(
            "# TYPE keys gauge\nkeys {keys}\n# TYPE calls counter\ncalls_total {calls}\n\
             # TYPE took histogram\ntook_bucket{{le=\"1.0\"}} {calls}\ntook_bucket{{le=\"+Inf\"}} {calls}\n"
        ))
    }

    #[test]
    fn gauges_are_kept_and_counters_become_rates() {
        let mut history = History::default();
        history.push(STEP_MS, readings(5.0, 100));
        history.push(2 * STEP_MS, readings(6.0, 150));
        assert_eq!(history.points("keys", 3), Some(vec![None, Some(5.0), Some(6.0)]));
        assert_eq!(
            history.points("calls_total", 3),
            Some(vec![None, None, Some(5.0)])
        );
        assert_eq!(history.points("took_count", 1), Some(vec![Some(5.0)]));
        assert_eq!(history.points("took_p50", 1), Some(vec![Some(0.5)]));
        assert_eq!(history.points("nothing", 1), None);
        assert_eq!(history.to_ms(), Some(2 * STEP_MS));
        let names = ["calls_total", "keys", "took_count", "took_p50", "took_p99"];
        assert_eq!(history.names(), names);
    }

    #[test]
    fn what_was_not_read_is_a_gap() {
        let mut history = History::default();
        history.push(STEP_MS, readings(1.0, 0));
        history.push(4 * STEP_MS, readings(2.0, 0));
        let expected = vec![Some(1.0), None, None, Some(2.0)];
        assert_eq!(history.points("keys", 4), Some(expected));
        history.push(5 * STEP_MS, Readings::default());
        assert_eq!(history.points("keys", 2), Some(vec![Some(2.0), None]));
        // Set back to zero: not a rate below zero.
        history.push(6 * STEP_MS, readings(2.0, 50));
        history.push(7 * STEP_MS, readings(2.0, 10));
        assert_eq!(history.points("calls_total", 1), Some(vec![None]));
    }

    #[test]
    fn old_points_make_room() {
        let mut history = History::default();
        for step in 1..=(POINTS_MAX as u64 + 10) {
            history.push(step * STEP_MS, readings(step as f64, 0));
        }
        let points = history.points("keys", usize::MAX).unwrap();
        assert_eq!((points.len(), points[0]), (POINTS_MAX, Some(11.0)));
    }

    #[test]
    fn the_present_is_told_against_a_step_that_is_long_enough_ago() {
        let mut history = History::default();
        history.push(STEP_MS, readings(1.0, 100));
        let now = history.now(STEP_MS + 500, readings(1.0, 110));
        assert_eq!(now.rate("calls_total"), Some(20.0), "there is nothing better yet");
        history.push(2 * STEP_MS, readings(1.0, 200));
        let now = history.now(2 * STEP_MS + 1000, readings(3.0, 210));
        assert_eq!(now.rate("calls_total"), Some(10.0));
        let now = history.now(2 * STEP_MS + 5000, readings(3.0, 210));
        assert_eq!(
            (now.rate("calls_total"), now.rate("took")),
            (Some(2.0), Some(2.0))
        );
        assert_eq!(
            (now.value("keys"), now.growth("calls_total")),
            (Some(3.0), Some(10.0))
        );
    }
}
