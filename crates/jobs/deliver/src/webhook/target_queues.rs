//! Queues of deliveries that were taken from the store and wait for their target.

use std::collections::{HashMap, VecDeque};

use nagaya_jobs::delivery::Delivery;
use nagaya_jobs::shares::TenantTarget;

/// Deliveries queued per target, and in total, at most.
const PER_TARGET_MAX: usize = 128;
const ALL_MAX: usize = 1024;

/// A queued delivery.
#[derive(Debug)]
pub(super) struct Waiting {
    pub(super) delivery: Delivery,
    /// Must be started by then, or be returned to the store; Unix milliseconds.
    pub(super) until_ms: i64,
}

/// The queues, by target, each in the order of the store.
#[derive(Debug, Default)]
pub(super) struct TargetQueues {
    count: usize,
    by_target: HashMap<TenantTarget, VecDeque<Waiting>>,
}

impl TargetQueues {
    /// Queues a delivery. Returns it if there is no room.
    pub(super) fn put(&mut self, target: TenantTarget, waiting: Waiting) -> Option<Waiting> {
        if self.count >= ALL_MAX {
            return Some(waiting);
        }
        let queue = self.by_target.entry(target).or_default();
        if queue.len() >= PER_TARGET_MAX {
            return Some(waiting);
        }
        queue.push_back(waiting);
        self.count += 1;
        None
    }

    /// Returns whether deliveries are queued for a target already: a later one must not overtake them.
    pub(super) fn has(&self, target: &TenantTarget) -> bool {
        self.by_target.contains_key(target)
    }

    /// Returns how many deliveries are queued for a target.
    pub(super) fn held(&self, target: &TenantTarget) -> usize {
        self.by_target.get(target).map_or(0, VecDeque::len)
    }

    pub(super) fn targets(&self) -> Vec<TenantTarget> {
        self.by_target.keys().cloned().collect()
    }

    /// Removes and returns the first delivery for a target.
    pub(super) fn next(&mut self, target: &TenantTarget) -> Option<Waiting> {
        let queue = self.by_target.get_mut(target)?;
        let first = queue.pop_front();
        if queue.is_empty() {
            self.by_target.remove(target);
        }
        self.count -= usize::from(first.is_some());
        first
    }

    /// Removes and returns all deliveries for a target.
    pub(super) fn take(&mut self, target: &TenantTarget) -> Vec<Waiting> {
        let all = self.by_target.remove(target).unwrap_or_default();
        self.count -= all.len();
        all.into()
    }

    /// Removes and returns the deliveries whose time is over.
    pub(super) fn overdue(&mut self, now_ms: i64) -> Vec<Waiting> {
        let mut over = Vec::new();
        self.by_target.retain(|_, queue| {
            while queue.front().is_some_and(|first| first.until_ms <= now_ms) {
                over.extend(queue.pop_front());
            }
            !queue.is_empty()
        });
        self.count -= over.len();
        over
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use nagaya_jobs::delivery::{DeliveryId, DeliveryState, Webhook};
    use nagaya_jobs::event::EventKind;
    use nagaya_jobs::{JobId, QueueName, TenantId};

    fn at(target: &str) -> TenantTarget {
        TenantTarget {
            tenant: TenantId::default_tenant(),
            target: target.into(),
        }
    }

    fn waiting(id: i64, until_ms: i64) -> Waiting {
        let delivery = Delivery {
            id: DeliveryId(id),
            job: JobId::new(1).unwrap(),
            queue: QueueName::new("q").unwrap(),
            tenant: TenantId::default_tenant(),
            seq: 1,
            kind: EventKind::Succeeded,
            attempt: 1,
            webhook: Webhook::to("http://a.test/"),
            target: "http://a.test:80".into(),
            state: DeliveryState::Pending,
            tries: 0,
            created_at_ms: 0,
            next_try_at_ms: 0,
        };
        Waiting { delivery, until_ms }
    }

    #[test]
    fn those_of_a_target_keep_their_order_and_one_target_cannot_fill_the_place() {
        let mut queues = TargetQueues::default();
        for id in 0..PER_TARGET_MAX as i64 {
            assert!(queues.put(at("a"), waiting(id, 10)).is_none());
        }
        assert!(queues.put(at("a"), waiting(999, 10)).is_some());
        assert!(queues.put(at("b"), waiting(1000, 20)).is_none());
        assert_eq!(queues.next(&at("a")).unwrap().delivery.id, DeliveryId(0));
        assert_eq!(queues.next(&at("a")).unwrap().delivery.id, DeliveryId(1));
        assert_eq!(queues.overdue(10).len(), PER_TARGET_MAX - 2);
        assert!(!queues.has(&at("a")) && queues.has(&at("b")));
        assert_eq!(queues.take(&at("b")).len(), 1);
        assert_eq!(queues.count, 0);
    }
}
