//! The names of the keys that hold room's own state beside the data.
//!
//! A script works on keys of one slot only, so all keys about a tag must be in the tag's slot. For
//! a tag without a closing brace its own braces see to that: `_room:{T}:meta`. A key without a proper hash
//! tag is its own tag and may be empty or hold such a brace, as `a}b` or `{}x` do; its names are put into
//! the right slot by the *slot's* tag, a short text that hashes there, and carry the tag at their end:
//! `_room:{S}:meta:a}b`. The dirty index and the list of uses are one per slot and always use that text.
//!
//! These names outlive the process: changing how they are made needs a migration.

use std::sync::OnceLock;

use nagaya_redis_client::slot::{self, SLOTS};

/// The prefix of reserved names. Requests of clients with such keys are refused.
pub const PREFIX: &[u8] = b"_room:";

/// Returns whether a key is reserved.
pub fn is_reserved(key: &[u8]) -> bool {
    key.starts_with(PREFIX)
}

/// Returns the slot of a tag.
pub fn slot_of(tag: &[u8]) -> u16 {
    // A tag never contains a hash tag, so all of it is hashed, as of a key.
    slot::of_key(tag)
}

/// Names the hash `run, gen, snap, state, token, keep` of a tag that is resident or being loaded.
pub fn meta(tag: &[u8]) -> Vec<u8> {
    name_of(tag, b":meta")
}

/// Names the hash of a tag's changed keys, each with the token of its last registration.
pub fn dirty(tag: &[u8]) -> Vec<u8> {
    name_of(tag, b":dirty")
}

/// Names the sorted set of a slot's dirty tags, each with the Unix time in milliseconds since when it is.
pub fn index(slot: u16) -> Vec<u8> {
    [PREFIX, b"{", slot_tag(slot).as_bytes(), b"}:index"].concat()
}

/// Names the sorted set of a slot's resident tags, each with the Unix time in milliseconds of its last touch.
pub fn used(slot: u16) -> Vec<u8> {
    [PREFIX, b"{", slot_tag(slot).as_bytes(), b"}:used"].concat()
}

/// The number of ranges that the slots are divided into for the processes that save and evict.
pub const RANGES: u16 = 16;

/// Names the lease of a shard, by its first slot.
pub fn shard(first: u16) -> Vec<u8> {
    [PREFIX, b"{", slot_tag(first).as_bytes(), b"}:shard"].concat()
}

/// Names a key that is made and removed in one step, so that the node of a slot has written something.
pub fn mark(slot: u16) -> Vec<u8> {
    [PREFIX, b"{", slot_tag(slot).as_bytes(), b"}:mark"].concat()
}

/// Names a key that is there while a script moves keys of a slot between the tiers, so that who hears of changed
/// keys knows that these are none.
pub fn quiet(slot: u16) -> Vec<u8> {
    [PREFIX, b"{", slot_tag(slot).as_bytes(), QUIET].concat()
}

const QUIET: &[u8] = b"}:quiet";

/// Returns whether a key is such a mark, of any slot.
pub fn is_quiet_mark(key: &[u8]) -> bool {
    let Some(rest) = key.strip_prefix(PREFIX) else {
        return false;
    };
    let end = rest.iter().position(|byte| *byte == b'}');
    end.is_some_and(|end| rest[end..] == *QUIET)
}

/// Names the sorted set where the processes that save and evict record that they are alive.
pub fn workers() -> Vec<u8> {
    [PREFIX, b"{", slot_tag(0).as_bytes(), b"}:workers"].concat()
}

/// Returns a text that hashes to a slot: the first one in the order of base 36 numbers, least digit first.
pub fn slot_tag(slot: u16) -> &'static str {
    static TAGS: OnceLock<Vec<String>> = OnceLock::new();
    &TAGS.get_or_init(find_slot_tags)[usize::from(slot)]
}

fn name_of(tag: &[u8], what: &[u8]) -> Vec<u8> {
    if tag.is_empty() || tag.contains(&b'}') {
        let slot_tag = slot_tag(slot_of(tag)).as_bytes();
        return [PREFIX, b"{", slot_tag, b"}", what, b":", tag].concat();
    }
    [PREFIX, b"{", tag, b"}", what].concat()
}

fn find_slot_tags() -> Vec<String> {
    let mut tags = vec![String::new(); usize::from(SLOTS)];
    let mut missing = tags.len();
    let mut number = 0;
    while missing > 0 {
        let text = base36(number);
        let found = &mut tags[usize::from(slot::of_key(text.as_bytes()))];
        if found.is_empty() {
            *found = text;
            missing -= 1;
        }
        number += 1;
    }
    tags
}

fn base36(mut number: u32) -> String {
    const DIGITS: &[u8; 36] = b"0123456789abcdefghijklmnopqrstuvwxyz";
    let mut text = String::new();
    loop {
        text.push(DIGITS[(number % 36) as usize].into());
        number /= 36;
        if number == 0 {
            return text;
        }
    }
}

#[cfg(test)]
mod tests {
    use nagaya_tiering::tag::tag_of;
    use proptest::prelude::*;

    use super::*;

    fn names(tag: &[u8]) -> [Vec<u8>; 4] {
        let slot = slot_of(tag);
        [meta(tag), dirty(tag), index(slot), used(slot)]
    }

    fn check(key: &[u8]) {
        let tag = tag_of(key);
        assert_eq!(
            slot_of(tag),
            slot::of_key(key),
            "{}",
            String::from_utf8_lossy(key)
        );
        for name in names(tag) {
            assert_eq!(
                slot::of_key(&name),
                slot::of_key(key),
                "{} for {}",
                String::from_utf8_lossy(&name),
                String::from_utf8_lossy(key)
            );
            assert!(is_reserved(&name));
        }
    }

    #[test]
    fn every_slot_has_a_short_tag_that_hashes_to_it() {
        for slot in 0..SLOTS {
            let tag = slot_tag(slot);
            assert_eq!(slot::of_key(tag.as_bytes()), slot);
            assert!((1..=4).contains(&tag.len()), "{tag}");
        }
    }

    #[test]
    fn names_that_are_stored_do_not_change() {
        assert_eq!(meta(b"user"), b"_room:{user}:meta");
        assert_eq!(dirty(b"user"), b"_room:{user}:dirty");
        assert_eq!(slot_tag(0), "la2");
        assert_eq!(meta(b""), b"_room:{la2}:meta:");
        assert_eq!(index(0), b"_room:{la2}:index");
        assert_eq!(used(0), b"_room:{la2}:used");
    }

    #[test]
    fn only_the_marks_of_slots_are_marks() {
        assert!(is_quiet_mark(&quiet(0)) && is_quiet_mark(&quiet(9)));
        for key in [
            meta(b"}:quiet"),
            dirty(b"x}:quiet"),
            index(0),
            b"user}:quiet".to_vec(),
            b"_room:".to_vec(),
        ] {
            assert!(!is_quiet_mark(&key), "{}", String::from_utf8_lossy(&key));
        }
    }

    #[test]
    fn odd_keys_have_their_names_in_their_own_slot() {
        for key in [
            &b""[..],
            b"}",
            b"a}b",
            b"{}",
            b"{}x",
            b"a{}b}",
            b"{user",
            b"{{user}}",
            b"}{user}",
            b"x}{",
            b"\0\xff}",
        ] {
            check(key);
        }
    }

    proptest! {
        #[test]
        fn random_keys_have_their_names_in_their_own_slot(key in "[ab{}]{0,8}") {
            check(key.as_bytes());
        }

        #[test]
        fn different_tags_have_different_names(one in "[ab:{}]{0,8}", other in "[ab:{}]{0,8}") {
            let (one, other) = (tag_of(one.as_bytes()), tag_of(other.as_bytes()));
            if one != other {
                let all = [
                    meta(one),
                    dirty(one),
                    meta(other),
                    dirty(other),
                    index(slot_of(one)),
                    used(slot_of(one)),
                ];
                let mut unique = all.to_vec();
                unique.sort();
                unique.dedup();
                prop_assert_eq!(unique.len(), all.len());
            }
        }
    }
}
