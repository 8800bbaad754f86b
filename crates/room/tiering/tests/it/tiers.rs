//! Both reference tiers in one value, with what the tests of the drivers need.

use std::sync::Arc;
use std::time::Duration;

use nagaya_clock::ManualClock;
use nagaya_tiering::cold::{ColdTier, Kind, StoredValue};
use nagaya_tiering::evictor::Evictor;
use nagaya_tiering::hot::HotTier;
use nagaya_tiering::loader::{Loader, LoaderConfig};
use nagaya_tiering::protocol::Touched;
use nagaya_tiering::reference::{MemoryCold, MemoryHot};
use nagaya_tiering::saver::{Saver, SaverConfig};
use nagaya_tiering::timing::Timing;

pub(crate) const SETTLE: Duration = Duration::from_secs(7);
pub(crate) const STALENESS: Duration = Duration::from_secs(5);

pub(crate) struct Tiers {
    pub(crate) clock: Arc<ManualClock>,
    pub(crate) hot: Arc<MemoryHot>,
    pub(crate) cold: Arc<MemoryCold>,
    pub(crate) loader: Loader,
}

impl Tiers {
    /// A tiers with leases, as the distributed form has them.
    pub(crate) fn with_leases() -> Tiers {
        Tiers::new(Timing {
            settle: SETTLE,
            allowance: Duration::from_secs(2),
        })
    }

    /// A tiers where a lock replaces leases, as in the embedded form.
    pub(crate) fn embedded() -> Tiers {
        Tiers::new(Timing::default())
    }

    /// The same, with new rows that others do not know of for a while.
    pub(crate) fn with_lag(lag: Duration) -> Tiers {
        let timing = Tiers::with_leases().hot.timing();
        Tiers::on(timing, MemoryCold::with_lag(lag))
    }

    fn new(timing: Timing) -> Tiers {
        Tiers::on(timing, MemoryCold::default())
    }

    fn on(timing: Timing, cold: MemoryCold) -> Tiers {
        let clock = Arc::new(ManualClock::default());
        let hot = Arc::new(MemoryHot::new(clock.clone(), timing));
        let cold = Arc::new(cold);
        let config = LoaderConfig {
            chunk_bytes: 8,
            ..LoaderConfig::default()
        };
        let loader = Loader::new(hot.clone(), cold.clone(), clock.clone(), config);
        Tiers {
            clock,
            hot,
            cold,
            loader,
        }
    }

    pub(crate) fn saver(&self) -> Saver {
        let config = SaverConfig {
            max_staleness: STALENESS,
            batch_tags: 3,
        };
        Saver::new(self.hot.clone(), self.cold.clone(), self.clock.clone(), config)
    }

    pub(crate) fn evictor(&self) -> Evictor {
        Evictor::new(self.hot.clone(), self.cold.clone(), self.clock.clone())
    }

    pub(crate) fn pass(&self, time: Duration) {
        self.clock.advance(time);
    }

    /// Loads the tag of a key and sets the key.
    pub(crate) fn set(&self, key: &[u8], value: &[u8]) {
        self.loader.load(nagaya_tiering::tag::tag_of(key)).unwrap();
        let value = StoredValue {
            kind: Kind::String,
            payload: value.to_vec(),
            expires_at_ms: None,
        };
        assert_eq!(self.hot.write(key, Some(value)), Touched::Granted);
    }

    /// Loads the tag of a key and deletes the key.
    pub(crate) fn delete(&self, key: &[u8]) {
        self.loader.load(nagaya_tiering::tag::tag_of(key)).unwrap();
        assert_eq!(self.hot.write(key, None), Touched::Granted);
    }

    /// Loads the tag of a key and reads the key.
    pub(crate) fn get(&self, key: &[u8]) -> Option<Vec<u8>> {
        self.loader.load(nagaya_tiering::tag::tag_of(key)).unwrap();
        self.hot.peek(key).map(|value| value.payload)
    }

    /// Returns what the cold tier holds under a key.
    pub(crate) fn cold_value(&self, key: &[u8]) -> Option<Vec<u8>> {
        let loaded = self
            .cold
            .read(&[nagaya_tiering::tag::tag_of(key)])
            .unwrap()
            .remove(0)?;
        loaded
            .rows
            .into_iter()
            .find(|row| row.key == key)
            .map(|row| row.value.payload)
    }

    /// Saves until nothing is dirty.
    pub(crate) fn save_all(&self, saver: &mut Saver) {
        saver.flush().unwrap();
        self.pass(SETTLE);
        saver.flush().unwrap();
    }
}
