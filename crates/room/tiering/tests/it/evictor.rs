use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

use nagaya_tiering::clock::Clock;
use nagaya_tiering::cold::{ColdTier, Status};
use nagaya_tiering::error::HotError;
use nagaya_tiering::evictor::Evictor;
use nagaya_tiering::hot::{Chunk, DirtyPage, HotTier, Installed, SavedKeys, TagCopy};
use nagaya_tiering::protocol::{LoadStart, Token, Touched};
use nagaya_tiering::reference::{ManualClock, MemoryHot};
use nagaya_tiering::timing::Timing;

use crate::house::{House, SETTLE};

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

fn meddling<F: Fn() + Send + Sync + 'static>(house: &House, meddle: F) -> Evictor {
    let hot = Meddling {
        inner: house.hot.clone(),
        meddle,
    };
    Evictor::new(Arc::new(hot), house.cold.clone(), house.clock.clone())
}

fn saved_house() -> House {
    let house = House::with_leases();
    house.set(b"{a}x", b"1");
    house.set(b"{a}y", b"1");
    house.set(b"b", b"1");
    house.save_all(&mut house.saver());
    house
}

#[test]
fn idle_tags_leave_memory_and_come_back_whole() {
    let house = saved_house();
    let start = house.clock.now();
    let report = house.evictor().round(10, SETTLE).unwrap();
    assert_eq!((report.marked, report.evicted, report.called_off), (2, 2, 0));
    assert_eq!(house.clock.now() - start, SETTLE, "both tags share one wait");
    assert_eq!(house.hot.keys(), 0);
    assert_eq!(house.cold.tag(b"a").unwrap().unwrap().status, Status::Cleaned);
    assert_eq!(
        (house.get(b"{a}x"), house.get(b"{a}y")),
        (Some(b"1".to_vec()), Some(b"1".to_vec()))
    );
}

#[test]
fn a_tag_in_use_is_no_candidate() {
    let house = saved_house();
    house.set(b"b", b"2");
    let report = house.evictor().round(10, SETTLE).unwrap();
    assert_eq!(report.evicted, 1);
    assert_eq!(house.hot.keys(), 1);
}

#[test]
fn unsaved_changes_are_never_evicted() {
    let house = House::with_leases();
    house.set(b"a", b"1");
    assert_eq!(house.evictor().evict(&[b"a"]).unwrap().marked, 0);
    house.saver().flush().unwrap();
    assert_eq!(
        house.evictor().evict(&[b"a"]).unwrap().marked,
        0,
        "its token has not saved_keys"
    );
    assert_eq!(house.hot.keys(), 1);
}

#[test]
fn a_use_during_the_wait_calls_the_eviction_off() {
    let house = saved_house();
    let hot = house.hot.clone();
    let evictor = meddling(&house, move || {
        hot.touch(&[b"b"]).unwrap();
    });
    let report = evictor.evict(&[b"a", b"b"]).unwrap();
    assert_eq!((report.marked, report.evicted, report.called_off), (2, 1, 1));
    assert_eq!(house.hot.keys(), 1);
    assert_eq!(house.get(b"b"), Some(b"1".to_vec()));
}

#[test]
fn a_slow_hot_tier_makes_the_wait_begin_again() {
    let house = saved_house();
    let clock: Arc<ManualClock> = house.clock.clone();
    let probes = AtomicU32::new(0);
    let evictor = meddling(&house, move || {
        if probes.fetch_add(1, Ordering::SeqCst) < 2 {
            clock.advance(Duration::from_secs(3));
        }
    });
    let start = house.clock.now();
    let report = evictor.evict(&[b"a"]).unwrap();
    assert_eq!((report.evicted, report.delays), (1, 2));
    assert_eq!(house.clock.now() - start, 3 * SETTLE + Duration::from_secs(6));
}

#[test]
fn without_leases_nothing_waits() {
    let house = House::embedded();
    house.set(b"a", b"1");
    house.saver().flush().unwrap();
    let start = house.clock.now();
    assert_eq!(house.evictor().round(10, Duration::ZERO).unwrap().evicted, 1);
    assert_eq!(house.clock.now(), start);
    assert_eq!(house.get(b"a"), Some(b"1".to_vec()));
}

#[test]
fn the_names_of_large_and_odd_tags_are_all_found() {
    let house = House::embedded();
    let many: Vec<Vec<u8>> = (0..2500)
        .map(|number| format!("{{many}}{number}").into_bytes())
        .collect();
    for key in &many {
        house.set(key, b"1");
    }
    house.set(b"", b"empty");
    house.set(b"{manyother}", b"1");
    house.saver().flush().unwrap();
    assert_eq!(house.evictor().evict(&[b"many", b""]).unwrap().evicted, 2);
    assert_eq!(house.hot.keys(), 1);
    assert_eq!(house.get(b""), Some(b"empty".to_vec()));
    assert!(many.iter().all(|key| house.get(key) == Some(b"1".to_vec())));
}
