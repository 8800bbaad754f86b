//! Opening the file, and the settings of its connections.

use std::fs::{File, TryLockError};
use std::path::{Path, PathBuf};
use std::time::Duration;

use nagaya_jobs::clock::{GRACE_MAX, span_ms};
use nagaya_process::Ground;
use rusqlite::config::DbConfig;
use rusqlite::{Connection, OpenFlags};

use crate::error::{OpenError, store_error};
use crate::migrate::SCHEMA;
use crate::sql::{query, run, scalar};

/// Options of the store.
#[derive(Clone, Debug)]
pub struct Options {
    /// Reader threads; the number of concurrent reads.
    pub readers: usize,
    /// Page cache of the writer, in bytes.
    pub cache_bytes: u64,
    /// Memory map of each reader, in bytes.
    pub mmap_bytes: u64,
    /// Size of the database above which commits fail as if the disk were full.
    pub database_bytes_max: Option<u64>,
    /// Places that must not be lost while the store is open. The store adds its file.
    pub ground: Ground,
}

impl Default for Options {
    fn default() -> Options {
        Options {
            readers: 2,
            cache_bytes: 128 << 20,
            mmap_bytes: 256 << 20,
            database_bytes_max: None,
            ground: Ground::default(),
        }
    }
}

/// Prepared statements cached per connection; above the number of statements.
const STATEMENTS: usize = 256;
/// Page cache of a reader, in bytes, besides its memory map.
const READER_CACHE_BYTES: u64 = 8 << 20;
/// Bytes per page. Larger than the default, because rows are moved more often than looked up.
const PAGE_BYTES: u64 = 8 << 10;
/// How long to wait for another process that holds a lock on the file, such as a tool.
const BUSY_TIMEOUT: Duration = Duration::from_secs(5);

/// Takes the lock that excludes a second server. It is held as long as the value lives.
pub(crate) fn lock(path: &Path) -> Result<File, OpenError> {
    let failed = |error: std::io::Error| OpenError::failed(path, nagaya_jobs::Error::Failed(error.into()));
    let file = File::create(beside(path, "-lock")).map_err(failed)?;
    match file.try_lock() {
        Ok(()) => Ok(file),
        Err(TryLockError::WouldBlock) => Err(OpenError::InUse {
            path: path.to_owned(),
        }),
        Err(TryLockError::Error(error)) => Err(failed(error)),
    }
}

/// Opens the writer's connection; creates the file and upgrades its schema.
pub(crate) fn writer(path: &Path, options: &Options) -> Result<Connection, OpenError> {
    let failed = |error: rusqlite::Error| OpenError::failed(path, store_error(error));
    // Each connection belongs to one thread.
    let flags =
        OpenFlags::SQLITE_OPEN_READ_WRITE | OpenFlags::SQLITE_OPEN_CREATE | OpenFlags::SQLITE_OPEN_NO_MUTEX;
    let connection = Connection::open_with_flags(path, flags).map_err(failed)?;
    let set = || -> rusqlite::Result<()> {
        connection.busy_timeout(BUSY_TIMEOUT)?;
        keep_plans(&connection)?;
        connection.pragma_update(None, "page_size", PAGE_BYTES)?;
        connection.pragma_update(None, "journal_mode", "WAL")?;
        // A commit is on the disk when it returns.
        connection.pragma_update(None, "synchronous", "FULL")?;
        connection.pragma_update(None, "cache_size", -kib(options.cache_bytes))?;
        connection.pragma_update(None, "temp_store", "MEMORY")?;
        // Checkpoints run on their own thread, so that no commit waits for one.
        connection.pragma_update(None, "wal_autocheckpoint", 0)?;
        if let Some(bytes) = options.database_bytes_max {
            let page = connection.pragma_query_value(None, "page_size", scalar::<i64>)?;
            let pages = i64::try_from(bytes).unwrap_or(i64::MAX) / page.max(1);
            connection.pragma_update(None, "max_page_count", pages)?;
        }
        Ok(())
    };
    set().map_err(failed)?;
    SCHEMA.upgrade(&connection, path)?;
    Ok(connection)
}

/// Gives the holders of leases time to be heard after a start: while the server was down, they could neither report
/// nor ask for more.
pub(crate) fn renew_leases(connection: &Connection, now_ms: i64) -> Result<(), nagaya_jobs::Error> {
    run(connection, query!(running.shift_back), [now_ms])?;
    run(connection, query!(running.grace), [now_ms, span_ms(GRACE_MAX)])?;
    Ok(())
}

/// Opens a read-only connection.
pub(crate) fn reader(path: &Path, options: &Options) -> Result<Connection, OpenError> {
    let failed = |error: rusqlite::Error| OpenError::failed(path, store_error(error));
    let flags = OpenFlags::SQLITE_OPEN_READ_WRITE | OpenFlags::SQLITE_OPEN_NO_MUTEX;
    let connection = Connection::open_with_flags(path, flags).map_err(failed)?;
    let set = || -> rusqlite::Result<()> {
        connection.busy_timeout(BUSY_TIMEOUT)?;
        keep_plans(&connection)?;
        connection.pragma_update(None, "query_only", true)?;
        connection.pragma_update(None, "cache_size", -kib(READER_CACHE_BYTES))?;
        connection.pragma_update(None, "mmap_size", i64::try_from(options.mmap_bytes).unwrap_or(0))?;
        connection.pragma_update(None, "temp_store", "MEMORY")
    };
    set().map_err(failed)?;
    Ok(connection)
}

/// Caches prepared statements, and makes their plans independent of bound values: otherwise each new LIMIT
/// would be planned again.
fn keep_plans(connection: &Connection) -> rusqlite::Result<()> {
    connection.set_prepared_statement_cache_capacity(STATEMENTS);
    connection.set_db_config(DbConfig::SQLITE_DBCONFIG_ENABLE_QPSG, true)?;
    Ok(())
}

/// Opens the connection that runs checkpoints.
pub(crate) fn checkpointer(path: &Path) -> Result<Connection, OpenError> {
    let failed = |error: rusqlite::Error| OpenError::failed(path, store_error(error));
    let connection = Connection::open(path).map_err(failed)?;
    connection
        .pragma_update(None, "synchronous", "FULL")
        .map_err(failed)?;
    Ok(connection)
}

/// Returns the path of a file next to the database.
pub(crate) fn beside(path: &Path, suffix: &str) -> PathBuf {
    let mut name = path.as_os_str().to_owned();
    name.push(suffix);
    PathBuf::from(name)
}

fn kib(bytes: u64) -> i64 {
    i64::try_from(bytes >> 10).unwrap_or(i64::MAX)
}
