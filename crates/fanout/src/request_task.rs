//! A request from its arrival to its last answer, in one task.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use parking_lot::Mutex;
use tokio::sync::oneshot;
use tokio::time::Instant;
use tracing::Instrument;

use crate::deadline::Receipt;
use crate::endpoint::Admission;
use crate::gather::Tap;
use crate::handlers::Handlers;
use crate::live::Live;
use crate::recent::{Recent, Track};
use crate::request::Outgoing;
use crate::runner::{Accepted, Runner};
use crate::stats::add;
use crate::store::Record;
use crate::traced;

/// Permission for a request to be between arrival and reply.
pub(crate) struct Handler {
    handlers: Arc<Mutex<Handlers>>,
    since: Instant,
    has_replied: bool,
}

impl Handler {
    /// Returns a permit unless all are taken.
    pub(crate) fn enter(handlers: &Arc<Mutex<Handlers>>) -> Option<Handler> {
        handlers.lock().enter().then(|| Handler {
            handlers: Arc::clone(handlers),
            since: Instant::now(),
            has_replied: false,
        })
    }

    /// The request is stored, and its client is told so.
    fn replied(mut self) {
        let now = Instant::now();
        self.has_replied = true;
        self.handlers.lock().replied(now - self.since, now);
    }
}

impl Drop for Handler {
    fn drop(&mut self) {
        if !self.has_replied {
            self.handlers.lock().leave();
        }
    }
}

/// A request on its way from acceptance to its end, in one task.
pub(crate) struct RequestTask {
    pub(crate) record: Record,
    pub(crate) at: Instant,
    pub(crate) outgoing: Outgoing,
    pub(crate) via: String,
    pub(crate) jobs: Vec<Admission>,
    pub(crate) handler: Handler,
    pub(crate) live: Arc<Live>,
    pub(crate) recent: Arc<Recent>,
    pub(crate) track: Arc<Track>,
    pub(crate) runner: Arc<Runner>,
    /// Set by the side that decides first: this task, that the request is accepted, or the waiting client's
    /// side, that storing took too long.
    pub(crate) decided: Arc<AtomicBool>,
    /// For a client that waits.
    pub(crate) tap: Option<Tap>,
    pub(crate) tell: oneshot::Sender<Result<(), String>>,
}

impl RequestTask {
    /// Stores the request, reports that, and runs its jobs. A slow write runs to its end and holds its
    /// handler permit meanwhile. So a store that hangs soon holds all permits, and further requests are
    /// rejected at once.
    pub(crate) async fn run(mut self) {
        let store_ms = match self.store().await {
            Ok(store_ms) => store_ms,
            Err(reason) => {
                // The client may have disconnected.
                let _ = self.tell.send(Err(reason));
                return self.runner.mark_refused(&self.record.id, &self.jobs).await;
            }
        };
        if self.decided.swap(true, Ordering::AcqRel) {
            tracing::debug!("request stored too late, not running it");
            return self.runner.mark_refused(&self.record.id, &self.jobs).await;
        }
        self.handler.replied();
        let id = self.record.id;
        add(&self.runner.counts.accepted, 1);
        self.outgoing.identify(&id, &self.via);
        self.recent.add(Arc::clone(&self.track));
        let accepted = Accepted {
            at: self.at,
            receipt: Receipt {
                store_ms,
                known_at: Instant::now(),
            },
            outgoing: Arc::new(self.outgoing),
            jobs: self.jobs,
            working: self.live.begin(&id),
            track: self.track,
            tap: self.tap,
            id,
        };
        // The client may have disconnected.
        let _ = self.tell.send(Ok(()));
        self.runner.run(accepted).await;
    }

    async fn store(&self) -> Result<Option<u64>, String> {
        let counts = &self.runner.counts;
        let began = Instant::now();
        let recording = self.runner.store.record(&self.record);
        let written = recording.instrument(traced::store(0)).await;
        counts.store_latency.record(began.elapsed());
        add(&counts.records, 1);
        written.map_err(|error| {
            add(&counts.store_failures, 1);
            let error = error.chain();
            if let Some(times) = self.runner.log_limiter.due(Instant::now()) {
                tracing::warn!(error, times, "requests could not be stored");
            }
            error
        })
    }
}
