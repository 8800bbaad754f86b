//! The calls of one connection.
//!
//! A statement is prepared at its first use and cached by its text, so texts must be
//! constants (blocks of the caller's `queries` files), never assembled. Calls that
//! are polled together travel together: joining futures is how to pipeline.

use std::collections::HashMap;
use std::fmt;
use std::sync::Arc;
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use tokio::time::timeout;
use tokio_postgres::error::SqlState;
use tokio_postgres::types::ToSql;
use tokio_postgres::{Client, Row, Statement};

use crate::error::Error;

/// A parameter of a statement.
pub type Param<'a> = &'a (dyn ToSql + Sync);

/// Prepared statements that a connection caches; one more clears the cache. A program has far fewer texts, so this
/// only bounds a mistake.
const STATEMENTS_MAX: usize = 512;

/// One session on a server.
pub struct Session {
    client: Client,
    statements: Mutex<HashMap<Box<str>, Statement>>,
    /// A call was abandoned or the connection is broken; the pool then drops it.
    spoiled: AtomicBool,
    /// A statement was refused since a transaction began.
    refused: AtomicBool,
    address: Arc<str>,
    call_timeout: Duration,
}

impl Session {
    pub(crate) fn new(client: Client, address: &str, call_timeout: Duration) -> Session {
        Session {
            client,
            statements: Mutex::default(),
            spoiled: AtomicBool::new(false),
            refused: AtomicBool::new(false),
            address: address.into(),
            call_timeout,
        }
    }

    /// Runs a statement and returns its rows.
    pub async fn query(&self, sql: &str, params: &[Param<'_>]) -> Result<Vec<Row>, Error> {
        let statement = self.prepared(sql).await?;
        self.call("answer", self.client.query(&statement, params)).await
    }

    /// As [`query`](Session::query), with a limit of its own.
    pub async fn query_within(
        &self,
        sql: &str,
        params: &[Param<'_>],
        limit: Duration,
    ) -> Result<Vec<Row>, Error> {
        let statement = self.prepared(sql).await?;
        self.call_within("answer", limit, self.client.query(&statement, params))
            .await
    }

    /// Prepares a statement ahead of its use. Calls on prepared statements that are joined are sent in their
    /// order, all at once; one that is not prepared would be overtaken.
    pub async fn prepare(&self, sql: &str) -> Result<(), Error> {
        self.prepared(sql).await.map(drop)
    }

    /// Runs a statement that gives at most one row.
    pub async fn query_opt(&self, sql: &str, params: &[Param<'_>]) -> Result<Option<Row>, Error> {
        let mut rows = self.query(sql, params).await?;
        match rows.len() {
            0 | 1 => Ok(rows.pop()),
            count => Err(Error::Unexpected {
                found: format!("{count} rows in place of one"),
            }),
        }
    }

    /// Runs a statement that gives exactly one row.
    pub async fn query_one(&self, sql: &str, params: &[Param<'_>]) -> Result<Row, Error> {
        let row = self.query_opt(sql, params).await?;
        row.ok_or_else(|| Error::Unexpected {
            found: "end of rows in place of one".into(),
        })
    }

    /// Runs a statement and returns how many rows it touched.
    pub async fn execute(&self, sql: &str, params: &[Param<'_>]) -> Result<u64, Error> {
        let statement = self.prepared(sql).await?;
        self.call("answer", self.client.execute(&statement, params)).await
    }

    /// Runs statements without parameters, separated by semicolons, unprepared.
    pub async fn batch(&self, sql: &str) -> Result<(), Error> {
        self.call("answer", self.client.batch_execute(sql)).await
    }

    /// As [`batch`](Session::batch), with a limit of its own.
    pub async fn batch_within(&self, sql: &str, limit: Duration) -> Result<(), Error> {
        self.call_within("answer", limit, self.client.batch_execute(sql))
            .await
    }

    /// Returns the driver, for what this crate does not wrap (COPY). A call that is abandoned leaves the session in
    /// an unknown state: then call [`spoil`](Session::spoil).
    pub fn driver(&self) -> &Client {
        &self.client
    }

    /// Makes the pool drop this connection when it comes back.
    pub fn spoil(&self) {
        self.spoiled.store(true, Ordering::Relaxed);
    }

    /// Converts an error of the driver.
    pub fn failed(&self, source: tokio_postgres::Error) -> Error {
        if is_stale_plan(&source) {
            self.statements().clear();
        }
        self.refused.store(true, Ordering::Relaxed);
        let error = Error::of_call(source, &self.address);
        if error.spoils_connection() {
            self.spoil();
        }
        error
    }

    pub(crate) fn is_usable(&self) -> bool {
        !self.client.is_closed() && !self.spoiled.load(Ordering::Relaxed)
    }

    /// Returns whether a statement was refused since the last call.
    pub(crate) fn take_refused(&self) -> bool {
        self.refused.swap(false, Ordering::Relaxed)
    }

    pub(crate) fn address(&self) -> &str {
        &self.address
    }

    async fn prepared(&self, sql: &str) -> Result<Statement, Error> {
        if let Some(statement) = self.statements().get(sql) {
            return Ok(statement.clone());
        }
        let statement = self.call("prepare a statement", self.client.prepare(sql)).await?;
        let mut statements = self.statements();
        if statements.len() >= STATEMENTS_MAX {
            statements.clear();
        }
        statements.insert(sql.into(), statement.clone());
        Ok(statement)
    }

    fn statements(&self) -> std::sync::MutexGuard<'_, HashMap<Box<str>, Statement>> {
        self.statements
            .lock()
            .expect("no holder of this lock can panic: it only moves map entries")
    }

    async fn call<T>(
        &self,
        what: &'static str,
        future: impl Future<Output = Result<T, tokio_postgres::Error>>,
    ) -> Result<T, Error> {
        self.call_within(what, self.call_timeout, future).await
    }

    pub(crate) async fn call_within<T>(
        &self,
        what: &'static str,
        limit: Duration,
        future: impl Future<Output = Result<T, tokio_postgres::Error>>,
    ) -> Result<T, Error> {
        let mut flight = Flight {
            spoiled: &self.spoiled,
            landed: false,
        };
        let done = timeout(limit, future).await;
        flight.landed = done.is_ok();
        let done = done.map_err(|_| Error::TimedOut {
            address: self.address.to_string(),
            what,
            limit,
        })?;
        done.map_err(|source| self.failed(source))
    }
}

impl fmt::Debug for Session {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Session")
            .field("address", &self.address)
            .finish_non_exhaustive()
    }
}

/// Spoils the session when a call is dropped before its reply: the server may still be executing it.
struct Flight<'a> {
    spoiled: &'a AtomicBool,
    landed: bool,
}

impl Drop for Flight<'_> {
    fn drop(&mut self) {
        if !self.landed {
            self.spoiled.store(true, Ordering::Relaxed);
        }
    }
}

/// Returns whether a cached statement is stale: a migration changed what it returns, or the session discarded it.
fn is_stale_plan(error: &tokio_postgres::Error) -> bool {
    let code = error.code();
    code == Some(&SqlState::FEATURE_NOT_SUPPORTED) || code == Some(&SqlState::INVALID_SQL_STATEMENT_NAME)
}
