//! The incremental request parser.
//!
//! A request is `*N` followed by N bulk strings, or else one line of words (see `inline`). The parser is
//! given the same bytes again each time more arrive and keeps three numbers between calls: how far it has
//! understood, how many arguments are still to come, and how much of an unfinished line it has already
//! searched. So a request that arrives one byte at a time costs work in proportion to its length, and the
//! parser holds no reference to the buffer.
//!
//! Like Redis, it trusts that a carriage return is followed by a line feed and that two bytes follow each
//! bulk string, without looking at them.

use memchr::memchr;

use crate::args::{Args, SPAN_MAX, Span};
use crate::inline;
use crate::limits::{Limits, ProtocolError};
use crate::number::parse_i64;

/// Spans kept for the next request. One giant request must not pin its span table for the life of the
/// connection.
const SPANS_KEPT_MAX: usize = 1024;

/// What [`RequestParser::parse`] found at the start of the buffer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Parsed {
    /// The request continues past the end of the buffer.
    Incomplete,
    /// A whole request; its arguments are ready and the next request starts at `consumed`.
    Complete { consumed: usize },
    /// A blank line, or a count of zero or less: nothing to run and nothing to reply.
    Empty { consumed: usize },
}

/// Parses the requests of one connection, one after the other.
#[derive(Debug, Default)]
pub struct RequestParser {
    spans: Vec<Span>,
    /// The words of an inline request with quotes and escapes resolved; spans point here if `inline`.
    words: Vec<u8>,
    inline: bool,
    /// Whether the last call ended a request, so that the next one starts afresh.
    ended: bool,
    /// Bytes understood, from the start of the request.
    pos: usize,
    /// Bytes after `pos` already searched for a line end without success.
    searched: usize,
    args_left: usize,
    /// Length of the argument that starts at `pos`, once its line has been read.
    bulk_len: Option<usize>,
}

impl RequestParser {
    /// Looks for one request at the start of `buf`.
    ///
    /// After `Incomplete`, call again with the same bytes and more behind them. After `Complete` or
    /// `Empty`, the next call must get the bytes from `consumed` on. After an error the connection's
    /// position is lost.
    pub fn parse(&mut self, buf: &[u8], limits: &Limits) -> Result<Parsed, ProtocolError> {
        if self.ended {
            self.reset();
        }
        // A span cannot name what lies past this, so it counts as not yet received.
        let seen = &buf[..buf.len().min(SPAN_MAX)];
        let parsed = match seen.first() {
            None => Ok(Parsed::Incomplete),
            Some(b'*') => self.parse_multibulk(seen, limits),
            Some(_) => self.parse_inline(seen, limits),
        };
        if parsed != Ok(Parsed::Incomplete) {
            self.ended = true;
        } else if buf.len() > limits.query_bytes_max.min(SPAN_MAX) {
            self.ended = true;
            return Err(ProtocolError::QueryTooLong);
        }
        parsed
    }

    /// Returns the arguments of the request that `parse` just completed.
    ///
    /// `buf` must be the slice given to that call. After anything but `Complete` there are none.
    #[inline]
    pub fn args<'a>(&'a self, buf: &'a [u8]) -> Args<'a> {
        if !self.ended {
            return Args::from_slices(&[]);
        }
        Args::from_spans(if self.inline { &self.words } else { buf }, &self.spans)
    }

    fn reset(&mut self) {
        let mut spans = std::mem::take(&mut self.spans);
        let mut words = std::mem::take(&mut self.words);
        spans.clear();
        spans.shrink_to(SPANS_KEPT_MAX);
        words.clear();
        *self = RequestParser {
            spans,
            words,
            ..RequestParser::default()
        };
    }

    fn parse_inline(&mut self, buf: &[u8], limits: &Limits) -> Result<Parsed, ProtocolError> {
        let Some(newline) = self.find(b'\n', buf, limits, ProtocolError::InlineTooLong)? else {
            return Ok(Parsed::Incomplete);
        };
        let line = &buf[..newline];
        let line = line.strip_suffix(b"\r").unwrap_or(line);
        self.inline = true;
        if inline::split(line, &mut self.words, &mut self.spans).is_err() {
            self.spans.clear();
            return Err(ProtocolError::UnbalancedQuotes);
        }
        let consumed = newline + 1;
        Ok(if self.spans.is_empty() {
            Parsed::Empty { consumed }
        } else {
            Parsed::Complete { consumed }
        })
    }

    fn parse_multibulk(&mut self, buf: &[u8], limits: &Limits) -> Result<Parsed, ProtocolError> {
        if self.pos == 0 {
            let Some((count, next)) = self.args_count(buf, limits)? else {
                return Ok(Parsed::Incomplete);
            };
            if count == 0 {
                return Ok(Parsed::Empty { consumed: next });
            }
            self.args_left = count;
            self.end_line(next);
        }
        while self.args_left > 0 {
            let len = match self.bulk_len {
                Some(len) => len,
                None => {
                    let Some((len, next)) = self.bulk_length(buf, limits)? else {
                        return Ok(Parsed::Incomplete);
                    };
                    self.end_line(next);
                    len
                }
            };
            // The length is at most an i64 and the buffer is in memory: the sum cannot wrap.
            let end = self.pos + len;
            if buf.len() < end + 2 {
                self.bulk_len = Some(len);
                return Ok(Parsed::Incomplete);
            }
            self.bulk_len = None;
            self.spans.push((self.pos as u32, end as u32));
            self.pos = end + 2;
            self.args_left -= 1;
        }
        Ok(Parsed::Complete { consumed: self.pos })
    }

    fn end_line(&mut self, next: usize) {
        self.pos = next;
        self.searched = 0;
    }

    /// Reads `*N`: the count, zero for all counts below one, and where the next line starts.
    fn args_count(&mut self, buf: &[u8], limits: &Limits) -> Result<Option<(usize, usize)>, ProtocolError> {
        let (count, next) = match quick_length(&buf[1..]) {
            Some((count, used)) => (count, 1 + used),
            None => {
                let Some(end) = self.find(b'\r', buf, limits, ProtocolError::ArgsCountTooLong)? else {
                    return Ok(None);
                };
                let count = parse_i64(&buf[1..end]).ok_or(ProtocolError::InvalidArgsCount)?;
                (usize::try_from(count).unwrap_or(0), end + 2)
            }
        };
        limits.check_args(count)?;
        Ok(Some((count, next)))
    }

    /// Reads `$len` at `pos`: the length, and where the bytes start.
    fn bulk_length(&mut self, buf: &[u8], limits: &Limits) -> Result<Option<(usize, usize)>, ProtocolError> {
        let (len, next) = match buf[self.pos..]
            .split_first()
            .map(|(tag, rest)| (tag, quick_length(rest)))
        {
            Some((b'$', Some((len, used)))) => (len, self.pos + 1 + used),
            _ => {
                let Some(end) = self.find(b'\r', buf, limits, ProtocolError::BulkLengthTooLong)? else {
                    return Ok(None);
                };
                let got = buf[self.pos];
                if got != b'$' {
                    return Err(ProtocolError::ExpectedBulk { got });
                }
                let len = parse_i64(&buf[self.pos + 1..end]).and_then(|len| usize::try_from(len).ok());
                (len.ok_or(ProtocolError::InvalidBulkLength)?, end + 2)
            }
        };
        limits.check_bulk(len)?;
        Ok(Some((len, next)))
    }

    /// Returns where the line at `pos` ends, once its last byte is there.
    ///
    /// Whether a line is too long depends on its bytes alone, not on how they were cut into reads.
    fn find(
        &mut self,
        ending: u8,
        buf: &[u8],
        limits: &Limits,
        too_long: ProtocolError,
    ) -> Result<Option<usize>, ProtocolError> {
        let line = &buf[self.pos..];
        let window = &line[..line.len().min(limits.inline_bytes_max.saturating_add(1))];
        match memchr(ending, &window[self.searched..]) {
            Some(at) => {
                self.searched += at;
                // A carriage return brings one more byte with it.
                let ending_len = if ending == b'\r' { 2 } else { 1 };
                let end = self.pos + self.searched;
                Ok((buf.len() >= end + ending_len).then_some(end))
            }
            None if window.len() > limits.inline_bytes_max => Err(too_long),
            None => {
                self.searched = window.len();
                Ok(None)
            }
        }
    }
}

/// Reads a length as every client library writes it: up to nine digits, `\r`, one byte more.
///
/// Returns the number and how many bytes it took. Anything else, right or wrong, is left to the careful
/// path behind it.
#[inline]
fn quick_length(bytes: &[u8]) -> Option<(usize, usize)> {
    let mut value = usize::from(bytes.first()?.wrapping_sub(b'0'));
    if value > 9 {
        return None;
    }
    for (at, &byte) in bytes.iter().enumerate().take(10).skip(1) {
        let digit = byte.wrapping_sub(b'0');
        if digit > 9 {
            return (byte == b'\r' && bytes.len() > at + 1).then_some((value, at + 2));
        }
        if value == 0 {
            return None;
        }
        value = value * 10 + usize::from(digit);
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::args::ArgVec;

    fn parse_whole(bytes: &[u8], limits: &Limits) -> (Result<Parsed, ProtocolError>, ArgVec) {
        let mut parser = RequestParser::default();
        let parsed = parser.parse(bytes, limits);
        (parsed, ArgVec::from(parser.args(bytes)))
    }

    /// Checks the outcome of `bytes` both when they come at once and when they come one by one.
    fn check(bytes: &[u8], limits: &Limits, expected: Result<Parsed, ProtocolError>) {
        assert_eq!(
            parse_whole(bytes, limits).0,
            expected,
            "at once: {}",
            bytes.escape_ascii()
        );
        let mut parser = RequestParser::default();
        let piecemeal = (0..=bytes.len())
            .map(|len| parser.parse(&bytes[..len], limits))
            .find(|parsed| *parsed != Ok(Parsed::Incomplete));
        let piecemeal = piecemeal.unwrap_or(Ok(Parsed::Incomplete));
        assert_eq!(piecemeal, expected, "one by one: {}", bytes.escape_ascii());
    }

    fn check_error(bytes: &[u8], limits: &Limits, text: &str) {
        let error = parse_whole(bytes, limits)
            .0
            .expect_err("these bytes break the protocol");
        assert_eq!(error.to_string(), text);
        check(bytes, limits, Err(error));
    }

    #[test]
    fn a_multibulk_request_yields_its_arguments() {
        let bytes = b"*3\r\n$3\r\nSET\r\n$0\r\n\r\n$12\r\nline\r\nbreak!\r\n*1\r\n";
        check(
            bytes,
            &Limits::default(),
            Ok(Parsed::Complete {
                consumed: bytes.len() - 4,
            }),
        );
        let (_, args) = parse_whole(bytes, &Limits::default());
        assert_eq!(args, ArgVec::from_iter(["SET", "", "line\r\nbreak!"]));
    }

    #[test]
    fn an_inline_request_yields_its_words() {
        for ending in ["\n", "\r\n"] {
            let bytes = format!("SET key \"a b\"{ending}PING");
            let consumed = bytes.len() - 4;
            check(
                bytes.as_bytes(),
                &Limits::default(),
                Ok(Parsed::Complete { consumed }),
            );
            let (_, args) = parse_whole(bytes.as_bytes(), &Limits::default());
            assert_eq!(args, ArgVec::from_iter(["SET", "key", "a b"]));
        }
    }

    #[test]
    fn a_request_without_arguments_is_empty() {
        for (bytes, consumed) in [
            (&b"\r\n"[..], 2),
            (b"\n", 1),
            (b"  \t\n", 4),
            (b"*0\r\n", 4),
            (b"*-1\r\n", 5),
            (b"*-100\r\n", 7),
        ] {
            check(bytes, &Limits::default(), Ok(Parsed::Empty { consumed }));
            assert!(parse_whole(bytes, &Limits::default()).1.is_empty());
        }
    }

    #[test]
    fn there_are_no_arguments_before_the_request_is_complete() {
        let (parsed, args) = parse_whole(b"*2\r\n$1\r\na\r\n$1\r\n", &Limits::default());
        assert_eq!(parsed, Ok(Parsed::Incomplete));
        assert!(args.is_empty());
    }

    #[test]
    fn pipelined_requests_of_both_kinds_follow_each_other() {
        let bytes = b"*1\r\n$4\r\nPING\r\nGET k\r\n\r\n*2\r\n$3\r\nGET\r\n$1\r\nx\r\n";
        let mut parser = RequestParser::default();
        let mut seen = Vec::new();
        let mut rest = &bytes[..];
        while !rest.is_empty() {
            match parser.parse(rest, &Limits::default()).unwrap() {
                Parsed::Complete { consumed } => {
                    seen.push(ArgVec::from(parser.args(rest)));
                    rest = &rest[consumed..];
                }
                Parsed::Empty { consumed } => rest = &rest[consumed..],
                Parsed::Incomplete => panic!("every request here is whole"),
            }
        }
        let expected: [&[&str]; 3] = [&["PING"], &["GET", "k"], &["GET", "x"]];
        assert_eq!(seen, expected.map(ArgVec::from_iter));
    }

    #[test]
    fn wrong_counts_are_refused_with_the_texts_of_redis() {
        let limits = Limits::default();
        let invalid = "Protocol error: invalid multibulk length";
        for count in [
            "",
            "x",
            "+1",
            "01",
            "1.0",
            " 1",
            "1048577",
            "2147483648",
            "99999999999999999999",
        ] {
            check_error(format!("*{count}\r\n").as_bytes(), &limits, invalid);
        }
        check(b"*1048576\r\n", &limits, Ok(Parsed::Incomplete));
        let bytes = [&b"*"[..], &[b'1'; 64 * 1024]].concat();
        check_error(&bytes, &limits, "Protocol error: too big mbulk count string");
    }

    #[test]
    fn wrong_lengths_are_refused_with_the_texts_of_redis() {
        let limits = Limits::default();
        let invalid = "Protocol error: invalid bulk length";
        for len in ["", "-1", "x", "+1", "01", "536870913", "99999999999999999999"] {
            check_error(format!("*1\r\n${len}\r\n").as_bytes(), &limits, invalid);
        }
        check(b"*1\r\n$536870912\r\n", &limits, Ok(Parsed::Incomplete));
        check_error(b"*1\r\nx1\r\n", &limits, "Protocol error: expected '$', got 'x'");
        check_error(b"*1\r\n*1\r\n", &limits, "Protocol error: expected '$', got '*'");
        let bytes = [&b"*1\r\n$"[..], &[b'1'; 64 * 1024]].concat();
        check_error(&bytes, &limits, "Protocol error: too big bulk count string");
    }

    #[test]
    fn wrong_lines_are_refused_with_the_texts_of_redis() {
        let limits = Limits::default();
        check_error(
            b"GET \"a\r\n",
            &limits,
            "Protocol error: unbalanced quotes in request",
        );
        let longest = [&[b'a'; 64 * 1024][..], b"\n"].concat();
        check(
            &longest,
            &limits,
            Ok(Parsed::Complete {
                consumed: 64 * 1024 + 1,
            }),
        );
        let bytes = [&b"a"[..], &longest].concat();
        check_error(&bytes, &limits, "Protocol error: too big inline request");
    }

    #[test]
    fn a_client_that_has_not_authenticated_may_send_little() {
        let limits = Limits::unauthenticated();
        check(b"*10\r\n$16384\r\n", &limits, Ok(Parsed::Incomplete));
        check_error(
            b"*11\r\n",
            &limits,
            "Protocol error: unauthenticated multibulk length",
        );
        check_error(
            b"*2147483648\r\n",
            &limits,
            "Protocol error: invalid multibulk length",
        );
        check_error(
            b"*1\r\n$16385\r\n",
            &limits,
            "Protocol error: unauthenticated bulk length",
        );
        check_error(
            b"*1\r\n$536870913\r\n",
            &limits,
            "Protocol error: invalid bulk length",
        );
    }

    #[test]
    fn an_incomplete_request_past_the_query_limit_is_cut_silently() {
        let limits = Limits {
            query_bytes_max: 16,
            ..Limits::default()
        };
        check(b"*1\r\n$100\r\n123456", &limits, Ok(Parsed::Incomplete));
        check(
            b"*1\r\n$100\r\n1234567",
            &limits,
            Err(ProtocolError::QueryTooLong),
        );
        assert!(ProtocolError::QueryTooLong.is_silent());
    }

    #[test]
    fn the_spans_of_a_giant_request_are_given_back() {
        let bytes = [&b"*50000\r\n"[..], &b"$0\r\n\r\n".repeat(50_000)].concat();
        let mut parser = RequestParser::default();
        assert!(matches!(
            parser.parse(&bytes, &Limits::default()),
            Ok(Parsed::Complete { .. })
        ));
        assert_eq!(parser.args(&bytes).len(), 50_000);
        assert_eq!(
            parser.parse(b"PING\r\n", &Limits::default()),
            Ok(Parsed::Complete { consumed: 6 })
        );
        assert!(parser.spans.capacity() <= SPANS_KEPT_MAX);
    }

    #[test]
    fn a_claimed_count_reserves_nothing() {
        let mut parser = RequestParser::default();
        assert_eq!(
            parser.parse(b"*1000000\r\n$500000000\r\n", &Limits::default()),
            Ok(Parsed::Incomplete)
        );
        assert_eq!(parser.spans.capacity(), 0);
    }
}
