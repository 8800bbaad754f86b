//! What the nodes know of single tags, for requests about them. The protocol does not depend on it.

use std::collections::BTreeSet;
use std::time::Duration;

use nagaya_redis_client::{Frame, reply};
use nagaya_tiering::error::HotError;

use super::batch::hot_error;
use super::hot::{RedisHotTier, age, score};
use super::keys;
use super::nodes::Words;

/// Slots or names in one pipeline.
const TURN: usize = 1024;

/// What a node knows of a tag.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct TagInfo {
    /// It is in memory or being loaded.
    pub is_resident: bool,
    /// The number of the residency, and of its last snapshot.
    pub generation: u64,
    pub snap: u64,
    /// Keys that may differ from their rows in the cold tier.
    pub dirty_keys: u64,
    /// The time since the last touch.
    pub idle: Option<Duration>,
}

impl RedisHotTier {
    /// Returns what is known of tags; defaults for those whose slot is being moved.
    pub fn tag_info(&self, tags: &[&[u8]]) -> Result<Vec<TagInfo>, HotError> {
        let mut found = vec![TagInfo::default(); tags.len()];
        let about = |tag: &&[u8]| {
            let slot = keys::slot_of(tag);
            [
                (slot, words(&[b"HMGET", &keys::meta(tag), b"gen", b"snap"])),
                (slot, words(&[b"HLEN", &keys::dirty(tag)])),
                (slot, words(&[b"ZSCORE", &keys::used(slot), tag])),
            ]
        };
        let commands: Vec<(u16, Words)> = tags.iter().flat_map(about).collect();
        for (at, now_ms, frame) in self.ask_slots(&commands)? {
            let known = &mut found[at / 3];
            match at % 3 {
                0 => {
                    let numbers: Vec<Option<u64>> = reply::items(&frame).iter().map(number).collect();
                    known.is_resident = numbers.iter().any(Option::is_some);
                    known.generation = numbers.first().copied().flatten().unwrap_or(0);
                    known.snap = numbers.get(1).copied().flatten().unwrap_or(0);
                }
                1 => known.dirty_keys = reply::unsigned(&frame).unwrap_or(0),
                _ => known.idle = score(&frame).map(|used_ms| age(now_ms, used_ms)),
            }
        }
        Ok(found)
    }

    /// Returns the keys of a tag that may differ from their rows.
    pub fn dirty_names(&self, tag: &[u8]) -> Result<BTreeSet<Vec<u8>>, HotError> {
        let command = (keys::slot_of(tag), words(&[b"HKEYS", &keys::dirty(tag)]));
        let mut names = BTreeSet::new();
        for (.., frame) in self.ask_slots(&[command])? {
            let listed = reply::items(&frame).iter().filter_map(reply::bytes);
            names.extend(listed.map(<[u8]>::to_vec));
        }
        Ok(names)
    }

    /// Returns how many of these keys of a tag are in memory, and their bytes.
    pub fn weigh<'a>(
        &self,
        tag: &[u8],
        names: impl IntoIterator<Item = &'a Vec<u8>>,
    ) -> Result<(u64, u64), HotError> {
        let slot = keys::slot_of(tag);
        let usage = |name: &Vec<u8>| (slot, words(&[b"MEMORY", b"USAGE", name]));
        let commands: Vec<(u16, Words)> = names.into_iter().map(usage).collect();
        let mut sizes = Vec::new();
        for turn in commands.chunks(TURN) {
            let answers = self.ask_slots(turn)?;
            sizes.extend(answers.iter().filter_map(|(.., frame)| reply::unsigned(frame)));
        }
        Ok((sizes.len() as u64, sizes.iter().sum()))
    }

    /// Returns about `limit` resident tags, the most recently used first.
    pub fn hottest(&self, limit: usize) -> Result<Vec<Vec<u8>>, HotError> {
        let share = self.share_of_slot(limit);
        let last = share.saturating_sub(1).to_string();
        let list = |slot: &u16| {
            let used = keys::used(*slot);
            let range: [&[u8]; 5] = [b"ZREVRANGE", &used, b"0", last.as_bytes(), b"WITHSCORES"];
            (*slot, words(&range))
        };
        let mut found = Vec::new();
        for turn in self.slots().chunks(TURN).filter(|_| limit > 0) {
            let commands: Vec<(u16, Words)> = turn.iter().map(list).collect();
            for (.., frame) in self.ask_slots(&commands)? {
                for (tag, used_ms) in reply::pairs(&frame) {
                    if let (Some(tag), Some(used_ms)) = (reply::bytes(tag), score(used_ms)) {
                        found.push((used_ms, tag.to_vec()));
                    }
                }
            }
        }
        found.sort_unstable_by(|one, other| other.cmp(one));
        found.truncate(limit);
        Ok(found.into_iter().map(|(_, tag)| tag).collect())
    }

    /// Runs commands by slot; returns each reply with its index and the node's time.
    fn ask_slots(&self, commands: &[(u16, Words)]) -> Result<Vec<(usize, i64, Frame)>, HotError> {
        let replies = self
            .block_on(self.nodes().run_slots(commands))
            .map_err(hot_error)?;
        let told = |found: super::batch::SlotReply| (found.at, found.now_ms, found.frame);
        Ok(replies.into_iter().map(told).collect())
    }
}

fn words(words: &[&[u8]]) -> Words {
    words.iter().map(|word| word.to_vec()).collect()
}

fn number(frame: &Frame) -> Option<u64> {
    reply::text(frame)?.parse().ok()
}
