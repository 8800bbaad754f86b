//! What the house remembers of its metrics, for charts.

use std::collections::BTreeMap;

use serde::Deserialize;

use crate::chart::{Chart, Series, Unit};
use crate::failure::Failure;
use crate::form::encode;
use crate::visit::Visit;

/// How far back charts reach.
pub(crate) const MINUTES: u32 = 60;

/// The answer of `/v1/house/history` for some series; none where the house keeps no history.
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
    pub(crate) async fn read(visit: &Visit, wanted: &[&str]) -> Result<History, Failure> {
        let known: Names = match visit.get("/v1/house/history").await {
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
        Ok(visit.get_if_any(&path).await?.unwrap_or_default())
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
