//! Answers what clients ask about tags (ROOM.*).
//!
//! Each errand has a thread while it lasts, since most of its time is spent waiting; there may be a bounded
//! number of them. Nothing here decides anything that data depends on: an eviction is the evictor's usual one,
//! a save the saver's, a load the load desk's.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::mpsc::sync_channel;
use std::sync::{Arc, Mutex, PoisonError, Weak};
use std::thread::{self, JoinHandle};
use std::time::Duration;

use nagaya_tiering::clock::Clock;
use nagaya_tiering::cold::{ColdTier, TagRow};
use nagaya_tiering::error::TieringError;
use nagaya_tiering::evictor::Evictor;
use nagaya_tiering::hot::HotTier;
use nagaya_tiering::saver::{Saver, SaverConfig};

use super::load_desk::LoadDesk;
use super::tag_list;
use crate::proxy::{Errand, ErrandDone, Keeper, Outcome, TagStatus};
use crate::stop::{Stop, StoppableClock};
use crate::tier::keys;
use crate::tier::{RedisHotTier, TagFacts};

/// Errands under way at a time.
const ERRANDS_MAX: usize = 64;
/// How long an eviction may take beside the waits that it cannot do without.
const EVICT_WAIT: Duration = Duration::from_secs(10);
/// How often it is looked whether something waited for has happened.
const LOOK_EVERY: Duration = Duration::from_millis(50);
/// Up to this many tags, the cold tier is asked whether it has their last snapshot; of more, it is waited
/// until they are clean.
const ASKED_TAGS_MAX: usize = 256;
/// Names and tags that are read from the cold tier at a time.
const PAGE: usize = 1000;

/// Answers about tags. Threads end when it is dropped.
pub struct TagDesk {
    shared: Arc<Shared>,
    threads: Mutex<Vec<JoinHandle<()>>>,
}

pub(super) struct Shared {
    pub(super) tier: RedisHotTier,
    pub(super) cold: Arc<dyn ColdTier>,
    pub(super) clock: Arc<dyn Clock>,
    loads: Arc<LoadDesk>,
    stop: Stop,
    under_way: AtomicUsize,
}

/// Why an errand failed: trouble in a tier, or something to tell the client.
pub(super) enum Failure {
    Tier(TieringError),
    Told(String),
}

impl<E: Into<TieringError>> From<E> for Failure {
    fn from(error: E) -> Failure {
        Failure::Tier(error.into())
    }
}

impl Failure {
    /// The text of an error reply.
    fn text(self) -> String {
        match self {
            Failure::Tier(error) => format!("TRYAGAIN {error}"),
            Failure::Told(text) => format!("ERR {text}"),
        }
    }
}

impl TagDesk {
    pub fn new(
        tier: RedisHotTier,
        cold: Arc<dyn ColdTier>,
        clock: Arc<dyn Clock>,
        loads: Arc<LoadDesk>,
    ) -> TagDesk {
        TagDesk {
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

impl Keeper for TagDesk {
    fn ask(&self, errand: Errand, wanted: Weak<()>, done: ErrandDone) {
        let shared = Arc::clone(&self.shared);
        if shared.under_way.fetch_add(1, Ordering::Relaxed) >= ERRANDS_MAX {
            shared.under_way.fetch_sub(1, Ordering::Relaxed);
            return done(Err("TRYAGAIN too many ask about tags".to_owned()));
        }
        let work = move || {
            let ended = shared.run(errand, &wanted);
            shared.under_way.fetch_sub(1, Ordering::Relaxed);
            done(ended.map_err(Failure::text));
        };
        let mut threads = self.threads.lock().unwrap_or_else(PoisonError::into_inner);
        threads.retain(|thread| !thread.is_finished());
        match thread::Builder::new().name("room-errand".into()).spawn(work) {
            Ok(thread) => threads.push(thread),
            // What was to be told went with the thread: the client waits until it gives up.
            Err(error) => tracing::error!(%error, "no thread for a request about tags"),
        }
    }
}

impl Drop for TagDesk {
    fn drop(&mut self) {
        self.shared.stop.tell();
        let threads = std::mem::take(&mut *self.threads.lock().unwrap_or_else(PoisonError::into_inner));
        for thread in threads {
            if thread.join().is_err() {
                tracing::error!("a thread that answers about tags has panicked");
            }
        }
    }
}

impl Shared {
    fn run(&self, errand: Errand, wanted: &Weak<()>) -> Result<Outcome, Failure> {
        match errand {
            Errand::Status { tag } => self.status(tag).map(Outcome::Status),
            Errand::List(query) => {
                let (tags, cursor) = tag_list::list(self, &query)?;
                Ok(Outcome::Listed { tags, cursor })
            }
            Errand::Warm { tags } => self.warm(&tags).map(Outcome::Count),
            Errand::Evict { tag } => self.evict(&tag, wanted).map(Outcome::Count),
            Errand::Names { tag } => self.names(&tag).map(Outcome::Names),
            Errand::WaitCold { limit } => self.wait_cold(limit, wanted).map(Outcome::IsDone),
        }
    }

    fn facts(&self, tag: &[u8]) -> Result<TagFacts, Failure> {
        let mut facts = self.tier.facts(&[tag])?;
        Ok(facts.pop().unwrap_or_default())
    }

    fn status(&self, tag: Vec<u8>) -> Result<TagStatus, Failure> {
        let facts = self.facts(&tag)?;
        let hot_keys = match facts.is_resident {
            true => self.tier.weigh(&tag, &self.names(&tag)?)?.0,
            false => 0,
        };
        let row = self.cold.tag(&tag)?;
        let of = |read: fn(&TagRow) -> u64| row.as_ref().map_or(0, read);
        Ok(TagStatus {
            is_resident: facts.is_resident,
            hot_keys,
            unsaved_keys: facts.dirty_keys,
            cold_keys: of(|row| row.keys),
            cold_bytes: of(|row| row.bytes),
            saved_at_ms: row.as_ref().and_then(|row| row.saved_at_ms),
            tag,
        })
    }

    /// Lists the keys that a tag may have: those with rows, and those that changed since.
    fn names(&self, tag: &[u8]) -> Result<Vec<Vec<u8>>, Failure> {
        // The dirty ones first: what leaves their list meanwhile has a row by then.
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
            ended.map_err(|why: String| Failure::Told(format!("the tag cannot be loaded: {why}")))?;
        }
        let mut with_keys = 0;
        for tag in tags {
            let (keys, _) = self.tier.weigh(tag, &self.names(tag)?)?;
            with_keys += u64::from(keys > 0);
        }
        Ok(with_keys)
    }

    /// Saves a tag until it is clean, and evicts it; returns how many keys went.
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
        let give_up = self.clock.now() + EVICT_WAIT + 2 * tier.timing().settle;
        loop {
            let facts = self.facts(tag)?;
            if !facts.is_resident {
                return Ok(0);
            }
            if facts.dirty_keys > 0 {
                saver.round()?;
            } else {
                let (keys, _) = self.tier.weigh(tag, &self.names(tag)?)?;
                if evictor.evict(&[tag])?.evicted > 0 {
                    return Ok(keys);
                }
            }
            if self.clock.now() >= give_up {
                let text = "the tag is in use or could not be saved in time, it stays";
                return Err(Failure::Told(text.to_owned()));
            }
            self.pause(wanted)?;
        }
    }

    /// Waits until the cold tier has what is dirty now; returns whether it has.
    ///
    /// A snapshot that is taken from now on holds every write that was acknowledged before, and a later one of
    /// the same residency has a higher number.
    fn wait_cold(&self, limit: Option<Duration>, wanted: &Weak<()>) -> Result<bool, Failure> {
        let give_up = limit.map(|limit| self.clock.now() + limit);
        let mut waiting = self.dirty_now()?;
        loop {
            self.leave_saved(&mut waiting)?;
            if waiting.is_empty() {
                return Ok(true);
            }
            if give_up.is_some_and(|give_up| self.clock.now() >= give_up) {
                return Ok(false);
            }
            self.pause(wanted)?;
        }
    }

    /// Lists all dirty tags, each with what is known of it.
    fn dirty_now(&self) -> Result<Vec<(Vec<u8>, TagFacts)>, Failure> {
        let (mut tags, mut from) = (Vec::new(), None);
        loop {
            let page = self.tier.dirty_tags(from, PAGE)?;
            tags.extend(page.tags.into_iter().map(|dirty| dirty.tag));
            from = page.next;
            if from.is_none() {
                break;
            }
        }
        let facts = self.all_facts(&tags)?;
        Ok(tags.into_iter().zip(facts).collect())
    }

    fn all_facts(&self, tags: &[Vec<u8>]) -> Result<Vec<TagFacts>, Failure> {
        let mut facts = Vec::with_capacity(tags.len());
        for turn in tags.chunks(PAGE) {
            let names: Vec<&[u8]> = turn.iter().map(Vec::as_slice).collect();
            facts.extend(self.tier.facts(&names)?);
        }
        Ok(facts)
    }

    /// Drops tags that are saved as they were.
    fn leave_saved(&self, waiting: &mut Vec<(Vec<u8>, TagFacts)>) -> Result<(), Failure> {
        let tags: Vec<Vec<u8>> = waiting.iter().map(|(tag, _)| tag.clone()).collect();
        let mut now = self.all_facts(&tags)?.into_iter();
        waiting.retain(|_| now.next().is_some_and(|facts| facts.dirty_keys > 0));
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

    /// Rests before the next look; fails when there is nobody to tell any more.
    fn pause(&self, wanted: &Weak<()>) -> Result<(), Failure> {
        if self.stop.wait(LOOK_EVERY) || wanted.strong_count() == 0 {
            return Err(Failure::Told("the wait was cut off".to_owned()));
        }
        Ok(())
    }
}
