//! Notifications of ready jobs and new events: inside of this process at once, to other servers batched. They
//! are only hints.

use std::sync::{Arc, Weak};

use nagaya_jobs::event::EventKind;
use nagaya_jobs::id::JobId;
use nagaya_jobs::name::QueueName;
use nagaya_postgres_client::{Event, Listener};
use tokio::task::JoinHandle;

use crate::store::Inner;

const CHANNEL: &str = "nagaya_jobs";
const LOG_GREW: &str = "log";

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
                inner.notify_ready_here(&queues);
                inner.notify_head().await;
            }
            Event::Notified { payload, .. } if payload == LOG_GREW => inner.notify_head().await,
            Event::Notified { payload, .. } => {
                if let Ok(queue) = QueueName::new(&payload) {
                    inner.forget_ready_tenants(&queue);
                    inner.notify_ready_here(&[queue]);
                }
            }
        }
    }
}

impl Inner {
    /// Notifies this process and other servers that queues may have new jobs.
    pub(crate) fn notify_ready(&self, queues: &[QueueName]) {
        if queues.is_empty() {
            return;
        }
        self.notify_ready_here(queues);
        for queue in queues {
            self.notifier.notify(CHANNEL, queue.as_str());
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

    pub(crate) fn notify_ended(&self, jobs: &[(JobId, EventKind)]) {
        if let (false, Some(listener)) = (jobs.is_empty(), self.listener()) {
            listener.ended(jobs);
        }
    }

    async fn notify_head(&self) {
        if let (Ok(bounds), Some(listener)) = (self.bounds().await, self.listener()) {
            listener.logged(bounds.head);
        }
    }
}
