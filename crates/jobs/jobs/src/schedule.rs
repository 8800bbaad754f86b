//! Recurring jobs: cron expressions in a time zone, and the policy for missed runs.

use croner::Cron;
use croner::parser::CronParser;
use jiff::tz::TimeZone;
use jiff::{Timestamp, Zoned};

use crate::error::Error;
use crate::job::NewJob;
use crate::name::TenantId;

/// A run that is later than this counts as missed.
pub const GRACE_MS: i64 = 60_000;
/// Most missed runs that are started late.
pub const MISSED_MAX: u32 = 1_000;

/// What happens to runs whose time passed while no server was running.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Missed {
    /// They are skipped.
    Skip,
    /// One run replaces all of them.
    #[default]
    Once,
    /// Each of them is started, at most the newest `max`.
    All { max: u32 },
}

/// When something runs: a checked cron expression in a time zone.
///
/// A time that a change of clocks skips runs at the first moment after the gap; one that comes twice runs
/// once.
#[derive(Clone, Debug)]
pub struct Times {
    cron: Cron,
    zone: TimeZone,
}

impl Times {
    /// Reads an expression of five fields, or six with seconds first, or a nickname like `@daily`; and the
    /// name of a time zone as in the IANA database.
    pub fn parse(expression: &str, zone: &str) -> Result<Times, Error> {
        if expression.len() > 256 {
            return Err(Error::invalid("cron", "must be 256 bytes at most"));
        }
        let parser = CronParser::builder()
            .seconds(croner::parser::Seconds::Optional)
            .build();
        let cron = parser
            .parse(expression)
            .map_err(|error| Error::invalid("cron", format!("cannot be read: {error}")))?;
        let zone = TimeZone::get(zone)
            .map_err(|_| Error::invalid("time_zone", "is not in the time zone database"))?;
        Ok(Times { cron, zone })
    }

    /// Checks that there is a time after `now_ms`: the 31st of February never comes.
    pub fn check_comes(&self, now_ms: i64) -> Result<(), Error> {
        match self.next_after(now_ms) {
            Some(_) => Ok(()),
            None => Err(Error::invalid("cron", "has no time that ever comes")),
        }
    }

    /// Returns the first time after `after_ms`, Unix milliseconds; `None` when there is none.
    pub fn next_after(&self, after_ms: i64) -> Option<i64> {
        let after = Timestamp::from_millisecond(after_ms)
            .ok()?
            .to_zoned(self.zone.clone());
        let next: Zoned = self.cron.find_next_occurrence(&after, false).ok()?;
        let next_ms = next.timestamp().as_millisecond();
        (next_ms > after_ms).then_some(next_ms)
    }

    /// Returns the runs to start now, given the time that was to be the next run, and the next one after.
    pub fn due(&self, next_run_ms: i64, now_ms: i64, missed: Missed) -> Due {
        if next_run_ms > now_ms {
            return Due {
                runs_ms: Vec::new(),
                next_run_ms: Some(next_run_ms),
            };
        }
        let keep = match missed {
            Missed::All { max } => max.clamp(1, MISSED_MAX) as usize,
            Missed::Skip | Missed::Once => 1,
        };
        let mut runs = vec![next_run_ms];
        let mut next = self.next_after(next_run_ms);
        // After a very long outage the first ones are skipped instead of iterated.
        let far_back = now_ms - next_run_ms > 366 * 24 * 3_600_000;
        if far_back && missed != (Missed::All { max: MISSED_MAX }) {
            next = self.next_after(now_ms - 24 * 3_600_000).or(next);
        }
        let mut steps = 0;
        while let Some(at_ms) = next.filter(|at_ms| *at_ms <= now_ms) {
            if runs.len() == keep {
                runs.remove(0);
            }
            runs.push(at_ms);
            steps += 1;
            next = if steps < 200_000 {
                self.next_after(at_ms)
            } else {
                self.next_after(now_ms)
            };
        }
        if missed == Missed::Skip {
            runs.retain(|at_ms| now_ms - at_ms <= GRACE_MS);
        }
        Due {
            runs_ms: runs,
            next_run_ms: next,
        }
    }
}

/// The runs of a schedule that are due.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Due {
    /// Times of the runs to start, oldest first.
    pub runs_ms: Vec<i64>,
    /// `None` when the expression has no further time.
    pub next_run_ms: Option<i64>,
}

/// A schedule as it is set up.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Schedule {
    pub tenant: TenantId,
    /// Unique within the tenant.
    pub name: String,
    pub cron: String,
    pub time_zone: String,
    pub missed: Missed,
    pub paused: bool,
    /// The job of each run, but for its tenant. It has no idempotency key.
    pub template: NewJob,
}

/// A schedule as a reader sees it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ScheduleView {
    pub schedule: Schedule,
    /// `None` while paused and when the expression has no further time.
    pub next_run_ms: Option<i64>,
    pub last_run_ms: Option<i64>,
    /// The last run that was refused.
    pub refused: Option<Refusal>,
    pub created_at_ms: i64,
}

/// A run of a schedule that was refused: its queue was full, or a job that it depends on has not succeeded.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Refusal {
    pub at_ms: i64,
    pub why: String,
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ms(text: &str) -> i64 {
        text.parse::<Timestamp>().unwrap().as_millisecond()
    }

    fn times(expression: &str, zone: &str) -> Times {
        Times::parse(expression, zone).unwrap()
    }

    #[test]
    fn runs_follow_the_zone() {
        let daily = times("30 9 * * *", "Asia/Tokyo");
        let next = daily.next_after(ms("2026-03-01T00:30:00Z"));
        assert_eq!(next, Some(ms("2026-03-02T00:30:00Z")));
    }

    #[test]
    fn a_skipped_hour_runs_after_the_gap_and_a_doubled_one_once() {
        // Clocks in Berlin go from 02:00 to 03:00 on 2026-03-29 and from 03:00 to 02:00 on 2026-10-25.
        let nightly = times("30 2 * * *", "Europe/Berlin");
        let spring = nightly.next_after(ms("2026-03-28T12:00:00Z")).unwrap();
        assert!((ms("2026-03-29T01:00:00Z")..=ms("2026-03-29T01:30:00Z")).contains(&spring));
        assert!(nightly.next_after(spring).unwrap() >= ms("2026-03-30T00:00:00Z"));
        let autumn = nightly.next_after(ms("2026-10-24T12:00:00Z")).unwrap();
        assert!((ms("2026-10-25T00:30:00Z")..=ms("2026-10-25T01:30:00Z")).contains(&autumn));
        assert!(nightly.next_after(autumn).unwrap() >= ms("2026-10-26T00:00:00Z"));
    }

    #[test]
    fn missed_runs_follow_their_policy() {
        let hourly = times("0 * * * *", "UTC");
        let (due, now) = (ms("2026-03-01T01:00:00Z"), ms("2026-03-01T05:10:00Z"));
        let runs = |missed| hourly.due(due, now, missed);
        assert_eq!(runs(Missed::Skip).runs_ms, [0_i64; 0]);
        assert_eq!(runs(Missed::Once).runs_ms, [ms("2026-03-01T05:00:00Z")]);
        assert_eq!(runs(Missed::All { max: 100 }).runs_ms.len(), 5);
        assert_eq!(
            runs(Missed::All { max: 2 }).runs_ms,
            [ms("2026-03-01T04:00:00Z"), ms("2026-03-01T05:00:00Z")]
        );
        assert_eq!(runs(Missed::Once).next_run_ms, Some(ms("2026-03-01T06:00:00Z")));
    }

    #[test]
    fn a_run_within_its_grace_was_not_missed() {
        let hourly = times("0 * * * *", "UTC");
        let due = ms("2026-03-01T01:00:00Z");
        assert_eq!(hourly.due(due, due + 30_000, Missed::Skip).runs_ms, [due]);
        assert_eq!(hourly.due(due, due - 1, Missed::Skip).runs_ms, [0_i64; 0]);
    }

    #[test]
    fn years_of_absence_do_not_take_long_to_make_up() {
        let every_second = times("* * * * * *", "UTC");
        let due = every_second.due(
            ms("2020-01-01T00:00:00Z"),
            ms("2026-01-01T00:00:00Z"),
            Missed::Once,
        );
        assert_eq!(due.runs_ms.len(), 1);
        assert!(due.next_run_ms.unwrap() > ms("2026-01-01T00:00:00Z"));
    }

    #[test]
    fn a_time_that_never_comes_is_refused() {
        let now_ms = ms("2026-03-01T00:00:00Z");
        let comes = |cron| times(cron, "UTC").check_comes(now_ms).is_ok();
        assert!(comes("0 0 29 2 *") && comes("0 0 31 * *") && comes("* * * * *"));
        assert!(!comes("0 0 31 2 *") && !comes("0 0 30 2 *") && !comes("0 0 31 4,6,9,11 *"));
    }

    #[test]
    fn what_cannot_be_read_is_refused_by_name() {
        let error = |cron, zone| Times::parse(cron, zone).unwrap_err().to_string();
        assert!(error("99 * * * *", "UTC").starts_with("cron"));
        assert!(error("", "UTC").starts_with("cron"));
        assert!(error("* * * * *", "Mars/Olympus").starts_with("time_zone"));
    }
}
