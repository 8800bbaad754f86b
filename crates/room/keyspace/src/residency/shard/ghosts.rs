//! Keys that are gone from memory and that the cold tier may still have.

use super::{Ghost, ShardResidency};

impl ShardResidency {
    /// Notes that the only key of a tag is gone and that the cold tier has yet to follow.
    pub(super) fn note_gone(&mut self, tag: &[u8], now_ms: i64) {
        let before = match self.ghosts.get_mut(tag) {
            Some(ghost) => Some(std::mem::replace(ghost, Ghost::Queued)),
            None => self.ghosts.insert(tag.into(), Ghost::Queued),
        };
        if before != Some(Ghost::Queued) {
            self.enqueue(tag, now_ms);
        }
    }

    /// Returns whether the cold tier has yet to hear that the only key of a tag is gone.
    pub(crate) fn is_gone_unsaved(&self, tag: &[u8]) -> bool {
        !self.ghosts.is_empty() && self.ghosts.get(tag).is_some_and(|ghost| *ghost != Ghost::Buried)
    }

    /// Returns whether a snapshot of a tag is to say that its only key is gone, and notes that it does. `is_back`
    /// says that the key is in memory again, and thereby in the snapshot.
    pub(crate) fn bury(&mut self, tag: &[u8], is_back: bool) -> bool {
        if self.ghosts.is_empty() || self.ghosts.get(tag) != Some(&Ghost::Queued) {
            return false;
        }
        if is_back {
            self.ghosts.remove(tag);
        } else if let Some(ghost) = self.ghosts.get_mut(tag) {
            *ghost = Ghost::Burying;
        }
        !is_back
    }

    /// Notes that the cold tier has followed. That the tag is empty is remembered for a while.
    pub(crate) fn buried(&mut self, tag: &[u8]) {
        if let Some(ghost) = self.ghosts.get_mut(tag)
            && *ghost == Ghost::Burying
        {
            *ghost = Ghost::Buried;
            self.remember_empty(tag);
        }
    }

    /// Notes that a snapshot which said that a key is gone was not saved, while the key is back.
    pub(crate) fn not_buried(&mut self, tag: &[u8]) {
        if self.ghosts.get(tag) == Some(&Ghost::Burying) {
            self.ghosts.remove(tag);
        }
    }

    /// Returns how much memory the names of keys take that are gone and that the cold tier may still have, about.
    pub(crate) fn ghost_bytes(&self) -> usize {
        /// The block of a name, and its place in the queue of changes.
        const NAME_BYTES: usize = 40;
        self.ghosts.capacity() * size_of::<(Box<[u8]>, Ghost)>() + self.ghosts.len() * NAME_BYTES
    }
}

#[cfg(test)]
mod tests {
    use nagaya_store::hasher::hash_bytes;

    use super::*;
    use crate::residency::shard::EMPTY_TAGS_MAX;

    #[test]
    fn what_a_ghost_says_goes_over_to_a_record() {
        let mut tiers = ShardResidency::default();
        tiers.removed(b"u", hash_bytes(b"u"), true, 5);
        tiers.created(b"{u}a", hash_bytes(b"{u}a"));
        assert!(!tiers.is_gone_unsaved(b"u"));
        let record = &tiers.records[&b"u"[..]];
        assert!(record.gone.contains(&b"u"[..]) && record.queued && !record.is_saved());
        tiers.removed(b"v", hash_bytes(b"v"), true, 5);
        assert!(tiers.bury(b"v", false));
        tiers.created(b"{v}a", hash_bytes(b"{v}a"));
        assert!(tiers.records[&b"v"[..]].saving);
    }

    #[test]
    fn keys_that_are_gone_take_little_memory_until_the_cold_tier_has_followed() {
        // A name, its place in a table that may be half empty, and its place in the queue.
        assert!(size_of::<(Box<[u8]>, Ghost)>() <= 24);
        let mut tiers = ShardResidency::default();
        for number in 0..10_000 {
            let key = format!("key:{number}");
            tiers.removed(key.as_bytes(), hash_bytes(key.as_bytes()), true, 1);
        }
        assert_eq!((tiers.records.len(), tiers.ghosts.len()), (0, 10_000));
        let names: Vec<Vec<u8>> = tiers.queue.iter().map(<[u8]>::to_vec).collect();
        for name in names {
            assert!(tiers.bury(&name, false));
            tiers.buried(&name);
        }
        assert_eq!(tiers.record_count(), EMPTY_TAGS_MAX);
    }
}
