//! Changes of jobs by those who registered them, one by one and by a filter.

use bytes::Bytes;
use nagaya_jobs::JobId;
use nagaya_jobs::request::Edit;
use serde::{Deserialize, Serialize};
use serde_json::value::RawValue;
use utoipa::ToSchema;

use super::new_job::{State, client_queue, json_body};
use super::scalar::{Seconds, Time};
use crate::problem::Problem;

/// Which jobs are meant. At least one field must be given.
#[derive(Debug, Default, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct ManyFilter {
    #[schema(min_length = 1, max_length = 128)]
    pub(crate) queue: Option<String>,
    /// For a retry: failed and cancelled ones when left out. For a cancellation: all that have not ended. For a change:
    /// those that have not started. For a deletion: those that have ended.
    pub(crate) states: Option<Vec<State>>,
    pub(crate) kind: Option<String>,
    pub(crate) tag: Option<String>,
    /// Those whose id begins with this, or whose kind, tags or error have it in them.
    pub(crate) search: Option<String>,
    /// Registered at or after this.
    pub(crate) since: Option<Time>,
    /// Registered before this.
    pub(crate) before: Option<Time>,
    /// Goes on where an answer ended.
    pub(crate) cursor: Option<String>,
    /// Most jobs to look at in one call; 1000 when left out.
    #[schema(minimum = 1, maximum = 1000)]
    pub(crate) limit: Option<usize>,
    /// Of a cancellation.
    #[schema(max_length = 4096)]
    pub(crate) reason: Option<String>,
    #[schema(min_length = 1, max_length = 128)]
    pub(crate) tenant: Option<String>,
    /// Changes nothing, and tells how many jobs are meant.
    #[serde(default)]
    pub(crate) dry_run: bool,
    /// Of a change: what to set.
    pub(crate) set: Option<ManyEdit>,
}

/// A change of several jobs that have not started. What is left out stays.
#[derive(Debug, Default, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct ManyEdit {
    /// Moves them to this queue.
    #[schema(min_length = 1, max_length = 128)]
    queue: Option<String>,
    #[schema(minimum = -1000, maximum = 1000)]
    priority: Option<i16>,
    /// Not before this; a time that is past means now.
    run_at: Option<Time>,
    #[schema(maximum = 1000)]
    max_retries: Option<u32>,
}

impl ManyEdit {
    /// Returns the change of one of the jobs.
    pub(crate) fn of(&self, id: JobId) -> Result<Edit, Problem> {
        let edit = Edit {
            priority: self.priority,
            run_at_ms: self.run_at.map(|time| time.0),
            max_retries: self.max_retries,
            queue: self.queue.as_deref().map(client_queue).transpose()?,
            ..Edit::of(id)
        };
        if edit.is_empty() {
            return Err(Problem::bad_request("set must say at least one thing"));
        }
        Ok(edit)
    }
}

/// How many jobs were changed. While there is a cursor there may be more.
#[derive(Debug, Serialize, ToSchema)]
pub(crate) struct ManyChanged {
    pub(crate) changed: usize,
    /// Of a dry run: the jobs that are meant.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) matched: Option<usize>,
    /// Jobs whose state had changed meanwhile.
    pub(crate) refused: usize,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) next_cursor: Option<String>,
}

/// A change of a job that has not started. What is left out stays.
#[derive(Debug, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct EditJob<'a> {
    /// Higher goes first.
    #[schema(minimum = -1000, maximum = 1000)]
    priority: Option<i16>,
    /// Not before this; a time that is past means now.
    run_at: Option<Time>,
    /// Any JSON.
    #[serde(borrow, default)]
    #[schema(value_type = Option<serde_json::Value>)]
    payload: Option<&'a RawValue>,
    /// How long an attempt may take before the job waits again.
    timeout_seconds: Option<Seconds>,
    /// Attempts after the first one.
    #[schema(maximum = 1000)]
    max_retries: Option<u32>,
    /// Moves the job to this queue.
    #[schema(min_length = 1, max_length = 128)]
    queue: Option<String>,
}

impl EditJob<'_> {
    /// Converts to the domain type. `whole` is the body that this borrows from.
    pub(crate) fn into_edit(self, id: JobId, whole: &Bytes) -> Result<Edit, Problem> {
        let edit = Edit {
            id,
            priority: self.priority,
            run_at_ms: self.run_at.map(|time| time.0),
            payload: self.payload.map(|payload| json_body(Some(payload), whole)),
            timeout: self.timeout_seconds.map(|seconds| seconds.0),
            max_retries: self.max_retries,
            queue: self.queue.as_deref().map(client_queue).transpose()?,
        };
        if edit.is_empty() {
            return Err(Problem::bad_request("the change must say at least one thing"));
        }
        Ok(edit)
    }
}
