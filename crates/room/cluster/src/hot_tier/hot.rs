//! room's hot tier on Redis: one server, Sentinel or Cluster.

use std::sync::Arc;
use std::time::Duration;

use nagaya_redis_client::slot::SLOTS;
use nagaya_redis_client::{Client, Endpoint, Error, Frame, Options, RedisUrl, reply};
use nagaya_tiering::error::HotError;
use nagaya_tiering::hot::{Chunk, DirtyPage, DirtyTag, HotTier, Installed, SavedKeys, TagCopy};
use nagaya_tiering::protocol::{LoadStart, Token, Touched};
use nagaya_tiering::timing::Timing;
use tokio::runtime::Handle;

use crate::stop::Stop;

use super::batch::{Answer, hot_error, is_of_the_tag};
use super::keys;
use super::nodes::{Nodes, Words};
use super::run::RunDigest;
use super::scripts::{self, Call, Copied};

/// Slots that are listed in one pipeline.
const LISTED_SLOTS: usize = 256;
/// About how many tags of one slot are listed in one pipeline.
const SCAN_COUNT: &[u8] = b"1000";

/// The time limits of leases, commands and replies.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Limits {
    /// L: how long a server may use a tag after it sent a granted touch.
    pub lease: Duration,
    /// M: how long a command may take from a server to its node. Servers enforce it.
    pub allowance: Duration,
    pub connect_limit: Duration,
    /// For each reply; longer than the allowance, since copying a large tag takes time.
    pub reply_limit: Duration,
}

impl Default for Limits {
    fn default() -> Limits {
        Limits {
            lease: Duration::from_secs(5),
            allowance: Duration::from_secs(2),
            connect_limit: Duration::from_secs(2),
            reply_limit: Duration::from_secs(10),
        }
    }
}

impl Limits {
    /// D and M. Clocks of two machines drift by far less than the hundredth that is added.
    pub fn timing(&self) -> Timing {
        let both = self.lease + self.allowance;
        Timing {
            settle: both + both / 100,
            allowance: self.allowance,
        }
    }
}

/// The hot tier, or the part of it in some slots. Calls block, so they must not be made on a thread of the
/// runtime.
#[derive(Clone, Debug)]
pub struct RedisHotTier {
    nodes: Arc<Nodes>,
    runtime: Handle,
    limits: Limits,
    /// The slots of listings and probes, in order. Calls about single tags work in all slots.
    slots: Arc<[u16]>,
    stop: Option<Stop>,
}

/// The part of a tier on one node.
#[derive(Clone, Debug)]
pub struct TierPart {
    pub server: Endpoint,
    pub tier: RedisHotTier,
}

impl RedisHotTier {
    /// Prepares the tier without connecting. Connections are tasks of the runtime, which has its own threads.
    pub fn new(url: RedisUrl, name: &str, limits: Limits, runtime: Handle) -> Result<RedisHotTier, HotError> {
        let options = Options {
            connect_limit: limits.connect_limit,
            reply_limit: limits.reply_limit,
            client_name: name.to_owned(),
        };
        let client = Client::new(url, options).map_err(hot_error)?;
        Ok(RedisHotTier {
            nodes: Arc::new(Nodes::new(client)),
            runtime,
            limits,
            slots: (0..SLOTS).collect(),
            stop: None,
        })
    }

    /// Returns the same tier with listings and probes of these slots only.
    pub fn within(&self, slots: impl IntoIterator<Item = u16>) -> RedisHotTier {
        let mut slots: Vec<u16> = slots.into_iter().collect();
        slots.sort_unstable();
        slots.dedup();
        RedisHotTier {
            slots: slots.into(),
            ..self.clone()
        }
    }

    /// Returns the same tier over its own connections, with a shorter reply limit.
    pub fn with_reply_limit(&self, limit: Duration) -> Result<RedisHotTier, HotError> {
        let client = self.nodes.client();
        let options = Options {
            connect_limit: limit,
            reply_limit: limit,
            ..client.options().clone()
        };
        let client = Client::new(client.url().clone(), options).map_err(hot_error)?;
        Ok(RedisHotTier {
            nodes: Arc::new(Nodes::new(client)),
            ..self.clone()
        })
    }

    /// Returns the same tier with probes that fail once the signal is set, so that loops around them end.
    pub(crate) fn until(&self, stop: Stop) -> RedisHotTier {
        RedisHotTier {
            stop: Some(stop),
            ..self.clone()
        }
    }

    /// Returns the slots of listings and probes.
    pub fn slots(&self) -> &[u16] {
        &self.slots
    }

    /// Splits the tier by node, so that a node that fails delays no work on others. Slots without an owner
    /// are left out.
    pub fn parts(&self) -> Result<Vec<TierPart>, HotError> {
        let map = self.block_on(self.nodes.map()).map_err(hot_error)?;
        let mut slots: Vec<Vec<u16>> = vec![Vec::new(); map.servers.len()];
        for slot in self.slots.iter() {
            if let Some(owner) = map.owner(*slot) {
                slots[owner].push(*slot);
            }
        }
        let parts = map
            .servers
            .iter()
            .zip(slots)
            .filter(|(_, slots)| !slots.is_empty());
        let part = |(server, slots): (&Endpoint, Vec<u16>)| TierPart {
            server: server.clone(),
            tier: self.within(slots),
        };
        Ok(parts.map(part).collect())
    }

    pub fn limits(&self) -> Limits {
        self.limits
    }

    pub(crate) fn nodes(&self) -> &Nodes {
        &self.nodes
    }

    /// Runs scripts on the nodes of their first keys, all in parallel.
    pub(crate) fn run_calls(&self, calls: &[Call]) -> Vec<Result<Frame, HotError>> {
        let keys: Vec<&[u8]> = calls.iter().map(Call::key).collect();
        let answers = self.run(&keys, |at, _| calls[at].clone());
        answers
            .into_iter()
            .map(|answer| answer.map_err(hot_error))
            .collect()
    }

    pub(crate) fn block_on<F: Future>(&self, future: F) -> F::Output {
        self.runtime.block_on(future)
    }

    /// Returns how many tags to read per slot to get `count` of all: a little more than an equal share, since
    /// tags are spread nearly evenly.
    pub(super) fn share_of_slot(&self, limit: usize) -> usize {
        (4 * limit / self.slots.len().max(1)).clamp(4.min(limit), limit)
    }

    fn run(&self, tags: &[&[u8]], make: impl Fn(usize, &RunDigest) -> Call) -> Vec<Answer> {
        self.block_on(self.nodes.run_scripts(tags, make))
    }

    fn run_one(&self, tag: &[u8], make: impl Fn(&RunDigest) -> Call) -> Answer {
        let mut answers = self.run(&[tag], |_, run| make(run));
        answers.pop().expect("one tag has one answer")
    }

    /// Lists dirty tags of slots, each from its cursor; returns the next cursors of slots that have more.
    fn scan_slots(
        &self,
        places: &[(u16, Vec<u8>)],
        tags: &mut Vec<DirtyTag>,
    ) -> Result<Vec<(u16, Vec<u8>)>, HotError> {
        let scan = |(slot, cursor): &(u16, Vec<u8>)| {
            let index = keys::index(*slot);
            (*slot, words(&[b"ZSCAN", &index, cursor, b"COUNT", SCAN_COUNT]))
        };
        let commands: Vec<_> = places.iter().map(scan).collect();
        let replies = self
            .block_on(self.nodes.run_slots(&commands))
            .map_err(hot_error)?;
        let mut unfinished = Vec::new();
        for found in replies {
            let wrong = || hot_error(reply::unexpected("ZSCAN", &found.frame));
            let [cursor, members] = reply::items(&found.frame) else {
                return Err(wrong());
            };
            for (tag, since) in reply::pairs(members) {
                let tag = reply::bytes(tag).ok_or_else(wrong)?.to_vec();
                let since = score(since).ok_or_else(wrong)?;
                let dirty_for = age(found.now_ms, since);
                tags.push(DirtyTag { tag, dirty_for });
            }
            let cursor = reply::bytes(cursor).ok_or_else(wrong)?;
            if cursor != b"0" {
                unfinished.push((found.slot, cursor.to_vec()));
            }
        }
        Ok(unfinished)
    }
}

impl HotTier for RedisHotTier {
    fn timing(&self) -> Timing {
        self.limits.timing()
    }

    fn touch(&self, tags: &[&[u8]]) -> Result<Vec<Touched>, HotError> {
        let answers = self.run(tags, |at, run| scripts::touch(run, tags[at]));
        answers
            .into_iter()
            .map(|answer| word(answer, scripts::touched))
            .collect()
    }

    fn begin(&self, tag: &[u8], token: Token) -> Result<LoadStart, HotError> {
        word(
            self.run_one(tag, |run| scripts::begin(run, tag, token)),
            scripts::begun,
        )
    }

    fn install(&self, tag: &[u8], token: Token, chunk: &Chunk) -> Result<Installed, HotError> {
        let answer = self.run_one(tag, |run| scripts::install(run, tag, token, chunk));
        word(answer, scripts::installed)
    }

    fn dirty_tags(&self, from: Option<u64>, limit: usize) -> Result<DirtyPage, HotError> {
        let start = from.unwrap_or(0);
        let place = self.slots.partition_point(|slot| u64::from(*slot) < start);
        let mut page = DirtyPage::default();
        let mut turns = self.slots[place..].chunks(LISTED_SLOTS).peekable();
        while let Some(turn) = turns.next() {
            // A slot is listed to its end, so that the next page begins at a slot.
            let mut places: Vec<(u16, Vec<u8>)> = turn.iter().map(|slot| (*slot, b"0".to_vec())).collect();
            while !places.is_empty() {
                places = self.scan_slots(&places, &mut page.tags)?;
            }
            page.next = turns.peek().map(|next| next[0].into());
            if page.tags.len() >= limit {
                break;
            }
        }
        Ok(page)
    }

    fn snapshot(&self, tags: &[&[u8]]) -> Result<Vec<Option<TagCopy>>, HotError> {
        let answers = self.run(tags, |at, run| scripts::snapshot(run, tags[at]));
        let copy = |(tag, answer): (&&[u8], Answer)| match answer {
            Ok(frame) => match scripts::copied(tag, &frame) {
                Some(Copied::Taken(copy)) => Ok(Some(copy)),
                Some(Copied::Refused) => Ok(None),
                Some(Copied::UnknownType { kind, .. }) => {
                    tracing::error!(kind, "a key of a type that rows do not know cannot be saved");
                    Ok(None)
                }
                None => Err(hot_error(reply::unexpected("snapshot", &frame))),
            },
            Err(error) => skipped(error, None),
        };
        tags.iter().zip(answers).map(copy).collect()
    }

    fn remove(&self, settled: &[SavedKeys]) -> Result<Vec<bool>, HotError> {
        let tags: Vec<&[u8]> = settled.iter().map(|settled| settled.tag.as_slice()).collect();
        let answers = self.run(&tags, |at, run| scripts::remove(run, &settled[at]));
        answers
            .into_iter()
            .map(|answer| yes(answer, scripts::is_clean))
            .collect()
    }

    fn mark(&self, tags: &[&[u8]], token: Token) -> Result<Vec<bool>, HotError> {
        let answers = self.run(tags, |at, run| scripts::mark(run, tags[at], token));
        answers
            .into_iter()
            .map(|answer| yes(answer, scripts::is_marked))
            .collect()
    }

    fn confirm(&self, tag: &[u8], token: Token, names: &[Vec<u8>]) -> Result<bool, HotError> {
        let answer = self.run_one(tag, |run| scripts::confirm(run, tag, token, names));
        yes(answer, scripts::is_gone)
    }

    fn probe(&self) -> Result<(), HotError> {
        if self.stop.as_ref().is_some_and(Stop::is_set) {
            return Err(HotError::Unavailable("the process is about to stop".into()));
        }
        self.block_on(self.nodes.probe(&self.slots)).map_err(hot_error)
    }

    fn coldest(&self, limit: usize, idle: Duration) -> Result<Vec<Vec<u8>>, HotError> {
        let share = self.share_of_slot(limit);
        let last = share.saturating_sub(1).to_string();
        let list = |slot: &u16| {
            let used = keys::used(*slot);
            (
                *slot,
                words(&[b"ZRANGE", &used, b"0", last.as_bytes(), b"WITHSCORES"]),
            )
        };
        let mut found = Vec::new();
        for turn in self.slots.chunks(LISTED_SLOTS).filter(|_| limit > 0) {
            let commands: Vec<_> = turn.iter().map(list).collect();
            let replies = self
                .block_on(self.nodes.run_slots(&commands))
                .map_err(hot_error)?;
            for listed in &replies {
                for (tag, used_at) in reply::pairs(&listed.frame) {
                    let wrong = || hot_error(reply::unexpected("ZRANGE", &listed.frame));
                    let unused_for = age(listed.now_ms, score(used_at).ok_or_else(wrong)?);
                    if unused_for >= idle {
                        found.push((unused_for, reply::bytes(tag).ok_or_else(wrong)?.to_vec()));
                    }
                }
            }
        }
        found.sort_unstable_by(|one, other| other.cmp(one));
        found.truncate(limit);
        Ok(found.into_iter().map(|(_, tag)| tag).collect())
    }
}

fn words(words: &[&[u8]]) -> Words {
    words.iter().map(|word| word.to_vec()).collect()
}

/// Parses a reply of one word.
fn word<T>(answer: Answer, read: impl Fn(&[u8]) -> Option<T>) -> Result<T, HotError> {
    let frame = answer.map_err(hot_error)?;
    let known = reply::bytes(&frame).and_then(read);
    known.ok_or_else(|| hot_error(reply::unexpected("a script", &frame)))
}

/// Parses a yes or no about a tag; an error that concerns the tag only is a no.
fn yes(answer: Answer, read: impl Fn(&[u8]) -> Option<bool>) -> Result<bool, HotError> {
    match answer {
        Err(error) => skipped(error, false),
        answer => word(answer, read),
    }
}

/// Drops an error that concerns one tag only, so that others can go on.
fn skipped<T>(error: Error, instead: T) -> Result<T, HotError> {
    if !is_of_the_tag(&error) {
        return Err(hot_error(error));
    }
    tracing::debug!(error = error.chain(), "a tag is left for later");
    Ok(instead)
}

pub(super) fn score(frame: &nagaya_redis_client::Frame) -> Option<i64> {
    let text = std::str::from_utf8(reply::bytes(frame)?).ok()?;
    // Scores are whole milliseconds, which a float represents exactly.
    text.parse::<f64>().ok().map(|score| score as i64)
}

pub(super) fn age(now_ms: i64, since_ms: i64) -> Duration {
    Duration::from_millis(u64::try_from(now_ms.saturating_sub(since_ms)).unwrap_or(0))
}
