//! Redis's intset: a sorted array of integers in one block of bytes.
//!
//! Eight bytes of header (width of an integer, then their number, both 32-bit
//! little endian) and the integers, each as wide as the widest ever added needs:
//! two, four or eight bytes. The layout is Redis's to the byte, so a DUMP of a
//! small set copies the block.

use crate::compact_vec::CompactVec;
use crate::rng::Rng;

const HEADER_BYTES: usize = 8;

/// A sorted set of integers in Redis's intset format.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Intset(CompactVec);

impl Default for Intset {
    fn default() -> Self {
        Intset::new()
    }
}

impl Intset {
    /// Returns an empty set of two-byte integers.
    pub fn new() -> Intset {
        Intset(vec![2, 0, 0, 0, 0, 0, 0, 0].into())
    }

    /// Takes bytes from outside, or returns `None` unless width, number and order are right.
    ///
    /// As in Redis, an empty set is refused: no such value is ever written.
    pub fn from_bytes(bytes: Vec<u8>) -> Option<Intset> {
        if bytes.len() < HEADER_BYTES {
            return None;
        }
        let set = Intset(bytes.into());
        let body = set.0.len() - HEADER_BYTES;
        if !matches!(set.width(), 2 | 4 | 8)
            || set.is_empty()
            || set.len().checked_mul(set.width()) != Some(body)
        {
            return None;
        }
        (1..set.len())
            .all(|index| set.at(index - 1) < set.at(index))
            .then_some(set)
    }

    /// Returns the whole block, header included.
    pub fn as_bytes(&self) -> &[u8] {
        &self.0
    }

    /// Returns the bytes allocated.
    pub fn mem_bytes(&self) -> usize {
        self.0.capacity()
    }

    /// Returns the number of integers.
    #[inline]
    pub fn len(&self) -> usize {
        self.word(4) as usize
    }

    /// Returns whether there are none.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Returns whether `value` is in the set.
    #[inline]
    pub fn contains(&self, value: i64) -> bool {
        width_of(value) <= self.width() && self.search(value).is_ok()
    }

    /// Adds `value`; returns whether it was new.
    pub fn add(&mut self, value: i64) -> bool {
        if width_of(value) > self.width() {
            self.widen(width_of(value));
        }
        let Err(index) = self.search(value) else {
            return false;
        };
        let (width, at) = (self.width(), HEADER_BYTES + index * self.width());
        self.0.change(|bytes| {
            bytes.reserve_exact(width);
            bytes.splice(at..at, value.to_le_bytes()[..width].iter().copied());
        });
        self.set_len(self.len() + 1);
        true
    }

    /// Removes `value`; returns whether it was there.
    pub fn remove(&mut self, value: i64) -> bool {
        if width_of(value) > self.width() {
            return false;
        }
        let Ok(index) = self.search(value) else {
            return false;
        };
        let at = HEADER_BYTES + index * self.width();
        let width = self.width();
        self.0.change(|bytes| {
            bytes.drain(at..at + width);
            if bytes.capacity() > 2 * bytes.len() {
                bytes.shrink_to_fit();
            }
        });
        self.set_len(self.len() - 1);
        true
    }

    /// Returns the `index`-th smallest integer.
    #[inline]
    pub fn get(&self, index: usize) -> Option<i64> {
        (index < self.len()).then(|| self.at(index))
    }

    /// Returns a random member.
    pub fn random(&self, rng: &mut Rng) -> Option<i64> {
        self.get(rng.below(self.len()))
    }

    /// Walks the integers in rising order.
    pub fn iter(&self) -> impl DoubleEndedIterator<Item = i64> + ExactSizeIterator + '_ {
        (0..self.len()).map(|index| self.at(index))
    }

    fn word(&self, at: usize) -> u32 {
        u32::from_le_bytes([self.0[at], self.0[at + 1], self.0[at + 2], self.0[at + 3]])
    }

    #[inline]
    fn width(&self) -> usize {
        self.word(0) as usize
    }

    fn set_len(&mut self, len: usize) {
        let len = u32::try_from(len).expect("an intset is converted long before its count overflows");
        self.0[4..8].copy_from_slice(&len.to_le_bytes());
    }

    #[inline]
    fn at(&self, index: usize) -> i64 {
        let width = self.width();
        let at = HEADER_BYTES + index * width;
        let bytes = &self.0[at..at + width];
        match *bytes {
            [a, b] => i64::from(i16::from_le_bytes([a, b])),
            [a, b, c, d] => i64::from(i32::from_le_bytes([a, b, c, d])),
            [a, b, c, d, e, f, g, h] => i64::from_le_bytes([a, b, c, d, e, f, g, h]),
            _ => unreachable!("the width was checked when the block was made"),
        }
    }

    /// Returns where `value` is, or where it would go.
    #[inline]
    fn search(&self, value: i64) -> Result<usize, usize> {
        let (mut low, mut high) = (0, self.len());
        // Members often come in rising order.
        if high > 0 && value > self.at(high - 1) {
            return Err(high);
        }
        while low < high {
            let middle = (low + high) / 2;
            match self.at(middle).cmp(&value) {
                std::cmp::Ordering::Less => low = middle + 1,
                std::cmp::Ordering::Equal => return Ok(middle),
                std::cmp::Ordering::Greater => high = middle,
            }
        }
        Err(low)
    }

    fn widen(&mut self, width: usize) {
        // The value that asked for the width is added right after.
        let mut wide = Vec::with_capacity(HEADER_BYTES + (self.len() + 1) * width);
        wide.extend_from_slice(&(width as u32).to_le_bytes());
        wide.extend_from_slice(&self.0[4..8]);
        for value in self.iter() {
            wide.extend_from_slice(&value.to_le_bytes()[..width]);
        }
        self.0 = wide.into();
    }
}

fn width_of(value: i64) -> usize {
    if i16::try_from(value).is_ok() {
        2
    } else if i32::try_from(value).is_ok() {
        4
    } else {
        8
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;

    #[test]
    fn the_bytes_are_those_of_redis() {
        let mut set = Intset::new();
        assert!(set.add(2) && set.add(-1) && !set.add(2));
        assert_eq!(set.as_bytes(), [2, 0, 0, 0, 2, 0, 0, 0, 0xff, 0xff, 2, 0]);
        assert!(set.add(70_000));
        assert_eq!(
            set.as_bytes(),
            [
                4, 0, 0, 0, 3, 0, 0, 0, 0xff, 0xff, 0xff, 0xff, 2, 0, 0, 0, 0x70, 0x11, 1, 0
            ]
        );
        assert!(set.remove(70_000), "and the width stays");
        assert_eq!(set.as_bytes()[0], 4);
    }

    #[test]
    fn behaves_as_a_sorted_std_set() {
        for seed in 0..60u64 {
            let mut rng = Rng::seeded(seed);
            let spread = [100, 70_000, 1 << 40, usize::MAX][seed as usize % 4];
            let (mut set, mut model) = (Intset::new(), BTreeSet::new());
            for _ in 0..500 {
                let value = (rng.below(spread) as i64).wrapping_sub(spread as i64 / 2);
                if rng.below(3) > 0 {
                    assert_eq!(set.add(value), model.insert(value));
                } else {
                    assert_eq!(set.remove(value), model.remove(&value));
                }
                assert_eq!(set.contains(value), model.contains(&value));
            }
            assert!(set.iter().eq(model.iter().copied()));
            assert!(set.iter().rev().eq(model.iter().rev().copied()));
            assert_eq!(Intset::from_bytes(set.as_bytes().to_vec()), Some(set));
        }
    }

    #[test]
    fn extremes_are_members_like_any_other() {
        let mut set = Intset::new();
        for value in [i64::MAX, i64::MIN, 0, i64::from(i16::MIN), i64::from(i32::MAX)] {
            assert!(!set.contains(value) && set.add(value) && set.contains(value));
        }
        assert_eq!(set.get(0), Some(i64::MIN));
        assert_eq!(set.get(5), None);
        assert!(
            set.iter()
                .any(|member| Some(member) == set.random(&mut Rng::seeded(1)))
        );
    }

    #[test]
    fn malformed_blocks_are_refused() {
        let cases: [&[u8]; 7] = [
            &[],
            &[2, 0, 0, 0, 0, 0, 0],
            &[2, 0, 0, 0, 0, 0, 0, 0],
            &[3, 0, 0, 0, 1, 0, 0, 0, 1, 2, 3],
            &[2, 0, 0, 0, 2, 0, 0, 0, 1, 0],
            &[2, 0, 0, 0, 2, 0, 0, 0, 2, 0, 1, 0],
            &[2, 0, 0, 0, 2, 0, 0, 0, 1, 0, 1, 0],
        ];
        for bytes in cases {
            assert_eq!(Intset::from_bytes(bytes.to_vec()), None, "{bytes:?}");
        }
    }
}
