//! Waiting for several jobs.

use nagaya_jobs::service::WaitFor;
use nagaya_jobs::{JobId, State as JobState};
use serde::{Deserialize, Serialize};
use serde_json::value::RawValue;
use utoipa::ToSchema;

use super::new_job::State;
use super::scalar::{Id, Number, Seconds};
use super::work::BodyView;
use crate::handlers::Awaited;

/// What to wait for.
#[derive(Clone, Copy, Debug, Default, Deserialize, PartialEq, Eq, ToSchema)]
#[serde(rename_all = "snake_case")]
pub(crate) enum Until {
    /// Until each of them has ended.
    #[default]
    All,
    /// Until one of them has ended.
    Any,
}

impl From<Until> for WaitFor {
    fn from(until: Until) -> WaitFor {
        match until {
            Until::All => WaitFor::All,
            Until::Any => WaitFor::Any,
        }
    }
}

/// Waits for several jobs.
#[derive(Debug, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct Wait {
    #[schema(min_items = 1, max_items = 256)]
    pub(crate) ids: Vec<Id>,
    /// All of them when left out.
    #[serde(default)]
    pub(crate) until: Until,
    /// The server's `wait_max` is the most; without it the answer comes at once.
    pub(crate) wait_seconds: Option<Seconds>,
    /// Whether the answer has the results of those that have ended.
    #[serde(default)]
    pub(crate) results: bool,
}

impl Wait {
    pub(crate) fn jobs(&self) -> Vec<JobId> {
        self.ids.iter().map(|id| id.0).collect()
    }
}

/// How several jobs stand, in the order in which they were asked for.
#[derive(Debug, Serialize, ToSchema)]
pub(crate) struct WaitedJobs<'a> {
    pub(crate) jobs: Vec<WaitedJob<'a>>,
    /// Whether what was waited for has come.
    pub(crate) done: bool,
}

/// How one job stands.
#[derive(Debug, Serialize, ToSchema)]
pub(crate) struct WaitedJob<'a> {
    #[schema(inline)]
    id: Id,
    /// Left out when there is no such job, or no longer.
    #[serde(skip_serializing_if = "Option::is_none")]
    state: Option<State>,
    /// What it ended with, unless that is not JSON.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<serde_json::Value>)]
    result: Option<&'a RawValue>,
    #[serde(skip_serializing_if = "Option::is_none")]
    result_base64: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    result_content_type: Option<&'a str>,
    /// The error that it ended with.
    #[serde(skip_serializing_if = "Option::is_none")]
    error: Option<&'a str>,
    /// The answer would have become too large: read the job itself for its result.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    left_out: bool,
}

impl<'a> From<&'a Awaited> for WaitedJob<'a> {
    fn from(job: &'a Awaited) -> WaitedJob<'a> {
        let BodyView {
            json: result,
            base64: result_base64,
            content_type: result_content_type,
        } = job.result.as_ref().map(BodyView::of).unwrap_or_default();
        WaitedJob {
            id: Number(job.id),
            state: job.state.map(|state: JobState| state.into()),
            result,
            result_base64,
            result_content_type,
            error: job.error.as_deref(),
            left_out: job.is_left_out,
        }
    }
}
