//! A cold tier that can be switched off and slowed down.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Duration;

use nagaya_tiering::cold::{
    Access, Claimed, ColdError, ColdTier, Committed, Finding, KeyRow, Loaded, Snapshot, Status, TagRow,
    Totals, Version,
};
use nagaya_tiering::reference::MemoryCold;

#[derive(Default)]
pub(crate) struct Flaky {
    pub(crate) cold: MemoryCold,
    pub(crate) is_down: AtomicBool,
    pub(crate) claims: AtomicU64,
    /// Calls while it was switched off.
    pub(crate) refusals: AtomicU64,
    /// How long a commit takes, so that much happens meanwhile.
    pub(crate) commit_time: Duration,
}

impl Flaky {
    pub(crate) fn set_down(&self, is_down: bool) {
        self.is_down.store(is_down, Ordering::SeqCst);
    }

    fn up(&self) -> Result<&MemoryCold, ColdError> {
        if self.is_down.load(Ordering::SeqCst) {
            self.refusals.fetch_add(1, Ordering::SeqCst);
            return Err(ColdError::Unavailable("switched off".into()));
        }
        Ok(&self.cold)
    }
}

impl ColdTier for Flaky {
    fn generations(&self, tags: &[&[u8]]) -> Result<Vec<Option<u64>>, ColdError> {
        self.up()?.generations(tags)
    }

    fn claim(&self, tag: &[u8], base: Option<u64>) -> Result<Claimed, ColdError> {
        self.claims.fetch_add(1, Ordering::SeqCst);
        self.up()?.claim(tag, base)
    }

    fn read(&self, tags: &[&[u8]]) -> Result<Vec<Option<Loaded>>, ColdError> {
        self.up()?.read(tags)
    }

    fn ensure(&self, tags: &[&[u8]]) -> Result<(), ColdError> {
        self.up()?.ensure(tags)
    }

    fn make_rows(&self, tags: &[&[u8]]) -> Result<Duration, ColdError> {
        self.up()?.make_rows(tags)
    }

    fn commit(&self, snapshots: &[Snapshot], now_ms: i64) -> Result<Vec<Committed>, ColdError> {
        std::thread::sleep(self.commit_time);
        self.up()?.commit(snapshots, now_ms)
    }

    fn set_status(&self, tags: &[&[u8]], status: Status) -> Result<(), ColdError> {
        self.up()?.set_status(tags, status)
    }

    fn note_access(&self, accesses: &[Access]) -> Result<(), ColdError> {
        self.up()?.note_access(accesses)
    }

    fn tag(&self, tag: &[u8]) -> Result<Option<TagRow>, ColdError> {
        self.up()?.tag(tag)
    }

    fn tags_after(&self, tag: Option<&[u8]>, limit: usize) -> Result<Vec<TagRow>, ColdError> {
        self.up()?.tags_after(tag, limit)
    }

    fn keys_after(&self, after: Option<(&[u8], &[u8])>, limit: usize) -> Result<Vec<KeyRow>, ColdError> {
        self.up()?.keys_after(after, limit)
    }

    fn erase(&self, tag: &[u8]) -> Result<u64, ColdError> {
        self.up()?.erase(tag)
    }

    fn wipe(&self, up_to: Version) -> Result<(), ColdError> {
        self.up()?.wipe(up_to)
    }

    fn purge(&self, expired_before_ms: i64, buried_before_ms: i64, limit: usize) -> Result<usize, ColdError> {
        self.up()?.purge(expired_before_ms, buried_before_ms, limit)
    }

    fn forget_empty(&self, up_to: Version, from: u64, limit: usize) -> Result<(usize, u64), ColdError> {
        self.up()?.forget_empty(up_to, from, limit)
    }

    fn newest(&self) -> Result<Version, ColdError> {
        self.up()?.newest()
    }

    fn totals(&self) -> Result<Totals, ColdError> {
        self.up()?.totals()
    }

    fn fact(&self, name: &str) -> Result<Option<Vec<u8>>, ColdError> {
        self.up()?.fact(name)
    }

    fn set_fact(&self, name: &str, value: &[u8]) -> Result<(), ColdError> {
        self.up()?.set_fact(name, value)
    }

    fn check(&self) -> Result<Vec<Finding>, ColdError> {
        self.up()?.check()
    }
}
