//! The cold tier in one SQLite file.
//!
//! One connection writes and a few read, all in write-ahead-log mode: reads never
//! wait for commits. A commit that has returned is synced to the disk. Other
//! processes may open the same file; tools do so while the server is running.

mod check;
mod error;
mod list;
mod load;
mod migrate;
mod open;
mod readers;
mod remove;
mod rows;
mod save;
mod totals;
mod wal_limit;
mod writer;

use std::path::{Path, PathBuf};

use nagaya_tiering::cold::{
    Access, Claimed, ColdError, ColdTier, Committed, Finding, KeyRow, Loaded, Snapshot, Status, TagNames,
    TagRow, Totals, Version,
};
use rusqlite::Connection;

pub use check::{COUNT_ANEW, Progress, Scope};
pub use error::OpenError;
pub use open::Options;

use crate::decode::decode;
use check::Payloads;
use error::cold_error;
use migrate::SCHEMA;
use readers::Readers;
use save::Decoded;
use wal_limit::WalLimit;
use writer::Writer;

/// A cold tier in a SQLite file.
pub struct SqliteCold {
    path: PathBuf,
    readers: Readers,
    /// `None` when opened for reading only.
    writer: Option<Writer>,
    decode: bool,
}

impl SqliteCold {
    /// Opens the file, or makes it, and brings its schema up to date.
    pub fn open(path: impl AsRef<Path>, options: Options) -> Result<SqliteCold, OpenError> {
        let path = path.as_ref();
        let connection = open::writer(path, &options)?;
        let limit = WalLimit::new(path, options.wal_bytes_max, options.busy_timeout);
        Ok(SqliteCold {
            path: path.to_owned(),
            readers: pool(path, &options, open::reader)?,
            writer: Some(Writer::new(connection, limit)),
            decode: options.decode,
        })
    }

    /// Opens an existing file for a tool that changes nothing, also while the server is running.
    /// Calls that write fail.
    pub fn open_read_only(path: impl AsRef<Path>, options: Options) -> Result<SqliteCold, OpenError> {
        let path = path.as_ref();
        Ok(SqliteCold {
            path: path.to_owned(),
            readers: pool(path, &options, open::read_only)?,
            writer: None,
            decode: options.decode,
        })
    }

    /// Brings a file that is not in use to another schema, for a program older than this one.
    /// Going down loses what the older schema has no place for; schema 0 loses everything.
    pub fn migrate_to(path: impl AsRef<Path>, schema: u32) -> Result<(), OpenError> {
        let path = path.as_ref();
        let connection = Connection::open(path).map_err(|error| OpenError::failed(path, error))?;
        Ok(SCHEMA.to(&connection, path, schema)?)
    }

    /// Looks for damage in all of the file or in a sample of its tags, and restores each payload on the way.
    pub fn check_with(
        &self,
        scope: Scope,
        progress: &mut dyn FnMut(Progress),
    ) -> Result<Vec<Finding>, ColdError> {
        self.read_one(|connection| check::check(connection, scope, Payloads::Restore, progress))
    }

    /// Removes keys without a tag and recounts keys and bytes of all tags: the remedy for what a check
    /// finds wrong with them. Reads every row.
    pub fn recount(&self) -> Result<(), ColdError> {
        self.write(0, check::recount)
    }

    /// Removes what is left of a tag without keys: its tombstones and its row. Returns whether anything is
    /// left: a tag with keys stays, and so does one whose last save is after `checkpoint`, because the log
    /// would be replayed on it.
    pub fn forget(&self, tag: &[u8], checkpoint: u64) -> Result<bool, ColdError> {
        self.write(1, |connection| remove::forget(connection, tag, checkpoint))
    }

    /// Moves everything from SQLite's own write-ahead log to the file and empties the log, so that no
    /// earlier state of a page is left in it. Fails as unavailable while a reader uses an old state.
    pub fn empty_wal(&self) -> Result<(), ColdError> {
        match &self.writer {
            Some(writer) => writer.empty_wal().map_err(cold_error),
            None => Err(ColdError::Failed("the file was opened for reading only".into())),
        }
    }

    fn read_one<T>(&self, work: impl FnOnce(&Connection) -> rusqlite::Result<T>) -> Result<T, ColdError> {
        self.readers.run(work).map_err(cold_error)
    }

    fn read_many<T>(&self, work: impl FnOnce(&Connection) -> rusqlite::Result<T>) -> Result<T, ColdError> {
        self.readers.run_at_once(work).map_err(cold_error)
    }

    fn write<T>(
        &self,
        rows: usize,
        work: impl Fn(&Connection) -> rusqlite::Result<T>,
    ) -> Result<T, ColdError> {
        match &self.writer {
            Some(writer) => writer.run(rows, work).map_err(cold_error),
            None => Err(ColdError::Failed("the file was opened for reading only".into())),
        }
    }

    fn decoded(&self, snapshots: &[Snapshot]) -> Decoded {
        if !self.decode {
            return Decoded::new();
        }
        let json_of = |snapshot: &Snapshot| {
            let payloads = snapshot.changes.iter().map(|change| change.value.as_ref());
            payloads.map(|value| decode(&value?.payload)).collect()
        };
        snapshots.iter().map(json_of).collect()
    }
}

fn pool(
    path: &Path,
    options: &Options,
    open: fn(&Path, &Options) -> Result<Connection, OpenError>,
) -> Result<Readers, OpenError> {
    let connections = (0..options.readers.max(1)).map(|_| open(path, options));
    Ok(Readers::new(connections.collect::<Result<_, _>>()?))
}

impl ColdTier for SqliteCold {
    fn generations(&self, tags: &[&[u8]]) -> Result<Vec<Option<u64>>, ColdError> {
        self.read_many(|connection| load::generations(connection, tags))
    }

    fn claim(&self, tag: &[u8], base: Option<u64>) -> Result<Claimed, ColdError> {
        self.write(1, |connection| load::claim(connection, tag, base))
    }

    fn read(&self, tags: &[&[u8]]) -> Result<Vec<Option<Loaded>>, ColdError> {
        match tags {
            [_] => self.read_one(|connection| load::read(connection, tags)),
            _ => self.read_many(|connection| load::read(connection, tags)),
        }
    }

    fn ensure(&self, tags: &[&[u8]]) -> Result<(), ColdError> {
        self.write(tags.len(), |connection| save::ensure(connection, tags))
    }

    fn commit(&self, snapshots: &[Snapshot], now_ms: i64) -> Result<Vec<Committed>, ColdError> {
        let decoded = self.decoded(snapshots);
        let rows = snapshots.iter().map(|snapshot| snapshot.changes.len()).sum();
        self.write(rows, |connection| {
            save::commit(connection, snapshots, &decoded, now_ms)
        })
    }

    fn set_status(&self, tags: &[&[u8]], status: Status) -> Result<(), ColdError> {
        self.write(tags.len(), |connection| {
            save::set_status(connection, tags, status)
        })
    }

    fn note_access(&self, accesses: &[Access]) -> Result<(), ColdError> {
        self.write(accesses.len(), |connection| {
            save::note_access(connection, accesses)
        })
    }

    fn tag(&self, tag: &[u8]) -> Result<Option<TagRow>, ColdError> {
        self.read_one(|connection| list::tag(connection, tag))
    }

    fn tags_after(&self, tag: Option<&[u8]>, limit: usize) -> Result<Vec<TagRow>, ColdError> {
        self.read_one(|connection| list::tags_after(connection, tag, limit))
    }

    fn keys_after(&self, after: Option<(&[u8], &[u8])>, limit: usize) -> Result<Vec<KeyRow>, ColdError> {
        self.read_many(|connection| list::keys_after(connection, after, limit))
    }

    fn erase(&self, tag: &[u8]) -> Result<u64, ColdError> {
        self.write(1, |connection| remove::erase(connection, tag))
    }

    fn wipe(&self, up_to: Version) -> Result<(), ColdError> {
        self.write(0, |connection| remove::wipe(connection, up_to))
    }

    fn wipe_some(&self, names: &TagNames, up_to: Version) -> Result<(), ColdError> {
        self.write(0, |connection| remove::wipe_some(connection, names, up_to))
    }

    fn keys_of(&self, names: &TagNames) -> Result<u64, ColdError> {
        self.read_many(|connection| remove::keys_of(connection, names))
    }

    fn purge(&self, expired_before_ms: i64, buried_before_ms: i64, limit: usize) -> Result<usize, ColdError> {
        self.purge_telling(expired_before_ms, buried_before_ms, limit, &mut |_, _| ())
    }

    fn purge_telling(
        &self,
        expired_before_ms: i64,
        buried_before_ms: i64,
        limit: usize,
        tell: &mut dyn FnMut(&[u8], u64),
    ) -> Result<usize, ColdError> {
        let purged = self.write(limit, |connection| {
            remove::purge(connection, expired_before_ms, buried_before_ms, limit)
        })?;
        purged.keys.iter().for_each(|(tag, keys)| tell(tag, *keys));
        Ok(purged.rows)
    }

    fn forget_empty(&self, up_to: Version, from: u64, limit: usize) -> Result<(usize, u64), ColdError> {
        self.write(limit, |connection| {
            remove::forget_empty(connection, up_to, from, limit)
        })
    }

    fn newest(&self) -> Result<Version, ColdError> {
        self.read_one(|connection| Ok(totals::get(connection)?.1))
    }

    fn totals(&self) -> Result<Totals, ColdError> {
        let (sums, _) = self.read_one(totals::get)?;
        let bytes_of = |path: &Path| std::fs::metadata(path).map_or(0, |file| file.len());
        Ok(Totals {
            tags: sums.tags.unsigned_abs(),
            keys: sums.keys.unsigned_abs(),
            tombstones: sums.tombstones.unsigned_abs(),
            bytes: sums.bytes.unsigned_abs(),
            disk_bytes: bytes_of(&self.path) + bytes_of(&wal_limit::path_of(&self.path)),
        })
    }

    fn fact(&self, name: &str) -> Result<Option<Vec<u8>>, ColdError> {
        self.read_one(|connection| list::fact(connection, name))
    }

    fn set_fact(&self, name: &str, value: &[u8]) -> Result<(), ColdError> {
        self.write(1, |connection| list::set_fact(connection, name, value))
    }

    fn check(&self) -> Result<Vec<Finding>, ColdError> {
        self.read_one(|connection| check::check(connection, Scope::Whole, Payloads::Skip, &mut |_| ()))
    }
}
