//! One of two places that are compared: its keys in turn, or some of them by name.

use std::collections::HashMap;
use std::fs::File;
use std::io;
use std::path::PathBuf;
use std::str::FromStr;

use nagaya_clock::Clock;
use nagaya_rdb::{Extent, Item, Limits, Reader};
use nagaya_redis_client::RedisUrl;
use tokio::sync::mpsc;

use crate::digest::{Digest, Digester, of_payload};
use crate::fetch::Fetcher;
use crate::key_set::{KeySet, fingerprint};
use crate::walk::Walk;
use crate::{Error, Selection};

/// Keys of a file that are handed over together, and how many such batches wait.
const BATCH_KEYS: usize = 256;
const BATCHES_WAITING: usize = 4;

/// Where keys are: a file, or a server.
#[derive(Clone, Debug)]
pub enum Side {
    File(PathBuf),
    Server(RedisUrl),
}

impl FromStr for Side {
    type Err = nagaya_redis_client::ParseError;

    /// A URL is a server, anything else the path of a file.
    fn from_str(text: &str) -> Result<Side, Self::Err> {
        if text.contains("://") {
            text.parse().map(Side::Server)
        } else {
            Ok(Side::File(PathBuf::from(text)))
        }
    }
}

/// What is compared of a key.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Stamp {
    pub(crate) digest: Digest,
    pub(crate) expires_at_ms: Option<i64>,
}

pub(crate) type Record = (Vec<u8>, Stamp);

/// Which keys are looked at.
#[derive(Clone)]
pub(crate) struct Wanted {
    pub(crate) selection: Selection,
    /// The part of all keys to look at, from 0 to 1.
    pub(crate) share: f64,
}

impl Wanted {
    /// Chooses by the name alone, so that both sides choose the same.
    pub(crate) fn has(&self, name: &[u8]) -> bool {
        let place = fingerprint(&[b"sample", name]) as u64 as f64 / u64::MAX as f64;
        (self.share >= 1.0 || place < self.share) && self.selection.has_name(name)
    }
}

/// The keys of a side, one batch after the other.
pub(crate) enum Records<'c> {
    File(mpsc::Receiver<Result<Vec<Record>, Error>>),
    Server {
        walk: Box<Walk>,
        fetcher: Box<Fetcher<'c>>,
        wanted: Wanted,
        seen: KeySet,
        waiting: Vec<Vec<u8>>,
    },
}

impl<'c> Records<'c> {
    pub(crate) async fn of(side: &Side, wanted: &Wanted, clock: &'c dyn Clock) -> Result<Records<'c>, Error> {
        Ok(match side {
            Side::File(path) => {
                let file = File::open(path).map_err(Error::Read)?;
                let (to, from) = mpsc::channel(BATCHES_WAITING);
                let wanted = wanted.clone();
                tokio::task::spawn_blocking(move || {
                    if let Err(error) = read_file(file, &wanted, &to) {
                        // Nobody waits for it when the comparison was given up.
                        let _ = to.blocking_send(Err(error));
                    }
                });
                Records::File(from)
            }
            Side::Server(url) => {
                let client = crate::client(url.clone())?;
                let walk = Walk::start(&client, wanted.selection.pattern.clone()).await?;
                let fetcher = Fetcher::new(client, clock).await?;
                Records::Server {
                    walk: Box::new(walk),
                    fetcher: Box::new(fetcher),
                    wanted: wanted.clone(),
                    seen: KeySet::default(),
                    waiting: Vec::new(),
                }
            }
        })
    }

    /// Returns some keys, possibly none; `None` after the last.
    pub(crate) async fn next(&mut self) -> Result<Option<Vec<Record>>, Error> {
        match self {
            Records::File(from) => from.recv().await.transpose(),
            Records::Server {
                walk,
                fetcher,
                wanted,
                seen,
                waiting,
            } => {
                if waiting.is_empty() {
                    let Some(mut keys) = walk.next().await? else {
                        return Ok(None);
                    };
                    keys.retain(|key| wanted.has(key) && seen.insert(key));
                    *waiting = keys;
                }
                let batch: Vec<Vec<u8>> = waiting.drain(..fetcher.batch_keys().min(waiting.len())).collect();
                let stamps = stamps(fetcher, &batch).await?;
                let records = batch.into_iter().zip(stamps);
                Ok(Some(
                    records.filter_map(|(name, stamp)| Some((name, stamp?))).collect(),
                ))
            }
        }
    }
}

async fn stamps(fetcher: &mut Fetcher<'_>, keys: &[Vec<u8>]) -> Result<Vec<Option<Stamp>>, Error> {
    let fetched = fetcher.fetch(keys).await?;
    let stamp = |value: crate::fetch::Fetched| Stamp {
        digest: of_payload(&value.payload),
        expires_at_ms: value.expires_at_ms,
    };
    Ok(fetched.into_iter().map(|value| value.map(stamp)).collect())
}

/// Reads a file to its end; a checksum that is wrong is an error, so that no verdict is given on damaged data.
fn read_file(
    file: File,
    wanted: &Wanted,
    to: &mpsc::Sender<Result<Vec<Record>, Error>>,
) -> Result<(), Error> {
    let mut reader = Reader::new(io::BufReader::new(file), Limits::default())?;
    let mut batch = Vec::new();
    let mut only_db = wanted.selection.db;
    while let Some(item) = reader.next()? {
        let Item::Key(key) = item else { continue };
        if !wanted.selection.has_db(key.db) {
            continue;
        }
        if *only_db.get_or_insert(key.db) != key.db {
            return Err(Error::SeveralDatabases { databases: 2 });
        }
        if !wanted.has(&key.name) || key.elements == Some(0) {
            continue;
        }
        let mut digester = Digester::default();
        loop {
            let mut body = Vec::new();
            let extent = reader.value(&mut body)?;
            digester.feed(body);
            if extent != Extent::Part {
                break;
            }
        }
        let stamp = Stamp {
            digest: digester.finish(),
            expires_at_ms: key.expires_at_ms,
        };
        batch.push((key.name, stamp));
        if batch.len() >= BATCH_KEYS && to.blocking_send(Ok(std::mem::take(&mut batch))).is_err() {
            return Ok(());
        }
    }
    let _ = to.blocking_send(Ok(batch));
    Ok(())
}

/// A side that is asked for keys by name.
pub(crate) enum Lookup<'c> {
    /// A file that is being walked over: what it said stays true.
    Remembered,
    /// A file by the fingerprints of its keys.
    Index(HashMap<u128, Stamp>),
    Server(Box<Fetcher<'c>>),
}

impl<'c> Lookup<'c> {
    pub(crate) async fn server(url: &RedisUrl, clock: &'c dyn Clock) -> Result<Lookup<'c>, Error> {
        let fetcher = Fetcher::new(crate::client(url.clone())?, clock).await?;
        Ok(Lookup::Server(Box::new(fetcher)))
    }

    /// Reads a file into memory: about 64 bytes for each key.
    pub(crate) async fn index(
        side: &Side,
        wanted: &Wanted,
        clock: &'c dyn Clock,
    ) -> Result<Lookup<'c>, Error> {
        let mut records = Records::of(side, wanted, clock).await?;
        let mut index = HashMap::new();
        while let Some(batch) = records.next().await? {
            for (name, stamp) in batch {
                index.insert(fingerprint(&[&name]), stamp);
            }
        }
        Ok(Lookup::Index(index))
    }

    pub(crate) fn is_server(&self) -> bool {
        matches!(self, Lookup::Server(_))
    }

    /// Returns what the side has of some keys; `known` is what was read of them before.
    pub(crate) async fn stamps(
        &mut self,
        keys: &[Vec<u8>],
        known: &[Option<Stamp>],
    ) -> Result<Vec<Option<Stamp>>, Error> {
        match self {
            Lookup::Remembered => Ok(known.to_vec()),
            Lookup::Index(index) => Ok(keys
                .iter()
                .map(|key| index.get(&fingerprint(&[key])).copied())
                .collect()),
            Lookup::Server(fetcher) => {
                let mut found = Vec::with_capacity(keys.len());
                let mut rest = keys;
                while !rest.is_empty() {
                    let (now, later) = rest.split_at(fetcher.batch_keys().min(rest.len()));
                    found.extend(stamps(fetcher, now).await?);
                    rest = later;
                }
                Ok(found)
            }
        }
    }
}
