//! The client's calls with the errors of the job store.

use nagaya_jobs::error::Error;
use nagaya_postgres_client::{Connection, Param, Pool, Row, Session, Transaction};

use crate::error::store_error;

/// Returns the statement of a block: `query!(running.find)` is the block `find` of `queries/running.sql`.
macro_rules! query {
    ($file:ident.$block:ident) => {{
        const SQL: &str = nagaya_sql::block(
            include_str!(concat!(
                env!("CARGO_MANIFEST_DIR"),
                "/src/queries/",
                stringify!($file),
                ".sql"
            )),
            stringify!($block),
        );
        SQL
    }};
}
pub(crate) use query;

/// Statements on a session. Each is prepared once and kept.
pub(crate) trait Queries {
    /// Returns all rows.
    async fn rows(&self, sql: &str, params: &[Param<'_>]) -> Result<Vec<Row>, Error>;
    /// Returns the row of a statement that always has one.
    async fn row(&self, sql: &str, params: &[Param<'_>]) -> Result<Row, Error>;
    /// Returns the first row, if there is one.
    async fn row_opt(&self, sql: &str, params: &[Param<'_>]) -> Result<Option<Row>, Error>;
    /// Returns how many rows were changed.
    async fn run(&self, sql: &str, params: &[Param<'_>]) -> Result<u64, Error>;
}

impl Queries for Session {
    async fn rows(&self, sql: &str, params: &[Param<'_>]) -> Result<Vec<Row>, Error> {
        self.query(sql, params).await.map_err(store_error)
    }

    async fn row(&self, sql: &str, params: &[Param<'_>]) -> Result<Row, Error> {
        self.query_one(sql, params).await.map_err(store_error)
    }

    async fn row_opt(&self, sql: &str, params: &[Param<'_>]) -> Result<Option<Row>, Error> {
        self.query_opt(sql, params).await.map_err(store_error)
    }

    async fn run(&self, sql: &str, params: &[Param<'_>]) -> Result<u64, Error> {
        self.execute(sql, params).await.map_err(store_error)
    }
}

/// Takes a connection out of a pool.
pub(crate) async fn connect(pool: &Pool) -> Result<Connection, Error> {
    pool.get().await.map_err(store_error)
}

/// Begins a transaction, which is rolled back unless [`commit`] ends it.
pub(crate) async fn begin(connection: &mut Connection) -> Result<Transaction<'_>, Error> {
    connection.transaction().await.map_err(store_error)
}

pub(crate) async fn commit(transaction: Transaction<'_>) -> Result<(), Error> {
    transaction.commit().await.map_err(store_error)
}
