//! A single follower of the event log for all readers.
//!
//! While there are readers, one task follows the log and keeps its newest part in memory, so that ten
//! thousand readers cost one query. A reader that is further behind reads the store until it has caught up.
//! Readers of one job are only woken by that job's events.
//!
//! Nothing is pushed: a slow reader holds a position, not a queue.

mod follower;
mod reader;
mod recent;
mod waiters;

use std::sync::Arc;

use nagaya_jobs::event::EventFilter;
use nagaya_jobs::service::Jobs;
use nagaya_jobs::{Error, JobId, Visibility};
use nagaya_threads::vital;
use parking_lot::Mutex;
use tokio::sync::{Notify, watch};
use tokio_util::sync::{CancellationToken, DropGuard};

use reader::Selection;
pub(crate) use reader::{Batch, Reader};

#[cfg(test)]
pub(crate) use recent::tests;

use recent::Recent;
use waiters::{JobChanges, JobWaiters};

/// A handle on the follower, which ends with the last handle.
#[derive(Clone)]
pub(crate) struct Feed {
    inner: Arc<Inner>,
    _end: Arc<DropGuard>,
}

struct Inner {
    jobs: Jobs,
    recent: Mutex<Recent>,
    waiters: JobWaiters,
    /// The position up to which the log was followed.
    followed: watch::Sender<u64>,
    /// Signals that a reader was opened.
    begun: Notify,
}

impl Feed {
    pub(crate) fn start(jobs: Jobs) -> Feed {
        let inner = Arc::new(Inner {
            jobs,
            recent: Mutex::default(),
            waiters: JobWaiters::default(),
            followed: watch::Sender::new(0),
            begun: Notify::new(),
        });
        let end = CancellationToken::new();
        let follower = vital("jobs feed", follower::follow(Arc::clone(&inner)));
        // Ends with the last handle.
        tokio::spawn(end.clone().run_until_cancelled_owned(follower));
        Feed {
            inner,
            _end: Arc::new(end.drop_guard()),
        }
    }

    fn job(&self, id: JobId) -> JobChanges {
        self.inner.waiters.watch(id)
    }

    /// Opens a reader after a position; after the newest event if none is given. It gets the events that match
    /// the filter and that its reader sees.
    pub(crate) async fn reader(
        &self,
        seen: Visibility,
        filter: EventFilter,
        after: Option<u64>,
    ) -> Result<Reader, Error> {
        Reader::open(self.clone(), Selection { seen, filter }, after).await
    }
}
