//! Lengths, strings and numbers as dump payloads spell them.
//!
//! A length takes one, two, five or nine bytes; the two top bits of the first
//! tell which. The fourth pattern of those bits is not a length but a string in
//! a short form: an 8, 16 or 32-bit integer, or LZF.

use std::borrow::Cow;

use super::{RestoreError, lzf};
use crate::listpack::parse_int;

const INT_8: u8 = 0;
const INT_16: u8 = 1;
const INT_32: u8 = 2;
const LZF: u8 = 3;
const SHORT_FORM: u8 = 0b1100_0000;
const LENGTH_32: u8 = 0x80;
const LENGTH_64: u8 = 0x81;
/// Longest text that is tried as an integer: a sign and ten digits.
const INT_TEXT_MAX: usize = 11;
/// Strings up to this length are not worth compressing.
const UNPACKED_MAX: usize = 20;

pub(super) fn put_length(out: &mut Vec<u8>, length: u64) {
    if length < 1 << 6 {
        out.push(length as u8);
    } else if length < 1 << 14 {
        out.extend_from_slice(&((length as u16) | 1 << 14).to_be_bytes());
    } else if let Ok(short) = u32::try_from(length) {
        out.push(LENGTH_32);
        out.extend_from_slice(&short.to_be_bytes());
    } else {
        out.push(LENGTH_64);
        out.extend_from_slice(&length.to_be_bytes());
    }
}

/// Writes a string in the shortest form: integer, LZF or plain.
pub(super) fn put_string(out: &mut Vec<u8>, text: &[u8]) {
    if text.len() <= INT_TEXT_MAX
        && let Some(number) = parse_int(text)
        && put_short_int(out, number)
    {
        return;
    }
    if text.len() > UNPACKED_MAX
        && let Some(packed) = lzf::compress(text, text.len() - 4)
    {
        out.push(SHORT_FORM | LZF);
        put_length(out, packed.len() as u64);
        put_length(out, text.len() as u64);
        out.extend_from_slice(&packed);
        return;
    }
    put_length(out, text.len() as u64);
    out.extend_from_slice(text);
}

/// Writes an integer as the string of its digits.
pub(super) fn put_int(out: &mut Vec<u8>, number: i64) {
    if !put_short_int(out, number) {
        let mut digits = itoa::Buffer::new();
        let digits = digits.format(number).as_bytes();
        put_length(out, digits.len() as u64);
        out.extend_from_slice(digits);
    }
}

fn put_short_int(out: &mut Vec<u8>, number: i64) -> bool {
    if let Ok(number) = i8::try_from(number) {
        out.extend_from_slice(&[SHORT_FORM | INT_8, number as u8]);
    } else if let Ok(number) = i16::try_from(number) {
        out.push(SHORT_FORM | INT_16);
        out.extend_from_slice(&number.to_le_bytes());
    } else if let Ok(number) = i32::try_from(number) {
        out.push(SHORT_FORM | INT_32);
        out.extend_from_slice(&number.to_le_bytes());
    } else {
        return false;
    }
    true
}

/// Walks over a payload. Nothing is allocated by a length that the payload
/// only claims: every string is cut from bytes that are there.
pub(super) struct Reader<'a> {
    rest: &'a [u8],
}

/// A length, or the kind of the short form in its place.
enum Length {
    Plain(u64),
    Short(u8),
}

impl<'a> Reader<'a> {
    pub(super) fn new(payload: &'a [u8]) -> Self {
        Reader { rest: payload }
    }

    pub(super) fn is_empty(&self) -> bool {
        self.rest.is_empty()
    }

    pub(super) fn bytes(&mut self, len: usize) -> Result<&'a [u8], RestoreError> {
        let (head, rest) = self.rest.split_at_checked(len).ok_or(RestoreError::BadData)?;
        self.rest = rest;
        Ok(head)
    }

    pub(super) fn array<const N: usize>(&mut self) -> Result<[u8; N], RestoreError> {
        let (head, rest) = self.rest.split_first_chunk::<N>().ok_or(RestoreError::BadData)?;
        self.rest = rest;
        Ok(*head)
    }

    pub(super) fn byte(&mut self) -> Result<u8, RestoreError> {
        self.array::<1>().map(|[byte]| byte)
    }

    /// Reads a length. A short form in its place counts as its kind, as Redis has it.
    pub(super) fn length(&mut self) -> Result<u64, RestoreError> {
        Ok(match self.length_or_short()? {
            Length::Plain(length) => length,
            Length::Short(kind) => u64::from(kind),
        })
    }

    fn length_or_short(&mut self) -> Result<Length, RestoreError> {
        let first = self.byte()?;
        let low = first & 0b0011_1111;
        Ok(match first >> 6 {
            0 => Length::Plain(u64::from(low)),
            1 => Length::Plain(u64::from(low) << 8 | u64::from(self.byte()?)),
            2 if first == LENGTH_32 => Length::Plain(u64::from(u32::from_be_bytes(self.array()?))),
            2 if first == LENGTH_64 => Length::Plain(u64::from_be_bytes(self.array()?)),
            2 => return Err(RestoreError::BadData),
            _ => Length::Short(low),
        })
    }

    /// Reads a number of elements that are each at least one byte long.
    pub(super) fn count(&mut self) -> Result<usize, RestoreError> {
        let count = usize::try_from(self.length()?).map_err(|_| RestoreError::BadData)?;
        if count > self.rest.len() {
            Err(RestoreError::BadData)
        } else {
            Ok(count)
        }
    }

    /// Reads a string of any form.
    pub(super) fn string(&mut self) -> Result<Cow<'a, [u8]>, RestoreError> {
        let number = match self.length_or_short()? {
            Length::Plain(len) => return self.sized(len).map(Cow::Borrowed),
            Length::Short(LZF) => return self.packed().map(Cow::Owned),
            Length::Short(INT_8) => i64::from(i8::from_le_bytes(self.array()?)),
            Length::Short(INT_16) => i64::from(i16::from_le_bytes(self.array()?)),
            Length::Short(INT_32) => i64::from(i32::from_le_bytes(self.array()?)),
            Length::Short(_) => return Err(RestoreError::BadData),
        };
        Ok(Cow::Owned(itoa::Buffer::new().format(number).as_bytes().to_vec()))
    }

    fn sized(&mut self, len: u64) -> Result<&'a [u8], RestoreError> {
        self.bytes(usize::try_from(len).map_err(|_| RestoreError::BadData)?)
    }

    fn packed(&mut self) -> Result<Vec<u8>, RestoreError> {
        let packed_len = self.length()?;
        let len = usize::try_from(self.length()?).map_err(|_| RestoreError::BadData)?;
        lzf::decompress(self.sized(packed_len)?, len).ok_or(RestoreError::BadData)
    }

    /// Reads a score in the eight-byte form.
    pub(super) fn binary_score(&mut self) -> Result<f64, RestoreError> {
        not_nan(f64::from_le_bytes(self.array()?))
    }

    /// Reads a score in the old form, a counted text.
    pub(super) fn text_score(&mut self) -> Result<f64, RestoreError> {
        match self.byte()? {
            255 => Ok(f64::NEG_INFINITY),
            254 => Ok(f64::INFINITY),
            253 => Err(RestoreError::BadData),
            len => {
                let text =
                    std::str::from_utf8(self.bytes(usize::from(len))?).map_err(|_| RestoreError::BadData)?;
                not_nan(text.parse().map_err(|_| RestoreError::BadData)?)
            }
        }
    }
}

fn not_nan(score: f64) -> Result<f64, RestoreError> {
    if score.is_nan() {
        Err(RestoreError::BadData)
    } else {
        Ok(score)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn string_bytes(text: &[u8]) -> Vec<u8> {
        let mut out = Vec::new();
        put_string(&mut out, text);
        assert_eq!(Reader::new(&out).string().unwrap(), text);
        for cut in 0..out.len() {
            assert!(
                Reader::new(&out[..cut]).string().is_err(),
                "{text:?} cut at {cut}"
            );
        }
        out
    }

    #[test]
    fn strings_take_their_shortest_form() {
        assert_eq!(string_bytes(b""), [0]);
        assert_eq!(string_bytes(b"ab"), *b"\x02ab");
        assert_eq!(string_bytes(b"-7"), [0xc0, 0xf9]);
        assert_eq!(string_bytes(b"300"), [0xc1, 44, 1]);
        assert_eq!(string_bytes(b"-70000"), [0xc2, 0x90, 0xee, 0xfe, 0xff]);
        assert_eq!(string_bytes(b"2147483648"), *b"\x0a2147483648");
        assert_eq!(string_bytes(b"007"), *b"\x03007");
        assert_eq!(string_bytes(b"-0"), *b"\x02-0");
        assert_eq!(string_bytes(&[b'x'; 100])[0], 0xc3);
    }

    #[test]
    fn lengths_come_back() {
        for length in [0, 63, 64, 16_383, 16_384, u64::from(u32::MAX), 1 << 32, u64::MAX] {
            let mut out = Vec::new();
            put_length(&mut out, length);
            assert_eq!(Reader::new(&out).length().unwrap(), length);
        }
        assert!(Reader::new(&[0x82, 0, 0, 0, 0, 0, 0, 0, 0]).length().is_err());
    }

    #[test]
    fn claimed_sizes_beyond_the_payload_are_refused() {
        assert!(
            Reader::new(&[0x81, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 1])
                .string()
                .is_err()
        );
        assert!(
            Reader::new(&[0xc3, 1, 0x80, 0xff, 0xff, 0xff, 0xff, 0])
                .string()
                .is_err()
        );
        assert!(Reader::new(&[0x80, 0, 0, 1, 0, 0, 0]).count().is_err());
    }
}
