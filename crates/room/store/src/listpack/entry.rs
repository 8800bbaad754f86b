//! The byte encoding of one listpack entry.
//!
//! An entry is a head (kind and length, or a whole small integer), a body, and
//! the *backlen*: the size of head and body written so that it can be read from
//! its last byte towards its first, which is what lets a walk go backwards.
//!
//! | first byte  | meaning                                    |
//! |-------------|--------------------------------------------|
//! | `0xxxxxxx`  | integer 0 to 127                           |
//! | `10xxxxxx`  | string of up to 63 bytes                   |
//! | `110xxxxx`  | 13-bit signed integer, one more byte       |
//! | `1110xxxx`  | string of up to 4095 bytes, one more byte  |
//! | `11110000`  | string, 32-bit little endian length        |
//! | `11110001`… | 16, 24, 32 and 64-bit little endian integer |

use super::Item;

const STR_32: u8 = 0xf0;
const INT_16: u8 = 0xf1;
const INT_24: u8 = 0xf2;
const INT_32: u8 = 0xf3;
const INT_64: u8 = 0xf4;

/// Longest decimal form of an `i64`, sign included.
const INT_TEXT_MAX: usize = 20;

/// An entry ready to be copied into a listpack.
pub(super) struct Encoded<'a> {
    head: [u8; 9],
    head_len: u8,
    back_len: u8,
    back: [u8; 5],
    body: &'a [u8],
}

impl<'a> Encoded<'a> {
    /// Encodes bytes, as an integer when they are the canonical text of one.
    #[inline]
    pub(super) fn bytes(bytes: &'a [u8]) -> Encoded<'a> {
        match parse_int(bytes) {
            Some(int) => Encoded::int(int),
            None => Encoded::string(bytes),
        }
    }

    fn string(bytes: &'a [u8]) -> Encoded<'a> {
        let mut head = [0; 9];
        let len = bytes.len();
        let head_len = if len < 64 {
            head[0] = 0x80 | len as u8;
            1
        } else if len < 4096 {
            head[0] = 0xe0 | (len >> 8) as u8;
            head[1] = len as u8;
            2
        } else {
            let len = u32::try_from(len).expect("callers bound elements far below 4 GiB");
            head[0] = STR_32;
            head[1..5].copy_from_slice(&len.to_le_bytes());
            5
        };
        Encoded::finish(head, head_len, bytes)
    }

    pub(super) fn int(int: i64) -> Encoded<'static> {
        let mut head = [0; 9];
        let wide = int.to_le_bytes();
        let head_len = match int {
            0..=127 => {
                head[0] = int as u8;
                1
            }
            -4096..=4095 => {
                head[0] = 0xc0 | ((int >> 8) as u8 & 0x1f);
                head[1] = int as u8;
                2
            }
            -0x8000..=0x7fff => {
                head[0] = INT_16;
                3
            }
            -0x80_0000..=0x7f_ffff => {
                head[0] = INT_24;
                4
            }
            -0x8000_0000..=0x7fff_ffff => {
                head[0] = INT_32;
                5
            }
            _ => {
                head[0] = INT_64;
                9
            }
        };
        if head_len > 2 {
            head[1..head_len].copy_from_slice(&wide[..head_len - 1]);
        }
        Encoded::finish(head, head_len, &[])
    }

    fn finish(head: [u8; 9], head_len: usize, body: &[u8]) -> Encoded<'_> {
        let (back, back_len) = encode_backlen(head_len + body.len());
        Encoded {
            head,
            head_len: head_len as u8,
            back_len: back_len as u8,
            back,
            body,
        }
    }

    /// Returns the size in the listpack, backlen included.
    #[inline]
    pub(super) fn size(&self) -> usize {
        self.head_len as usize + self.body.len() + self.back_len as usize
    }

    /// Appends the entry and a byte `after` it to `out`.
    #[inline]
    pub(super) fn append_to(&self, out: &mut Vec<u8>, after: u8) {
        if self.head_len == 1 && self.back_len == 1 {
            out.push(self.head[0]);
            out.extend_from_slice(self.body);
            out.extend_from_slice(&[self.back[0], after]);
            return;
        }
        out.extend_from_slice(&self.head[..self.head_len as usize]);
        out.extend_from_slice(self.body);
        out.extend_from_slice(&self.back[..self.back_len as usize]);
        out.push(after);
    }

    /// Writes the entry over `out`, which is exactly `size()` bytes long.
    #[inline]
    pub(super) fn write_to(&self, out: &mut [u8]) {
        let (head, rest) = out.split_at_mut(self.head_len as usize);
        let (body, back) = rest.split_at_mut(self.body.len());
        head.copy_from_slice(&self.head[..self.head_len as usize]);
        body.copy_from_slice(self.body);
        back.copy_from_slice(&self.back[..self.back_len as usize]);
    }
}

/// Returns the backlen bytes of an entry whose head and body take `size` bytes.
fn encode_backlen(size: usize) -> ([u8; 5], usize) {
    let len = backlen_size(size);
    let mut out = [0; 5];
    let mut rest = size;
    for slot in out[..len].iter_mut().rev() {
        *slot = (rest & 127) as u8 | 128;
        rest >>= 7;
    }
    out[0] &= 127;
    (out, len)
}

/// Returns how many bytes the backlen of `size` takes. The format leaves the largest
/// value of each width to the next one.
#[inline]
pub(super) fn backlen_size(size: usize) -> usize {
    match size {
        0..=127 => 1,
        128..16_383 => 2,
        16_383..2_097_151 => 3,
        2_097_151..268_435_455 => 4,
        _ => 5,
    }
}

/// Reads the backlen that ends just before `end`: the size of head and body.
#[inline]
pub(super) fn decode_backlen(buf: &[u8], end: usize) -> usize {
    match buf[end - 1] {
        short @ 0..128 => short as usize,
        _ => decode_wide_backlen(buf, end),
    }
}

fn decode_wide_backlen(buf: &[u8], end: usize) -> usize {
    let mut value = 0;
    let mut shift = 0;
    for &byte in buf[..end].iter().rev().take(5) {
        value |= ((byte & 127) as usize) << shift;
        if byte & 128 == 0 {
            break;
        }
        shift += 7;
    }
    value
}

/// Returns the size of the entry at `at` of a valid listpack, backlen included.
#[inline]
pub(super) fn entry_size(buf: &[u8], at: usize) -> usize {
    let first = buf[at];
    // Integers below 128 and short strings are most entries there are.
    if first < 0x80 {
        return 2;
    }
    if first < 0xc0 {
        return 2 + (first & 0x3f) as usize;
    }
    let size = head_and_body(buf, at);
    size + backlen_size(size)
}

fn head_and_body(buf: &[u8], at: usize) -> usize {
    match buf[at] {
        0..=0x7f => 1,
        first @ 0x80..=0xbf => 1 + (first & 0x3f) as usize,
        0xc0..=0xdf => 2,
        first @ 0xe0..=0xef => 2 + ((first as usize & 0x0f) << 8 | buf[at + 1] as usize),
        STR_32 => 5 + long_len(buf, at),
        INT_16 => 3,
        INT_24 => 4,
        INT_32 => 5,
        _ => 9,
    }
}

#[inline]
fn long_len(buf: &[u8], at: usize) -> usize {
    u32::from_le_bytes([buf[at + 1], buf[at + 2], buf[at + 3], buf[at + 4]]) as usize
}

/// Returns the size of the entry at `at` of untrusted bytes, or `None` when it does not end
/// before `end` or its backlen disagrees with its head.
pub(super) fn checked_entry_size(buf: &[u8], at: usize, end: usize) -> Option<usize> {
    let lead = match *buf.get(at)? {
        0xe0..=0xef => 2,
        STR_32 => 5,
        0xf5.. => return None,
        _ => 1,
    };
    if at + lead > end {
        return None;
    }
    let size = head_and_body(buf, at);
    let (back, back_len) = encode_backlen(size);
    let next = at.checked_add(size)?.checked_add(back_len)?;
    (next <= end && buf[at + size..next] == back[..back_len]).then_some(size + back_len)
}

/// Reads the entry at `at` of a valid listpack.
#[inline]
pub(super) fn decode(buf: &[u8], at: usize) -> Item<'_> {
    match buf[at] {
        first @ 0..=0x7f => Item::Int(first as i64),
        first @ 0x80..=0xbf => Item::Str(&buf[at + 1..at + 1 + (first & 0x3f) as usize]),
        _ => decode_wide(buf, at),
    }
}

fn decode_wide(buf: &[u8], at: usize) -> Item<'_> {
    match buf[at] {
        first @ 0xc0..=0xdf => {
            let raw = (first as u16 & 0x1f) << 8 | buf[at + 1] as u16;
            // The sign bit is bit 12: move it to the top and back.
            Item::Int((((raw << 3) as i16) >> 3) as i64)
        }
        first @ 0xe0..=0xef => {
            let len = (first as usize & 0x0f) << 8 | buf[at + 1] as usize;
            Item::Str(&buf[at + 2..at + 2 + len])
        }
        STR_32 => Item::Str(&buf[at + 5..at + 5 + long_len(buf, at)]),
        INT_16 => Item::Int(little_endian::<2>(buf, at)),
        INT_24 => Item::Int(little_endian::<3>(buf, at)),
        INT_32 => Item::Int(little_endian::<4>(buf, at)),
        _ => Item::Int(little_endian::<8>(buf, at)),
    }
}

#[inline]
fn little_endian<const N: usize>(buf: &[u8], at: usize) -> i64 {
    let mut wide = [0; 8];
    wide[8 - N..].copy_from_slice(&buf[at + 1..at + 1 + N]);
    i64::from_le_bytes(wide) >> (64 - 8 * N)
}

/// Returns the integer whose one canonical decimal text is `bytes`: no sign but
/// a minus, no leading zero, no `-0`, within 64 bits.
#[inline]
pub fn parse_int(bytes: &[u8]) -> Option<i64> {
    let (negative, digits) = match *bytes.first()? {
        b'0' => return (bytes.len() == 1).then_some(0),
        b'1'..=b'9' => (false, bytes),
        b'-' => (true, &bytes[1..]),
        _ => return None,
    };
    if bytes.len() > INT_TEXT_MAX || !matches!(digits.first(), Some(b'1'..=b'9')) {
        return None;
    }
    let mut value: u64 = 0;
    for &digit in digits {
        if !digit.is_ascii_digit() {
            return None;
        }
        value = value.checked_mul(10)?.checked_add(u64::from(digit - b'0'))?;
    }
    if negative {
        0i64.checked_sub_unsigned(value)
    } else {
        i64::try_from(value).ok()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_canonical_integers_are_parsed() {
        let check =
            |text: &str, expected: Option<i64>| assert_eq!(parse_int(text.as_bytes()), expected, "{text}");
        check("0", Some(0));
        check("7", Some(7));
        check("-1", Some(-1));
        check("9223372036854775807", Some(i64::MAX));
        check("-9223372036854775808", Some(i64::MIN));
        for text in [
            "",
            "-",
            "-0",
            "00",
            "01",
            "+1",
            " 1",
            "1 ",
            "1a",
            "9223372036854775808",
            "-9223372036854775809",
            "18446744073709551616",
            "99999999999999999999",
            "111111111111111111111",
        ] {
            check(text, None);
        }
    }

    #[test]
    fn the_largest_value_of_a_backlen_width_takes_the_next_width() {
        for (size, width) in [
            (127, 1),
            (128, 2),
            (16_382, 2),
            (16_383, 3),
            (2_097_150, 3),
            (2_097_151, 4),
        ] {
            let (bytes, len) = encode_backlen(size);
            assert_eq!(len, width, "{size}");
            assert_eq!(decode_backlen(&bytes, len), size);
        }
    }
}
