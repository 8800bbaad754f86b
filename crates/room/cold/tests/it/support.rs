//! Short ways to say what the tests do.

use std::env;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};

use nagaya_cold::sqlite::Scope;
use nagaya_cold::{Options, SqliteCold};
use nagaya_store::rdb;
use nagaya_store::value::{StrRef, ValueRef};
use nagaya_tiering::cold::{Change, ColdTier, Committed, Kind, Snapshot, StoredValue, Version};
use tempfile::TempDir;

/// A directory with one file in it, removed at the end.
pub(crate) struct Place(TempDir);

impl Place {
    pub(crate) fn new() -> Place {
        Place(TempDir::new().unwrap())
    }

    pub(crate) fn path(&self) -> PathBuf {
        self.0.path().join("cold.db")
    }

    pub(crate) fn open(&self) -> SqliteCold {
        open(&self.path())
    }
}

pub(crate) fn open(path: &Path) -> SqliteCold {
    SqliteCold::open(path, Options::default()).unwrap()
}

/// Names the file to a child process.
const CHILD: &str = "NAGAYA_COLD_TEST_CHILD";

/// Runs one test of this binary again, as a child that is told a file and whose output is read.
pub(crate) fn start_child(test: &str, path: &Path) -> Child {
    Command::new(env::current_exe().unwrap())
        .args([test, "--exact", "--nocapture"])
        .env(CHILD, path)
        .stdout(Stdio::piped())
        .stderr(Stdio::null())
        .spawn()
        .unwrap()
}

/// Returns the file that a child was told; nothing in the process that runs the tests.
pub(crate) fn child_path() -> Option<PathBuf> {
    env::var_os(CHILD).map(PathBuf::from)
}

pub(crate) fn version(generation: u64, snap: u64) -> Version {
    Version { generation, snap }
}

pub(crate) fn payload(text: &[u8]) -> Vec<u8> {
    rdb::dump_value(ValueRef::Str(StrRef::Bytes(text)))
}

pub(crate) fn put(key: &[u8], text: &[u8]) -> Change {
    Change {
        key: key.to_vec(),
        value: Some(StoredValue {
            kind: Kind::String,
            payload: payload(text),
            expires_at_ms: None,
        }),
    }
}

pub(crate) fn expiring(key: &[u8], text: &[u8], expires_at_ms: i64) -> Change {
    let mut change = put(key, text);
    change.value.as_mut().unwrap().expires_at_ms = Some(expires_at_ms);
    change
}

pub(crate) fn gone(key: &[u8]) -> Change {
    Change {
        key: key.to_vec(),
        value: None,
    }
}

pub(crate) fn snapshot(tag: &[u8], version: Version, changes: Vec<Change>) -> Snapshot {
    Snapshot {
        tag: tag.to_vec(),
        version,
        changes,
        read_at_ms: None,
        written_at_ms: None,
    }
}

/// Makes the tag's row if needed and commits one snapshot of generation 1.
#[track_caller]
pub(crate) fn save(cold: &SqliteCold, tag: &[u8], snap: u64, changes: Vec<Change>) {
    cold.ensure(&[tag]).unwrap();
    let outcome = cold
        .commit(&[snapshot(tag, version(1, snap), changes)], 1_000)
        .unwrap();
    assert_eq!(outcome, [Committed::Saved]);
}

/// Returns names and payloads of a tag's keys.
#[track_caller]
pub(crate) fn rows(cold: &SqliteCold, tag: &[u8]) -> Vec<(Vec<u8>, Vec<u8>)> {
    let loaded = cold.read(&[tag]).unwrap().remove(0).unwrap_or_default();
    let pairs = loaded.rows.into_iter().map(|row| (row.key, row.value.payload));
    pairs.collect()
}

/// Checks that nothing is wrong with the file.
#[track_caller]
pub(crate) fn assert_sound(cold: &SqliteCold) {
    assert_eq!(cold.check_with(Scope::Whole, &mut |_| ()).unwrap(), []);
}
