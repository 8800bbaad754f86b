//! LZF: the light compression that dump payloads use for strings.
//!
//! The packed form is a row of chunks. A first byte below 32 announces that
//! many plus one literal bytes. Otherwise its top three bits are a length and
//! its low five bits the high part of a distance: a length of 7 is extended by
//! the next byte, then comes the low byte of the distance; the chunk repeats
//! `length + 2` bytes starting `distance + 1` bytes back.
//!
//! The search for repeats takes the same decisions as the library that
//! redis-server links, so the packed bytes are equal, not only equivalent.

use std::cell::RefCell;

const HASH_BITS: u32 = 16;
const LITERALS_MAX: usize = 32;
const DISTANCE_MAX: usize = 1 << 13;
const REPEAT_MAX: usize = 264;
/// Best case of the format: three packed bytes stand for 264.
const EXPANSION_MAX: usize = REPEAT_MAX / 3;

/// Last position of each three-byte hash. Positions count on from one input
/// to the next (`base`), so that old ones are told by value and the table is
/// not cleared for every short string.
struct History {
    slots: Box<[u32]>,
    base: u32,
}

impl History {
    /// Records `at` for the hash and returns the earlier position, if it
    /// belongs to this input. Position 0 is never returned, as in the library.
    fn swap(&mut self, hash: u32, at: usize) -> Option<usize> {
        let slot = &mut self.slots
            [((hash >> (24 - HASH_BITS)).wrapping_sub(hash.wrapping_mul(5)) & 0xffff) as usize];
        let earlier = std::mem::replace(slot, self.base + at as u32);
        (earlier > self.base).then(|| (earlier - self.base) as usize)
    }

    /// Makes room for the positions of an input of `len` bytes.
    fn start(&mut self, len: usize) {
        if self.base.checked_add(len as u32).is_none() {
            self.slots.fill(0);
            self.base = 0;
        }
    }
}

thread_local! {
    static HISTORY: RefCell<History> =
        RefCell::new(History { slots: vec![0; 1 << HASH_BITS].into_boxed_slice(), base: 0 });
}

/// Packs `input`, or returns `None` when that takes `limit` bytes or about as many.
pub(super) fn compress(input: &[u8], limit: usize) -> Option<Vec<u8>> {
    if input.len() < 3 || limit == 0 || u32::try_from(input.len()).is_err() {
        return None;
    }
    HISTORY.with_borrow_mut(|history| {
        history.start(input.len());
        let packed = pack(input, limit, history);
        history.base += input.len() as u32;
        packed
    })
}

/// Output under construction: `literals` bytes are open behind their count byte.
struct Packer {
    out: Vec<u8>,
    literals: usize,
}

impl Packer {
    fn open(&mut self) {
        self.out.push(0);
        self.literals = 0;
    }

    fn close(&mut self) {
        if self.literals == 0 {
            self.out.pop();
        } else {
            let count_at = self.out.len() - self.literals - 1;
            self.out[count_at] = (self.literals - 1) as u8;
        }
    }

    fn literal(&mut self, byte: u8) {
        self.out.push(byte);
        self.literals += 1;
        if self.literals == LITERALS_MAX {
            self.close();
            self.open();
        }
    }

    /// `length` is the count of repeated bytes less two, `distance` less one.
    fn repeat(&mut self, distance: usize, length: usize) {
        let high = (distance >> 8) as u8;
        if length < 7 {
            self.out.push(high + ((length as u8) << 5));
        } else {
            self.out.push(high + (7 << 5));
            self.out.push((length - 7) as u8);
        }
        self.out.push(distance as u8);
    }
}

fn pack(input: &[u8], limit: usize, history: &mut History) -> Option<Vec<u8>> {
    let mut packer = Packer {
        out: Vec::with_capacity(limit + 4),
        literals: 0,
    };
    packer.open();
    let end = input.len();
    let pair = |at: usize| u32::from(input[at]) << 8 | u32::from(input[at + 1]);
    let mut at = 0;
    let mut hash = pair(0);
    while at < end - 2 {
        hash = hash << 8 | u32::from(input[at + 2]);
        let repeat = history
            .swap(hash, at)
            .filter(|&from| at - from - 1 < DISTANCE_MAX && input[from..from + 3] == input[at..at + 3]);
        let Some(from) = repeat else {
            if packer.out.len() >= limit {
                return None;
            }
            packer.literal(input[at]);
            at += 1;
            continue;
        };
        if packer.out.len() - usize::from(packer.literals == 0) + 4 >= limit {
            return None;
        }
        let length = repeat_length(input, from, at);
        packer.close();
        packer.repeat(at - from - 1, length - 2);
        packer.open();
        at += length;
        if at >= end - 2 {
            break;
        }
        // Only the last two positions inside the repeat enter the history.
        at -= 2;
        hash = pair(at);
        for _ in 0..2 {
            hash = hash << 8 | u32::from(input[at + 2]);
            history.swap(hash, at);
            at += 1;
        }
    }
    if packer.out.len() + 3 > limit {
        return None;
    }
    input[at..].iter().for_each(|&byte| packer.literal(byte));
    packer.close();
    Some(packer.out)
}

/// Returns the length of the repeat of `from` at `at`, whose first three bytes are known to
/// agree. The odd bounds are the library's: near the end of the input it looks
/// two bytes less far, unless at least 17 are left.
fn repeat_length(input: &[u8], from: usize, at: usize) -> usize {
    let longest = (input.len() - at - 2).min(REPEAT_MAX);
    let unrolled = if longest > 16 { 18 } else { 2 };
    for length in 3..=unrolled {
        if input[from + length] != input[at + length] {
            return length;
        }
    }
    let mut length = unrolled + 1;
    while length < longest && input[from + length] == input[at + length] {
        length += 1;
    }
    length
}

/// Unpacks exactly `len` bytes, or returns `None` when the packed form is broken
/// or stands for another length. Allocates no more than the input can justify.
pub fn decompress(mut packed: &[u8], len: usize) -> Option<Vec<u8>> {
    if len > packed.len().saturating_mul(EXPANSION_MAX) {
        return None;
    }
    let mut out = Vec::with_capacity(len);
    while let Some((&control, rest)) = packed.split_first() {
        packed = rest;
        let control = usize::from(control);
        if control < LITERALS_MAX {
            let (literals, rest) = packed.split_at_checked(control + 1)?;
            if literals.len() > len - out.len() {
                return None;
            }
            out.extend_from_slice(literals);
            packed = rest;
            continue;
        }
        let mut length = (control >> 5) + 2;
        if length == 9 {
            length += usize::from(take_byte(&mut packed)?);
        }
        let distance = ((control & 31) << 8 | usize::from(take_byte(&mut packed)?)) + 1;
        let from = out.len().checked_sub(distance)?;
        if length > len - out.len() {
            return None;
        }
        if distance >= length {
            out.extend_from_within(from..from + length);
        } else {
            (from..from + length).for_each(|at| out.push(out[at]));
        }
    }
    (out.len() == len).then_some(out)
}

fn take_byte(bytes: &mut &[u8]) -> Option<u8> {
    let (&first, rest) = bytes.split_first()?;
    *bytes = rest;
    Some(first)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::rng::Rng;

    fn round_trip(input: &[u8]) -> bool {
        match compress(input, input.len().saturating_sub(4)) {
            None => false,
            Some(packed) => {
                assert!(packed.len() < input.len());
                assert_eq!(decompress(&packed, input.len()).as_deref(), Some(input));
                assert_eq!(decompress(&packed, input.len() + 1), None);
                assert_eq!(decompress(&packed, input.len() - 1), None);
                true
            }
        }
    }

    #[test]
    fn repetitive_text_shrinks_and_comes_back() {
        assert!(round_trip(&[b'a'; 21]));
        assert!(round_trip(&[b'a'; 100_000]));
        assert!(round_trip(b"abcabcabcabcabcabcabcabcabcabcabcabc"));
        assert!(!round_trip(b"0123456789abcdefghijklmnopq"));
    }

    #[test]
    fn random_texts_of_small_alphabets_come_back() {
        let mut rng = Rng::seeded(1);
        for round in 0..3000 {
            let letters = 1 + rng.below(6);
            let len = 3 + rng.below(if round % 50 == 0 { 20_000 } else { 400 });
            let input: Vec<u8> = (0..len).map(|_| rng.below(letters) as u8).collect();
            round_trip(&input);
        }
    }

    #[test]
    fn broken_input_is_refused() {
        let mut rng = Rng::seeded(2);
        for _ in 0..20_000 {
            let packed: Vec<u8> = (0..rng.below(20)).map(|_| rng.next_u64() as u8).collect();
            decompress(&packed, rng.below(300));
        }
        assert_eq!(decompress(&[0x20, 0x00], 3), None, "a distance before the start");
        assert_eq!(decompress(&[0xe0], 9), None, "a cut repeat");
        assert_eq!(decompress(&[5, 1, 2], 6), None, "cut literals");
        assert_eq!(decompress(&[0], usize::MAX), None, "an absurd claim");
    }
}
