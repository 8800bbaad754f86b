//! What every PostgreSQL client of this workspace shares: connecting, a bounded pool,
//! migrations, and notifications of changes.
//!
//! The driver's error types end here: an [`Error`] says which side caused it and whether
//! a call may have run. Rows and parameters are passed through as the driver has them
//! ([`Row`], [`types`]).
//!
//! Suggested reading order: the URL, how a connection is made, one connection's
//! calls and transactions, the pool, migrations, then listening and notifying.

// `nagaya_sql::row!` names the row type by this crate.
extern crate self as nagaya_postgres_client;

mod url;

mod connector;
mod tls;

mod session;

mod scalar;
mod transaction;

mod pool;

mod migrate;

mod listener;
mod notifier;

mod error;

pub use connector::Connector;
pub use error::{Error, Kind};
pub use listener::{Event, Listener};
pub use migrate::Migrations;
pub use nagaya_net::Backoff;
pub use nagaya_sql::Migration;
pub use notifier::Notifier;
pub use pool::{Connection, Options, Pool, PoolStatus};
pub use scalar::scalar;
pub use session::{Param, Session};
pub use tokio_postgres::{Row, types};
pub use transaction::Transaction;
pub use url::{Host, ParseError, PostgresUrl, TlsMode};
