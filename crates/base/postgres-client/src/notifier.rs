//! Batched NOTIFY.
//!
//! A notification inside a transaction makes every such commit take a lock that all
//! databases of the server share, so hints are sent outside of it, each only once per
//! round however often it was requested. A hint that cannot be sent is dropped:
//! listeners also poll.

use std::collections::BTreeSet;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use nagaya_sql::block;
use nagaya_threads::vital;
use tokio::sync::Notify;
use tokio::task::JoinHandle;
use tokio::time::sleep;

use crate::error::Error;
use crate::pool::Pool;

const SEND: &str = block(include_str!("queries/notify.sql"), "send");

/// Distinct hints queued for one round; further ones are dropped, which bounds memory.
const WAITING_MAX: usize = 4096;
/// PostgreSQL refuses payloads of 8000 bytes and more.
const PAYLOAD_BYTES_MAX: usize = 7999;

/// Sends hints in rounds. Dropping it stops it and drops queued hints.
#[derive(Debug)]
pub struct Notifier {
    waiting: Arc<Waiting>,
    task: JoinHandle<()>,
}

#[derive(Debug, Default)]
struct Waiting {
    hints: Mutex<BTreeSet<(String, String)>>,
    some: Notify,
}

impl Notifier {
    /// Starts the task; `pause` is the least time between two rounds. Must run inside a tokio runtime.
    pub fn start(pool: Pool, pause: Duration) -> Notifier {
        let waiting = Arc::new(Waiting::default());
        let task = tokio::spawn(vital(
            "postgres notifier",
            send_rounds(pool, waiting.clone(), pause),
        ));
        Notifier { waiting, task }
    }

    /// Queues a hint; returns false when it was dropped because the queue is full or the payload too long.
    pub fn notify(&self, channel: &str, payload: &str) -> bool {
        if payload.len() > PAYLOAD_BYTES_MAX {
            return false;
        }
        let mut hints = self.waiting.hints();
        let hint = (channel.to_owned(), payload.to_owned());
        if hints.len() >= WAITING_MAX && !hints.contains(&hint) {
            return false;
        }
        hints.insert(hint);
        drop(hints);
        self.waiting.some.notify_one();
        true
    }
}

impl Drop for Notifier {
    fn drop(&mut self) {
        self.task.abort();
    }
}

impl Waiting {
    fn hints(&self) -> std::sync::MutexGuard<'_, BTreeSet<(String, String)>> {
        self.hints.lock().expect("no holder of this lock can panic")
    }
}

async fn send_rounds(pool: Pool, waiting: Arc<Waiting>, pause: Duration) {
    loop {
        waiting.some.notified().await;
        let hints = std::mem::take(&mut *waiting.hints());
        if !hints.is_empty()
            && let Err(error) = send(&pool, hints).await
        {
            tracing::debug!(
                error = error.chain(),
                "notifications through postgresql could not be sent"
            );
        }
        sleep(pause).await;
    }
}

async fn send(pool: &Pool, hints: BTreeSet<(String, String)>) -> Result<(), Error> {
    let (channels, payloads): (Vec<_>, Vec<_>) = hints.into_iter().unzip();
    let connection = pool.get().await?;
    connection.query(SEND, &[&channels, &payloads]).await?;
    Ok(())
}
