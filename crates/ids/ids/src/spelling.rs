//! Other spellings of an id: a short text, and a UUID of version 7.
//!
//! Both sort as the ids of one worker do. A UUID has time, worker and sequence of its id in fields wide enough for every
//! layout, so two of one pool are equal only if their ids are; the rest of it is random, for those of other pools.

use uuid::{Uuid, Variant};

use crate::layout::{Layout, Parts};

/// How ids are written.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Spelling {
    #[default]
    Decimal,
    /// Eleven digits and letters.
    Base62,
    /// Version 7.
    Uuid,
}

/// In the order of their bytes, so that texts sort as numbers do.
const DIGITS: &[u8; 62] = b"0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz";
/// 62^11 is more than 2^64.
const BASE62_LEN: usize = 11;

const TIME_BITS: u32 = 48;
const WORKER_BITS: u32 = 22;
/// Bits of the sequence in the field before the variant, and in the one after it.
const SEQUENCE_BITS: (u32, u32) = (12, 10);
const RANDOM_BITS: u32 = 62 - SEQUENCE_BITS.1 - WORKER_BITS;

impl Spelling {
    pub const NAMES: &str = "decimal, base62 or uuid";

    pub fn parse(text: &str) -> Option<Spelling> {
        Some(match text {
            "decimal" => Spelling::Decimal,
            "base62" => Spelling::Base62,
            "uuid" => Spelling::Uuid,
            _ => return None,
        })
    }

    /// Writes ids of a layout.
    pub fn write(self, ids: &[u64], layout: &Layout) -> Vec<String> {
        match self {
            Spelling::Decimal => ids.iter().map(u64::to_string).collect(),
            Spelling::Base62 => ids.iter().map(|id| base62(*id)).collect(),
            Spelling::Uuid => {
                let mut random = vec![0; ids.len() * size_of::<u32>()];
                crate::random::fill(&mut random);
                let random = random.chunks_exact(size_of::<u32>());
                let random =
                    random.map(|bytes| bytes.iter().fold(0, |all, byte| all << 8 | u32::from(*byte)));
                let of_layout = ids.iter().filter_map(|id| layout.decode(*id));
                let uuids = of_layout.zip(random).map(|(parts, random)| uuid(parts, random));
                uuids.map(|uuid| uuid.hyphenated().to_string()).collect()
            }
        }
    }
}

fn base62(mut id: u64) -> String {
    let mut digits = [0; BASE62_LEN];
    for digit in digits.iter_mut().rev() {
        *digit = DIGITS[(id % 62) as usize];
        id /= 62;
    }
    digits.iter().map(|digit| char::from(*digit)).collect()
}

/// Reads an id of eleven digits and letters.
pub(crate) fn parse_base62(text: &str) -> Option<u64> {
    if text.len() != BASE62_LEN {
        return None;
    }
    text.bytes().try_fold(0_u64, |id, digit| {
        let value = DIGITS.binary_search(&digit).ok()?;
        id.checked_mul(62)?.checked_add(value as u64)
    })
}

fn uuid(parts: Parts, random: u32) -> Uuid {
    let (high, low) = (
        parts.sequence >> SEQUENCE_BITS.1,
        parts.sequence & ((1 << SEQUENCE_BITS.1) - 1),
    );
    let time = (parts.unix_ms & ((1 << TIME_BITS) - 1)) << 16;
    let random = u64::from(random) & ((1 << RANDOM_BITS) - 1);
    let tail = low << (WORKER_BITS + RANDOM_BITS) | parts.worker << RANDOM_BITS | random;
    Uuid::from_u64_pair(time | 7 << 12 | high, 0b10 << 62 | tail)
}

/// Reads the parts of an id out of its UUID; `None` if the text is none of version 7.
pub(crate) fn parse_uuid(text: &str) -> Option<Parts> {
    let uuid = Uuid::try_parse(text).ok()?;
    if uuid.get_version_num() != 7 || uuid.get_variant() != Variant::RFC4122 {
        return None;
    }
    let (head, tail) = uuid.as_u64_pair();
    let (high, low) = (
        head & ((1 << SEQUENCE_BITS.0) - 1),
        tail >> (WORKER_BITS + RANDOM_BITS) & ((1 << SEQUENCE_BITS.1) - 1),
    );
    Some(Parts {
        unix_ms: head >> 16,
        worker: tail >> RANDOM_BITS & ((1 << WORKER_BITS) - 1),
        sequence: high << SEQUENCE_BITS.1 | low,
    })
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    const NOV_2026: u64 = 1_794_700_800_000;

    #[test]
    fn short_texts_are_known() {
        for (id, text) in [
            (0, "00000000000"),
            (61, "0000000000z"),
            (62, "00000000010"),
            (u64::MAX, "LygHa16AHYF"),
        ] {
            assert_eq!(base62(id), text);
            assert_eq!(parse_base62(text), Some(id));
        }
        for bad in [
            "",
            "0000000000",
            "000000000000",
            "LygHa16AHYG",
            "zzzzzzzzzzz",
            "0000000000-",
        ] {
            assert_eq!(parse_base62(bad), None, "{bad}");
        }
    }

    #[test]
    fn a_uuid_has_its_parts_in_their_fields() {
        let parts = Parts {
            unix_ms: 0x0123_4567_89AB,
            worker: 0x3F_FFFF,
            sequence: 0x3F_FFFF,
        };
        let text = uuid(parts, 0).hyphenated().to_string();
        assert_eq!(text, "01234567-89ab-7fff-bfff-ffffc0000000");
        assert_eq!(parse_uuid(&text), Some(parts));
        for bad in [
            "",
            "01234567-89ab-4fff-bfff-ffffc0000000",
            "01234567-89ab-7fff-3fff-ffffc0000000",
            "01234567-89ab-7fff-bfff-ffffc000000",
        ] {
            assert_eq!(parse_uuid(bad), None, "{bad}");
        }
    }

    /// Layouts of every width that is allowed.
    fn layouts() -> impl Strategy<Value = Layout> {
        (0_u32..=22, 1_u32..=22).prop_map(|(worker, sequence)| {
            Layout::new((64 - worker - sequence).min(41), worker, sequence, NOV_2026).unwrap_or_default()
        })
    }

    proptest! {
        #[test]
        fn texts_come_back_and_sort_as_their_numbers(a: u64, b: u64) {
            prop_assert_eq!(parse_base62(&base62(a)), Some(a));
            prop_assert_eq!(base62(a).cmp(&base62(b)), a.cmp(&b));
        }

        #[test]
        fn uuids_come_back_and_sort_as_the_ids_of_their_worker(
            layout in layouts(), ids in proptest::array::uniform2(any::<u64>()), worker: u64,
        ) {
            let ids = ids.map(|id| {
                let parts = Parts {
                    unix_ms: NOV_2026 + (id >> 24) % (layout.end_ms() - NOV_2026 + 1),
                    worker: worker % (layout.worker_max() + 1),
                    sequence: id % layout.per_ms(),
                };
                layout.encode(parts).unwrap()
            });
            let texts = Spelling::Uuid.write(&ids, &layout);
            for (id, text) in ids.iter().zip(&texts) {
                prop_assert_eq!(parse_uuid(text).and_then(|parts| layout.encode(parts)), Some(*id));
            }
            if ids[0] != ids[1] {
                prop_assert_eq!(texts[0].cmp(&texts[1]), ids[0].cmp(&ids[1]));
            }
        }
    }
}
