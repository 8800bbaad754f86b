//! Runs the commands of clients about tags (ROOM.*).
//!
//! Each command has its own thread, since it mostly waits; their number is limited. Nothing here decides
//! anything that data depends on: evictions, saves and loads are the usual ones.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::mpsc::sync_channel;
use std::sync::{Arc, Weak};
use std::thread::JoinHandle;
use std::time::Duration;

use nagaya_clock::Sleep;
use nagaya_tiering::cold::{ColdTier, TagRow};
use nagaya_tiering::evictor::Evictor;
use nagaya_tiering::hot::HotTier;
use nagaya_tiering::saver::{Saver, SaverConfig};
use parking_lot::Mutex;

use super::load_pool::LoadPool;
use super::state::{Failure, Shared};
use super::tag_list;
use crate::hot_tier::keys;
use crate::hot_tier::{RedisHotTier, TagInfo};
use crate::proxy::{KeyPlace, Outcome, TagAdmin, TagCallback, TagCommand, TagStatus};
use crate::stop::{Stop, StoppableClock};

/// Commands at a time, each with its thread.
const COMMANDS_MAX: usize = 64;
/// How long an eviction may take, besides the waits that the protocol requires.
const EVICT_WAIT: Duration = Duration::from_secs(10);
/// How often a wait checks its condition.
const LOOK_EVERY: Duration = Duration::from_millis(50);
/// Up to this many tags, the cold tier is asked for their last snapshot; more of them are awaited until they
/// are clean.
const ASKED_TAGS_MAX: usize = 256;
/// Names or tags per page of the cold tier.
const PAGE: usize = 1000;

/// Runs commands about tags. Its threads end when it is dropped.
pub struct TagService {
    shared: Arc<Shared>,
    threads: Mutex<Vec<JoinHandle<()>>>,
}

impl TagService {
    pub fn new(
        tier: RedisHotTier,
        cold: Arc<dyn ColdTier>,
        clock: Arc<dyn Sleep>,
        loads: Arc<LoadPool>,
    ) -> TagService {
        TagService {
            shared: Arc::new(Shared {
                tier,
                cold,
                clock,
                loads,
                stop: Stop::default(),
                under_way: AtomicUsize::new(0),
            }),
            threads: Mutex::default(),
        }
    }
}

impl TagAdmin for TagService {
    fn ask(&self, command: TagCommand, wanted: Weak<()>, done: TagCallback) {
        let shared = Arc::clone(&self.shared);
        if shared.under_way.fetch_add(1, Ordering::Relaxed) >= COMMANDS_MAX {
            shared.under_way.fetch_sub(1, Ordering::Relaxed);
            return done(Err("TRYAGAIN too many ask about tags".to_owned()));
        }
        let work = move || {
            let ended = shared.run(command, &wanted);
            shared.under_way.fetch_sub(1, Ordering::Relaxed);
            done(ended.map_err(Failure::text));
        };
        let mut threads = self.threads.lock();
        threads.retain(|thread| !thread.is_finished());
        match nagaya_threads::spawn("room-tags", work) {
            Ok(thread) => threads.push(thread),
            // The callback went with the thread, so the client waits until it gives up.
            Err(error) => tracing::error!(%error, "no thread for a request about tags"),
        }
    }
}

impl Drop for TagService {
    fn drop(&mut self) {
        self.shared.stop.set();
        let threads = std::mem::take(&mut *self.threads.lock());
        for thread in threads {
            if thread.join().is_err() {
                tracing::error!("a thread that answers about tags has panicked");
            }
        }
    }
}

impl Shared {
    fn run(&self, command: TagCommand, wanted: &Weak<()>) -> Result<Outcome, Failure> {
        match command {
            TagCommand::Status { tag } => self.status(tag).map(Outcome::Status),
            TagCommand::List(query) => {
                let (tags, cursor) = tag_list::list(self, &query)?;
                Ok(Outcome::Listed { tags, cursor })
            }
            TagCommand::Warm { tags } => self.warm(&tags).map(Outcome::Count),
            TagCommand::Evict { tag } => self.evict(&tag, wanted).map(Outcome::Count),
            TagCommand::Names { tag } => self.names(&tag).map(Outcome::Names),
            TagCommand::Everything { from } => self.everything(from),
            TagCommand::WaitCold { limit } => self.wait_cold(limit, wanted).map(Outcome::IsDone),
        }
    }

    fn info(&self, tag: &[u8]) -> Result<TagInfo, Failure> {
        let mut info = self.tier.tag_info(&[tag])?;
        Ok(info.pop().unwrap_or_default())
    }

    fn status(&self, tag: Vec<u8>) -> Result<TagStatus, Failure> {
        let info = self.info(&tag)?;
        let hot_keys = if info.is_resident {
            self.tier.weigh(&tag, &self.names(&tag)?)?.0
        } else {
            0
        };
        let row = self.cold.tag(&tag)?;
        let of = |read: fn(&TagRow) -> u64| row.as_ref().map_or(0, read);
        Ok(TagStatus {
            is_resident: info.is_resident,
            hot_keys,
            unsaved_keys: info.dirty_keys,
            cold_keys: of(|row| row.keys),
            cold_bytes: of(|row| row.bytes),
            saved_at_ms: row.as_ref().and_then(|row| row.saved_at_ms),
            tag,
        })
    }

    /// Returns the keys that a tag may have: those with rows, and those that changed since.
    fn names(&self, tag: &[u8]) -> Result<Vec<Vec<u8>>, Failure> {
        // The dirty ones first: a key that leaves their list meanwhile has a row by then.
        let mut names = self.tier.dirty_names(tag)?;
        let mut after = Vec::new();
        loop {
            let page = self.cold.keys_after(Some((tag, &after)), PAGE)?;
            let is_last = page.len() < PAGE || page.iter().any(|row| row.tag != tag);
            let own = page.into_iter().filter(|row| row.tag == tag);
            names.extend(own.map(|row| {
                after.clone_from(&row.key);
                row.key
            }));
            if is_last {
                return Ok(names.into_iter().collect());
            }
        }
    }

    /// Lists some keys of both tiers.
    fn everything(&self, from: KeyPlace) -> Result<Outcome, Failure> {
        let (names, next) = match from {
            KeyPlace::Memory {
                is_again,
                server,
                cursor,
            } => {
                let (names, next) = self.tier.some_keys(server.as_deref(), cursor)?;
                let next = next.map(|(server, cursor)| KeyPlace::Memory {
                    is_again,
                    server: Some(server),
                    cursor,
                });
                (
                    names,
                    next.or((!is_again).then_some(KeyPlace::Rows { after: None })),
                )
            }
            KeyPlace::Rows { after } => {
                let after = after.as_ref().map(|(tag, key)| (tag.as_slice(), key.as_slice()));
                let page = self.cold.keys_after(after, PAGE)?;
                let last = page.last().filter(|_| page.len() == PAGE);
                let next = match last {
                    Some(row) => KeyPlace::Rows {
                        after: Some((row.tag.clone(), row.key.clone())),
                    },
                    None => KeyPlace::Memory {
                        is_again: true,
                        server: None,
                        cursor: 0,
                    },
                };
                (page.into_iter().map(|row| row.key).collect(), Some(next))
            }
        };
        Ok(Outcome::Everything { names, next })
    }

    /// Loads tags; returns how many have keys.
    fn warm(&self, tags: &[Vec<u8>]) -> Result<u64, Failure> {
        let (told, ends) = sync_channel(tags.len());
        for tag in tags {
            let told = told.clone();
            let done = move |ended| drop(told.send(ended));
            self.loads.load(tag, Box::new(done));
        }
        drop(told);
        for ended in ends {
            ended.map_err(|why: String| Failure::Message(format!("the tag cannot be loaded: {why}")))?;
        }
        let mut with_keys = 0;
        for tag in tags {
            let (keys, _) = self.tier.weigh(tag, &self.names(tag)?)?;
            with_keys += u64::from(keys > 0);
        }
        Ok(with_keys)
    }

    /// Saves a tag until it is clean, and evicts it; returns the number of evicted keys.
    fn evict(&self, tag: &[u8], wanted: &Weak<()>) -> Result<u64, Failure> {
        let tier = self.tier.within([keys::slot_of(tag)]).until(self.stop.clone());
        let tier: Arc<dyn HotTier> = Arc::new(tier);
        let clock = Arc::new(StoppableClock {
            clock: Arc::clone(&self.clock),
            stop: self.stop.clone(),
        });
        let config = SaverConfig {
            max_staleness: Duration::ZERO,
            ..SaverConfig::default()
        };
        let mut saver = Saver::new(Arc::clone(&tier), Arc::clone(&self.cold), clock.clone(), config);
        let evictor = Evictor::new(Arc::clone(&tier), Arc::clone(&self.cold), clock);
        let give_up = self.clock.steady() + EVICT_WAIT + 2 * tier.timing().settle;
        loop {
            let info = self.info(tag)?;
            if !info.is_resident {
                return Ok(0);
            }
            if info.dirty_keys > 0 {
                saver.round()?;
            } else {
                let (keys, _) = self.tier.weigh(tag, &self.names(tag)?)?;
                if evictor.evict(&[tag])?.evicted > 0 {
                    return Ok(keys);
                }
            }
            if self.clock.steady() >= give_up {
                let text = "the tag is in use or could not be saved in time, it stays";
                return Err(Failure::Message(text.to_owned()));
            }
            self.pause(wanted)?;
        }
    }

    /// Waits until the cold tier has all changes of now; returns whether it has.
    ///
    /// A snapshot taken from now on contains every write that was acknowledged before, and later snapshots of
    /// the same residency have higher numbers.
    fn wait_cold(&self, limit: Option<Duration>, wanted: &Weak<()>) -> Result<bool, Failure> {
        let give_up = limit.map(|limit| self.clock.steady() + limit);
        let mut waiting = self.dirty_now()?;
        loop {
            self.leave_saved(&mut waiting)?;
            if waiting.is_empty() {
                return Ok(true);
            }
            if give_up.is_some_and(|give_up| self.clock.steady() >= give_up) {
                return Ok(false);
            }
            self.pause(wanted)?;
        }
    }

    /// Returns all dirty tags with their state.
    fn dirty_now(&self) -> Result<Vec<(Vec<u8>, TagInfo)>, Failure> {
        let (mut tags, mut from) = (Vec::new(), None);
        loop {
            let page = self.tier.dirty_tags(from, PAGE)?;
            tags.extend(page.tags.into_iter().map(|dirty| dirty.tag));
            from = page.next;
            if from.is_none() {
                break;
            }
        }
        let info = self.all_info(&tags)?;
        Ok(tags.into_iter().zip(info).collect())
    }

    fn all_info(&self, tags: &[Vec<u8>]) -> Result<Vec<TagInfo>, Failure> {
        let mut info = Vec::with_capacity(tags.len());
        for turn in tags.chunks(PAGE) {
            let names: Vec<&[u8]> = turn.iter().map(Vec::as_slice).collect();
            info.extend(self.tier.tag_info(&names)?);
        }
        Ok(info)
    }

    /// Removes tags whose changes are saved.
    fn leave_saved(&self, waiting: &mut Vec<(Vec<u8>, TagInfo)>) -> Result<(), Failure> {
        let tags: Vec<Vec<u8>> = waiting.iter().map(|(tag, _)| tag.clone()).collect();
        let mut now = self.all_info(&tags)?.into_iter();
        waiting.retain(|_| now.next().is_some_and(|info| info.dirty_keys > 0));
        if waiting.len() > ASKED_TAGS_MAX {
            return Ok(());
        }
        let mut unsaved = Vec::new();
        for (tag, then) in waiting.drain(..) {
            let saved = self.cold.tag(&tag)?.map(|row| row.saved);
            let is_saved =
                saved.is_some_and(|saved| (saved.generation, saved.snap) > (then.generation, then.snap));
            if !is_saved {
                unsaved.push((tag, then));
            }
        }
        *waiting = unsaved;
        Ok(())
    }

    /// Waits before the next check; fails if the client is gone or the service ends.
    fn pause(&self, wanted: &Weak<()>) -> Result<(), Failure> {
        if self.stop.wait(LOOK_EVERY) || wanted.strong_count() == 0 {
            return Err(Failure::Message("the wait was cut off".to_owned()));
        }
        Ok(())
    }
}
