//! What the server remembers of its metrics, for charts.

use std::collections::BTreeMap;

use serde::Deserialize;

use crate::chart::{Chart, Series, Unit};
use crate::failure::Failure;
use crate::form::encode;
use crate::request::PageRequest;

/// How far back charts reach.
pub(crate) const MINUTES: u32 = 60;
/// The fewest points of a chart: five minutes.
const POINTS_MIN: usize = 30;

/// The answer of `/v1/house/history` for some series; none where the server keeps no history.
#[derive(Debug, Default, Deserialize)]
pub(crate) struct History {
    step_seconds: f64,
    series: BTreeMap<String, Vec<Option<f64>>>,
}

/// The answer when no series is asked for.
#[derive(Debug, Deserialize)]
struct Names {
    names: Vec<String>,
}

impl History {
    /// Asks for the last hour of those series that there are.
    pub(crate) async fn read(request: &PageRequest, wanted: &[&str]) -> Result<History, Failure> {
        let known: Names = match request.get("/v1/house/history").await {
            Ok(known) => known,
            // No history is kept here, or it is none of this token's business.
            Err(failure) if matches!(failure.status.as_u16(), 403 | 404) => return Ok(History::default()),
            Err(failure) => return Err(failure),
        };
        let is_known = |name: &&&str| known.names.iter().any(|one| one == **name);
        let found: Vec<&str> = wanted.iter().filter(is_known).copied().collect();
        if found.is_empty() {
            return Ok(History::default());
        }
        let series = encode(&found.join(","));
        let path = format!("/v1/house/history?minutes={MINUTES}&series={series}");
        let history: History = request.get_if_any(&path).await?.unwrap_or_default();
        Ok(history.since_its_beginning())
    }

    /// Leaves out the time before the server began, so that a young one's charts are not a line at their right
    /// end.
    fn since_its_beginning(mut self) -> History {
        let length = self.series.values().map(Vec::len).max().unwrap_or(0);
        let empty = |points: &Vec<Option<f64>>| points.iter().take_while(|point| point.is_none()).count();
        let unknown = self.series.values().map(empty).min().unwrap_or(0);
        let left_out = unknown.min(length.saturating_sub(POINTS_MIN));
        for points in self.series.values_mut() {
            points.drain(..left_out.min(points.len()));
        }
        self
    }

    /// A chart of some of the series, each with the name that people see; those that are not there are left out.
    pub(crate) fn chart<'a>(&'a self, title: &'a str, unit: Unit, wanted: &[(&str, &'a str)]) -> Chart<'a> {
        let series = wanted.iter().filter_map(|(key, name)| {
            let points = self.series.get(*key)?;
            Some(Series { name, points })
        });
        Chart {
            title,
            unit,
            step_seconds: self.step_seconds,
            series: series.collect(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn history(series: &[(&str, usize, usize)]) -> History {
        let points = |(name, unknown, known): &(&str, usize, usize)| {
            let points = [vec![None; *unknown], vec![Some(1.0); *known]].concat();
            (name.to_string(), points)
        };
        History {
            step_seconds: 10.0,
            series: series.iter().map(points).collect(),
        }
    }

    #[test]
    fn charts_begin_with_the_house_but_span_five_minutes() {
        let lengths = |history: History| history.series.values().map(Vec::len).collect::<Vec<_>>();
        let young = history(&[("a", 350, 10), ("b", 358, 2)]);
        assert_eq!(lengths(young.since_its_beginning()), [30, 30]);
        let older = history(&[("a", 200, 160), ("b", 358, 2)]);
        assert_eq!(lengths(older.since_its_beginning()), [160, 160]);
        let old = history(&[("a", 0, 360), ("b", 358, 2)]);
        assert_eq!(lengths(old.since_its_beginning()), [360, 360]);
        assert_eq!(
            lengths(History::default().since_its_beginning()),
            Vec::<usize>::new()
        );
    }
}
