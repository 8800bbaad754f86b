//! Leases: extended, given back, lost.

use std::borrow::Cow;
use std::time::Duration;

use nagaya_jobs::JobId;
use nagaya_jobs::request::Released;
use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

use super::new_job::State;
use super::scalar::{Id, Number, Seconds, Time};
use crate::handlers::Lost;
use crate::problem::ProblemDocument;

/// A heartbeat: the lease ends so long from now.
#[derive(Debug, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct Extend<'a> {
    #[serde(borrow)]
    pub(crate) token: Cow<'a, str>,
    /// The lease's own length when left out.
    pub(crate) timeout_seconds: Option<Seconds>,
}

/// Heartbeats of several jobs. Each is judged by itself.
#[derive(Debug, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct ExtendMany<'a> {
    #[serde(borrow)]
    #[schema(min_items = 1, max_items = 10000)]
    pub(crate) jobs: Vec<Extend<'a>>,
}

/// A lease that lasts longer.
#[derive(Debug, Serialize, ToSchema)]
pub(crate) struct Extended {
    #[schema(inline)]
    pub(crate) id: Id,
    #[schema(inline)]
    pub(crate) lease_expires_at: Time,
}

/// One heartbeat's outcome: either it, or why not.
#[derive(Debug, Serialize, ToSchema)]
#[serde(untagged)]
pub(crate) enum ExtendOutcome<'a> {
    Extended(Extended),
    Problem { error: ProblemDocument<'a> },
}

/// What became of heartbeats, in their order.
#[derive(Debug, Serialize, ToSchema)]
pub(crate) struct ExtendOutcomes<'a> {
    pub(crate) jobs: Vec<ExtendOutcome<'a>>,
}

/// Gives a job back: the attempt does not count.
#[derive(Debug, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct Release<'a> {
    #[serde(borrow)]
    pub(crate) token: Cow<'a, str>,
    /// The job is not given out again before this has passed; at once when left out.
    delay_seconds: Option<Seconds>,
}

impl Release<'_> {
    pub(crate) fn delay(&self) -> Duration {
        self.delay_seconds.map_or(Duration::ZERO, |seconds| seconds.0)
    }
}

/// Gives several jobs back. Each is judged by itself.
#[derive(Debug, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct ReleaseMany<'a> {
    #[serde(borrow)]
    #[schema(min_items = 1, max_items = 10000)]
    pub(crate) jobs: Vec<Release<'a>>,
}

/// A job that was given back.
#[derive(Debug, Serialize, ToSchema)]
pub(crate) struct ReleasedJob {
    #[schema(inline)]
    id: Id,
    /// `waiting` or `scheduled`.
    state: State,
    /// When it may be given out again, while scheduled.
    #[serde(skip_serializing_if = "Option::is_none")]
    run_at: Option<Time>,
}

impl ReleasedJob {
    pub(crate) fn of(id: JobId, released: Released) -> ReleasedJob {
        let (state, run_at) = match released {
            Released::Waiting => (State::Waiting, None),
            Released::Scheduled { at_ms } => (State::Scheduled, Some(Time(at_ms))),
        };
        ReleasedJob {
            id: Number(id),
            state,
            run_at,
        }
    }
}

/// What became of one job that was to be given back, or why it was not.
#[derive(Debug, Serialize, ToSchema)]
#[serde(untagged)]
pub(crate) enum ReleaseOutcome<'a> {
    Released(ReleasedJob),
    Problem { error: ProblemDocument<'a> },
}

/// What became of jobs that were to be given back, in their order.
#[derive(Debug, Serialize, ToSchema)]
pub(crate) struct ReleaseOutcomes<'a> {
    pub(crate) jobs: Vec<ReleaseOutcome<'a>>,
}

/// A lease that the worker no longer has.
#[derive(Debug, Serialize, ToSchema)]
pub(crate) struct LostLease {
    token: String,
    /// The token's job; left out for a token that nobody gave out.
    #[serde(skip_serializing_if = "Option::is_none")]
    id: Option<Id>,
    /// Why: cancelled, expired or unknown.
    reason: &'static str,
}

impl From<Lost> for LostLease {
    fn from(lost: Lost) -> LostLease {
        LostLease {
            id: lost.id.map(Number),
            token: lost.token,
            reason: lost.why.name(),
        }
    }
}
