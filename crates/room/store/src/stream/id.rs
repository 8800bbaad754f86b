//! Entry ids: a time in milliseconds and a sequence number within it.

use std::fmt;

/// The id of a stream entry. Ids order by time, then by sequence.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct StreamId {
    pub ms: u64,
    pub seq: u64,
}

/// What an id text says when its sequence part may be left to the server.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PartialId {
    /// Both parts are given, or the sequence was filled in with the caller's default.
    Full(StreamId),
    /// The text was `ms-*`.
    TimeOnly(u64),
}

impl StreamId {
    /// 0-0, below every entry.
    pub const MIN: StreamId = StreamId { ms: 0, seq: 0 };
    /// The highest id there can be.
    pub const MAX: StreamId = StreamId {
        ms: u64::MAX,
        seq: u64::MAX,
    };

    #[inline]
    pub const fn new(ms: u64, seq: u64) -> StreamId {
        StreamId { ms, seq }
    }

    /// Returns the id right after this one; there is none after the highest.
    #[inline]
    pub fn next(self) -> Option<StreamId> {
        match self.seq.checked_add(1) {
            Some(seq) => Some(StreamId::new(self.ms, seq)),
            None => Some(StreamId::new(self.ms.checked_add(1)?, 0)),
        }
    }

    /// Returns the id right before this one; there is none before 0-0.
    #[inline]
    pub fn prev(self) -> Option<StreamId> {
        match self.seq.checked_sub(1) {
            Some(seq) => Some(StreamId::new(self.ms, seq)),
            None => Some(StreamId::new(self.ms.checked_sub(1)?, u64::MAX)),
        }
    }

    /// Both numbers big endian, so that byte order is id order.
    pub fn to_bytes(self) -> [u8; 16] {
        (u128::from(self.ms) << 64 | u128::from(self.seq)).to_be_bytes()
    }

    pub fn from_bytes(bytes: [u8; 16]) -> StreamId {
        let both = u128::from_be_bytes(bytes);
        StreamId::new((both >> 64) as u64, both as u64)
    }

    /// Reads `ms` or `ms-seq`; a missing sequence becomes `missing_seq`.
    pub fn parse(text: &[u8], missing_seq: u64) -> Option<StreamId> {
        match split(text)? {
            (ms, None) => Some(StreamId::new(parse_unsigned(ms)?, missing_seq)),
            (ms, Some(seq)) => Some(StreamId::new(parse_unsigned(ms)?, parse_unsigned(seq)?)),
        }
    }

    /// Reads an id as [`StreamId::parse`] does, or `ms-*`.
    pub fn parse_partial(text: &[u8], missing_seq: u64) -> Option<PartialId> {
        match split(text)? {
            (ms, Some(b"*")) => parse_unsigned(ms).map(PartialId::TimeOnly),
            _ => StreamId::parse(text, missing_seq).map(PartialId::Full),
        }
    }
}

impl fmt::Display for StreamId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}-{}", self.ms, self.seq)
    }
}

/// Longer texts are no ids, whatever they hold.
const TEXT_MAX: usize = 127;

fn split(text: &[u8]) -> Option<(&[u8], Option<&[u8]>)> {
    if text.len() > TEXT_MAX {
        return None;
    }
    // Redis reads the text as a C string.
    let text = text.split(|&byte| byte == 0).next().unwrap_or_default();
    Some(match text.iter().position(|&byte| byte == b'-') {
        None => (text, None),
        Some(dash) => (&text[..dash], Some(&text[dash + 1..])),
    })
}

/// Reads a number as lavishly as Redis does here: leading spaces, a plus and
/// leading zeros are taken, and a minus before a zero wraps around.
fn parse_unsigned(text: &[u8]) -> Option<u64> {
    let spaces = text
        .iter()
        .take_while(|&&byte| matches!(byte, b' ' | b'\t'..=b'\r'))
        .count();
    let unspaced = &text[spaces..];
    let (negative, digits) = match unspaced.split_first()? {
        (b'-', digits) => (true, digits),
        (b'+', digits) => (false, digits),
        _ => (false, unspaced),
    };
    if digits.is_empty() || (negative && spaces == 0 && matches!(digits[0], b'1'..=b'9')) {
        return None;
    }
    let number = digits.iter().try_fold(0u64, |number, &byte| {
        let digit = byte.is_ascii_digit().then(|| u64::from(byte - b'0'))?;
        number.checked_mul(10)?.checked_add(digit)
    })?;
    Some(if negative { number.wrapping_neg() } else { number })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ids_parse_with_and_without_a_sequence() {
        assert_eq!(StreamId::parse(b"5-7", 0), Some(StreamId::new(5, 7)));
        assert_eq!(StreamId::parse(b"5", 9), Some(StreamId::new(5, 9)));
        assert_eq!(
            StreamId::parse(b"18446744073709551615-18446744073709551615", 0),
            Some(StreamId::MAX)
        );
        assert_eq!(StreamId::parse(b"007-+1", 0), Some(StreamId::new(7, 1)));
        for bad in [
            "",
            "-",
            "+",
            "5-",
            "-5",
            "a-1",
            "1-1-1",
            "18446744073709551616",
            "1-*",
            "1--1",
            "1- -",
        ] {
            assert_eq!(StreamId::parse(bad.as_bytes(), 0), None, "{bad}");
        }
        assert_eq!(StreamId::parse_partial(b"3-*", 0), Some(PartialId::TimeOnly(3)));
        assert_eq!(StreamId::parse_partial(b"*", 0), None);
    }

    #[test]
    fn neighbours_carry_over_the_sequence() {
        assert_eq!(StreamId::new(1, u64::MAX).next(), Some(StreamId::new(2, 0)));
        assert_eq!(StreamId::new(2, 0).prev(), Some(StreamId::new(1, u64::MAX)));
        assert_eq!(StreamId::MAX.next(), None);
        assert_eq!(StreamId::MIN.prev(), None);
    }

    #[test]
    fn byte_order_is_id_order() {
        let ids = [
            StreamId::MIN,
            StreamId::new(0, 256),
            StreamId::new(1, 0),
            StreamId::new(256, 1),
        ];
        assert!(ids.windows(2).all(|pair| pair[0].to_bytes() < pair[1].to_bytes()));
        assert!(ids.iter().all(|&id| StreamId::from_bytes(id.to_bytes()) == id));
    }
}
