//! Reading the small-collection formats of older Redis versions.
//!
//! Both readers check every byte they pass, so any input gives all of its
//! elements or a refusal.

use super::RestoreError;

/// One element of a ziplist.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Element<'a> {
    Int(i64),
    Text(&'a [u8]),
}

impl Element<'_> {
    pub(super) fn to_vec(&self) -> Vec<u8> {
        match self {
            Element::Int(number) => itoa::Buffer::new().format(*number).as_bytes().to_vec(),
            Element::Text(text) => text.to_vec(),
        }
    }
}

const END: u8 = 0xff;
/// Total bytes and offset of the last entry, 32 bits each, then 16 bits of count.
const ZIPLIST_HEADER: usize = 10;
const COUNT_UNKNOWN: u16 = u16::MAX;

/// Reads a ziplist: elements that each start with the size of the one before.
pub(super) fn read_ziplist(bytes: &[u8]) -> Result<Vec<Element<'_>>, RestoreError> {
    let header = bytes
        .first_chunk::<ZIPLIST_HEADER>()
        .ok_or(RestoreError::BadData)?;
    let [b0, b1, b2, b3, t0, t1, t2, t3, c0, c1] = *header;
    let total = u32::from_le_bytes([b0, b1, b2, b3]) as usize;
    let tail = u32::from_le_bytes([t0, t1, t2, t3]) as usize;
    let count = u16::from_le_bytes([c0, c1]);
    if total != bytes.len() {
        return Err(RestoreError::BadData);
    }
    let mut elements = Vec::new();
    let (mut at, mut size_before) = (ZIPLIST_HEADER, 0);
    let mut last = ZIPLIST_HEADER;
    loop {
        match bytes.get(at) {
            Some(&END) => break,
            Some(_) => (),
            None => return Err(RestoreError::BadData),
        }
        let (element, size) = read_ziplist_entry(&bytes[at..], size_before).ok_or(RestoreError::BadData)?;
        elements.push(element);
        (last, at, size_before) = (at, at + size, size);
    }
    let counted = count == COUNT_UNKNOWN || usize::from(count) == elements.len();
    if at + 1 == bytes.len() && last == tail && counted {
        Ok(elements)
    } else {
        Err(RestoreError::BadData)
    }
}

fn read_ziplist_entry(bytes: &[u8], size_before: usize) -> Option<(Element<'_>, usize)> {
    let (claimed_before, prefix) = match *bytes.first()? {
        0xfe => (u32::from_le_bytes(*bytes.get(1..)?.first_chunk()?) as usize, 5),
        small => (usize::from(small), 1),
    };
    if claimed_before != size_before {
        return None;
    }
    let body = bytes.get(prefix..)?;
    let kind = *body.first()?;
    let text = |head: usize, len: usize| {
        body.get(head..)?
            .get(..len)
            .map(|text| (Element::Text(text), prefix + head + len))
    };
    let int = |number: i64, len: usize| Some((Element::Int(number), prefix + 1 + len));
    let number = &body[1..];
    match kind {
        0x00..=0x3f => text(1, usize::from(kind)),
        0x40..=0x7f => text(2, usize::from(kind & 0x3f) << 8 | usize::from(*number.first()?)),
        0x80 => text(5, u32::from_be_bytes(*number.first_chunk()?) as usize),
        0xc0 => int(i64::from(i16::from_le_bytes(*number.first_chunk()?)), 2),
        0xd0 => int(i64::from(i32::from_le_bytes(*number.first_chunk()?)), 4),
        0xe0 => int(i64::from_le_bytes(*number.first_chunk()?), 8),
        0xf0 => {
            let [a, b, c] = *number.first_chunk()?;
            int(i64::from(i32::from_le_bytes([0, a, b, c]) >> 8), 3)
        }
        0xfe => int(i64::from(*number.first()? as i8), 1),
        0xf1..=0xfd => int(i64::from(kind & 0x0f) - 1, 0),
        _ => None,
    }
}

const ZIPMAP_COUNT_UNKNOWN: u8 = 254;
const ZIPMAP_LONG: u8 = 254;

/// A field and its value.
pub(super) type Pair<'a> = (&'a [u8], &'a [u8]);

/// Reads a zipmap, the hash format of Redis 2.4 and before: fields and values.
pub(super) fn read_zipmap(bytes: &[u8]) -> Result<Vec<Pair<'_>>, RestoreError> {
    zipmap_pairs(bytes).ok_or(RestoreError::BadData)
}

fn zipmap_pairs(bytes: &[u8]) -> Option<Vec<Pair<'_>>> {
    let (&count, mut rest) = bytes.split_first()?;
    let mut pairs = Vec::new();
    while *rest.first()? != END {
        let field_len = zipmap_length(&mut rest)?;
        let (field, after) = rest.split_at_checked(field_len)?;
        rest = after;
        let value_len = zipmap_length(&mut rest)?;
        let (&free, after) = rest.split_first()?;
        let (value, after) = after.split_at_checked(value_len)?;
        rest = after.get(usize::from(free)..)?;
        pairs.push((field, value));
    }
    let counted = count >= ZIPMAP_COUNT_UNKNOWN || usize::from(count) == pairs.len();
    (rest.len() == 1 && counted && !pairs.is_empty()).then_some(pairs)
}

fn zipmap_length(rest: &mut &[u8]) -> Option<usize> {
    let (&first, after) = rest.split_first()?;
    match first {
        END => None,
        ZIPMAP_LONG => {
            let (len, after) = after.split_first_chunk()?;
            *rest = after;
            Some(u32::from_le_bytes(*len) as usize)
        }
        short => {
            *rest = after;
            Some(usize::from(short))
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::rng::Rng;

    /// "2", "a", 300, -1 as a ziplist.
    const ZIPLIST: &[u8] =
        b"\x17\x00\x00\x00\x13\x00\x00\x00\x04\x00\x00\xf3\x02\x01a\x03\xc0\x2c\x01\x04\xfe\xff\xff";

    #[test]
    fn a_ziplist_gives_its_elements() {
        let elements = read_ziplist(ZIPLIST).unwrap();
        assert_eq!(
            elements,
            [
                Element::Int(2),
                Element::Text(b"a"),
                Element::Int(300),
                Element::Int(-1)
            ]
        );
    }

    #[test]
    fn a_zipmap_gives_its_pairs() {
        let zipmap = b"\x02\x03foo\x03\x00bar\x05hello\x05\x02world..\xff";
        assert_eq!(
            read_zipmap(zipmap).unwrap(),
            [(&b"foo"[..], &b"bar"[..]), (b"hello", b"world")]
        );
        assert!(read_zipmap(b"\x00\xff").is_err());
    }

    #[test]
    fn damaged_bytes_never_panic() {
        let mut rng = Rng::seeded(3);
        for _ in 0..50_000 {
            let mut bytes = ZIPLIST.to_vec();
            for _ in 0..1 + rng.below(3) {
                let at = rng.below(bytes.len());
                bytes[at] = rng.next_u64() as u8;
            }
            bytes.truncate(bytes.len() - rng.below(3));
            if read_ziplist(&bytes).is_ok() {
                assert_eq!(bytes.len(), ZIPLIST.len());
            }
            let _ = read_zipmap(&bytes[rng.below(bytes.len())..]).is_ok();
        }
    }
}
