//! A filter of the tags that may have a row in the cold tier.
//!
//! A Bloom filter in layers: when one holds as many tags as it was made for, a layer
//! twice as large is added. Each layer answers wrongly for about one absent tag in two
//! hundred, at 11 bits per tag; the answers of all layers add up, so after two
//! doublings a rebuild pays off. Nothing can be taken out, only left out of a rebuild.
//!
//! Asking and inserting share the filter: bits are atomic and only ever set. "Absent"
//! is certain for a tag that was not inserted before the question began.

use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, PoisonError, RwLock};

use ahash::RandomState;

/// Gives one wrong answer in two hundred with eight bits set per tag.
const BITS_PER_TAG: usize = 11;
const PROBES: u64 = 8;
/// The smallest layer: 11 KiB.
const TAGS_MIN: usize = 8192;
/// With more layers than this the answers get worse than one wrong in a hundred.
const LAYERS_MAX: usize = 2;

/// The filter's answer for a tag.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Existence {
    Absent,
    Maybe,
}

/// A set of tags with false positives and without false negatives.
#[derive(Debug)]
pub struct Filter {
    hashers: [RandomState; 2],
    layers: RwLock<Layers>,
    /// One rebuild at a time.
    rebuild: Mutex<()>,
}

#[derive(Debug)]
struct Layers {
    /// The largest is last, and takes the inserts.
    current: Vec<Arc<Layer>>,
    /// While a rebuild is under way, inserts go there, too.
    next: Vec<Arc<Layer>>,
}

#[derive(Debug)]
struct Layer {
    words: Box<[AtomicU64]>,
    tags_max: usize,
    tags: AtomicUsize,
}

impl Layer {
    fn new(tags_max: usize) -> Layer {
        let words = (tags_max * BITS_PER_TAG).div_ceil(64);
        let words = std::iter::repeat_with(|| AtomicU64::new(0)).take(words).collect();
        Layer {
            words,
            tags_max,
            tags: AtomicUsize::new(0),
        }
    }

    /// Returns the places of a tag's bits: word and mask.
    fn places(&self, [first, second]: [u64; 2]) -> impl Iterator<Item = (&AtomicU64, u64)> {
        let bits = self.words.len() as u64 * 64;
        (0..PROBES).map(move |probe| {
            let hash = first.wrapping_add(probe.wrapping_mul(second));
            // Scales the hash to the number of bits without a division.
            let bit = (u128::from(hash) * u128::from(bits)) >> 64;
            (&self.words[(bit / 64) as usize], 1 << (bit % 64))
        })
    }

    fn has(&self, hashes: [u64; 2]) -> bool {
        self.places(hashes)
            .all(|(word, mask)| word.load(Ordering::Relaxed) & mask != 0)
    }

    /// Returns whether the tag was new.
    fn insert(&self, hashes: [u64; 2]) -> bool {
        let mut is_new = false;
        for (word, mask) in self.places(hashes) {
            is_new |= word.fetch_or(mask, Ordering::Relaxed) & mask == 0;
        }
        if is_new {
            self.tags.fetch_add(1, Ordering::Relaxed);
        }
        is_new
    }

    fn is_full(&self) -> bool {
        self.tags.load(Ordering::Relaxed) >= self.tags_max
    }
}

impl Filter {
    /// Returns an empty filter with room for this many tags before it grows.
    pub fn with_room_for(tags: usize) -> Filter {
        let layer = Arc::new(Layer::new(tags.max(TAGS_MIN)));
        Filter {
            hashers: [RandomState::new(), RandomState::new()],
            layers: RwLock::new(Layers {
                current: vec![layer],
                next: Vec::new(),
            }),
            rebuild: Mutex::new(()),
        }
    }

    pub fn ask(&self, tag: &[u8]) -> Existence {
        let hashes = self.hashes(tag);
        let layers = self.layers.read().unwrap_or_else(PoisonError::into_inner);
        // Most tags are in the largest.
        if layers.current.iter().rev().any(|layer| layer.has(hashes)) {
            Existence::Maybe
        } else {
            Existence::Absent
        }
    }

    /// Makes the answer for a tag "maybe".
    pub fn insert(&self, tag: &[u8]) {
        let hashes = self.hashes(tag);
        let mut must_grow = false;
        {
            let layers = self.layers.read().unwrap_or_else(PoisonError::into_inner);
            for layer in [layers.current.last(), layers.next.last()].into_iter().flatten() {
                must_grow |= layer.insert(hashes) && layer.is_full();
            }
        }
        if must_grow {
            self.grow();
        }
    }

    /// Returns how many tags were inserted, as far as the filter could tell them apart.
    pub fn tags(&self) -> usize {
        let layers = self.layers.read().unwrap_or_else(PoisonError::into_inner);
        layers
            .current
            .iter()
            .map(|layer| layer.tags.load(Ordering::Relaxed))
            .sum()
    }

    pub fn bytes(&self) -> usize {
        let layers = self.layers.read().unwrap_or_else(PoisonError::into_inner);
        layers
            .current
            .iter()
            .chain(&layers.next)
            .map(|layer| layer.words.len() * 8)
            .sum()
    }

    /// Returns whether the filter has grown so often that its answers suffer.
    pub fn wants_rebuild(&self) -> bool {
        self.layers
            .read()
            .unwrap_or_else(PoisonError::into_inner)
            .current
            .len()
            > LAYERS_MAX
    }

    /// Replaces everything by these tags, of which there are about `count`. The old answers hold until the
    /// last tag was taken; tags that are inserted meanwhile stay. An error of the iterator changes nothing.
    pub fn rebuild<E>(
        &self,
        count: usize,
        tags: impl IntoIterator<Item = Result<Vec<u8>, E>>,
    ) -> Result<(), E> {
        let _alone = self.rebuild.lock().unwrap_or_else(PoisonError::into_inner);
        let first = Arc::new(Layer::new((count + count / 4).max(TAGS_MIN)));
        self.layers.write().unwrap_or_else(PoisonError::into_inner).next = vec![first];
        let mut outcome = Ok(());
        for tag in tags {
            match tag {
                Ok(tag) => self.insert_next(self.hashes(&tag)),
                Err(error) => {
                    outcome = Err(error);
                    break;
                }
            }
        }
        let mut layers = self.layers.write().unwrap_or_else(PoisonError::into_inner);
        let next = std::mem::take(&mut layers.next);
        if outcome.is_ok() {
            layers.current = next;
        }
        outcome
    }

    fn insert_next(&self, hashes: [u64; 2]) {
        let must_grow = {
            let layers = self.layers.read().unwrap_or_else(PoisonError::into_inner);
            layers
                .next
                .last()
                .is_some_and(|layer| layer.insert(hashes) && layer.is_full())
        };
        if must_grow {
            self.grow();
        }
    }

    fn grow(&self) {
        let mut layers = self.layers.write().unwrap_or_else(PoisonError::into_inner);
        let Layers { current, next } = &mut *layers;
        for set in [current, next] {
            // Another thread may have grown it meanwhile.
            if let Some(full) = set.last().filter(|layer| layer.is_full()) {
                let larger = Layer::new(full.tags_max * 2);
                set.push(Arc::new(larger));
            }
        }
    }

    fn hashes(&self, tag: &[u8]) -> [u64; 2] {
        // An even step would visit the same few bits of a small layer.
        [self.hashers[0].hash_one(tag), self.hashers[1].hash_one(tag) | 1]
    }
}

#[cfg(test)]
mod tests {
    use std::convert::Infallible;
    use std::thread;

    use proptest::prelude::*;

    use super::*;

    fn numbered(number: usize) -> Vec<u8> {
        format!("tag:{number}").into_bytes()
    }

    fn wrong_answers(filter: &Filter, strangers: usize) -> usize {
        let ask = |number: usize| filter.ask(format!("stranger:{number}").as_bytes());
        (0..strangers)
            .filter(|number| ask(*number) == Existence::Maybe)
            .count()
    }

    #[test]
    fn an_empty_filter_has_no_tags() {
        let filter = Filter::with_room_for(0);
        assert_eq!(wrong_answers(&filter, 1000), 0);
        assert_eq!(filter.ask(b""), Existence::Absent);
    }

    #[test]
    fn one_stranger_in_a_hundred_is_taken_for_a_friend_at_most() {
        let filter = Filter::with_room_for(50_000);
        for number in 0..50_000 {
            filter.insert(&numbered(number));
        }
        let wrong = wrong_answers(&filter, 20_000);
        assert!(wrong < 200, "{wrong} of 20000");
        assert!(filter.bytes() * 8 < 50_000 * 12, "{} bytes", filter.bytes());
    }

    #[test]
    fn a_filter_that_has_grown_still_has_every_tag() {
        let filter = Filter::with_room_for(0);
        for number in 0..60_000 {
            filter.insert(&numbered(number));
        }
        assert!(filter.wants_rebuild());
        assert!((0..60_000).all(|number| filter.ask(&numbered(number)) == Existence::Maybe));
        let wrong = wrong_answers(&filter, 20_000);
        assert!(wrong < 500, "{wrong} of 20000");
    }

    #[test]
    fn a_rebuild_leaves_out_what_is_gone() {
        let filter = Filter::with_room_for(0);
        (0..30_000).for_each(|number| filter.insert(&numbered(number)));
        filter
            .rebuild(
                10_000,
                (0..10_000).map(|number| Ok::<_, Infallible>(numbered(number))),
            )
            .unwrap();
        assert!(!filter.wants_rebuild());
        assert!((0..10_000).all(|number| filter.ask(&numbered(number)) == Existence::Maybe));
        let gone = (10_000..30_000).filter(|number| filter.ask(&numbered(*number)) == Existence::Absent);
        assert!(gone.count() > 19_000);
    }

    #[test]
    fn a_failed_rebuild_changes_nothing() {
        let filter = Filter::with_room_for(0);
        filter.insert(b"a");
        assert_eq!(
            filter.rebuild(1, [Ok(b"b".to_vec()), Err("no answer")]),
            Err("no answer")
        );
        assert_eq!(
            (filter.ask(b"a"), filter.ask(b"b")),
            (Existence::Maybe, Existence::Absent)
        );
    }

    #[test]
    fn nothing_inserted_during_a_rebuild_is_lost() {
        let filter = Filter::with_room_for(0);
        let old = (0..1000).map(|number| {
            filter.insert(format!("new:{number}").as_bytes());
            Ok::<_, Infallible>(numbered(number))
        });
        filter.rebuild(1000, old).unwrap();
        for number in 0..1000 {
            assert_eq!(filter.ask(format!("new:{number}").as_bytes()), Existence::Maybe);
            assert_eq!(filter.ask(&numbered(number)), Existence::Maybe);
        }
    }

    #[test]
    fn what_one_thread_inserted_every_thread_finds() {
        let filter = Filter::with_room_for(0);
        thread::scope(|scope| {
            for part in 0..4 {
                let filter = &filter;
                scope.spawn(move || {
                    for number in part * 10_000..(part + 1) * 10_000 {
                        filter.insert(&numbered(number));
                        assert_eq!(filter.ask(&numbered(number)), Existence::Maybe);
                    }
                });
            }
        });
        assert!((0..40_000).all(|number| filter.ask(&numbered(number)) == Existence::Maybe));
    }

    proptest! {
        #[test]
        fn an_inserted_tag_is_never_absent(
            tags in prop::collection::vec(prop::collection::vec(any::<u8>(), 0..20), 0..300),
            kept in 0..300_usize,
        ) {
            let filter = Filter::with_room_for(0);
            for tag in &tags {
                filter.insert(tag);
            }
            for tag in &tags {
                prop_assert_eq!(filter.ask(tag), Existence::Maybe);
            }
            let kept = &tags[..kept.min(tags.len())];
            filter.rebuild(0, kept.iter().cloned().map(Ok::<_, Infallible>)).unwrap();
            for tag in kept {
                prop_assert_eq!(filter.ask(tag), Existence::Maybe);
            }
        }
    }
}
