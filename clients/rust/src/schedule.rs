//! Recurring jobs.

use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

use crate::new_job::NewJob;

/// A schedule to create.
#[derive(Clone, Debug, Serialize)]
pub struct NewSchedule {
    /// Part of the path, not of the body.
    #[serde(skip)]
    pub name: String,
    /// Five fields, or six with seconds first, or a nickname such as `@daily`.
    pub cron: String,
    /// A name of the IANA time zone database; UTC by default.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub time_zone: Option<String>,
    /// What happens to missed runs: `skip`, `once` or `all`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub missed: Option<String>,
    /// The job of each run.
    pub job: NewJob,
}

/// A schedule as the server returns it.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Schedule {
    pub name: String,
    pub cron: String,
    #[serde(default)]
    pub time_zone: Option<String>,
    #[serde(default)]
    pub paused: bool,
    /// All other fields, as in `/openapi.json`.
    #[serde(flatten)]
    pub rest: Map<String, Value>,
}
