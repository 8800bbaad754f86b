use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Barrier};
use std::thread;

use nagaya_tiering::cold::{
    Access, Change, Claimed, ColdError, ColdTier, Committed, Finding, KeyRow, Kind, Loaded, Snapshot, Status,
    StoredValue, TagRow, Totals, Version,
};
use nagaya_tiering::hot::HotTier;
use nagaya_tiering::loader::{Loader, LoaderConfig};
use nagaya_tiering::protocol::{LoadStart, Token, Touched};
use nagaya_tiering::reference::MemoryCold;

use crate::tiers::Tiers;

/// A cold tier that counts claims and answers them only when the test lets it, or fails them.
struct SlowCold {
    inner: Arc<MemoryCold>,
    claims: AtomicUsize,
    fails: bool,
    gate: Barrier,
}

impl ColdTier for SlowCold {
    fn claim(&self, tag: &[u8], base: Option<u64>) -> Result<Claimed, ColdError> {
        self.claims.fetch_add(1, Ordering::SeqCst);
        self.gate.wait();
        if self.fails {
            return Err(ColdError::Unavailable("switched off".into()));
        }
        self.inner.claim(tag, base)
    }

    fn generations(&self, tags: &[&[u8]]) -> Result<Vec<Option<u64>>, ColdError> {
        self.inner.generations(tags)
    }
    fn read(&self, tags: &[&[u8]]) -> Result<Vec<Option<Loaded>>, ColdError> {
        self.inner.read(tags)
    }
    fn ensure(&self, tags: &[&[u8]]) -> Result<(), ColdError> {
        self.inner.ensure(tags)
    }
    fn commit(&self, snapshots: &[Snapshot], now_ms: i64) -> Result<Vec<Committed>, ColdError> {
        self.inner.commit(snapshots, now_ms)
    }
    fn set_status(&self, tags: &[&[u8]], status: Status) -> Result<(), ColdError> {
        self.inner.set_status(tags, status)
    }
    fn note_access(&self, accesses: &[Access]) -> Result<(), ColdError> {
        self.inner.note_access(accesses)
    }
    fn tag(&self, tag: &[u8]) -> Result<Option<TagRow>, ColdError> {
        self.inner.tag(tag)
    }
    fn tags_after(&self, tag: Option<&[u8]>, limit: usize) -> Result<Vec<TagRow>, ColdError> {
        self.inner.tags_after(tag, limit)
    }
    fn keys_after(&self, after: Option<(&[u8], &[u8])>, limit: usize) -> Result<Vec<KeyRow>, ColdError> {
        self.inner.keys_after(after, limit)
    }
    fn erase(&self, tag: &[u8]) -> Result<u64, ColdError> {
        self.inner.erase(tag)
    }
    fn wipe(&self, up_to: Version) -> Result<(), ColdError> {
        self.inner.wipe(up_to)
    }
    fn purge(&self, expired: i64, buried: i64, limit: usize) -> Result<usize, ColdError> {
        self.inner.purge(expired, buried, limit)
    }
    fn forget_empty(&self, up_to: Version, from: u64, limit: usize) -> Result<(usize, u64), ColdError> {
        self.inner.forget_empty(up_to, from, limit)
    }
    fn newest(&self) -> Result<Version, ColdError> {
        self.inner.newest()
    }
    fn totals(&self) -> Result<Totals, ColdError> {
        self.inner.totals()
    }
    fn fact(&self, name: &str) -> Result<Option<Vec<u8>>, ColdError> {
        self.inner.fact(name)
    }
    fn set_fact(&self, name: &str, value: &[u8]) -> Result<(), ColdError> {
        self.inner.set_fact(name, value)
    }
    fn check(&self) -> Result<Vec<Finding>, ColdError> {
        self.inner.check()
    }
}

fn saved_tag(tiers: &Tiers) {
    let changes = (0..10_u8).map(|number| {
        let value = StoredValue {
            kind: Kind::String,
            payload: vec![number; 3],
            expires_at_ms: None,
        };
        Change {
            key: vec![b'{', b'a', b'}', number],
            value: Some(value),
        }
    });
    let snapshot = Snapshot {
        tag: b"a".to_vec(),
        version: Version {
            generation: 1,
            snap: 1,
        },
        changes: changes.collect(),
        read_at_ms: None,
        written_at_ms: None,
    };
    tiers.cold.ensure(&[b"a"]).unwrap();
    tiers.cold.commit(&[snapshot], 0).unwrap();
}

/// Starts a load that waits inside the cold tier, lets others join it, and returns how all of them ended.
fn load_together(tiers: &Tiers, cold: &Arc<SlowCold>, callers: usize) -> Vec<bool> {
    let loader = Loader::new(
        tiers.hot.clone(),
        cold.clone(),
        tiers.clock.clone(),
        LoaderConfig::default(),
    );
    let started = AtomicUsize::new(0);
    thread::scope(|scope| {
        let first = scope.spawn(|| loader.load(b"a").is_ok());
        while cold.claims.load(Ordering::SeqCst) == 0 {
            thread::yield_now();
        }
        let others: Vec<_> = (1..callers)
            .map(|_| {
                scope.spawn(|| {
                    started.fetch_add(1, Ordering::SeqCst);
                    loader.load(b"a").is_ok()
                })
            })
            .collect();
        while started.load(Ordering::SeqCst) < callers - 1 {
            thread::yield_now();
        }
        cold.gate.wait();
        [first]
            .into_iter()
            .chain(others)
            .map(|caller| caller.join().unwrap())
            .collect()
    })
}

#[test]
fn a_load_in_many_chunks_brings_every_key() {
    let tiers = Tiers::with_leases();
    saved_tag(&tiers);
    tiers.loader.load(b"a").unwrap();
    assert_eq!(tiers.hot.keys(), 10);
    assert_eq!(tiers.get(b"{a}\x03"), Some(vec![3; 3]));
    assert_eq!(tiers.cold.generations(&[b"a"]).unwrap(), [Some(2)]);
}

#[test]
fn first_requests_that_come_together_share_one_load() {
    let tiers = Tiers::with_leases();
    saved_tag(&tiers);
    let cold = Arc::new(SlowCold {
        inner: tiers.cold.clone(),
        claims: AtomicUsize::new(0),
        fails: false,
        gate: Barrier::new(2),
    });
    assert_eq!(load_together(&tiers, &cold, 16), [true; 16]);
    assert_eq!(cold.claims.load(Ordering::SeqCst), 1);
    assert_eq!(tiers.hot.keys(), 10);
}

#[test]
fn a_failed_load_leaves_the_tag_for_the_next() {
    let tiers = Tiers::with_leases();
    saved_tag(&tiers);
    let cold = Arc::new(SlowCold {
        inner: tiers.cold.clone(),
        claims: AtomicUsize::new(0),
        fails: true,
        gate: Barrier::new(2),
    });
    assert_eq!(load_together(&tiers, &cold, 1), [false]);
    assert_eq!(
        tiers.hot.touch(&[b"a"]).unwrap(),
        [Touched::Wait],
        "it was left loading"
    );
    // The next one waits for its patience, then takes over.
    tiers.loader.load(b"a").unwrap();
    assert_eq!(tiers.hot.keys(), 10);
}

#[test]
fn a_tag_without_a_row_is_loaded_without_making_one() {
    let tiers = Tiers::with_leases();
    assert_eq!(tiers.get(b"nobody"), None);
    assert_eq!(tiers.hot.touch(&[b"nobody"]).unwrap(), [Touched::Granted]);
    assert_eq!(tiers.cold.totals().unwrap().tags, 0);
}

#[test]
fn a_loader_that_was_overtaken_starts_over() {
    let tiers = Tiers::with_leases();
    saved_tag(&tiers);
    let base = tiers.cold.generations(&[b"a"]).unwrap()[0];
    assert_eq!(tiers.hot.begin(b"a", Token(1)).unwrap(), LoadStart::Begun);
    tiers.loader.load(b"a").unwrap();
    assert_eq!(tiers.cold.claim(b"a", base).unwrap(), Claimed::Moved);
    // The live residency can still save.
    tiers.set(b"{a}\x03", b"new");
    tiers.saver().flush().unwrap();
    assert_eq!(tiers.cold_value(b"{a}\x03"), Some(b"new".to_vec()));
}

#[test]
fn a_node_that_lost_everything_is_filled_again() {
    let tiers = Tiers::with_leases();
    let mut saver = tiers.saver();
    tiers.set(b"{a}x", b"1");
    tiers.delete(b"{a}y");
    tiers.save_all(&mut saver);
    tiers.hot.lose_everything();
    assert_eq!(tiers.get(b"{a}x"), Some(b"1".to_vec()));
    saver.flush().unwrap();
    assert_eq!(
        tiers.cold_value(b"{a}x"),
        Some(b"1".to_vec()),
        "the backup is whole"
    );
}
