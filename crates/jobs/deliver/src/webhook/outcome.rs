//! The consequences of an attempt.

use std::time::Duration;

use nagaya_jobs::clock::span_ms;
use nagaya_jobs::delivery::TryOutcome;

use crate::guard::{Reply, SendError};

/// Delays after failed attempts, about three days in total.
const WAITS: [Duration; 9] = [
    Duration::from_secs(5),
    Duration::from_secs(5 * 60),
    Duration::from_secs(30 * 60),
    Duration::from_secs(2 * 3600),
    Duration::from_secs(5 * 3600),
    Duration::from_secs(10 * 3600),
    Duration::from_secs(14 * 3600),
    Duration::from_secs(20 * 3600),
    Duration::from_secs(24 * 3600),
];
/// Attempts before a delivery is given up.
pub const TRIES_MAX: u32 = 1 + WAITS.len() as u32;
/// Longest delay that a target may ask for.
const ASKED_MAX: Duration = Duration::from_secs(24 * 3600);

/// The consequences of an attempt for its delivery and its target.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Verdict {
    pub outcome: TryOutcome,
    /// Whether the target is working.
    pub target_is_well: bool,
    /// The pause that the target asked for.
    pub rest: Option<Duration>,
}

/// Judges an attempt. `tries` includes this one; `random` lies in 0..1.
pub fn judge(reply: Result<&Reply, &SendError>, tries: u32, now_ms: i64, random: f64) -> Verdict {
    let again = |asked: Option<Duration>| {
        let Some(wait) = WAITS.get(tries.saturating_sub(1) as usize) else {
            return TryOutcome::GaveUp;
        };
        // Jitter, so that deliveries that failed together do not come back together.
        let wait = wait.mul_f64(1.0 + 0.2 * random).max(asked.unwrap_or_default());
        TryOutcome::Again {
            at_ms: now_ms + span_ms(wait),
        }
    };
    let failed = |outcome| Verdict {
        outcome,
        target_is_well: false,
        rest: None,
    };
    match reply {
        Ok(reply) => match reply.status {
            200..=299 => Verdict {
                outcome: TryOutcome::Delivered,
                target_is_well: true,
                rest: None,
            },
            // The target is gone for good and says so.
            410 => Verdict {
                outcome: TryOutcome::GaveUp,
                target_is_well: true,
                rest: None,
            },
            429 | 502 | 503 | 504 => {
                let asked = reply.retry_after.map(|wait| wait.min(ASKED_MAX));
                Verdict {
                    outcome: again(asked),
                    target_is_well: false,
                    rest: Some(asked.unwrap_or(WAITS[0])),
                }
            }
            // It responds, just not with success: other deliveries may still get through.
            _ => Verdict {
                outcome: again(reply.retry_after.map(|wait| wait.min(ASKED_MAX))),
                target_is_well: true,
                rest: None,
            },
        },
        // Refused addresses are retried as well: settings can change, and a name can resolve differently
        // tomorrow.
        Err(_) => failed(again(None)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn reply(status: u16, retry_after: Option<u64>) -> Reply {
        Reply {
            status,
            retry_after: retry_after.map(Duration::from_secs),
            body: Vec::new(),
        }
    }

    #[test]
    fn only_2xx_is_success() {
        for status in [200, 202, 204] {
            assert_eq!(
                judge(Ok(&reply(status, None)), 1, 0, 0.0).outcome,
                TryOutcome::Delivered
            );
        }
        for status in [301, 302, 400, 404, 500, 503] {
            let outcome = judge(Ok(&reply(status, None)), 1, 0, 0.0).outcome;
            assert_eq!(outcome, TryOutcome::Again { at_ms: 5_000 }, "{status}");
        }
    }

    #[test]
    fn tries_reach_over_about_three_days_and_then_end() {
        let (mut now_ms, mut tries) = (0, 0);
        while let TryOutcome::Again { at_ms } = {
            tries += 1;
            judge(Ok(&reply(500, None)), tries, now_ms, 0.0).outcome
        } {
            now_ms = at_ms;
        }
        assert_eq!(tries, TRIES_MAX);
        let hours = now_ms / 3_600_000;
        assert!((72..=80).contains(&hours), "{hours}");
    }

    #[test]
    fn a_target_is_given_the_wait_it_asks_for() {
        let verdict = judge(Ok(&reply(429, Some(60))), 1, 0, 0.5);
        assert_eq!(verdict.outcome, TryOutcome::Again { at_ms: 60_000 });
        assert_eq!(verdict.rest, Some(Duration::from_secs(60)));
        let greedy = judge(Ok(&reply(429, Some(1 << 40))), 1, 0, 0.5);
        assert_eq!(
            greedy.outcome,
            TryOutcome::Again {
                at_ms: 24 * 3_600_000
            }
        );
    }

    #[test]
    fn gone_is_the_end() {
        assert_eq!(
            judge(Ok(&reply(410, None)), 1, 0, 0.0).outcome,
            TryOutcome::GaveUp
        );
    }

    #[test]
    fn waits_differ() {
        let at = |random| match judge(Ok(&reply(500, None)), 2, 0, random).outcome {
            TryOutcome::Again { at_ms } => at_ms,
            other => panic!("{other:?}"),
        };
        assert!(at(0.0) == 300_000 && at(0.99) > 355_000);
    }
}
