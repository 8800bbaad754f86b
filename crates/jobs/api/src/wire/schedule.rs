//! Schedules: recurring jobs.

use bytes::Bytes;
use nagaya_jobs::TenantId;
use nagaya_jobs::schedule::{MISSED_MAX, Missed as MissedRule, Schedule, ScheduleView};
use serde::{Deserialize, Serialize};
use serde_json::value::RawValue;
use utoipa::ToSchema;

use super::new_job::NewJob;
use super::scalar::Time;
use super::work::BodyView;
use crate::problem::Problem;

/// A schedule to be made or replaced.
#[derive(Debug, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct NewSchedule<'a> {
    /// Five fields, or six with seconds first, or a nickname like `@daily`.
    #[schema(min_length = 1, max_length = 256)]
    cron: String,
    /// A name of the IANA database; UTC when left out.
    time_zone: Option<String>,
    missed: Option<Missed>,
    /// With `missed` "all": how many at most; 1000 when left out.
    #[schema(minimum = 1, maximum = 1000)]
    missed_max: Option<u32>,
    paused: Option<bool>,
    /// The job of each run; without an idempotency key, which each run gets by itself.
    #[serde(borrow)]
    job: NewJob<'a>,
}

/// What becomes of runs whose time passed while nobody was there to start them.
#[derive(Clone, Copy, Debug, Default, Deserialize, Serialize, ToSchema)]
#[serde(rename_all = "snake_case")]
pub(crate) enum Missed {
    /// They do not happen.
    Skip,
    /// One run stands for all of them.
    #[default]
    Once,
    /// Each of them happens.
    All,
}

impl NewSchedule<'_> {
    pub(crate) fn tenant(&self) -> Option<&str> {
        self.job.tenant()
    }

    pub(crate) fn into_schedule(
        self,
        name: String,
        tenant: TenantId,
        whole: &Bytes,
    ) -> Result<Schedule, Problem> {
        let template = self.job.into_job(tenant.clone(), whole)?;
        if template.idempotency.is_some() {
            return Err(Problem::bad_request(
                "a schedule's job has no idempotency_key: each run gets its own",
            ));
        }
        let max = self.missed_max.unwrap_or(MISSED_MAX);
        if !(1..=MISSED_MAX).contains(&max) {
            return Err(Problem::bad_request("missed_max must lie between 1 and 1000"));
        }
        Ok(Schedule {
            tenant,
            name,
            cron: self.cron,
            time_zone: self.time_zone.unwrap_or_else(|| "UTC".into()),
            missed: match self.missed.unwrap_or_default() {
                Missed::Skip => MissedRule::Skip,
                Missed::Once => MissedRule::Once,
                Missed::All => MissedRule::All { max },
            },
            paused: self.paused.unwrap_or(false),
            template,
        })
    }
}

/// A schedule as it is.
#[derive(Debug, Serialize, ToSchema)]
pub(crate) struct ScheduleLine<'a> {
    name: &'a str,
    tenant: &'a str,
    cron: &'a str,
    time_zone: &'a str,
    missed: Missed,
    paused: bool,
    queue: &'a str,
    #[serde(skip_serializing_if = "Option::is_none")]
    kind: Option<&'a str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<serde_json::Value>)]
    payload: Option<&'a RawValue>,
    /// Nothing while paused and when the expression has no time left.
    next_run_at: Option<Time>,
    last_run_at: Option<Time>,
    /// When a run was last refused, because its queue was full or a job that it depends on has not succeeded.
    #[serde(skip_serializing_if = "Option::is_none")]
    refused_at: Option<Time>,
    /// Why it was.
    #[serde(skip_serializing_if = "Option::is_none")]
    refused: Option<&'a str>,
    #[schema(inline)]
    created_at: Time,
}

impl<'a> From<&'a ScheduleView> for ScheduleLine<'a> {
    fn from(view: &'a ScheduleView) -> ScheduleLine<'a> {
        let schedule = &view.schedule;
        ScheduleLine {
            name: &schedule.name,
            tenant: schedule.tenant.as_str(),
            cron: &schedule.cron,
            time_zone: &schedule.time_zone,
            missed: match schedule.missed {
                MissedRule::Skip => Missed::Skip,
                MissedRule::Once => Missed::Once,
                MissedRule::All { .. } => Missed::All,
            },
            paused: schedule.paused,
            queue: schedule.template.queue.as_str(),
            kind: schedule.template.kind.as_deref(),
            payload: BodyView::of(&schedule.template.payload).json,
            next_run_at: view.next_run_ms.map(Time),
            last_run_at: view.last_run_ms.map(Time),
            refused_at: view.refused.as_ref().map(|one| Time(one.at_ms)),
            refused: view.refused.as_ref().map(|one| one.why.as_str()),
            created_at: Time(view.created_at_ms),
        }
    }
}

#[derive(Debug, Serialize, ToSchema)]
pub(crate) struct Schedules<'a> {
    pub(crate) schedules: Vec<ScheduleLine<'a>>,
}
