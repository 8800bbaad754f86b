//! Both tiers under one roof: a real Redis and a cold tier in memory.

use std::sync::Arc;
use std::time::Duration;

use nagaya_clock::SystemClock;
use nagaya_redis_client::Frame;
use nagaya_tiering::cold::{ColdTier, StoredValue};
use nagaya_tiering::evictor::{EvictReport, Evictor};
use nagaya_tiering::loader::{Loader, LoaderConfig};
use nagaya_tiering::reference::MemoryCold;
use nagaya_tiering::saver::{Saver, SaverConfig};
use nagaya_tiering::tag::tag_of;

use super::bench::Bench;

pub(crate) struct Setup {
    pub(crate) bench: Bench,
    pub(crate) cold: Arc<MemoryCold>,
    pub(crate) loader: Loader,
}

impl Setup {
    pub(crate) fn open(url: &str) -> Setup {
        Setup::over(url, Arc::default())
    }

    /// Opens with what an earlier setup has saved.
    pub(crate) fn over(url: &str, cold: Arc<MemoryCold>) -> Setup {
        let bench = Bench::open(url);
        let hot = Arc::new(bench.tier.clone());
        let clock = Arc::new(SystemClock);
        let loader = Loader::new(hot, cold.clone(), clock, LoaderConfig::default());
        Setup { bench, cold, loader }
    }

    pub(crate) fn saver(&self) -> Saver {
        let hot = Arc::new(self.bench.tier.clone());
        let config = SaverConfig {
            max_staleness: Duration::ZERO,
            batch_tags: 64,
        };
        Saver::new(hot, self.cold.clone(), Arc::new(SystemClock), config)
    }

    pub(crate) fn evictor(&self) -> Evictor {
        let hot = Arc::new(self.bench.tier.clone());
        Evictor::new(hot, self.cold.clone(), Arc::new(SystemClock))
    }

    /// Loads the tag of a key and writes to the key.
    #[track_caller]
    pub(crate) fn write(&self, key: &[u8], args: &[&[u8]]) -> Frame {
        self.loader.load(tag_of(key)).unwrap();
        self.bench.write(key, args)
    }

    #[track_caller]
    pub(crate) fn set(&self, key: &[u8], value: &[u8]) {
        self.write(key, &[b"SET", key, value]);
    }

    /// Loads the tag of a key and reads the key.
    #[track_caller]
    pub(crate) fn get(&self, key: &[u8]) -> Option<Vec<u8>> {
        self.loader.load(tag_of(key)).unwrap();
        self.bench.get(key)
    }

    /// Saves until nothing is dirty.
    #[track_caller]
    pub(crate) fn save(&self) {
        let mut saver = self.saver();
        nagaya_testkit::wait::until("everything is saved", Duration::from_secs(20), || {
            let report = saver.flush().unwrap();
            assert_eq!((report.refused, report.skipped), (0, 0));
            report.saved == 0
        });
    }

    /// Saves and evicts a tag.
    #[track_caller]
    pub(crate) fn evict(&self, tag: &[u8]) {
        self.save();
        let report = self.evictor().evict(&[tag]).unwrap();
        let expected = EvictReport {
            marked: 1,
            evicted: 1,
            delays: report.delays,
            ..EvictReport::default()
        };
        assert_eq!(report, expected);
    }

    /// What the cold tier holds under a key.
    pub(crate) fn row(&self, key: &[u8]) -> Option<StoredValue> {
        let loaded = self.cold.read(&[tag_of(key)]).unwrap().remove(0)?;
        loaded
            .rows
            .into_iter()
            .find(|row| row.key == key)
            .map(|row| row.value)
    }
}
