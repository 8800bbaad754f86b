//! Values and expiries of named keys, by DUMP.

use std::collections::BTreeMap;

use nagaya_clock::Clock;
use nagaya_redis_client::{Client, Connection, Frame, reply};

use crate::import::is_redirect;
use crate::{Error, REPLY_LIMIT, shown};

/// What a batch of values should be in size, about.
const BATCH_BYTES: usize = 4 << 20;
const BATCH_KEYS_MAX: usize = 256;
/// How often a key is read again whose expiry changed while it was read.
const TRIES: usize = 5;
/// Two readings of a time to live, turned into points in time, differ by the way between us and the server.
const SAME_POINT_MS: i64 = 1000;

/// A key's value as DUMP gives it, and when it expires.
pub(crate) struct Fetched {
    pub(crate) payload: Vec<u8>,
    pub(crate) expires_at_ms: Option<i64>,
}

pub(crate) struct Fetcher<'c> {
    client: Client,
    clock: &'c dyn Clock,
    /// Whether the server tells points in time, as it does from Redis 7.0 on.
    tells_points: bool,
    /// Keys to ask for at once, from the size of those before.
    batch_keys: usize,
}

/// The replies about one key: expiry, value, expiry.
type Answers = [Frame; 3];

impl<'c> Fetcher<'c> {
    pub(crate) async fn new(client: Client, clock: &'c dyn Clock) -> Result<Fetcher<'c>, Error> {
        let tells_points = match client.call(b"x", &[b"PEXPIRETIME".as_slice(), b"x"]).await {
            Ok(_) => true,
            Err(error)
                if error
                    .server_error()
                    .is_some_and(|error| error.text().contains("unknown command")) =>
            {
                false
            }
            Err(error) => return Err(error.into()),
        };
        Ok(Fetcher {
            client,
            clock,
            tells_points,
            batch_keys: 16,
        })
    }

    /// Returns how many keys to give to [`fetch`](Fetcher::fetch), so that memory stays bounded by their size.
    pub(crate) fn batch_keys(&self) -> usize {
        self.batch_keys
    }

    /// Reads some keys; `None` for those that are not there. An expiry belongs to the value it comes with.
    pub(crate) async fn fetch(&mut self, keys: &[Vec<u8>]) -> Result<Vec<Option<Fetched>>, Error> {
        let mut fetched: Vec<Option<Fetched>> = Vec::with_capacity(keys.len());
        fetched.resize_with(keys.len(), || None);
        let mut left: Vec<usize> = (0..keys.len()).collect();
        for tries_left in (0..TRIES).rev() {
            let mut again = Vec::new();
            for (index, answers) in self.ask(keys, &left).await? {
                match self.read(&keys[index], answers)? {
                    // A key whose expiry is set over and over is taken as it was last.
                    Reading::Unsteady(value) if tries_left == 0 => fetched[index] = Some(value),
                    Reading::Unsteady(_) => again.push(index),
                    Reading::Steady(value) => fetched[index] = value,
                }
            }
            if again.is_empty() {
                break;
            }
            left = again;
        }
        let bytes: usize = fetched.iter().flatten().map(|value| value.payload.len()).sum();
        let average = bytes / keys.len().max(1) + 1;
        self.batch_keys = (BATCH_BYTES / average).clamp(1, BATCH_KEYS_MAX);
        Ok(fetched)
    }

    fn expiry_command(&self) -> &'static [u8] {
        if self.tells_points {
            b"PEXPIRETIME"
        } else {
            b"PTTL"
        }
    }

    async fn ask(&self, keys: &[Vec<u8>], indexes: &[usize]) -> Result<Vec<(usize, Answers)>, Error> {
        let mut by_server: BTreeMap<u64, (Connection, Vec<usize>)> = BTreeMap::new();
        for &index in indexes {
            let connection = self.client.connection(&keys[index]).await?;
            let entry = by_server.entry(connection.id());
            entry.or_insert_with(|| (connection, Vec::new())).1.push(index);
        }
        let mut answers = Vec::with_capacity(indexes.len());
        for (connection, indexes) in by_server.into_values() {
            let commands: Vec<[&[u8]; 2]> = indexes
                .iter()
                .flat_map(|&index| self.commands(&keys[index]))
                .collect();
            let commands: Vec<&[&[u8]]> = commands.iter().map(|args| args.as_slice()).collect();
            let mut replies = connection
                .pipeline_within(&commands, REPLY_LIMIT)
                .await?
                .into_iter();
            for index in indexes {
                let mut next = || replies.next().expect("every request has a reply");
                let three = [next(), next(), next()];
                answers.push((index, self.redirected(&keys[index], three).await?));
            }
        }
        Ok(answers)
    }

    fn commands<'k>(&self, key: &'k [u8]) -> [[&'k [u8]; 2]; 3] {
        let expiry = self.expiry_command();
        [[expiry, key], [b"DUMP", key], [expiry, key]]
    }

    /// Asks again for a key that has moved to another server.
    async fn redirected(&self, key: &[u8], answers: Answers) -> Result<Answers, Error> {
        let moved = |frame: &Frame| matches!(frame, Frame::Error(text) if is_redirect(&String::from_utf8_lossy(text)));
        if !answers.iter().any(moved) {
            return Ok(answers);
        }
        let [first, second, third] = self.commands(key);
        Ok([
            self.client.call(key, &first).await?,
            self.client.call(key, &second).await?,
            self.client.call(key, &third).await?,
        ])
    }

    fn read(&self, key: &[u8], [before, value, after]: Answers) -> Result<Reading, Error> {
        if reply::is_nil(&value) {
            return Ok(Reading::Steady(None));
        }
        let payload = match value {
            Frame::Bulk(payload) => payload,
            other => return Err(refused("DUMP", key, &other)),
        };
        let now_ms = self.clock.unix_ms();
        let point = |frame: &Frame| match reply::int(frame) {
            None => Err(refused("PEXPIRETIME", key, frame)),
            // Without an expiry, or gone since.
            Some(number) if number < 0 => Ok((number, None)),
            Some(number) if self.tells_points => Ok((0, Some(number))),
            Some(number) => Ok((0, Some(now_ms + number))),
        };
        let ((before_code, before), (after_code, after)) = (point(&before)?, point(&after)?);
        let is_same = match (before, after) {
            (Some(before), Some(after)) if self.tells_points => before == after,
            (Some(before), Some(after)) => (before - after).abs() <= SAME_POINT_MS,
            (None, None) => before_code == after_code,
            _ => false,
        };
        let fetched = Fetched {
            payload,
            expires_at_ms: after,
        };
        Ok(if is_same {
            Reading::Steady(Some(fetched))
        } else {
            Reading::Unsteady(fetched)
        })
    }
}

enum Reading {
    Steady(Option<Fetched>),
    /// The expiry was another before the value than after it.
    Unsteady(Fetched),
}

fn refused(command: &'static str, key: &[u8], frame: &Frame) -> Error {
    match frame {
        Frame::Error(text) | Frame::BlobError(text) => Error::Refused {
            command,
            reply: format!("{} (key {})", String::from_utf8_lossy(text), shown(key)),
        },
        _ => Error::Nonsense { command },
    }
}
