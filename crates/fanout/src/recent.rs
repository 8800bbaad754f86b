//! The latest requests, for the console.
//!
//! A fixed number is kept in this process, independent of the store: each new one displaces the oldest. Each
//! tracks its progress.

use std::collections::VecDeque;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};

use parking_lot::Mutex;

use crate::outcome::State;

/// Number of requests kept.
const KEPT: usize = 500;
/// Characters kept of a URL, which is only displayed.
const URL_MAX: usize = 300;

/// A request as shown to readers.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RecentRequest {
    pub id: Arc<str>,
    pub method: &'static str,
    /// Truncated when it is long.
    pub url: String,
    /// When it arrived, Unix milliseconds.
    pub at_ms: u64,
    pub endpoints: usize,
    /// Endpoints whose outcome is known, and how many of them answered well.
    pub done: usize,
    pub ok: usize,
    pub is_finished: bool,
}

/// The latest requests.
#[derive(Debug, Default)]
pub(crate) struct Recent {
    requests: Mutex<VecDeque<Arc<Track>>>,
}

/// The progress of one request, updated by the task that runs it.
#[derive(Debug)]
pub(crate) struct Track {
    id: Arc<str>,
    method: &'static str,
    url: String,
    at_ms: u64,
    endpoints: usize,
    done: AtomicUsize,
    ok: AtomicUsize,
    is_finished: AtomicBool,
}

impl Track {
    /// Creates a request that was just accepted, with `shed` endpoints already decided.
    pub(crate) fn new(
        id: Arc<str>,
        method: &'static str,
        url: &str,
        at_ms: u64,
        endpoints: usize,
        shed: usize,
    ) -> Track {
        Track {
            id,
            method,
            url: url.chars().take(URL_MAX).collect(),
            at_ms,
            endpoints,
            done: AtomicUsize::new(shed),
            ok: AtomicUsize::new(0),
            is_finished: AtomicBool::new(false),
        }
    }

    /// Counts one endpoint's outcome.
    pub(crate) fn count(&self, state: State) {
        self.done.fetch_add(1, Ordering::Relaxed);
        if state == State::Ok {
            self.ok.fetch_add(1, Ordering::Relaxed);
        }
    }

    /// Records that nothing more will come.
    pub(crate) fn finish(&self) {
        self.is_finished.store(true, Ordering::Relaxed);
    }

    /// Returns what subscribers are told at the end.
    pub(crate) fn summary(&self, took_ms: u64) -> String {
        let (id, ok) = (&*self.id, self.ok.load(Ordering::Relaxed));
        serde_json::json!({"request_id": id, "ms": took_ms, "ok": ok, "endpoints": self.endpoints})
            .to_string()
    }

    fn show(&self) -> RecentRequest {
        RecentRequest {
            id: Arc::clone(&self.id),
            method: self.method,
            url: self.url.clone(),
            at_ms: self.at_ms,
            endpoints: self.endpoints,
            done: self.done.load(Ordering::Relaxed),
            ok: self.ok.load(Ordering::Relaxed),
            is_finished: self.is_finished.load(Ordering::Relaxed),
        }
    }
}

impl Recent {
    pub(crate) fn add(&self, track: Arc<Track>) {
        let mut requests = self.requests.lock();
        if requests.len() >= KEPT {
            requests.pop_front();
        }
        requests.push_back(track);
    }

    /// Returns the latest requests, newest first.
    pub(crate) fn list(&self, limit: usize) -> Vec<RecentRequest> {
        let requests = self.requests.lock();
        requests
            .iter()
            .rev()
            .take(limit)
            .map(|track| track.show())
            .collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_newest_come_first_and_the_oldest_are_forgotten() {
        let recent = Recent::default();
        for number in 0..KEPT + 5 {
            let track = Track::new(number.to_string().into(), "GET", "/x", number as u64, 3, 1);
            recent.add(Arc::new(track));
        }
        let all = recent.list(usize::MAX);
        assert_eq!((all.len(), &*all[0].id), (KEPT, "504"));
        assert_eq!(&*all[KEPT - 1].id, "5");
        assert_eq!(recent.list(2).len(), 2);
    }

    #[test]
    fn a_request_tells_how_far_it_has_come() {
        let track = Track::new("i".into(), "POST", &"u".repeat(1000), 7, 3, 1);
        track.count(State::Ok);
        track.count(State::Timeout);
        let shown = track.show();
        assert_eq!((shown.endpoints, shown.done, shown.ok), (3, 3, 1));
        assert_eq!((shown.url.len(), shown.is_finished), (URL_MAX, false));
        track.finish();
        assert!(track.show().is_finished);
    }
}
