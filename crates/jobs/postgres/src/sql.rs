//! The client's calls with the errors of the job store.

use nagaya_jobs::error::Error;
use nagaya_postgres_client::types::FromSql;
use nagaya_postgres_client::{Connection, Param, Pool, Row, Session, Transaction, scalar};

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

/// Statements on a session, with a function that reads each row. Each is prepared once and kept.
pub(crate) trait Queries {
    /// Returns all rows.
    async fn all<R>(
        &self,
        sql: &str,
        params: &[Param<'_>],
        read: impl Fn(&Row) -> R,
    ) -> Result<Vec<R>, Error>;
    /// Returns the first row, if there is one.
    async fn first<R>(
        &self,
        sql: &str,
        params: &[Param<'_>],
        read: impl Fn(&Row) -> R,
    ) -> Result<Option<R>, Error>;
    /// Returns the row of a statement that always has one.
    async fn one<R>(&self, sql: &str, params: &[Param<'_>], read: impl Fn(&Row) -> R) -> Result<R, Error>;
    /// Returns the values of a statement with one column.
    async fn scalars<T: Scalar>(&self, sql: &str, params: &[Param<'_>]) -> Result<Vec<T>, Error>;
    /// Returns the first value of a statement with one column, if there is one.
    async fn first_scalar<T: Scalar>(&self, sql: &str, params: &[Param<'_>]) -> Result<Option<T>, Error>;
    /// Returns the value of a statement with one column that always has one row.
    async fn scalar<T: Scalar>(&self, sql: &str, params: &[Param<'_>]) -> Result<T, Error>;
    /// Returns how many rows were changed.
    async fn run(&self, sql: &str, params: &[Param<'_>]) -> Result<u64, Error>;
}

/// A value of a column.
pub(crate) trait Scalar: for<'r> FromSql<'r> {}

impl<T: for<'r> FromSql<'r>> Scalar for T {}

impl Queries for Session {
    async fn all<R>(
        &self,
        sql: &str,
        params: &[Param<'_>],
        read: impl Fn(&Row) -> R,
    ) -> Result<Vec<R>, Error> {
        let rows = self.query(sql, params).await.map_err(store_error)?;
        Ok(rows.iter().map(read).collect())
    }

    async fn first<R>(
        &self,
        sql: &str,
        params: &[Param<'_>],
        read: impl Fn(&Row) -> R,
    ) -> Result<Option<R>, Error> {
        let row = self.query_opt(sql, params).await.map_err(store_error)?;
        Ok(row.as_ref().map(read))
    }

    async fn one<R>(&self, sql: &str, params: &[Param<'_>], read: impl Fn(&Row) -> R) -> Result<R, Error> {
        let row = self.query_one(sql, params).await.map_err(store_error)?;
        Ok(read(&row))
    }

    async fn scalars<T: Scalar>(&self, sql: &str, params: &[Param<'_>]) -> Result<Vec<T>, Error> {
        self.all(sql, params, |row| scalar(row)).await
    }

    async fn first_scalar<T: Scalar>(&self, sql: &str, params: &[Param<'_>]) -> Result<Option<T>, Error> {
        self.first(sql, params, |row| scalar(row)).await
    }

    async fn scalar<T: Scalar>(&self, sql: &str, params: &[Param<'_>]) -> Result<T, Error> {
        self.one(sql, params, |row| scalar(row)).await
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
