//! The newest part of the log, in memory.

use std::collections::VecDeque;
use std::sync::Arc;

use nagaya_jobs::event::{Event, EventData};

/// Limits on what is kept, in events and in bytes of their data.
const EVENTS_MAX: usize = 16_384;
const BYTES_MAX: usize = 16 << 20;
/// Estimated size of an event besides its data, in bytes.
const EVENT_BYTES: usize = 256;

/// Every event after `since` up to `until`.
#[derive(Default)]
pub(super) struct Recent {
    events: VecDeque<Arc<Event>>,
    since: u64,
    until: u64,
    bytes: usize,
}

/// The result of a lookup.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Lookup {
    /// The position is older than what is kept.
    Behind,
    /// Matching events, and the position to continue from.
    Found(Vec<Arc<Event>>, u64),
}

impl Recent {
    /// Drops everything and starts over after a position.
    pub(super) fn begin(&mut self, since: u64) {
        *self = Recent {
            since,
            until: since,
            ..Recent::default()
        };
    }

    /// Appends the next events, up to position `until`.
    pub(super) fn push(&mut self, events: Vec<Arc<Event>>, until: u64) {
        for event in events {
            self.bytes += weight(&event);
            self.events.push_back(event);
        }
        self.until = self.until.max(until);
        while self.events.len() > EVENTS_MAX || self.bytes > BYTES_MAX {
            let Some(event) = self.events.pop_front() else {
                break;
            };
            self.bytes -= weight(&event);
            self.since = event.seq;
        }
    }

    pub(super) fn after(&self, after: u64, accepts: impl Fn(&Event) -> bool, limit: usize) -> Lookup {
        if after < self.since {
            return Lookup::Behind;
        }
        let first = self.events.partition_point(|event| event.seq <= after);
        let mut found = Vec::new();
        for event in self.events.range(first..) {
            if found.len() == limit {
                let last: &Arc<Event> = &found[limit - 1];
                return Lookup::Found(found.clone(), last.seq);
            }
            if accepts(event) {
                found.push(Arc::clone(event));
            }
        }
        Lookup::Found(found, self.until.max(after))
    }
}

fn weight(event: &Event) -> usize {
    EVENT_BYTES
        + match &event.data {
            EventData::None => 0,
            EventData::Progress(progress) => {
                progress.message.as_ref().map_or(0, String::len)
                    + progress.data.as_ref().map_or(0, String::len)
            }
            EventData::Retry { error, .. } => error.as_ref().map_or(0, String::len),
            EventData::Result(body) => body.bytes.len(),
            EventData::Error(error) => error.len(),
        }
}

#[cfg(test)]
pub(crate) mod tests {
    use nagaya_jobs::event::EventKind;
    use nagaya_jobs::job::Body;
    use nagaya_jobs::{JobId, QueueName, TenantId};

    use super::*;

    pub(crate) fn event(seq: u64, job: i64) -> Event {
        Event {
            seq,
            kind: EventKind::Succeeded,
            job: JobId::new(job).unwrap(),
            queue: QueueName::new("mail").unwrap(),
            tenant: TenantId::default_tenant(),
            job_kind: None,
            attempt: 1,
            at_ms: 0,
            data: EventData::None,
        }
    }

    fn seqs(lookup: Lookup) -> (Vec<u64>, u64) {
        match lookup {
            Lookup::Behind => panic!("behind"),
            Lookup::Found(events, next) => (events.iter().map(|event| event.seq).collect(), next),
        }
    }

    #[test]
    fn what_is_kept_is_found_and_what_is_not_is_said_to_be_behind() {
        let mut recent = Recent::default();
        recent.begin(10);
        recent.push(vec![Arc::new(event(12, 1)), Arc::new(event(15, 2))], 17);
        let all = |_: &Event| true;
        assert_eq!(recent.after(9, all, 10), Lookup::Behind);
        assert_eq!(seqs(recent.after(10, all, 10)), (vec![12, 15], 17));
        assert_eq!(seqs(recent.after(12, all, 10)), (vec![15], 17));
        assert_eq!(seqs(recent.after(10, all, 1)), (vec![12], 12));
        let job = |event: &Event| event.job.get() == 2;
        assert_eq!(seqs(recent.after(10, job, 10)), (vec![15], 17));
    }

    #[test]
    fn memory_is_bounded_by_number_and_by_bytes() {
        let mut recent = Recent::default();
        recent.begin(0);
        let many = (1..=20_000).map(|seq| Arc::new(event(seq, 1))).collect();
        recent.push(many, 20_000);
        assert!(recent.events.len() <= EVENTS_MAX);
        assert_eq!(recent.since, 20_000 - recent.events.len() as u64);
        let large = |seq| {
            Arc::new(Event {
                data: EventData::Result(Body::json(vec![b' '; 1 << 20])),
                ..event(seq, 1)
            })
        };
        recent.push((20_001..=20_100).map(large).collect(), 20_100);
        assert!(recent.bytes <= BYTES_MAX && recent.events.len() <= 16);
        assert_eq!(recent.after(20_000, |_| true, 1), Lookup::Behind);
    }
}
