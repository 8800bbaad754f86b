//! Starts the runs of schedules.

use std::sync::Arc;

use super::Interval;
use crate::error::Error;
use crate::job::{Idempotency, NewJob};
use crate::request::Firing;
use crate::schedule::{Due, ScheduleView, Times, run_key};
use crate::store::Schedules;

/// Schedules per run.
const SWEEP_SCHEDULES_MAX: usize = 64;
/// When an unreadable schedule is tried again, milliseconds.
const UNREADABLE_MS: i64 = 3_600_000;

pub(super) async fn run(interval: Interval, schedules: Arc<dyn Schedules>) {
    let sweep = |_| fire_due(&*schedules);
    interval.repeat(|times| times.schedule_ms, sweep).await;
}

/// Starts the runs that are due. Returns whether there may be more.
pub async fn fire_due(store: &dyn Schedules) -> Result<bool, Error> {
    let due = store.due_schedules(SWEEP_SCHEDULES_MAX).await?;
    if due.is_empty() {
        return Ok(false);
    }
    let now_ms = store.now_ms().await?;
    let more = due.len() == SWEEP_SCHEDULES_MAX;
    let firings: Vec<Firing> = due.into_iter().filter_map(|view| firing(view, now_ms)).collect();
    for answer in store.fire(firings).await? {
        if let Err(error) = answer {
            tracing::warn!(%error, "schedule could not be started");
        }
    }
    Ok(more)
}

fn firing(view: ScheduleView, now_ms: i64) -> Option<Firing> {
    let schedule = view.schedule;
    let next_run_was_ms = view.next_run_ms?;
    let due = match Times::parse(&schedule.cron, &schedule.time_zone) {
        Ok(times) => times.due(next_run_was_ms, now_ms, schedule.missed),
        Err(error) => {
            // It was checked when it was created; the time zone database may have changed since.
            tracing::warn!(schedule = %schedule.name, %error, "schedule cannot be read, its runs are skipped");
            Due {
                runs_ms: Vec::new(),
                next_run_ms: Some(now_ms + UNREADABLE_MS),
            }
        }
    };
    let job = |run_ms: &i64| NewJob {
        tenant: schedule.tenant.clone(),
        idempotency: Some(Idempotency {
            key: run_key(&schedule.name, *run_ms),
            window: None,
        }),
        ..schedule.template.clone()
    };
    Some(Firing {
        next_run_was_ms,
        next_run_ms: due.next_run_ms,
        last_run_ms: due.runs_ms.last().copied(),
        jobs: due.runs_ms.iter().map(job).collect(),
        tenant: schedule.tenant.clone(),
        schedule: schedule.name,
    })
}
