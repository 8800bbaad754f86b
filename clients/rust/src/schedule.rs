//! Jobs that come again and again.

use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

use crate::new_job::NewJob;

/// A schedule to be set up.
#[derive(Clone, Debug, Serialize)]
pub struct NewSchedule {
    /// Part of the address, not of the body.
    #[serde(skip)]
    pub name: String,
    /// Five fields, or six with seconds first, or a nickname such as `@daily`.
    pub cron: String,
    /// A name of the time zone database; UTC when nothing is said.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub time_zone: Option<String>,
    /// What becomes of runs that were missed: `skip`, `once` or `all`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub missed: Option<String>,
    /// The job of each run.
    pub job: NewJob,
}

/// A schedule as the house tells of it.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Schedule {
    pub name: String,
    pub cron: String,
    #[serde(default)]
    pub time_zone: Option<String>,
    #[serde(default)]
    pub paused: bool,
    /// All else, by the names of `/openapi.json`.
    #[serde(flatten)]
    pub rest: Map<String, Value>,
}
