//! What concerns PostgreSQL only.

mod crash;
mod miss_filter;
mod races;
mod schema;
mod wal;

use std::collections::HashMap;
use std::sync::Mutex;
use std::time::Duration;

use nagaya_cold::PostgresCold;
use nagaya_cold::postgres::Options;
use nagaya_testkit::shared;
use nagaya_tiering::cold::{ColdTier, Committed, Loaded};

use crate::support::{snapshot, version};

pub(crate) const PATIENCE: Duration = Duration::from_secs(60);

/// No process keeps a filter, so none waits for one.
pub(crate) fn unfiltered() -> Options {
    Options {
        filter: false,
        filter_lag: None,
        ..Options::default()
    }
}

/// A filter that is never far behind, so that waits are short.
pub(crate) fn filtered() -> Options {
    Options {
        filter_lag: Some(Duration::from_millis(20)),
        ..Options::default()
    }
}

/// Calls a case of the suite with an empty tier. Making a schema takes long, so tiers are emptied and used
/// again by cases with the same options, which a name distinguishes.
pub(crate) fn with_tier(name: &'static str, options: Options, case: fn(&dyn ColdTier)) {
    type Tiers = HashMap<&'static str, Vec<(String, PostgresCold)>>;
    static TIERS: Mutex<Option<Tiers>> = Mutex::new(None);
    let used = TIERS
        .lock()
        .unwrap()
        .get_or_insert_default()
        .get_mut(name)
        .and_then(Vec::pop);
    let (url, cold) = used.unwrap_or_else(|| {
        let url = shared::postgres().create_database();
        let cold = open_at(&url, options);
        (url, cold)
    });
    case(&cold);
    shared::postgres().psql(
        &url,
        "DELETE FROM room_keys; DELETE FROM room_tags; DELETE FROM room_totals;
         DELETE FROM room_facts WHERE name <> 'filter_lag_ms'",
    );
    let mut tiers = TIERS.lock().unwrap();
    tiers
        .get_or_insert_default()
        .entry(name)
        .or_default()
        .push((url, cold));
}

/// Opens a tier in a database of its own.
pub(crate) fn open(options: Options) -> PostgresCold {
    open_at(&shared::postgres().create_database(), options)
}

pub(crate) fn open_at(url: &str, options: Options) -> PostgresCold {
    PostgresCold::open(url, options).unwrap()
}

/// Makes the tag's row if needed and commits one snapshot of generation 1.
#[track_caller]
pub(crate) fn save(cold: &PostgresCold, tag: &[u8], snap: u64, changes: Vec<nagaya_tiering::cold::Change>) {
    cold.ensure(&[tag]).unwrap();
    let outcome = cold
        .commit(&[snapshot(tag, version(1, snap), changes)], 1_000)
        .unwrap();
    assert_eq!(outcome, [Committed::Saved]);
}

pub(crate) fn load(cold: &PostgresCold, tag: &[u8]) -> Loaded {
    cold.read(&[tag]).unwrap().remove(0).unwrap_or_default()
}
