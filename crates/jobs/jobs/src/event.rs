//! The ordered log of events.
//!
//! There is one log per store. A position in it is a number that only grows, and a reader that has seen all up
//! to one number has seen everything before it: no event appears late.

use crate::id::JobId;
use crate::job::Body;
use crate::name::{QueueName, TenantId};
use crate::view::Progress;

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum EventKind {
    Enqueued,
    Started,
    Progress,
    /// An attempt failed, or an administrator asked: there will be another.
    Retrying,
    Succeeded,
    Failed,
    Cancelled,
    /// The lease expired. `Failed` follows when that was the last attempt; otherwise the job is ready again.
    LeaseLost,
    /// A worker gave the job back; its attempt does not count.
    Released,
}

impl EventKind {
    pub const ALL: [EventKind; 9] = [
        EventKind::Enqueued,
        EventKind::Started,
        EventKind::Progress,
        EventKind::Retrying,
        EventKind::Succeeded,
        EventKind::Failed,
        EventKind::Cancelled,
        EventKind::LeaseLost,
        EventKind::Released,
    ];

    pub fn name(self) -> &'static str {
        match self {
            EventKind::Enqueued => "enqueued",
            EventKind::Started => "started",
            EventKind::Progress => "progress",
            EventKind::Retrying => "retrying",
            EventKind::Succeeded => "succeeded",
            EventKind::Failed => "failed",
            EventKind::Cancelled => "cancelled",
            EventKind::LeaseLost => "lease_lost",
            EventKind::Released => "released",
        }
    }

    pub fn named(name: &str) -> Option<EventKind> {
        EventKind::ALL.into_iter().find(|kind| kind.name() == name)
    }

    /// Returns the number that stores keep. Never changed.
    pub fn code(self) -> i16 {
        match self {
            EventKind::Enqueued => 1,
            EventKind::Started => 2,
            EventKind::Progress => 3,
            EventKind::Retrying => 4,
            EventKind::Succeeded => 5,
            EventKind::Failed => 6,
            EventKind::Cancelled => 7,
            EventKind::LeaseLost => 8,
            EventKind::Released => 9,
        }
    }

    pub fn coded(code: i16) -> Option<EventKind> {
        EventKind::ALL.into_iter().find(|kind| kind.code() == code)
    }

    /// Returns whether a queue that keeps only what matters leaves it out.
    pub fn is_detail(self) -> bool {
        matches!(
            self,
            EventKind::Enqueued | EventKind::Started | EventKind::Progress | EventKind::Released
        )
    }

    /// Returns whether the event is a job's ending.
    pub fn is_ending(self) -> bool {
        matches!(
            self,
            EventKind::Succeeded | EventKind::Failed | EventKind::Cancelled
        )
    }
}

/// The payload of an event.
///
/// The body of an ending is in the row of the job, read together with the event: it exists as long as the job
/// is kept and was not retried by an operator since.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum EventData {
    #[default]
    None,
    Progress(Progress),
    /// The error of the attempt, nothing when an administrator asked for the retry or a worker gave the job back; and
    /// when the next one may begin, Unix milliseconds.
    Retry {
        error: Option<String>,
        run_at_ms: i64,
    },
    Result(Body),
    Error(String),
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Event {
    /// The position, from 1. Numbers may be missing; none comes late.
    pub seq: u64,
    pub kind: EventKind,
    pub job: JobId,
    pub queue: QueueName,
    pub tenant: TenantId,
    pub job_kind: Option<String>,
    pub attempt: u32,
    pub at_ms: i64,
    pub data: EventData,
}

/// Which events a reader wants. A filter that is not set matches all.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct EventFilter {
    pub tenant: Option<TenantId>,
    pub queue: Option<QueueName>,
    pub job: Option<JobId>,
    /// Empty means every kind.
    pub kinds: Vec<EventKind>,
}

impl EventFilter {
    pub fn accepts(&self, event: &Event) -> bool {
        self.tenant.as_ref().is_none_or(|tenant| *tenant == event.tenant)
            && self.queue.as_ref().is_none_or(|queue| *queue == event.queue)
            && self.job.is_none_or(|job| job == event.job)
            && (self.kinds.is_empty() || self.kinds.contains(&event.kind))
    }
}

/// Where the log begins and ends.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct LogBounds {
    /// Everything up to here was trimmed; 0 when nothing was.
    pub trimmed: u64,
    /// The last position given out; 0 in an empty log.
    pub head: u64,
}

/// A page of the log.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct EventPage {
    pub events: Vec<Event>,
    /// Where to continue: everything up to here was read, including what the filter left out.
    pub next: u64,
    pub bounds: LogBounds,
}

impl EventPage {
    /// Returns whether events after `after` were trimmed before they were read. The reader then has to read the
    /// jobs themselves.
    pub fn has_gap(&self, after: u64) -> bool {
        after < self.bounds.trimmed
    }
}

/// A named reader whose position the store keeps.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Subscription {
    pub tenant: TenantId,
    pub name: String,
    pub filter: EventFilter,
    /// Everything up to here has been acknowledged.
    pub cursor: u64,
    pub created_at_ms: i64,
    pub advanced_at_ms: i64,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_and_codes_lead_back_to_their_kinds() {
        for kind in EventKind::ALL {
            assert_eq!(EventKind::named(kind.name()), Some(kind));
            assert_eq!(EventKind::coded(kind.code()), Some(kind));
        }
    }
}
