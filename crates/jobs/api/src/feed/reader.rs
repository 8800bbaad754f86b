//! A reader's position in the log.

use std::sync::Arc;

use nagaya_jobs::event::{Event, EventFilter};
use nagaya_jobs::{Error, Visibility};
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

/// Which events a reader gets.
pub(super) struct Selection {
    pub(super) seen: Visibility,
    pub(super) filter: EventFilter,
}

impl Selection {
    pub(super) fn accepts(&self, event: &Event) -> bool {
        self.seen.sees_event(event) && self.filter.accepts(event)
    }
}

/// Reads the log in order from a position. Cancel safe: a dropped call loses no event.
pub(crate) struct Reader {
    feed: Feed,
    selection: Selection,
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
    pub(super) async fn open(feed: Feed, selection: Selection, after: Option<u64>) -> Result<Reader, Error> {
        let source = match selection.filter.job {
            Some(job) => Source::Job(feed.job(job)),
            None => Source::Log(feed.inner.followed.subscribe()),
        };
        feed.inner.begun.notify_one();
        let head = feed.inner.jobs.store().log_bounds().await?.head;
        Ok(Reader {
            feed,
            selection,
            position: after.unwrap_or(head).min(head),
            stray: after.filter(|after| *after > head),
            source,
        })
    }

    /// Returns the position up to which events were read.
    pub(crate) fn position(&self) -> u64 {
        self.position
    }

    /// Returns the events that are there; `None` at the end of the log. Looks into the store, because what is in memory
    /// may be a moment behind.
    pub(crate) async fn ready(&mut self) -> Result<Option<Batch>, Error> {
        if let Some(batch) = self.take_stray() {
            return Ok(Some(batch));
        }
        loop {
            let (batch, is_end) = read_store(&self.feed, &self.selection, &mut self.position).await?;
            if batch.is_some() || is_end {
                return Ok(batch);
            }
        }
    }

    fn take_stray(&mut self) -> Option<Batch> {
        let stray = self.stray.take()?;
        Some(Batch {
            gap: Some((stray, self.position)),
            events: Vec::new(),
        })
    }

    /// Waits for the next events.
    pub(crate) async fn next(&mut self) -> Result<Batch, Error> {
        if let Some(batch) = self.take_stray() {
            return Ok(batch);
        }
        let Reader {
            feed,
            selection,
            position,
            source,
            ..
        } = self;
        loop {
            match source {
                Source::Log(followed) => {
                    followed.mark_unchanged();
                    if let Some(batch) = advance(feed, selection, position).await? {
                        return Ok(batch);
                    }
                    // Cannot fail: the sender lives in the feed that this reader holds.
                    let _ = followed.changed().await;
                }
                Source::Job(changes) => {
                    let changed = changes.changed();
                    if let Some(batch) = advance(feed, selection, position).await? {
                        return Ok(batch);
                    }
                    changed.await;
                }
            }
        }
    }
}

/// Returns the next events; `None` at the end of the log.
async fn advance(feed: &Feed, selection: &Selection, position: &mut u64) -> Result<Option<Batch>, Error> {
    let inner = &feed.inner;
    loop {
        if let Some(job) = selection.filter.job {
            *position = inner.waiters.skip(job, *position);
        }
        let lookup = inner
            .recent
            .lock()
            .after(*position, |event| selection.accepts(event), BATCH);
        match lookup {
            Lookup::Found(events, next) => {
                *position = next;
                return Ok((!events.is_empty()).then_some(Batch { gap: None, events }));
            }
            Lookup::Behind => {
                let (batch, is_end) = read_store(feed, selection, position).await?;
                if batch.is_some() || is_end {
                    return Ok(batch);
                }
            }
        }
    }
}

/// Reads a page of the store. Returns what is in it for the reader, and whether the end of the log is reached.
async fn read_store(
    feed: &Feed,
    selection: &Selection,
    position: &mut u64,
) -> Result<(Option<Batch>, bool), Error> {
    let store = feed.inner.jobs.store();
    let page = store
        .events_after(*position, selection.filter.clone(), BATCH)
        .await?;
    let gap = page
        .has_gap(*position)
        .then_some((*position, page.bounds.trimmed));
    *position = page.next.max(*position).max(gap.map_or(0, |gap| gap.1));
    let is_end = *position >= page.bounds.head;
    let events = page.events.into_iter().filter(|event| selection.accepts(event));
    let events: Vec<_> = events.map(Arc::new).collect();
    let is_empty = gap.is_none() && events.is_empty();
    Ok(((!is_empty).then_some(Batch { gap, events }), is_end))
}
