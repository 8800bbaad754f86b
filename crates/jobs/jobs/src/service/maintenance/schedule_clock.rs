//! Starts the runs of schedules.

use std::sync::Arc;
use std::time::Duration;

use parking_lot::Mutex;
use tokio::time::Instant;

use super::Interval;
use crate::error::Error;
use crate::job::NewJob;
use crate::request::Firing;
use crate::schedule::{Due, ScheduleView, Times};
use crate::store::Schedules;

/// Schedules per run.
const SWEEP_SCHEDULES_MAX: usize = 64;
/// When an unreadable schedule is tried again, milliseconds.
const UNREADABLE_MS: i64 = 3_600_000;

/// How often a line of the log tells of runs that did not start, whatever their number.
const TELL_EVERY: Duration = Duration::from_secs(10);

/// A clock that shows less than before by more than this was set back.
const STEP_BACK_MS: i64 = 1_000;

pub(super) async fn run(interval: Interval, schedules: Arc<dyn Schedules>) {
    let clock = Mutex::default();
    let sweep = |_| fire_due(&*schedules, &clock);
    interval.repeat(|times| times.schedule_ms, sweep).await;
}

/// What a server remembers between two runs of this task.
#[derive(Debug, Default)]
pub struct ScheduleClock {
    /// The store's time at the last run.
    seen_ms: Option<i64>,
    /// Runs that did not start and that no line of the log has told of. Anybody may make schedules, so their
    /// failures must not fill the log.
    untold: u64,
    told_at: Option<Instant>,
}

impl ScheduleClock {
    /// Returns whether the clock was set back since the last run, or may have been before the first.
    fn was_set_back(&mut self, now_ms: i64) -> bool {
        let seen_ms = self.seen_ms.replace(now_ms);
        seen_ms.is_none_or(|seen_ms| now_ms < seen_ms - STEP_BACK_MS)
    }

    /// Counts a failure. Returns how many there were since the last line, when it is time for the next.
    fn count(&mut self, now: Instant) -> Option<u64> {
        self.untold += 1;
        if self.told_at.is_some_and(|at| now.duration_since(at) < TELL_EVERY) {
            return None;
        }
        self.told_at = Some(now);
        Some(std::mem::take(&mut self.untold))
    }

    fn note(&mut self, schedule: &str, error: &Error) {
        if let Some(failures) = self.count(Instant::now()) {
            tracing::warn!(schedule, %error, failures, "scheduled runs were refused, the schedules go on");
        }
    }
}

/// Starts the runs that are due. Returns whether there may be more.
pub async fn fire_due(store: &dyn Schedules, clock: &Mutex<ScheduleClock>) -> Result<bool, Error> {
    let now_ms = store.now_ms().await?;
    if clock.lock().was_set_back(now_ms) {
        bring_forward(store, now_ms).await?;
    }
    let due = store.due_schedules(SWEEP_SCHEDULES_MAX).await?;
    if due.is_empty() {
        return Ok(false);
    }
    let more = due.len() == SWEEP_SCHEDULES_MAX;
    let firing = |view| firing(view, now_ms, clock);
    let firings: Vec<Firing> = due.into_iter().filter_map(firing).collect();
    let names: Vec<String> = firings.iter().map(|firing| firing.schedule.clone()).collect();
    for (name, answer) in names.iter().zip(store.fire(firings).await?) {
        let mut clock = clock.lock();
        match answer {
            Ok(fired) => fired.refused.iter().for_each(|error| clock.note(name, error)),
            Err(error) => clock.note(name, &error),
        }
    }
    Ok(more)
}

/// Brings next runs forward that were planned while the clock was ahead. Otherwise schedules would stand still
/// until the clock is there again.
async fn bring_forward(store: &dyn Schedules, now_ms: i64) -> Result<(), Error> {
    let mut firings = Vec::new();
    for view in store.schedules(None).await? {
        let schedule = view.schedule;
        let Some(next_run_was_ms) = view.next_run_ms else {
            continue;
        };
        let Ok(times) = Times::parse(&schedule.cron, &schedule.time_zone) else {
            continue;
        };
        let next_run_ms = times.next_after(now_ms);
        if next_run_ms.is_some_and(|next_ms| next_ms < next_run_was_ms) {
            firings.push(Firing {
                tenant: schedule.tenant,
                schedule: schedule.name,
                next_run_was_ms,
                next_run_ms,
                last_run_ms: None,
                jobs: Vec::new(),
            });
        }
    }
    for answer in store.fire(firings).await? {
        answer?;
    }
    Ok(())
}

fn firing(view: ScheduleView, now_ms: i64, clock: &Mutex<ScheduleClock>) -> Option<Firing> {
    let schedule = view.schedule;
    let next_run_was_ms = view.next_run_ms?;
    let due = match Times::parse(&schedule.cron, &schedule.time_zone) {
        Ok(times) => times.due(next_run_was_ms, now_ms, schedule.missed),
        Err(error) => {
            // It was checked when it was created; the time zone database may have changed since.
            clock.lock().note(&schedule.name, &error);
            Due {
                runs_ms: Vec::new(),
                next_run_ms: Some(now_ms + UNREADABLE_MS),
            }
        }
    };
    // No key makes a run unique: its registration and the advance of the schedule, which is fenced, are one
    // transaction. A key would hold back the runs of times that come again when a clock is set back.
    let job = |_: &i64| NewJob {
        tenant: schedule.tenant.clone(),
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

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test(start_paused = true)]
    async fn a_thousand_failures_a_second_make_a_line_every_ten_seconds() {
        let mut failures = ScheduleClock::default();
        let mut lines = Vec::new();
        for _ in 0..25_000 {
            lines.extend(failures.count(Instant::now()));
            tokio::time::advance(Duration::from_millis(1)).await;
        }
        assert_eq!(lines, [1, 10_000, 10_000]);
    }
}
