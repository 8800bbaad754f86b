//! Finds where a reply ends, without building it.
//!
//! A reply is a sequence of tokens: a leaf (a number, a string) or the head of an aggregate that says how
//! many frames follow inside it. `token` reads one of them and is all that knows the wire format; the
//! scanner here and the tree builder in `frame` both run on it, so they agree on what is well formed.

use std::ops::Range;

use memchr::memchr;

use crate::number::{parse_f64, parse_i64};

/// How deep aggregates may nest. Redis replies stay below ten; the rest is room for scripts.
pub const FRAME_DEPTH_MAX: usize = 128;

/// Longest line that states a number: a double has at most 24 bytes, and a peer that pads one is not a
/// server worth waiting for.
const NUMBER_LINE_MAX: usize = 64;

/// Why bytes are not a reply.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum FrameError {
    #[error("reply starts with the unknown type byte {0:#04x}")]
    UnknownType(u8),
    #[error("reply states an invalid length")]
    BadLength,
    #[error("reply holds an invalid number")]
    BadNumber,
    #[error("reply holds a boolean that is neither t nor f")]
    BadBool,
    #[error("reply holds a null with a value")]
    BadNull,
    #[error("verbatim string lacks its format")]
    BadVerbatim,
    #[error("line or string of a reply is not ended by CR LF")]
    BadLineEnd,
    #[error("reply nests deeper than {FRAME_DEPTH_MAX} levels")]
    TooDeep,
}

/// One token of a reply. Ranges are positions in the scanned buffer.
#[derive(Clone, Debug)]
pub(crate) enum Token {
    Simple(Range<usize>),
    Error(Range<usize>),
    BigNumber(Range<usize>),
    Bulk(Range<usize>),
    BlobError(Range<usize>),
    /// Format and text together, separated by a colon at the fourth byte.
    Verbatim(Range<usize>),
    Int(i64),
    Double(f64),
    Bool(bool),
    Null,
    NilBulk,
    NilArray,
    Aggregate(Aggregate, u64),
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Aggregate {
    Array,
    Set,
    Push,
    Map,
    Attribute,
}

impl Aggregate {
    /// Returns how many frames an aggregate of a stated length holds.
    pub(crate) fn frames(self, len: u64) -> u64 {
        match self {
            Aggregate::Array | Aggregate::Set | Aggregate::Push => len,
            // A length is below 2^63.
            Aggregate::Map | Aggregate::Attribute => len * 2,
        }
    }
}

/// Returns the length of the first frame of `buf`, or `None` while it is incomplete.
///
/// An attribute counts as a frame of its own here, and so does a push: a caller that pairs replies with
/// requests looks at the first byte, and does not count what starts with `|` or `>` as an answer.
pub fn scan_frame(buf: &[u8]) -> Result<Option<usize>, FrameError> {
    FrameScanner::default().scan(buf)
}

/// [`scan_frame`] for a reply that arrives in pieces: no element is looked at twice.
#[derive(Clone, Debug)]
pub struct FrameScanner {
    /// Bytes of whole tokens seen so far.
    pos: usize,
    depth: usize,
    /// Frames still to come at each open level.
    left: [u64; FRAME_DEPTH_MAX],
}

impl Default for FrameScanner {
    fn default() -> Self {
        FrameScanner {
            pos: 0,
            depth: 0,
            left: [0; FRAME_DEPTH_MAX],
        }
    }
}

impl FrameScanner {
    /// Goes on with the frame at the start of `buf`; the same bytes as last time, and more.
    ///
    /// When it returns a length, or an error, the scanner is ready for another frame.
    #[inline]
    pub fn scan(&mut self, buf: &[u8]) -> Result<Option<usize>, FrameError> {
        let scanned = self.run(buf);
        if scanned != Ok(None) {
            (self.pos, self.depth) = (0, 0);
        }
        scanned
    }

    fn run(&mut self, buf: &[u8]) -> Result<Option<usize>, FrameError> {
        while let Some((token, next)) = token(buf, self.pos)? {
            self.pos = next;
            if let Token::Aggregate(kind, len) = token {
                // An attribute inside an aggregate is no element of it: make room for one more.
                if kind == Aggregate::Attribute && self.depth > 0 {
                    self.left[self.depth - 1] += 1;
                }
                if self.depth == FRAME_DEPTH_MAX {
                    return Err(FrameError::TooDeep);
                }
                if len > 0 {
                    self.left[self.depth] = kind.frames(len);
                    self.depth += 1;
                    continue;
                }
            }
            if self.close_finished() {
                return Ok(Some(next));
            }
        }
        Ok(None)
    }

    /// Counts a finished frame at its level, and the levels it finishes. True once none is left open.
    fn close_finished(&mut self) -> bool {
        while self.depth > 0 {
            let left = &mut self.left[self.depth - 1];
            *left -= 1;
            if *left > 0 {
                return false;
            }
            self.depth -= 1;
        }
        true
    }
}

/// Reads the token at `pos`; returns it with the position behind it, or `None` while it is incomplete.
pub(crate) fn token(buf: &[u8], pos: usize) -> Result<Option<(Token, usize)>, FrameError> {
    let Some(&tag) = buf.get(pos) else {
        return Ok(None);
    };
    match tag {
        b'+' | b'-' | b'(' => {
            let Some(line) = line(buf, pos + 1, usize::MAX)? else {
                return Ok(None);
            };
            let next = line.end + 2;
            let token = match tag {
                b'+' => Token::Simple(line),
                b'-' => Token::Error(line),
                _ if is_big_number(&buf[line.clone()]) => Token::BigNumber(line),
                _ => return Err(FrameError::BadNumber),
            };
            Ok(Some((token, next)))
        }
        b'$' | b'=' | b'!' => string(tag, buf, pos),
        b'*' | b'~' | b'>' | b'%' | b'|' | b':' | b',' | b'#' | b'_' => {
            let Some(line) = line(buf, pos + 1, NUMBER_LINE_MAX)? else {
                return Ok(None);
            };
            let next = line.end + 2;
            Ok(Some((one_line_token(tag, &buf[line])?, next)))
        }
        unknown => Err(FrameError::UnknownType(unknown)),
    }
}

fn one_line_token(tag: u8, text: &[u8]) -> Result<Token, FrameError> {
    let kind = match tag {
        b':' => return parse_i64(text).map(Token::Int).ok_or(FrameError::BadNumber),
        b',' => return double(text).map(Token::Double).ok_or(FrameError::BadNumber),
        b'#' => {
            return match text {
                b"t" => Ok(Token::Bool(true)),
                b"f" => Ok(Token::Bool(false)),
                _ => Err(FrameError::BadBool),
            };
        }
        b'_' => {
            return if text.is_empty() {
                Ok(Token::Null)
            } else {
                Err(FrameError::BadNull)
            };
        }
        b'*' if text == b"-1" => return Ok(Token::NilArray),
        b'*' => Aggregate::Array,
        b'~' => Aggregate::Set,
        b'>' => Aggregate::Push,
        b'%' => Aggregate::Map,
        _ => Aggregate::Attribute,
    };
    Ok(Token::Aggregate(kind, length(text)?))
}

/// Reads the token of a string that states its length.
fn string(tag: u8, buf: &[u8], pos: usize) -> Result<Option<(Token, usize)>, FrameError> {
    let Some(head) = line(buf, pos + 1, NUMBER_LINE_MAX)? else {
        return Ok(None);
    };
    let start = head.end + 2;
    if tag == b'$' && &buf[head.clone()] == b"-1" {
        return Ok(Some((Token::NilBulk, start)));
    }
    let len = usize::try_from(length(&buf[head])?).map_err(|_| FrameError::BadLength)?;
    let end = start.checked_add(len).ok_or(FrameError::BadLength)?;
    if tag == b'=' && (len < 4 || buf.get(start + 3).is_some_and(|&byte| byte != b':')) {
        return Err(FrameError::BadVerbatim);
    }
    let token = match tag {
        b'$' => Token::Bulk(start..end),
        b'!' => Token::BlobError(start..end),
        _ => Token::Verbatim(start..end),
    };
    match buf.get(end..).unwrap_or_default() {
        [] | [b'\r'] => Ok(None),
        [b'\r', b'\n', ..] => Ok(Some((token, end + 2))),
        _ => Err(FrameError::BadLineEnd),
    }
}

fn length(text: &[u8]) -> Result<u64, FrameError> {
    parse_i64(text)
        .and_then(|len| u64::try_from(len).ok())
        .ok_or(FrameError::BadLength)
}

fn double(text: &[u8]) -> Option<f64> {
    match text {
        b"nan" | b"-nan" => Some(f64::NAN),
        _ => parse_f64(text),
    }
}

fn is_big_number(text: &[u8]) -> bool {
    let digits = text
        .strip_prefix(b"-")
        .or(text.strip_prefix(b"+"))
        .unwrap_or(text);
    !digits.is_empty() && digits.iter().all(u8::is_ascii_digit)
}

/// Finds the line that starts at `start`, without its end.
fn line(buf: &[u8], start: usize, len_max: usize) -> Result<Option<Range<usize>>, FrameError> {
    let rest = &buf[start..];
    let window = &rest[..rest.len().min(len_max)];
    match memchr(b'\r', window) {
        Some(at) => match rest.get(at + 1) {
            Some(b'\n') => Ok(Some(start..start + at)),
            Some(_) => Err(FrameError::BadLineEnd),
            None => Ok(None),
        },
        None if rest.len() >= len_max => Err(FrameError::BadLineEnd),
        None => Ok(None),
    }
}
