//! Moves keys between RDB files and running servers, and compares the two.
//!
//! Everything goes over the protocol that all servers speak: RESTORE takes keys in, SCAN and DUMP bring them out.
//! So one way serves a room in its own process, a room on Redis Cluster and PostgreSQL, and any Redis.
//!
//! [`survey`] reads a file and changes nothing, [`import`] writes its keys into a server, [`export`] makes a file
//! of a server's keys, and [`compare`] says whether two places hold the same.

mod append_only;
mod compare;
mod digest;
mod error;
mod export;
mod fetch;
mod import;
mod key_set;
mod lines;
mod progress;
mod selection;
mod side;
mod survey;
mod walk;

pub use append_only::base_of;
pub use compare::{CompareOptions, Comparison, Difference, Verdict, compare};
pub use error::Error;
pub use export::{ExportOptions, Exported, databases, export};
pub use import::{Existing, ImportOptions, Imported, Refused, import};
pub use lines::lines_to_rdb;
pub use progress::Progress;
pub use selection::Selection;
pub use side::Side;
pub use survey::{Big, OfType, Survey, survey};

use std::time::Duration;

use nagaya_redis_client::{Client, Options, RedisUrl};

/// How long a batch of commands may take: values of hundreds of megabytes, or a disk that is busy.
const REPLY_LIMIT: Duration = Duration::from_secs(120);
const CONNECT_LIMIT: Duration = Duration::from_secs(10);

/// Names that a report lists in full; of further ones it has the number.
const LISTED_MAX: usize = 20;

/// Prepares a client with the patience that moving data takes.
pub fn client(url: RedisUrl) -> Result<Client, Error> {
    let options = Options {
        connect_limit: CONNECT_LIMIT,
        reply_limit: REPLY_LIMIT,
        client_name: "nagaya-migrate".to_owned(),
    };
    Ok(Client::new(url, options)?)
}

/// A name of any bytes as text for people and for JSON.
pub(crate) fn shown(name: &[u8]) -> String {
    match std::str::from_utf8(name) {
        Ok(text) => text.escape_debug().to_string(),
        Err(_) => name.escape_ascii().to_string(),
    }
}
