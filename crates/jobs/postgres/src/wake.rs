//! Telling others that there is something to claim or to read: in this process at once, other servers by a
//! gathered notification. Hints only.

use std::sync::{Arc, Weak};

use nagaya_jobs::event::EventKind;
use nagaya_jobs::id::JobId;
use nagaya_jobs::name::QueueName;
use nagaya_postgres_client::{Event, Listener};
use tokio::task::JoinHandle;

use crate::store::Inner;

const CHANNEL: &str = "nagaya_jobs";
const LOG_GREW: &str = "log";

/// The task that hears other servers; it ends when dropped.
#[derive(Debug)]
pub(crate) struct Ears(JoinHandle<()>);

impl Drop for Ears {
    fn drop(&mut self) {
        self.0.abort();
    }
}

pub(crate) fn listen(inner: &Arc<Inner>) -> Ears {
    let connector = inner.cool.connector().clone();
    let inner = Arc::downgrade(inner);
    Ears(tokio::spawn(hear(
        Listener::start(connector, vec![CHANNEL.into()]),
        inner,
    )))
}

async fn hear(mut listener: Listener, inner: Weak<Inner>) {
    loop {
        let event = listener.next().await;
        let Some(inner) = inner.upgrade() else { return };
        match event {
            Event::Ready => (),
            Event::Gap => {
                let queues: Vec<QueueName> =
                    inner.names.queues().iter().map(|one| one.name.clone()).collect();
                inner.tell_ready_here(&queues);
                inner.tell_head().await;
            }
            Event::Notified { payload, .. } if payload == LOG_GREW => inner.tell_head().await,
            Event::Notified { payload, .. } => {
                if let Ok(queue) = QueueName::new(&payload) {
                    inner.forget_parties(&queue);
                    inner.tell_ready_here(&[queue]);
                }
            }
        }
    }
}

impl Inner {
    /// Says here and elsewhere that queues may have got jobs to claim.
    pub(crate) fn tell_ready(&self, queues: &[QueueName]) {
        if queues.is_empty() {
            return;
        }
        self.tell_ready_here(queues);
        for queue in queues {
            self.notifier.notify(CHANNEL, queue.as_str());
        }
    }

    fn tell_ready_here(&self, queues: &[QueueName]) {
        if let Some(listener) = self.listener() {
            listener.ready(queues);
        }
    }

    /// Says here and elsewhere that the log has grown.
    pub(crate) fn tell_logged(&self, head: Option<i64>) {
        let Some(head) = head else { return };
        if let Some(listener) = self.listener() {
            listener.logged(u64::try_from(head).unwrap_or(0));
        }
        self.notifier.notify(CHANNEL, LOG_GREW);
    }

    pub(crate) fn tell_ended(&self, jobs: &[(JobId, EventKind)]) {
        if let (false, Some(listener)) = (jobs.is_empty(), self.listener()) {
            listener.ended(jobs);
        }
    }

    async fn tell_head(&self) {
        if let (Ok(bounds), Some(listener)) = (self.bounds().await, self.listener()) {
            listener.logged(bounds.head);
        }
    }
}
