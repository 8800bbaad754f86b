//! A file's keys into a running server.
//!
//! One thread reads the file and hands batches to several connections, each of which waits for the replies of
//! one batch before it takes the next. A key is written by one RESTORE, so it is there whole or not at all; a
//! value too large for that is built under another name and renamed once it is complete.

mod batch;
mod large;
mod read;
mod target;

use std::collections::BTreeMap;
use std::io::Read;
use std::sync::Arc;

use nagaya_clock::Clock;
use nagaya_rdb::Limits;
use nagaya_redis_client::RedisUrl;
use serde::Serialize;
use tokio::sync::{Mutex, mpsc};

pub(crate) use batch::is_redirect;

use self::target::Target;
use crate::{Error, LISTED_MAX, Progress, Selection, shown};

/// What to do about a key that the server has already.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Existing {
    /// Leave it and report a failure.
    #[default]
    Refuse,
    /// Leave it.
    Keep,
    /// Overwrite it.
    Replace,
}

/// How to import.
#[derive(Clone, Debug)]
pub struct ImportOptions {
    pub selection: Selection,
    pub existing: Existing,
    /// Every key goes into the database of its number; else all are of one, and go into that of the URL.
    pub keeps_databases: bool,
    /// Connections that write at once.
    pub connections: usize,
    pub limits: Limits,
}

impl Default for ImportOptions {
    fn default() -> ImportOptions {
        ImportOptions {
            selection: Selection::default(),
            existing: Existing::Refuse,
            keeps_databases: false,
            connections: 4,
            limits: Limits::default(),
        }
    }
}

/// What an import has done, also when it was stopped.
#[derive(Debug, Default, Serialize)]
pub struct Imported {
    pub keys: u64,
    /// Bytes of the values as they stand in the file.
    pub bytes: u64,
    pub functions: u64,
    /// Keys past their time, left out.
    pub expired: u64,
    /// Keys that the selection leaves out.
    pub left_out: u64,
    pub empty: u64,
    /// Keys and libraries that the server had already, and kept.
    pub kept: u64,
    /// Keys that the server had already although nobody said what to do then.
    pub in_the_way: u64,
    pub in_the_way_keys: Vec<String>,
    /// Keys whose values the server did not take.
    pub refused: u64,
    pub refused_keys: Vec<Refused>,
    /// Keys of modules, by module.
    pub modules: BTreeMap<String, u64>,
    /// Why it stopped before the end of the file, and where in the file that was noticed.
    pub stopped: Option<String>,
    pub stopped_at: Option<u64>,
}

/// A value that the server did not take.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Refused {
    pub key: String,
    /// Where the key stands in the file.
    pub offset: u64,
    pub reason: String,
}

impl Imported {
    /// Returns whether everything that was to be imported is there.
    pub fn is_complete(&self) -> bool {
        let Imported {
            in_the_way,
            refused,
            modules,
            stopped,
            ..
        } = self;
        *in_the_way == 0 && *refused == 0 && modules.is_empty() && stopped.is_none()
    }

    fn add(&mut self, other: Imported) {
        self.keys += other.keys;
        self.bytes += other.bytes;
        self.functions += other.functions;
        self.expired += other.expired;
        self.left_out += other.left_out;
        self.empty += other.empty;
        self.kept += other.kept;
        self.in_the_way += other.in_the_way;
        self.refused += other.refused;
        self.in_the_way_keys.extend(other.in_the_way_keys);
        self.in_the_way_keys.truncate(LISTED_MAX);
        self.refused_keys.extend(other.refused_keys);
        self.refused_keys.truncate(LISTED_MAX);
        for (module, keys) in other.modules {
            *self.modules.entry(module).or_default() += keys;
        }
        if self.stopped.is_none() {
            self.stopped = other.stopped;
            self.stopped_at = other.stopped_at;
        }
    }

    fn refuse(&mut self, head: &Head, reason: impl Into<String>) {
        self.refused += 1;
        if self.refused_keys.len() < LISTED_MAX {
            self.refused_keys.push(Refused {
                key: shown(&head.name),
                offset: head.offset,
                reason: reason.into(),
            });
        }
    }

    /// Counts a key that the server had already.
    fn busy(&mut self, name: &[u8], existing: Existing) {
        if existing == Existing::Keep {
            self.kept += 1;
            return;
        }
        self.in_the_way += 1;
        if self.in_the_way_keys.len() < LISTED_MAX {
            self.in_the_way_keys.push(shown(name));
        }
    }
}

/// A key on its way.
struct Head {
    name: Vec<u8>,
    /// Its database in the file.
    db: u32,
    offset: u64,
    expires_at_ms: Option<i64>,
}

/// What the reading thread hands to the connections.
enum Work {
    Function(Vec<u8>),
    /// Keys of one database with their payloads.
    Keys(Vec<(Head, Vec<u8>)>),
    /// A key whose value comes in parts.
    Large(Head, mpsc::Receiver<Part>),
}

/// A part of a large value, as a payload without a footer.
struct Part {
    body: Vec<u8>,
    is_last: bool,
}

/// Writes the keys of a file into the server of a URL. What was done is told in any case; a reason to stop is in
/// the report.
///
/// Not cancel safe: a dropped call leaves the keys that are written by then.
pub async fn import(
    file: impl Read + Send + 'static,
    to: RedisUrl,
    options: ImportOptions,
    clock: Arc<dyn Clock>,
    progress: Arc<Progress>,
) -> Result<Imported, Error> {
    let connections = options.connections.max(1);
    let mut targets = Vec::new();
    for _ in 0..connections {
        let target = Target::new(&to, options.keeps_databases)?;
        // A server that does not answer is told before the file is read.
        target.client.connection(b"").await?;
        targets.push(target);
    }
    let (to_workers, queue) = mpsc::channel(connections);
    // Held over the wait for the next piece of work on purpose: the others wait in line for it.
    let queue = Arc::new(Mutex::new(queue));
    let existing = options.existing;
    let reading = {
        let (options, progress) = (options.clone(), Arc::clone(&progress));
        tokio::task::spawn_blocking(move || read::read(file, &options, &*clock, &progress, &to_workers))
    };
    let mut workers = Vec::new();
    for target in targets {
        let (queue, progress) = (Arc::clone(&queue), Arc::clone(&progress));
        workers.push(tokio::spawn(batch::work(target, existing, queue, progress)));
    }
    let mut imported = Imported::default();
    for worker in workers {
        imported.add(worker.await.expect("a worker neither panics nor is cancelled"));
    }
    // Lets a reader go on, and end, whose workers have all stopped.
    queue.lock().await.close();
    imported.add(reading.await.expect("the reader neither panics nor is cancelled"));
    Ok(imported)
}
