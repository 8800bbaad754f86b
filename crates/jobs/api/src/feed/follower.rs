//! Follows the log while there are readers.

use std::sync::Arc;
use std::time::Duration;

use nagaya_jobs::Error;
use nagaya_jobs::event::EventFilter;
use nagaya_jobs::service::Step;
use tracing::warn;

use super::Inner;

/// How long to wait for events before checking whether there are still readers.
const READER_CHECK_INTERVAL: Duration = Duration::from_secs(1);
/// Delay after a store failure.
const PAUSE: Duration = Duration::from_secs(1);
const PAGE: usize = 1_000;

pub(super) async fn follow(feed: Arc<Inner>) {
    loop {
        while !feed.has_readers() {
            feed.begun.notified().await;
        }
        if let Err(error) = follow_while_read(&feed).await {
            warn!(%error, "the event log could not be read");
            tokio::time::sleep(PAUSE).await;
        }
    }
}

async fn follow_while_read(feed: &Inner) -> Result<(), Error> {
    let head = feed.jobs.store().log_bounds().await?.head;
    let mut follower = feed.jobs.follow(head, EventFilter::default());
    feed.begin(head);
    while feed.has_readers() {
        match follower.next(PAGE, READER_CHECK_INTERVAL).await? {
            Step::Events(events) => {
                let at = follower.position();
                let events: Vec<_> = events.into_iter().map(Arc::new).collect();
                feed.recent.lock().push(events.clone(), at);
                feed.waiters
                    .note(events.iter().map(|event| (event.job, event.seq)), at);
                feed.followed.send_replace(at);
            }
            // Readers detect the gap themselves.
            Step::Gap { .. } => feed.begin(follower.position()),
            Step::Nothing => (),
        }
    }
    Ok(())
}

impl Inner {
    /// Starts over at a position; all readers read the store again.
    fn begin(&self, at: u64) {
        self.recent.lock().begin(at);
        self.waiters.begin(at);
        self.followed.send_replace(at);
    }

    fn has_readers(&self) -> bool {
        self.followed.receiver_count() > 0 || !self.waiters.is_empty()
    }
}
