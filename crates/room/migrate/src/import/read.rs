//! The reading side of an import.

use std::io::Read;

use nagaya_clock::Clock;
use nagaya_rdb::{Extent, Item, Key, Reader, payload};
use tokio::sync::mpsc;

use super::{Head, ImportOptions, Imported, Part, Work};
use crate::{Error, Progress};

/// Keys and bytes that go to a connection together.
const BATCH_KEYS: usize = 256;
const BATCH_BYTES: usize = 512 << 10;
/// Parts of one large value that wait for its connection.
const PARTS_WAITING: usize = 1;

/// Why reading ended early.
enum Stop {
    File(nagaya_rdb::Error),
    SeveralDatabases,
    /// The connections are gone; they say why.
    NoWorkers,
}

impl From<nagaya_rdb::Error> for Stop {
    fn from(error: nagaya_rdb::Error) -> Stop {
        Stop::File(error)
    }
}

/// Reads a file and hands out its keys. Every batch that was handed out is whole, also when the file is damaged.
pub(super) fn read(
    file: impl Read,
    options: &ImportOptions,
    clock: &dyn Clock,
    progress: &Progress,
    to: &mpsc::Sender<Work>,
) -> Imported {
    let mut feed = Feed {
        options,
        clock,
        to,
        batch: Vec::new(),
        batch_bytes: 0,
        only_db: options.selection.db,
        counts: Imported::default(),
    };
    let stop = match Reader::new(file, options.limits) {
        Ok(mut reader) => {
            let read = feed.all(&mut reader, progress);
            // What was read before the damage is sound by itself and was counted on.
            let sent = feed.flush();
            let offset = reader.offset();
            read.and(sent).err().map(|stop| (stop, offset))
        }
        Err(error) => Some((Stop::File(error), 0)),
    };
    let mut counts = feed.counts;
    match stop {
        None | Some((Stop::NoWorkers, _)) => (),
        Some((Stop::File(error), _)) => {
            counts.stopped_at = Some(error.offset());
            counts.stopped = Some(Error::File(error).chain());
        }
        Some((Stop::SeveralDatabases, offset)) => {
            counts.stopped_at = Some(offset);
            counts.stopped = Some(Error::SeveralDatabases { databases: 2 }.to_string());
        }
    }
    counts
}

struct Feed<'a> {
    options: &'a ImportOptions,
    clock: &'a dyn Clock,
    to: &'a mpsc::Sender<Work>,
    batch: Vec<(Head, Vec<u8>)>,
    batch_bytes: usize,
    /// The database that was chosen, or that the first key has; of several, that of the latest key.
    only_db: Option<u32>,
    counts: Imported,
}

impl Feed<'_> {
    fn all<R: Read>(&mut self, reader: &mut Reader<R>, progress: &Progress) -> Result<(), Stop> {
        while let Some(item) = reader.next()? {
            progress.set_bytes(reader.offset());
            match item {
                Item::Function { code } => self.send(Work::Function(code))?,
                Item::Key(key) => self.key(key, reader)?,
                Item::Aux { .. } | Item::Sizes { .. } | Item::ModuleData { .. } => (),
            }
        }
        Ok(())
    }

    fn key<R: Read>(&mut self, key: Key, reader: &mut Reader<R>) -> Result<(), Stop> {
        let selection = &self.options.selection;
        if !selection.has_db(key.db) || !selection.has_name(&key.name) {
            self.counts.left_out += 1;
            return Ok(());
        }
        if *self.only_db.get_or_insert(key.db) != key.db {
            if !self.options.keeps_databases {
                return Err(Stop::SeveralDatabases);
            }
            self.flush()?;
            self.only_db = Some(key.db);
        }
        let now_ms = self.clock.unix_ms();
        if key.expires_at_ms.is_some_and(|at_ms| at_ms <= now_ms) {
            self.counts.expired += 1;
            return Ok(());
        }
        if let Some(module) = key.module {
            *self.counts.modules.entry(module).or_default() += 1;
            return Ok(());
        }
        if key.elements == Some(0) {
            self.counts.empty += 1;
            return Ok(());
        }
        let head = Head {
            name: key.name,
            db: key.db,
            offset: key.offset,
            expires_at_ms: key.expires_at_ms,
        };
        let mut body = Vec::new();
        if reader.value(&mut body)? == Extent::Whole {
            payload::seal(&mut body, payload::version_of(key.kind));
            return self.add(head, body);
        }
        self.large(head, body, reader)
    }

    fn add(&mut self, head: Head, payload: Vec<u8>) -> Result<(), Stop> {
        self.batch_bytes += head.name.len() + payload.len();
        self.batch.push((head, payload));
        if self.batch.len() >= BATCH_KEYS || self.batch_bytes >= BATCH_BYTES {
            self.flush()?;
        }
        Ok(())
    }

    fn flush(&mut self) -> Result<(), Stop> {
        if self.batch.is_empty() {
            return Ok(());
        }
        self.batch_bytes = 0;
        let batch = std::mem::take(&mut self.batch);
        self.send(Work::Keys(batch))
    }

    fn large<R: Read>(&mut self, head: Head, first: Vec<u8>, reader: &mut Reader<R>) -> Result<(), Stop> {
        let (parts, waiting) = mpsc::channel(PARTS_WAITING);
        self.send(Work::Large(head, waiting))?;
        let mut part = Part {
            body: first,
            is_last: false,
        };
        loop {
            let is_last = part.is_last;
            // A connection that gives the value up says so in its own report; the rest is passed over.
            if parts.blocking_send(part).is_err() || is_last {
                return Ok(());
            }
            let mut body = Vec::new();
            let is_last = reader.value(&mut body)? != Extent::Part;
            part = Part { body, is_last };
        }
    }

    fn send(&self, work: Work) -> Result<(), Stop> {
        self.to.blocking_send(work).map_err(|_| Stop::NoWorkers)
    }
}
