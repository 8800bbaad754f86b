//! Deliveries that were taken from the store and wait for their target.

use std::collections::{HashMap, VecDeque};

use nagaya_jobs::delivery::Delivery;

/// Most that wait for one target, and for all.
const PER_TARGET_MAX: usize = 128;
const ALL_MAX: usize = 1024;

/// One that waits.
#[derive(Debug)]
pub(super) struct Waiting {
    pub(super) delivery: Delivery,
    /// Must be under way by then, or be given back; Unix milliseconds.
    pub(super) until_ms: i64,
}

/// All that wait, by target, each in the order of the store.
#[derive(Debug, Default)]
pub(super) struct TargetQueues {
    count: usize,
    by_target: HashMap<String, VecDeque<Waiting>>,
}

impl TargetQueues {
    /// Takes one in; gives it back when there is no room.
    pub(super) fn put(&mut self, target: String, waiting: Waiting) -> Option<Waiting> {
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

    /// Tells whether others wait for a target already: a later one must not pass them.
    pub(super) fn has(&self, target: &str) -> bool {
        self.by_target.contains_key(target)
    }

    pub(super) fn targets(&self) -> Vec<String> {
        self.by_target.keys().cloned().collect()
    }

    /// Takes out the first that waits for a target.
    pub(super) fn next(&mut self, target: &str) -> Option<Waiting> {
        let queue = self.by_target.get_mut(target)?;
        let first = queue.pop_front();
        if queue.is_empty() {
            self.by_target.remove(target);
        }
        self.count -= usize::from(first.is_some());
        first
    }

    /// Takes out all that wait for a target.
    pub(super) fn take(&mut self, target: &str) -> Vec<Waiting> {
        let all = self.by_target.remove(target).unwrap_or_default();
        self.count -= all.len();
        all.into()
    }

    /// Takes out those whose time is over.
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
            assert!(queues.put("a".into(), waiting(id, 10)).is_none());
        }
        assert!(queues.put("a".into(), waiting(999, 10)).is_some());
        assert!(queues.put("b".into(), waiting(1000, 20)).is_none());
        assert_eq!(queues.next("a").unwrap().delivery.id, DeliveryId(0));
        assert_eq!(queues.next("a").unwrap().delivery.id, DeliveryId(1));
        assert_eq!(queues.overdue(10).len(), PER_TARGET_MAX - 2);
        assert!(!queues.has("a") && queues.has("b"));
        assert_eq!(queues.take("b").len(), 1);
        assert_eq!(queues.count, 0);
    }
}
