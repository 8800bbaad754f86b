//! Opening the file: connections and how they are set.

use std::path::Path;
use std::thread;
use std::time::Duration;

use nagaya_sqlite_client::scalar;
use rusqlite::config::DbConfig;
use rusqlite::{Connection, OpenFlags};

use super::error::OpenError;
use super::migrate::SCHEMA;
use super::wal_limit::{AUTOCHECKPOINT_PAGES, KEPT_BYTES};

/// How the file is used.
#[derive(Clone, Debug)]
pub struct Options {
    /// Whether to keep each value as JSON beside its payload, for operators.
    pub decode: bool,
    /// Connections that read; as many reads run at once.
    pub readers: usize,
    /// How long to wait for another process that writes.
    pub busy_timeout: Duration,
    /// Memory for pages of the connection that writes, in bytes.
    pub cache_bytes: u64,
    /// Most of the file that each reader maps into memory, in bytes.
    pub mmap_bytes: u64,
    /// Size of the write-ahead log above which it is emptied, in bytes.
    pub wal_bytes_max: u64,
    /// Size of the database above which commits fail as if the disk were full.
    pub database_bytes_max: Option<u64>,
}

impl Default for Options {
    fn default() -> Self {
        Options {
            decode: false,
            // One for each of four threads that load, and one for lists.
            readers: 5,
            busy_timeout: Duration::from_secs(5),
            cache_bytes: 64 << 20,
            mmap_bytes: 256 << 20,
            wal_bytes_max: 256 << 20,
            database_bytes_max: None,
        }
    }
}

/// Prepared statements that each connection keeps: more than there are, so that none is evicted.
const STATEMENTS: usize = 64;
/// Page cache of a reader in bytes. Small, because readers map the file.
const READER_CACHE_BYTES: u64 = 8 << 20;
/// How often, and after which pause, opening is retried while another process holds the file: five seconds in all.
const PREPARE_TRIES: u32 = 250;
const PREPARE_PAUSE: Duration = Duration::from_millis(20);

/// Opens the connection that writes; makes the file and brings its schema up to date.
pub(super) fn writer(path: &Path, options: &Options) -> Result<Connection, OpenError> {
    let connection = Connection::open(path).map_err(|error| OpenError::failed(path, error))?;
    // Switching the journal does not wait for another process that does the same.
    let mut tries = 0;
    loop {
        match prepare(&connection, path, options) {
            Err(OpenError::Failed { source, .. }) if source.is_retryable() && tries < PREPARE_TRIES => {
                tries += 1;
                thread::sleep(PREPARE_PAUSE);
            }
            Err(error) => return Err(error),
            Ok(()) => return Ok(connection),
        }
    }
}

/// Opens a connection of the server that only reads.
pub(super) fn reader(path: &Path, options: &Options) -> Result<Connection, OpenError> {
    // Not opened read-only: only then can it recover the log after a crash.
    let flags = OpenFlags::SQLITE_OPEN_READ_WRITE | OpenFlags::SQLITE_OPEN_NO_MUTEX;
    let connection =
        Connection::open_with_flags(path, flags).map_err(|error| OpenError::failed(path, error))?;
    set_reader(&connection, options).map_err(|error| OpenError::failed(path, error))?;
    Ok(connection)
}

/// Opens a connection of a tool that may run beside the server and must not change anything.
pub(super) fn read_only(path: &Path, options: &Options) -> Result<Connection, OpenError> {
    let flags = OpenFlags::SQLITE_OPEN_READ_ONLY | OpenFlags::SQLITE_OPEN_NO_MUTEX;
    let connection =
        Connection::open_with_flags(path, flags).map_err(|error| OpenError::failed(path, error))?;
    set_reader(&connection, options).map_err(|error| OpenError::failed(path, error))?;
    SCHEMA.require_newest(&connection, path)?;
    Ok(connection)
}

fn prepare(connection: &Connection, path: &Path, options: &Options) -> Result<(), OpenError> {
    let failed = |error| OpenError::failed(path, error);
    connection.busy_timeout(options.busy_timeout).map_err(failed)?;
    // Before anything is changed: is the file ours?
    SCHEMA.version_of(connection, path)?;
    set_writer(connection, options).map_err(failed)?;
    Ok(SCHEMA.upgrade(connection, path)?)
}

fn set_writer(connection: &Connection, options: &Options) -> rusqlite::Result<()> {
    set_statements(connection)?;
    connection.pragma_update(None, "journal_mode", "WAL")?;
    connection.pragma_update(None, "synchronous", "FULL")?;
    connection.pragma_update(None, "wal_autocheckpoint", AUTOCHECKPOINT_PAGES)?;
    // What is deleted is overwritten, not just unlinked: an erased tag leaves nothing in free pages.
    connection.pragma_update(None, "secure_delete", true)?;
    connection.pragma_update(None, "journal_size_limit", KEPT_BYTES as i64)?;
    set_cache(connection, options.cache_bytes)?;
    if let Some(bytes) = options.database_bytes_max {
        let page_bytes: u64 = connection.pragma_query_value(None, "page_size", scalar)?;
        connection.pragma_update(None, "max_page_count", (bytes / page_bytes).max(1) as i64)?;
    }
    Ok(())
}

fn set_reader(connection: &Connection, options: &Options) -> rusqlite::Result<()> {
    set_statements(connection)?;
    connection.busy_timeout(options.busy_timeout)?;
    connection.pragma_update(None, "query_only", true)?;
    connection.pragma_update(None, "mmap_size", options.mmap_bytes.min(i64::MAX as u64) as i64)?;
    set_cache(connection, READER_CACHE_BYTES.min(options.cache_bytes / 4))
}

/// Keeps statements, and keeps them as they are: because of the partial indexes SQLite would otherwise plan
/// most of them again for each new parameter, which costs more than running them.
fn set_statements(connection: &Connection) -> rusqlite::Result<()> {
    connection.set_prepared_statement_cache_capacity(STATEMENTS);
    connection.set_db_config(DbConfig::SQLITE_DBCONFIG_ENABLE_QPSG, true)?;
    Ok(())
}

/// SQLite takes a size in KiB as a negative number.
fn set_cache(connection: &Connection, bytes: u64) -> rusqlite::Result<()> {
    connection.pragma_update(None, "cache_size", -((bytes >> 10) as i64))
}

#[cfg(test)]
mod tests {
    use nagaya_sql::block;
    use rusqlite::StatementStatus;

    use super::*;

    #[test]
    fn statements_are_planned_once() {
        let directory = tempfile::TempDir::new().unwrap();
        let path = directory.path().join("cold.db");
        let options = Options::default();
        let writer = writer(&path, &options).unwrap();
        for connection in [&writer, &reader(&path, &options).unwrap()] {
            for sql in [
                block(include_str!("queries/keys.sql"), "load"),
                block(include_str!("queries/tags.sql"), "fence"),
            ] {
                let mut statement = connection.prepare(sql).unwrap();
                for tag in 0..5u8 {
                    statement.exists([[tag]]).unwrap();
                }
                assert_eq!(statement.get_status(StatementStatus::RePrepare), 0);
            }
        }
    }
}
