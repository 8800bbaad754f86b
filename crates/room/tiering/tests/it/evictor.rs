use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

use nagaya_clock::{Clock, ManualClock};
use nagaya_tiering::cold::{ColdTier, Status};
use nagaya_tiering::error::HotError;
use nagaya_tiering::evictor::Evictor;
use nagaya_tiering::hot::{Chunk, DirtyPage, HotTier, Installed, SavedKeys, TagCopy};
use nagaya_tiering::protocol::{LoadStart, Token, Touched};
use nagaya_tiering::reference::MemoryHot;
use nagaya_tiering::timing::Timing;

use crate::tiers::{SETTLE, Tiers};

/// A hot tier that does something in each probe, in the middle of an eviction.
struct Meddling<F> {
    inner: Arc<MemoryHot>,
    meddle: F,
}

impl<F: Fn() + Send + Sync + 'static> HotTier for Meddling<F> {
    fn probe(&self) -> Result<(), HotError> {
        (self.meddle)();
        Ok(())
    }

    fn timing(&self) -> Timing {
        self.inner.timing()
    }
    fn touch(&self, tags: &[&[u8]]) -> Result<Vec<Touched>, HotError> {
        self.inner.touch(tags)
    }
    fn begin(&self, tag: &[u8], token: Token) -> Result<LoadStart, HotError> {
        self.inner.begin(tag, token)
    }
    fn install(&self, tag: &[u8], token: Token, chunk: &Chunk) -> Result<Installed, HotError> {
        self.inner.install(tag, token, chunk)
    }
    fn dirty_tags(&self, from: Option<u64>, limit: usize) -> Result<DirtyPage, HotError> {
        self.inner.dirty_tags(from, limit)
    }
    fn snapshot(&self, tags: &[&[u8]]) -> Result<Vec<Option<TagCopy>>, HotError> {
        self.inner.snapshot(tags)
    }
    fn remove(&self, saved_keys: &[SavedKeys]) -> Result<Vec<bool>, HotError> {
        self.inner.remove(saved_keys)
    }
    fn mark(&self, tags: &[&[u8]], token: Token) -> Result<Vec<bool>, HotError> {
        self.inner.mark(tags, token)
    }
    fn confirm(&self, tag: &[u8], token: Token, names: &[Vec<u8>]) -> Result<bool, HotError> {
        self.inner.confirm(tag, token, names)
    }
    fn coldest(&self, limit: usize, idle: Duration) -> Result<Vec<Vec<u8>>, HotError> {
        self.inner.coldest(limit, idle)
    }
}

fn meddling<F: Fn() + Send + Sync + 'static>(tiers: &Tiers, meddle: F) -> Evictor {
    let hot = Meddling {
        inner: tiers.hot.clone(),
        meddle,
    };
    Evictor::new(Arc::new(hot), tiers.cold.clone(), tiers.clock.clone())
}

fn saved_tiers() -> Tiers {
    let tiers = Tiers::with_leases();
    tiers.set(b"{a}x", b"1");
    tiers.set(b"{a}y", b"1");
    tiers.set(b"b", b"1");
    tiers.save_all(&mut tiers.saver());
    tiers
}

#[test]
fn idle_tags_leave_memory_and_come_back_whole() {
    let tiers = saved_tiers();
    let start = tiers.clock.steady();
    let report = tiers.evictor().round(10, SETTLE).unwrap();
    assert_eq!((report.marked, report.evicted, report.called_off), (2, 2, 0));
    assert_eq!(tiers.clock.steady() - start, SETTLE, "both tags share one wait");
    assert_eq!(tiers.hot.keys(), 0);
    assert_eq!(tiers.cold.tag(b"a").unwrap().unwrap().status, Status::Cleaned);
    assert_eq!(
        (tiers.get(b"{a}x"), tiers.get(b"{a}y")),
        (Some(b"1".to_vec()), Some(b"1".to_vec()))
    );
}

#[test]
fn a_tag_in_use_is_no_candidate() {
    let tiers = saved_tiers();
    tiers.set(b"b", b"2");
    let report = tiers.evictor().round(10, SETTLE).unwrap();
    assert_eq!(report.evicted, 1);
    assert_eq!(tiers.hot.keys(), 1);
}

#[test]
fn unsaved_changes_are_never_evicted() {
    let tiers = Tiers::with_leases();
    tiers.set(b"a", b"1");
    assert_eq!(tiers.evictor().evict(&[b"a"]).unwrap().marked, 0);
    tiers.saver().flush().unwrap();
    assert_eq!(
        tiers.evictor().evict(&[b"a"]).unwrap().marked,
        0,
        "its token has not saved_keys"
    );
    assert_eq!(tiers.hot.keys(), 1);
}

#[test]
fn a_use_during_the_wait_calls_the_eviction_off() {
    let tiers = saved_tiers();
    let hot = tiers.hot.clone();
    let evictor = meddling(&tiers, move || {
        hot.touch(&[b"b"]).unwrap();
    });
    let report = evictor.evict(&[b"a", b"b"]).unwrap();
    assert_eq!((report.marked, report.evicted, report.called_off), (2, 1, 1));
    assert_eq!(tiers.hot.keys(), 1);
    assert_eq!(tiers.get(b"b"), Some(b"1".to_vec()));
}

#[test]
fn a_slow_hot_tier_makes_the_wait_begin_again() {
    let tiers = saved_tiers();
    let clock: Arc<ManualClock> = tiers.clock.clone();
    let probes = AtomicU32::new(0);
    let evictor = meddling(&tiers, move || {
        if probes.fetch_add(1, Ordering::SeqCst) < 2 {
            clock.advance(Duration::from_secs(3));
        }
    });
    let start = tiers.clock.steady();
    let report = evictor.evict(&[b"a"]).unwrap();
    assert_eq!((report.evicted, report.delays), (1, 2));
    assert_eq!(tiers.clock.steady() - start, 3 * SETTLE + Duration::from_secs(6));
}

#[test]
fn without_leases_nothing_waits() {
    let tiers = Tiers::embedded();
    tiers.set(b"a", b"1");
    tiers.saver().flush().unwrap();
    let start = tiers.clock.steady();
    assert_eq!(tiers.evictor().round(10, Duration::ZERO).unwrap().evicted, 1);
    assert_eq!(tiers.clock.steady(), start);
    assert_eq!(tiers.get(b"a"), Some(b"1".to_vec()));
}

#[test]
fn the_names_of_large_and_odd_tags_are_all_found() {
    let tiers = Tiers::embedded();
    let many: Vec<Vec<u8>> = (0..2500)
        .map(|number| format!("{{many}}{number}").into_bytes())
        .collect();
    for key in &many {
        tiers.set(key, b"1");
    }
    tiers.set(b"", b"empty");
    tiers.set(b"{manyother}", b"1");
    tiers.saver().flush().unwrap();
    assert_eq!(tiers.evictor().evict(&[b"many", b""]).unwrap().evicted, 2);
    assert_eq!(tiers.hot.keys(), 1);
    assert_eq!(tiers.get(b""), Some(b"empty".to_vec()));
    assert!(many.iter().all(|key| tiers.get(key) == Some(b"1".to_vec())));
}
