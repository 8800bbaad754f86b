//! Lists keys that are only in the cold tier and counts those of both, for SCAN, KEYS and DBSIZE.
//!
//! A cursor of SCAN is a number, a position in the cold tier is a name: the positions of recent cursors are
//! remembered, up to a limit. A scan whose cursor was dropped must begin again.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::mpsc::{Receiver, SyncSender, sync_channel};
use std::thread::JoinHandle;

use nagaya_clock::Sleep;
use nagaya_tiering::cold::{ColdTier, Status, TagRow};
use nagaya_tiering::error::TieringError;

use crate::hot_tier::RedisHotTier;
use crate::proxy::{ColdKeys, CountDone, Kinds, ScanDone};

/// Questions that may wait: more would wait longer than clients do.
const QUESTIONS_MAX: usize = 256;
/// Cursors that are remembered, of about 100 bytes each.
const PLACES_MAX: usize = 10_000;
/// Tags per page of a count.
const TAGS_PAGE: usize = 1000;

/// A thread that answers questions about cold keys. It ends when this is dropped.
pub struct ColdKeyService {
    questions: Option<SyncSender<Question>>,
    thread: Option<JoinHandle<()>>,
}

enum Question {
    Scan {
        cursor: u64,
        count: usize,
        kinds: Kinds,
        done: ScanDone,
    },
    Count {
        done: CountDone,
    },
}

impl ColdKeyService {
    pub fn start(
        tier: RedisHotTier,
        cold: Arc<dyn ColdTier>,
        clock: Arc<dyn Sleep>,
    ) -> std::io::Result<ColdKeyService> {
        let (questions, queue) = sync_channel(QUESTIONS_MAX);
        let reader = Reader {
            tier,
            cold,
            clock,
            places: BTreeMap::new(),
            last_cursor: 0,
        };
        let thread = nagaya_threads::spawn("room-cold-keys", move || reader.work(queue))?;
        Ok(ColdKeyService {
            questions: Some(questions),
            thread: Some(thread),
        })
    }

    fn ask(&self, question: Question) {
        let questions = self.questions.as_ref().expect("only a drop takes it");
        let Err(refused) = questions.try_send(question) else {
            return;
        };
        let (std::sync::mpsc::TrySendError::Full(question)
        | std::sync::mpsc::TrySendError::Disconnected(question)) = refused;
        let reason = "too many ask about cold keys".to_owned();
        match question {
            Question::Scan { done, .. } => done(Err(reason)),
            Question::Count { done } => done(Err(reason)),
        }
    }
}

impl ColdKeys for ColdKeyService {
    fn scan(&self, cursor: u64, count: usize, kinds: Kinds, done: ScanDone) {
        self.ask(Question::Scan {
            cursor,
            count,
            kinds,
            done,
        });
    }

    fn count(&self, done: CountDone) {
        self.ask(Question::Count { done });
    }
}

impl Drop for ColdKeyService {
    fn drop(&mut self) {
        drop(self.questions.take());
        if self.thread.take().is_some_and(|thread| thread.join().is_err()) {
            tracing::error!("the thread that lists cold keys has panicked");
        }
    }
}

/// A position in the cold tier: a tag and a key.
type Place = (Vec<u8>, Vec<u8>);

struct Reader {
    tier: RedisHotTier,
    cold: Arc<dyn ColdTier>,
    clock: Arc<dyn Sleep>,
    places: BTreeMap<u64, Place>,
    last_cursor: u64,
}

impl Reader {
    fn work(mut self, queue: Receiver<Question>) {
        for question in queue {
            match question {
                Question::Scan {
                    cursor,
                    count,
                    kinds,
                    done,
                } => done(self.scan(cursor, count, kinds)),
                Question::Count { done } => done(self.count().map_err(|error| error.to_string())),
            }
        }
    }

    fn scan(&mut self, cursor: u64, count: usize, kinds: Kinds) -> Result<(u64, Vec<Vec<u8>>), String> {
        let place = match cursor {
            0 => None,
            _ => Some(
                self.places
                    .get(&cursor)
                    .ok_or("the cursor is no longer known: begin with 0")?
                    .clone(),
            ),
        };
        let (names, next) = self
            .page(place, count.max(1), kinds)
            .map_err(|error| error.to_string())?;
        let Some(next) = next else {
            return Ok((0, names));
        };
        self.last_cursor += 1;
        self.places.insert(self.last_cursor, next);
        while self.places.len() > PLACES_MAX {
            self.places.pop_first();
        }
        Ok((self.last_cursor, names))
    }

    /// Reads about `count` keys behind a position; returns those whose tags are not in memory, and the next
    /// position.
    fn page(
        &self,
        place: Option<Place>,
        count: usize,
        kinds: Kinds,
    ) -> Result<(Vec<Vec<u8>>, Option<Place>), TieringError> {
        let after = place.as_ref().map(|(tag, key)| (tag.as_slice(), key.as_slice()));
        let rows = self.cold.keys_after(after, count)?;
        let next = rows.last().filter(|_| rows.len() == count);
        let next = next.map(|row| (row.tag.clone(), row.key.clone()));
        let mut tags: Vec<&[u8]> = rows.iter().map(|row| row.tag.as_slice()).collect();
        tags.dedup();
        let is_resident = self.tier.are_resident(&tags)?;
        let resident: Vec<&[u8]> = tags
            .iter()
            .zip(is_resident)
            .filter(|(_, is)| *is)
            .map(|(tag, _)| *tag)
            .collect();
        // Both lists are in the order of the rows.
        let mut resident = resident.into_iter().peekable();
        let mut names = Vec::new();
        let now_ms = self.clock.unix_ms();
        for row in &rows {
            while resident.peek().is_some_and(|tag| *tag < row.tag.as_slice()) {
                resident.next();
            }
            let is_wanted = match kinds {
                Kinds::All => true,
                Kinds::Only(kind) => row.kind == kind,
                Kinds::None => false,
            };
            let is_over = row.expires_at_ms.is_some_and(|at_ms| at_ms <= now_ms);
            if is_wanted && !is_over && resident.peek() != Some(&row.tag.as_slice()) {
                names.push(row.key.clone());
            }
        }
        Ok((names, next))
    }

    /// Counts the keys in memory, and those of tags that were evicted and are not in memory again.
    fn count(&self) -> Result<u64, TieringError> {
        let (mut keys, mut after) = (self.tier.keys()?, None::<Vec<u8>>);
        loop {
            let page = self.cold.tags_after(after.as_deref(), TAGS_PAGE)?;
            let evicted: Vec<&TagRow> = page.iter().filter(|row| row.status == Status::Cleaned).collect();
            let tags: Vec<&[u8]> = evicted.iter().map(|row| row.tag.as_slice()).collect();
            let resident = self.tier.are_resident(&tags)?;
            let cold = evicted
                .iter()
                .zip(resident)
                .filter(|(_, is_resident)| !is_resident);
            keys += cold.map(|(row, _)| row.keys).sum::<u64>();
            match page.last() {
                Some(row) if page.len() == TAGS_PAGE => after = Some(row.tag.clone()),
                _ => return Ok(keys),
            }
        }
    }
}
