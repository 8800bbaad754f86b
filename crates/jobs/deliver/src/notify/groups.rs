//! Groups failures into notifications.
//!
//! Failures of one queue and kind form a group. The first failure of a quiet group is reported after a short
//! delay, together with those that followed. After that, the group is reported at most once per interval. The
//! current time is passed in.

use std::collections::{BTreeMap, VecDeque};
use std::time::Duration;

use nagaya_jobs::clock::span_ms;
use nagaya_jobs::event::{Event, EventData};
use nagaya_jobs::{JobId, QueueName};
use serde::{Deserialize, Serialize};

/// Groups per queue at most; failures of further kinds share one group.
const KINDS_MAX: usize = 20;
/// The kind of that shared group.
const OTHER_KINDS: &str = "(other kinds)";
/// Failures per group whose positions are kept; further ones are only counted.
const POSITIONS_MAX: usize = 100_000;
/// Bytes kept of the first error.
const ERROR_BYTES_MAX: usize = 2_000;

/// The delays of notifications.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Timing {
    /// Delay after the first failure of a quiet group.
    pub gather: Duration,
    /// Minimum time between two notifications of a group.
    pub interval: Duration,
}

impl Default for Timing {
    fn default() -> Timing {
        Timing {
            gather: Duration::from_secs(10),
            interval: Duration::from_secs(300),
        }
    }
}

/// Identifies a group.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Deserialize, Serialize)]
pub struct GroupKey {
    pub queue: String,
    pub kind: Option<String>,
}

/// A notification that is due.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Notice {
    pub key: GroupKey,
    pub count: u64,
    /// Positions of the first and the last failure in the log.
    pub first_seq: u64,
    pub last_seq: u64,
    pub first_at_ms: i64,
    pub last_at_ms: i64,
    pub first_job: JobId,
    pub first_error: String,
}

#[derive(Debug, Default)]
struct Group {
    notified_seq: u64,
    notified_at_ms: Option<i64>,
    pending: Option<PendingFailures>,
}

#[derive(Debug)]
struct PendingFailures {
    positions: VecDeque<u64>,
    /// Failures whose positions are not kept.
    more: u64,
    last_seq: u64,
    first_at_ms: i64,
    last_at_ms: i64,
    first_job: JobId,
    first_error: String,
}

/// The stored progress of a group.
#[derive(Deserialize, Serialize)]
struct NotifiedGroup {
    #[serde(flatten)]
    key: GroupKey,
    seq: u64,
    at_ms: i64,
}

/// All groups.
#[derive(Debug)]
pub struct Groups {
    timing: Timing,
    groups: BTreeMap<GroupKey, Group>,
}

impl Groups {
    pub fn new(timing: Timing) -> Groups {
        Groups {
            timing,
            groups: BTreeMap::new(),
        }
    }

    /// Adds a failure. Failed notifications themselves are ignored.
    pub fn add(&mut self, event: &Event) {
        if event.queue == QueueName::notifications() {
            return;
        }
        let key = self.key(event);
        let group = self.groups.entry(key).or_default();
        if event.seq <= group.notified_seq {
            return;
        }
        let pending = group.pending.get_or_insert_with(|| PendingFailures {
            positions: VecDeque::new(),
            more: 0,
            last_seq: event.seq,
            first_at_ms: event.at_ms,
            last_at_ms: event.at_ms,
            first_job: event.job,
            first_error: error(event),
        });
        pending.last_seq = event.seq;
        pending.last_at_ms = event.at_ms;
        if pending.positions.len() < POSITIONS_MAX {
            pending.positions.push_back(event.seq)
        } else {
            pending.more += 1
        }
    }

    fn key(&self, event: &Event) -> GroupKey {
        let of_queue = |kind: Option<String>| GroupKey {
            queue: event.queue.to_string(),
            kind,
        };
        let key = of_queue(event.job_kind.clone());
        let others = self
            .groups
            .keys()
            .filter(|other| other.queue == key.queue)
            .count();
        if self.groups.contains_key(&key) || others < KINDS_MAX {
            key
        } else {
            of_queue(Some(OTHER_KINDS.to_owned()))
        }
    }

    /// Returns the notifications that are due.
    pub fn due(&self, now_ms: i64) -> Vec<Notice> {
        let due = |(key, group): (&GroupKey, &Group)| {
            let pending = group.pending.as_ref()?;
            let gathered_at_ms = pending.first_at_ms + span_ms(self.timing.gather);
            let free_at_ms = group
                .notified_at_ms
                .map_or(i64::MIN, |at_ms| at_ms + span_ms(self.timing.interval));
            (now_ms >= gathered_at_ms.max(free_at_ms)).then(|| pending.notice(key))
        };
        self.groups.iter().filter_map(due).collect()
    }

    /// Records that failures of a group up to a position were reported.
    pub fn mark_notified(&mut self, key: &GroupKey, seq: u64, now_ms: i64) {
        let group = self.groups.entry(key.clone()).or_default();
        group.notified_seq = group.notified_seq.max(seq);
        group.notified_at_ms = group.notified_at_ms.max(Some(now_ms));
        let Some(pending) = &mut group.pending else {
            return;
        };
        while pending.positions.front().is_some_and(|&first| first <= seq) {
            pending.positions.pop_front();
        }
        if pending.last_seq <= seq || pending.positions.is_empty() {
            group.pending = None;
        }
    }

    /// Returns the position from which a reader must start to find every unreported failure again, given that
    /// it read up to `read`.
    pub fn cursor(&self, read: u64) -> u64 {
        let pending = self.groups.values().filter_map(|group| group.pending.as_ref());
        let first = pending.filter_map(|pending| pending.positions.front()).min();
        first.map_or(read, |&first| (first - 1).min(read))
    }

    /// Drops groups that have been quiet for an interval.
    pub fn forget(&mut self, now_ms: i64) {
        let interval_ms = span_ms(self.timing.interval);
        self.groups.retain(|_, group| {
            group.pending.is_some()
                || group
                    .notified_at_ms
                    .is_some_and(|at_ms| now_ms < at_ms + interval_ms)
        });
    }

    /// Serializes the progress of each group.
    pub fn write(&self) -> Vec<u8> {
        let notified = |(key, group): (&GroupKey, &Group)| {
            Some(NotifiedGroup {
                key: key.clone(),
                seq: group.notified_seq,
                at_ms: group.notified_at_ms?,
            })
        };
        let all: Vec<NotifiedGroup> = self.groups.iter().filter_map(notified).collect();
        serde_json::to_vec(&all).expect("a list of plain fields")
    }

    /// Merges the progress that an earlier run or another server stored. Unreadable data is ignored: the
    /// notifications' keys still prevent most duplicates.
    pub fn merge(&mut self, written: &[u8]) {
        let all: Vec<NotifiedGroup> = serde_json::from_slice(written).unwrap_or_default();
        for one in all {
            self.mark_notified(&one.key, one.seq, one.at_ms);
        }
    }
}

impl PendingFailures {
    fn notice(&self, key: &GroupKey) -> Notice {
        Notice {
            key: key.clone(),
            count: self.positions.len() as u64 + self.more,
            first_seq: self.positions.front().copied().unwrap_or(self.last_seq),
            last_seq: self.last_seq,
            first_at_ms: self.first_at_ms,
            last_at_ms: self.last_at_ms,
            first_job: self.first_job,
            first_error: self.first_error.clone(),
        }
    }
}

fn error(event: &Event) -> String {
    let mut text = match &event.data {
        EventData::Error(error) => error.clone(),
        _ => "no error was given".to_owned(),
    };
    text.truncate(text.floor_char_boundary(ERROR_BYTES_MAX));
    text
}

#[cfg(test)]
mod tests {
    use super::*;
    use nagaya_jobs::TenantId;
    use nagaya_jobs::event::EventKind;

    fn failure(seq: u64, queue: &str, kind: &str, at_s: i64) -> Event {
        Event {
            seq,
            kind: EventKind::Failed,
            job: JobId::new(1000 + seq as i64).unwrap(),
            queue: QueueName::new(queue).unwrap(),
            tenant: TenantId::default_tenant(),
            job_kind: Some(kind.into()),
            attempt: 6,
            at_ms: at_s * 1000,
            data: EventData::Error(format!("error {seq}")),
        }
    }

    fn groups() -> Groups {
        Groups::new(Timing::default())
    }

    #[test]
    fn failures_of_a_queue_and_kind_are_told_together() {
        let mut groups = groups();
        for seq in 1..=412 {
            groups.add(&failure(seq, "mail", "send", 100));
        }
        groups.add(&failure(413, "mail", "fetch", 101));
        assert!(groups.due(109_999).is_empty(), "they gather");
        let due = groups.due(111_000);
        let counts: Vec<(Option<&str>, u64)> = due
            .iter()
            .map(|one| (one.key.kind.as_deref(), one.count))
            .collect();
        assert_eq!(counts, [(Some("fetch"), 1), (Some("send"), 412)]);
        assert_eq!((due[1].first_seq, due[1].last_seq), (1, 412));
        assert_eq!(due[1].first_error, "error 1");
    }

    #[test]
    fn a_group_is_told_at_most_once_in_an_interval() {
        let mut groups = groups();
        groups.add(&failure(1, "mail", "send", 100));
        let first = groups.due(110_000).remove(0);
        groups.mark_notified(&first.key, first.last_seq, 110_000);
        for seq in 2..=50 {
            groups.add(&failure(seq, "mail", "send", 111));
        }
        assert!(groups.due(409_999).is_empty());
        let second = groups.due(410_000).remove(0);
        assert_eq!((second.count, second.first_seq), (49, 2));
        groups.mark_notified(&second.key, 50, 410_000);
        groups.forget(710_000);
        assert!(groups.groups.is_empty());
        groups.add(&failure(60, "mail", "send", 800));
        assert_eq!(groups.due(810_000).len(), 1, "a quiet group is told soon again");
    }

    #[test]
    fn the_cursor_stays_behind_what_has_not_been_told() {
        let mut groups = groups();
        assert_eq!(groups.cursor(90), 90);
        groups.add(&failure(10, "a", "k", 100));
        groups.add(&failure(20, "b", "k", 105));
        assert_eq!(groups.cursor(90), 9);
        let a = groups.due(110_000).remove(0);
        groups.mark_notified(&a.key, a.last_seq, 110_000);
        assert_eq!(groups.cursor(90), 19);
    }

    #[test]
    fn what_was_told_is_not_told_after_a_restart() {
        let mut before = groups();
        before.add(&failure(1, "a", "k", 100));
        before.add(&failure(2, "b", "k", 100));
        before.mark_notified(&before.due(110_000)[1].key.clone(), 2, 110_000);
        let mut after = groups();
        after.merge(&before.write());
        after.add(&failure(1, "a", "k", 100));
        after.add(&failure(2, "b", "k", 100));
        after.add(&failure(3, "b", "k", 111));
        let due = after.due(200_000);
        assert_eq!((due.len(), due[0].key.queue.as_str()), (1, "a"));
        let due = after.due(410_000);
        assert_eq!((due[1].count, due[1].first_seq), (1, 3));
        after.merge(b"rubbish");
    }

    #[test]
    fn what_another_server_told_is_taken_out_of_what_was_gathered() {
        let mut groups = groups();
        for seq in 1..=5 {
            groups.add(&failure(seq, "a", "k", 100));
        }
        let key = groups.due(110_000)[0].key.clone();
        groups.mark_notified(&key, 3, 110_000);
        let rest = groups.due(410_000).remove(0);
        assert_eq!((rest.count, rest.first_seq, rest.last_seq), (2, 4, 5));
    }

    #[test]
    fn failures_of_notices_are_told_to_nobody() {
        let mut groups = groups();
        groups.add(&failure(1, "_notify", "notice", 100));
        assert!(groups.due(i64::MAX / 2).is_empty());
    }

    #[test]
    fn a_thousand_kinds_do_not_make_a_thousand_notices() {
        let mut groups = groups();
        for seq in 1..=1000 {
            groups.add(&failure(seq, "mail", &format!("kind-{seq}"), 100));
        }
        let due = groups.due(110_000);
        assert_eq!(due.len(), KINDS_MAX + 1);
        assert_eq!(due.iter().map(|one| one.count).sum::<u64>(), 1000);
    }
}
