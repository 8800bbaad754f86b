//! The values of a scrape, by metric name.

use std::collections::BTreeMap;

/// All metrics at one moment, summed over the labels of each.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Readings {
    metrics: BTreeMap<String, Reading>,
}

/// One metric.
#[derive(Clone, Debug, PartialEq)]
pub(super) enum Reading {
    Gauge(f64),
    Counter(f64),
    Histogram(Buckets),
}

/// How many observations were not larger than each bound, by the bound.
#[derive(Clone, Debug, Default, PartialEq)]
pub(super) struct Buckets {
    pub(super) counts: Vec<(f64, f64)>,
}

impl Readings {
    /// Parses what [`Metrics::render`](crate::metrics::Metrics::render) has written. Lines of unknown kinds
    /// are left out.
    pub fn parse(text: &str) -> Readings {
        let mut metrics: BTreeMap<String, Reading> = BTreeMap::new();
        let mut family = ("", "");
        for line in text.lines() {
            if let Some(declared) = line.strip_prefix("# TYPE ") {
                family = declared.split_once(' ').unwrap_or(("", ""));
                continue;
            }
            let Some((name, labels, value)) = parse_line(line) else {
                continue;
            };
            match family.1 {
                "gauge" => match metrics.entry(name.to_owned()).or_insert(Reading::Gauge(0.0)) {
                    Reading::Gauge(sum) => *sum += value,
                    Reading::Counter(_) | Reading::Histogram(_) => (),
                },
                "counter" => match metrics.entry(name.to_owned()).or_insert(Reading::Counter(0.0)) {
                    Reading::Counter(sum) => *sum += value,
                    Reading::Gauge(_) | Reading::Histogram(_) => (),
                },
                "histogram" if name.strip_suffix("_bucket") == Some(family.0) => {
                    let empty = Reading::Histogram(Buckets::default());
                    let entry = metrics.entry(family.0.to_owned()).or_insert(empty);
                    if let (Reading::Histogram(buckets), Some(bound)) = (entry, bound(labels)) {
                        buckets.add(bound, value);
                    }
                }
                _ => (),
            }
        }
        Readings { metrics }
    }

    /// Returns a gauge, or the total of a counter. `None` if there is no such metric.
    pub fn value(&self, name: &str) -> Option<f64> {
        match self.metrics.get(name)? {
            Reading::Gauge(value) | Reading::Counter(value) => Some(*value),
            Reading::Histogram(_) => None,
        }
    }

    pub(super) fn iter(&self) -> impl Iterator<Item = (&str, &Reading)> {
        self.metrics
            .iter()
            .map(|(name, reading)| (name.as_str(), reading))
    }

    pub(super) fn get(&self, name: &str) -> Option<&Reading> {
        self.metrics.get(name)
    }
}

impl Buckets {
    fn add(&mut self, bound: f64, count: f64) {
        match self.counts.iter_mut().find(|(known, _)| *known == bound) {
            Some((_, sum)) => *sum += count,
            None => self.counts.push((bound, count)),
        }
    }

    pub(super) fn total(&self) -> f64 {
        self.counts.last().map_or(0.0, |(_, count)| *count)
    }

    /// Returns what has been added since an earlier reading.
    pub(super) fn since(&self, before: &Buckets) -> Buckets {
        let earlier = |bound: f64| before.counts.iter().find(|(known, _)| *known == bound);
        let counts = self.counts.iter();
        Buckets {
            counts: counts
                .map(|(bound, count)| (*bound, count - earlier(*bound).map_or(0.0, |(_, count)| *count)))
                .collect(),
        }
    }

    /// Estimates a quantile: within a bucket, observations are taken to be spread evenly. Beyond the last
    /// bound it is that bound.
    pub(super) fn quantile(&self, share: f64) -> Option<f64> {
        let total = self.total();
        if total <= 0.0 {
            return None;
        }
        let rank = share * total;
        let (mut low, mut below) = (0.0, 0.0);
        for (bound, count) in &self.counts {
            if *count >= rank {
                // An infinite bound gives no estimate.
                if !bound.is_finite() || *bound >= f64::MAX {
                    return Some(low);
                }
                let within = (rank - below) / (count - below).max(f64::MIN_POSITIVE);
                return Some(low + (bound - low) * within);
            }
            (low, below) = (*bound, *count);
        }
        Some(low)
    }
}

/// Name, labels and value of a line.
fn parse_line(line: &str) -> Option<(&str, &str, f64)> {
    if line.starts_with('#') {
        return None;
    }
    let (name, rest) = match line.find(['{', ' '])? {
        at if line.as_bytes()[at] == b'{' => {
            // Values of labels may hold a brace; what follows the last one never does.
            let (labels, value) = line[at + 1..].rsplit_once("} ")?;
            (&line[..at], (labels, value))
        }
        at => (&line[..at], ("", &line[at + 1..])),
    };
    let value = rest.1.split(' ').next()?.parse().ok()?;
    Some((name, rest.0, value))
}

/// Returns the upper end of a bucket; it is the first or the last of its labels.
fn bound(labels: &str) -> Option<f64> {
    let at = if labels.starts_with("le=\"") {
        4
    } else {
        labels.rfind(",le=\"")? + 5
    };
    let text = labels[at..].split('"').next()?;
    match text {
        "+Inf" => Some(f64::INFINITY),
        text => text.parse().ok(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const TEXT: &str = "\
# HELP keys Keys.
# TYPE keys gauge
keys 7.5
# TYPE calls counter
calls_total{command=\"get {x} \"} 3
calls_total{command=\"set\"} 4
# TYPE build info
build_info{version=\"1\"} 1
# TYPE took_seconds histogram
# UNIT took_seconds seconds
took_seconds_sum{route=\"a\"} 1.5
took_seconds_count{route=\"a\"} 4
took_seconds_bucket{le=\"0.1\",route=\"a\"} 2
took_seconds_bucket{le=\"1.0\",route=\"a\"} 4
took_seconds_bucket{le=\"+Inf\",route=\"a\"} 4
took_seconds_bucket{le=\"0.1\",route=\"b\"} 0
took_seconds_bucket{le=\"1.0\",route=\"b\"} 4
took_seconds_bucket{le=\"+Inf\",route=\"b\"} 4
# EOF
";

    #[test]
    fn labels_are_summed_and_buckets_kept() {
        let readings = Readings::parse(TEXT);
        assert_eq!(readings.value("keys"), Some(7.5));
        assert_eq!(readings.value("calls_total"), Some(7.0));
        assert_eq!(readings.value("build_info"), None);
        let Some(Reading::Histogram(buckets)) = readings.get("took_seconds") else {
            panic!("{readings:?}");
        };
        assert_eq!(buckets.counts, [(0.1, 2.0), (1.0, 8.0), (f64::INFINITY, 8.0)]);
    }

    #[test]
    fn quantiles_lie_within_their_bucket() {
        let buckets = |counts: &[(f64, f64)]| Buckets {
            counts: counts.to_vec(),
        };
        let spread = buckets(&[(1.0, 50.0), (2.0, 100.0), (f64::INFINITY, 100.0)]);
        assert_eq!(spread.quantile(0.5), Some(1.0));
        assert_eq!(spread.quantile(0.75), Some(1.5));
        let slow = buckets(&[(1.0, 0.0), (f64::INFINITY, 9.0)]);
        assert_eq!(slow.quantile(0.5), Some(1.0), "further is not known");
        assert_eq!(buckets(&[(1.0, 0.0)]).quantile(0.5), None);
        let since = spread.since(&buckets(&[(1.0, 50.0), (2.0, 60.0), (f64::INFINITY, 60.0)]));
        assert_eq!(since.quantile(0.5), Some(1.5));
    }
}
