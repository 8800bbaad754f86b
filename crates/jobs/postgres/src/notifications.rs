//! Notifications of ready jobs and new events: inside of this process at once, to other servers batched. They
//! are only hints.

use std::collections::BTreeMap;
use std::sync::{Arc, Weak};

use nagaya_jobs::event::EventKind;
use nagaya_jobs::id::JobId;
use nagaya_jobs::name::QueueName;
use nagaya_postgres_client::{Event, Listener};
use tokio::task::JoinHandle;

use crate::store::Inner;

const CHANNEL: &str = "nagaya_jobs";
/// The log has grown.
const LOG_GREW: &str = "log";
/// There are new deliveries to webhooks. A space keeps it apart from any queue's name.
const DELIVERIES: &str = "deliveries made";
/// A queue may have new jobs: followed by the lowest rank among them and the queue's name. A space keeps it apart
/// from any queue's name, which is what servers of the version before send.
const READY: &str = "ready ";
/// A running job was cancelled: followed by its id.
const CANCELLED: &str = "cancelled ";

/// The task that receives notifications of other servers; dropping it ends the task.
#[derive(Debug)]
pub(crate) struct NotificationListener(JoinHandle<()>);

impl Drop for NotificationListener {
    fn drop(&mut self) {
        self.0.abort();
    }
}

pub(crate) fn start_listener(inner: &Arc<Inner>) -> NotificationListener {
    let connector = inner.cool.connector().clone();
    let inner = Arc::downgrade(inner);
    NotificationListener(tokio::spawn(receive(
        Listener::start(connector, vec![CHANNEL.into()]),
        inner,
    )))
}

async fn receive(mut listener: Listener, inner: Weak<Inner>) {
    loop {
        let event = listener.next().await;
        let Some(inner) = inner.upgrade() else { return };
        match event {
            Event::Ready => (),
            Event::Gap => {
                let queues: Vec<QueueName> =
                    inner.names.queues().iter().map(|one| one.name.clone()).collect();
                for queue in &queues {
                    inner.note_ready_elsewhere(queue, i16::MIN);
                }
                inner.notify_ready_here(&queues);
                inner.notify_head().await;
            }
            Event::Notified { payload, .. } => match Notification::parse(&payload) {
                Some(Notification::LogGrew) => inner.notify_head().await,
                Some(Notification::Deliveries) => inner.notify_deliveries_here(),
                Some(Notification::Cancelled(id)) => inner.notify_ended(&[(id, EventKind::Cancelled)]),
                Some(Notification::Ready { queue, rank }) => {
                    inner.note_ready_elsewhere(&queue, rank);
                    inner.notify_ready_here(&[queue]);
                }
                None => (),
            },
        }
    }
}

/// A notification of another server.
#[derive(Debug, PartialEq, Eq)]
enum Notification {
    LogGrew,
    Deliveries,
    Cancelled(JobId),
    Ready { queue: QueueName, rank: i16 },
}

impl Notification {
    fn parse(payload: &str) -> Option<Notification> {
        if payload == LOG_GREW {
            return Some(Notification::LogGrew);
        }
        if payload == DELIVERIES {
            return Some(Notification::Deliveries);
        }
        if let Some(id) = payload.strip_prefix(CANCELLED) {
            return id.parse().ok().and_then(JobId::new).map(Notification::Cancelled);
        }
        let (rank, queue) = match payload.strip_prefix(READY) {
            Some(rest) => {
                let (rank, queue) = rest.split_once(' ')?;
                (rank.parse().ok()?, queue)
            }
            // A server of the version before does not say which ranks.
            None => (i16::MIN, payload),
        };
        let queue = QueueName::new(queue).ok()?;
        Some(Notification::Ready { queue, rank })
    }

    fn ready(queue: &QueueName, rank: i16) -> String {
        format!("{READY}{rank} {queue}")
    }
}

impl Inner {
    /// Notifies this process and other servers that queues may have new jobs, with the lowest rank among those of
    /// each queue.
    pub(crate) fn notify_ready(&self, ready: &BTreeMap<QueueName, i16>) {
        if ready.is_empty() {
            return;
        }
        let queues: Vec<QueueName> = ready.keys().cloned().collect();
        self.notify_ready_here(&queues);
        for (queue, rank) in ready {
            self.notifier.notify(CHANNEL, &Notification::ready(queue, *rank));
        }
    }

    fn notify_ready_here(&self, queues: &[QueueName]) {
        if let Some(listener) = self.listener() {
            listener.ready(queues);
        }
    }

    /// Notifies this process and other servers that the log has grown.
    pub(crate) fn notify_logged(&self, head: Option<i64>) {
        let Some(head) = head else { return };
        if let Some(listener) = self.listener() {
            listener.logged(u64::try_from(head).unwrap_or(0));
        }
        self.notifier.notify(CHANNEL, LOG_GREW);
    }

    /// Notifies this process and other servers of new deliveries.
    pub(crate) fn notify_deliveries(&self) {
        self.notify_deliveries_here();
        self.notifier.notify(CHANNEL, DELIVERIES);
    }

    fn notify_deliveries_here(&self) {
        if let Some(listener) = self.listener() {
            listener.deliveries();
        }
    }

    pub(crate) fn notify_ended(&self, jobs: &[(JobId, EventKind)]) {
        if let (false, Some(listener)) = (jobs.is_empty(), self.listener()) {
            listener.ended(jobs);
        }
    }

    /// Notifies other servers of jobs that were taken from their workers.
    pub(crate) fn notify_withdrawn(&self, jobs: &[JobId]) {
        for id in jobs {
            self.notifier.notify(CHANNEL, &format!("{CANCELLED}{id}"));
        }
    }

    async fn notify_head(&self) {
        if let (Ok(bounds), Some(listener)) = (self.bounds().await, self.listener()) {
            listener.logged(bounds.head);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_queue_named_log_is_a_queue() {
        let log = QueueName::new("log").unwrap();
        let ready = Notification::parse(&Notification::ready(&log, -900));
        assert_eq!(
            ready,
            Some(Notification::Ready {
                queue: log,
                rank: -900
            })
        );
        assert_eq!(Notification::parse(LOG_GREW), Some(Notification::LogGrew));
    }

    #[test]
    fn a_cancelled_job_is_told_by_its_id() {
        let told = |text: &str| Notification::parse(text);
        assert_eq!(
            told("cancelled 4711"),
            JobId::new(4711).map(Notification::Cancelled)
        );
        assert_eq!(told("cancelled x"), None);
    }

    #[test]
    fn servers_of_the_version_before_are_understood() {
        let queue = QueueName::new("mail").unwrap();
        let rank = i16::MIN;
        assert_eq!(
            Notification::parse("mail"),
            Some(Notification::Ready { queue, rank })
        );
        assert_eq!(Notification::parse("ready x"), None);
        assert_eq!(Notification::parse("ready x mail"), None);
    }
}
