//! A reader's position in the log.

use std::sync::Arc;

use nagaya_jobs::Error;
use nagaya_jobs::event::{Event, EventFilter};
use tokio::sync::watch;

use super::Feed;
use super::recent::Lookup;
use super::waiters::JobChanges;

/// Most events per batch.
const BATCH: usize = 256;

/// The next events for a reader.
#[derive(Debug, Default)]
pub(crate) struct Batch {
    /// Events after the first position up to the second were deleted from the log.
    pub(crate) gap: Option<(u64, u64)>,
    pub(crate) events: Vec<Arc<Event>>,
}

/// Reads the log in order from a position. Cancel safe: a dropped call loses no event.
pub(crate) struct Reader {
    feed: Feed,
    filter: EventFilter,
    position: u64,
    /// The reader asked for a position beyond the end of this log; reported as a gap first.
    stray: Option<u64>,
    source: Source,
}

/// What wakes a reader.
enum Source {
    Log(watch::Receiver<u64>),
    Job(JobChanges),
}

impl Reader {
    pub(super) async fn open(feed: Feed, filter: EventFilter, after: Option<u64>) -> Result<Reader, Error> {
        let source = match filter.job {
            Some(job) => Source::Job(feed.job(job)),
            None => Source::Log(feed.inner.followed.subscribe()),
        };
        feed.inner.begun.notify_one();
        let head = feed.inner.jobs.store().log_bounds().await?.head;
        Ok(Reader {
            feed,
            filter,
            position: after.unwrap_or(head).min(head),
            stray: after.filter(|after| *after > head),
            source,
        })
    }

    /// Returns the position up to which events were read.
    pub(crate) fn position(&self) -> u64 {
        self.position
    }

    /// Waits for the next events.
    pub(crate) async fn next(&mut self) -> Result<Batch, Error> {
        let Reader {
            feed,
            filter,
            position,
            stray,
            source,
        } = self;
        if let Some(stray) = stray.take() {
            return Ok(Batch {
                gap: Some((stray, *position)),
                events: Vec::new(),
            });
        }
        loop {
            match source {
                Source::Log(followed) => {
                    followed.mark_unchanged();
                    if let Some(batch) = advance(feed, filter, position).await? {
                        return Ok(batch);
                    }
                    // Cannot fail: the sender lives in the feed that this reader holds.
                    let _ = followed.changed().await;
                }
                Source::Job(changes) => {
                    let changed = changes.changed();
                    if let Some(batch) = advance(feed, filter, position).await? {
                        return Ok(batch);
                    }
                    changed.await;
                }
            }
        }
    }
}

/// Returns the next events; `None` at the end of the log.
async fn advance(feed: &Feed, filter: &EventFilter, position: &mut u64) -> Result<Option<Batch>, Error> {
    let inner = &feed.inner;
    loop {
        if let Some(job) = filter.job {
            *position = inner.waiters.skip(job, *position);
        }
        let lookup = inner.recent.lock().after(*position, filter, BATCH);
        match lookup {
            Lookup::Found(events, next) => {
                *position = next;
                return Ok((!events.is_empty()).then_some(Batch { gap: None, events }));
            }
            Lookup::Behind => {
                let page = inner
                    .jobs
                    .store()
                    .events_after(*position, filter.clone(), BATCH)
                    .await?;
                let gap = page
                    .has_gap(*position)
                    .then_some((*position, page.bounds.trimmed));
                *position = page.next.max(*position).max(gap.map_or(0, |gap| gap.1));
                let events: Vec<_> = page.events.into_iter().map(Arc::new).collect();
                if gap.is_some() || !events.is_empty() {
                    return Ok(Some(Batch { gap, events }));
                }
                if *position >= page.bounds.head {
                    return Ok(None);
                }
            }
        }
    }
}
