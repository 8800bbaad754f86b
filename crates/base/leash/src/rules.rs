//! When a group is asked to end and when it is made to, without I/O and without a clock of its own.

use std::time::Duration;

use nagaya_clock::BootTime;

/// The time between the watchdog's KILL, the supervisor's and the end of the right to run: for late scheduling, and
/// for the kernel to end the processes.
pub const MARGIN: Duration = Duration::from_millis(125);

/// The rules for one group, as the watchdog follows them.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Tether {
    until: BootTime,
    /// Between TERM and KILL when the right to run ends.
    grace: Duration,
    /// Between the leader's own end and KILL for what it left behind.
    stop_timeout: Duration,
    /// TERM was sent to the group, by whomever.
    termed: bool,
    /// When the group was to end for a reason of its supervisor.
    hurried: Option<(BootTime, Reason)>,
    /// When the leader ended.
    left: Option<BootTime>,
}

/// Why the watchdog ends a group.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) enum Reason {
    /// Its time is running out.
    Deadline,
    /// The supervisor said so, or is gone.
    Ordered,
}

/// What the watchdog does next.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Step {
    /// Nothing before this moment, unless something happens.
    Wait(BootTime),
    /// Asks the group to end; once.
    Term,
    /// Kills the group, again and again until it is gone.
    Kill,
    /// Nothing is left of it but the leader's zombie.
    Gone,
}

impl Tether {
    pub fn new(until: BootTime, grace: Duration, stop_timeout: Duration) -> Tether {
        Tether {
            until,
            grace,
            stop_timeout,
            termed: false,
            hurried: None,
            left: None,
        }
    }

    /// Moves the deadline on; an earlier one is ignored.
    pub fn extend(&mut self, until: BootTime) {
        self.until = self.until.max(until);
    }

    /// Records that the supervisor has sent TERM itself.
    pub fn note_term(&mut self) {
        self.termed = true;
    }

    /// Has the group ended now, with its grace.
    pub fn stop(&mut self, now: BootTime) {
        self.hurried.get_or_insert((now, Reason::Ordered));
    }

    /// Records that the leader has ended.
    pub fn leader_ended(&mut self, now: BootTime) {
        self.left.get_or_insert(now);
    }

    /// Returns whether the group was ended because its time ran out.
    pub(crate) fn is_past_deadline(&self) -> bool {
        matches!(self.hurried, Some((_, Reason::Deadline)))
    }

    /// Returns what to do; `is_alive` says whether a process of the group, or one that it left behind, lives.
    pub fn step(&mut self, now: BootTime, is_alive: bool) -> Step {
        if self.left.is_some() && !is_alive {
            return Step::Gone;
        }
        let limit = self.until - MARGIN * 2;
        let hurry_at = limit - self.grace;
        if now >= hurry_at {
            self.hurried.get_or_insert((now, Reason::Deadline));
        }
        let hurried = self.hurried.map(|(at, _)| at + self.grace);
        let left = self.left.map(|at| at + self.stop_timeout);
        let kill_at = [hurried, left, Some(limit)].into_iter().flatten().min();
        let kill_at = kill_at.unwrap_or(limit);
        if now >= kill_at {
            return Step::Kill;
        }
        let is_ending = hurried.is_some() || left.is_some();
        if is_ending && !self.termed {
            self.termed = true;
            return Step::Term;
        }
        let next = if hurried.is_some() {
            kill_at
        } else {
            kill_at.min(hurry_at)
        };
        Step::Wait(next)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const GRACE: Duration = Duration::from_millis(1000);
    const STOP: Duration = Duration::from_millis(10_000);

    fn at(millis: u64) -> BootTime {
        BootTime::from_millis(millis)
    }

    fn tether() -> Tether {
        Tether::new(at(5_250), GRACE, STOP)
    }

    #[test]
    fn a_group_in_time_is_left_alone() {
        let mut tether = tether();
        assert_eq!(tether.step(at(0), true), Step::Wait(at(4_000)));
        tether.extend(at(9_250));
        tether.extend(at(6_250));
        assert_eq!(tether.step(at(4_000), true), Step::Wait(at(8_000)));
    }

    #[test]
    fn a_group_that_is_not_renewed_gets_term_and_then_kill_before_its_deadline() {
        let mut tether = tether();
        assert_eq!(tether.step(at(4_000), true), Step::Term);
        assert_eq!(tether.step(at(4_001), true), Step::Wait(at(5_000)));
        assert_eq!(tether.step(at(5_000), true), Step::Kill);
        assert_eq!(
            tether.step(at(5_020), true),
            Step::Kill,
            "again, for what was missed"
        );
        tether.leader_ended(at(5_021));
        assert_eq!(tether.step(at(5_021), false), Step::Gone);
        assert!(tether.is_past_deadline());
    }

    #[test]
    fn a_watchdog_that_wakes_late_kills_at_once() {
        assert_eq!(tether().step(at(5_001), true), Step::Kill);
    }

    #[test]
    fn an_order_to_stop_leaves_the_grace_but_never_past_the_deadline() {
        let mut early = tether();
        early.stop(at(100));
        assert_eq!(early.step(at(100), true), Step::Term);
        assert_eq!(early.step(at(101), true), Step::Wait(at(1_100)));
        assert_eq!(early.step(at(1_100), true), Step::Kill);
        assert!(!early.is_past_deadline());
        let mut late = tether();
        late.stop(at(4_500));
        assert_eq!(late.step(at(4_500), true), Step::Term);
        assert_eq!(late.step(at(4_501), true), Step::Wait(at(5_000)));
    }

    #[test]
    fn what_the_leader_left_behind_has_the_stop_timeout_while_the_right_lasts() {
        let mut tether = tether();
        tether.leader_ended(at(100));
        assert_eq!(tether.step(at(100), true), Step::Term);
        assert_eq!(tether.step(at(200), true), Step::Wait(at(4_000)));
        tether.extend(at(60_250));
        assert_eq!(tether.step(at(4_000), true), Step::Wait(at(10_100)));
        assert_eq!(tether.step(at(10_100), true), Step::Kill);
    }

    #[test]
    fn term_is_sent_once_by_supervisor_and_watchdog_together() {
        let mut tether = tether();
        tether.note_term();
        tether.leader_ended(at(100));
        assert_eq!(tether.step(at(100), true), Step::Wait(at(4_000)));
        assert_eq!(
            tether.step(at(4_000), true),
            Step::Wait(at(5_000)),
            "its time runs out"
        );
        assert_eq!(tether.step(at(5_000), true), Step::Kill);
    }

    #[test]
    fn a_leader_that_left_nothing_is_gone_at_once() {
        let mut tether = tether();
        assert_eq!(
            tether.step(at(100), false),
            Step::Wait(at(4_000)),
            "it still lives"
        );
        tether.leader_ended(at(100));
        assert_eq!(tether.step(at(100), false), Step::Gone);
    }
}
