//! Replies as a tree: for tests, scripts and clients. A proxy uses the scanner instead.

use crate::double::format_double;
use crate::out::{push_bulk, push_header, push_int_line, push_line, push_verbatim};
use crate::scan::{Aggregate, FRAME_DEPTH_MAX, FrameError, Token, token};

/// One reply with everything in it.
#[derive(Clone, Debug, PartialEq)]
pub enum Frame {
    Simple(Vec<u8>),
    Error(Vec<u8>),
    Int(i64),
    Bulk(Vec<u8>),
    /// The RESP2 absent string, `$-1`.
    Nil,
    /// The RESP2 absent array, `*-1`.
    NilArray,
    /// The RESP3 null, `_`.
    Null,
    Array(Vec<Frame>),
    Map(Vec<(Frame, Frame)>),
    Set(Vec<Frame>),
    Push(Vec<Frame>),
    /// Side information that came before a reply and is not one itself. Inside an aggregate it is read
    /// and dropped, so this is only ever found outermost.
    Attribute(Vec<(Frame, Frame)>),
    Double(f64),
    Bool(bool),
    Verbatim {
        format: [u8; 3],
        text: Vec<u8>,
    },
    BigNumber(Vec<u8>),
    BlobError(Vec<u8>),
}

/// Reads the first frame of `buf`; returns it with its length, or `None` while it is incomplete.
///
/// It starts over on each call. For a long reply that arrives in pieces, wait with a
/// [`FrameScanner`](crate::FrameScanner) until it is whole.
pub fn parse_frame(buf: &[u8]) -> Result<Option<(Frame, usize)>, FrameError> {
    let mut reader = Reader { buf, pos: 0 };
    let frame = reader.frame(0)?;
    Ok(frame.map(|frame| (frame, reader.pos)))
}

/// Appends a request in the form that every server reads.
pub fn encode_request(args: &[&[u8]], out: &mut Vec<u8>) {
    push_header(out, b'*', args.len());
    for arg in args {
        push_bulk(out, arg);
    }
}

struct Reader<'a> {
    buf: &'a [u8],
    pos: usize,
}

impl Reader<'_> {
    fn frame(&mut self, depth: usize) -> Result<Option<Frame>, FrameError> {
        loop {
            let Some((token, next)) = token(self.buf, self.pos)? else {
                return Ok(None);
            };
            self.pos = next;
            let Token::Aggregate(kind, len) = token else {
                return Ok(Some(leaf(self.buf, token)));
            };
            if depth == FRAME_DEPTH_MAX {
                return Err(FrameError::TooDeep);
            }
            let Some(frame) = self.aggregate(kind, len, depth + 1)? else {
                return Ok(None);
            };
            if kind != Aggregate::Attribute || depth == 0 {
                return Ok(Some(frame));
            }
        }
    }

    fn aggregate(&mut self, kind: Aggregate, len: u64, depth: usize) -> Result<Option<Frame>, FrameError> {
        // The vectors grow with what is really there: the length is only a claim.
        if matches!(kind, Aggregate::Map | Aggregate::Attribute) {
            let mut pairs = Vec::new();
            for _ in 0..len {
                let Some(key) = self.frame(depth)? else {
                    return Ok(None);
                };
                let Some(value) = self.frame(depth)? else {
                    return Ok(None);
                };
                pairs.push((key, value));
            }
            let is_map = kind == Aggregate::Map;
            return Ok(Some(if is_map {
                Frame::Map(pairs)
            } else {
                Frame::Attribute(pairs)
            }));
        }
        let mut frames = Vec::new();
        for _ in 0..len {
            let Some(frame) = self.frame(depth)? else {
                return Ok(None);
            };
            frames.push(frame);
        }
        Ok(Some(match kind {
            Aggregate::Set => Frame::Set(frames),
            Aggregate::Push => Frame::Push(frames),
            _ => Frame::Array(frames),
        }))
    }
}

fn leaf(buf: &[u8], token: Token) -> Frame {
    match token {
        Token::Simple(at) => Frame::Simple(buf[at].to_vec()),
        Token::Error(at) => Frame::Error(buf[at].to_vec()),
        Token::BigNumber(at) => Frame::BigNumber(buf[at].to_vec()),
        Token::Bulk(at) => Frame::Bulk(buf[at].to_vec()),
        Token::BlobError(at) => Frame::BlobError(buf[at].to_vec()),
        Token::Verbatim(at) => {
            let (format, text) = buf[at].split_at(4);
            Frame::Verbatim {
                format: [format[0], format[1], format[2]],
                text: text.to_vec(),
            }
        }
        Token::Int(value) => Frame::Int(value),
        Token::Double(value) => Frame::Double(value),
        Token::Bool(value) => Frame::Bool(value),
        Token::Null => Frame::Null,
        Token::NilBulk => Frame::Nil,
        Token::NilArray => Frame::NilArray,
        Token::Aggregate(..) => unreachable!("aggregates are handled by the reader"),
    }
}

impl Frame {
    /// Appends the frame as it is, whatever protocol that takes. Line breaks in one-line types become
    /// spaces.
    pub fn encode(&self, out: &mut Vec<u8>) {
        match self {
            Frame::Simple(text) => push_tagged_line(out, b'+', text),
            Frame::Error(text) => push_tagged_line(out, b'-', text),
            Frame::BigNumber(digits) => push_tagged_line(out, b'(', digits),
            Frame::Int(value) => push_int_line(out, b':', *value),
            Frame::Bulk(bytes) => push_bulk(out, bytes),
            Frame::Nil => out.extend_from_slice(b"$-1\r\n"),
            Frame::NilArray => out.extend_from_slice(b"*-1\r\n"),
            Frame::Null => out.extend_from_slice(b"_\r\n"),
            Frame::Array(frames) => encode_all(b'*', frames, out),
            Frame::Set(frames) => encode_all(b'~', frames, out),
            Frame::Push(frames) => encode_all(b'>', frames, out),
            Frame::Map(pairs) => encode_pairs(b'%', pairs, out),
            Frame::Attribute(pairs) => encode_pairs(b'|', pairs, out),
            Frame::Double(value) => {
                out.push(b',');
                format_double(*value, out);
                out.extend_from_slice(b"\r\n");
            }
            Frame::Bool(value) => out.extend_from_slice(if *value { b"#t\r\n" } else { b"#f\r\n" }),
            Frame::Verbatim { format, text } => push_verbatim(out, *format, text),
            Frame::BlobError(text) => {
                push_header(out, b'!', text.len());
                out.extend_from_slice(text);
                out.extend_from_slice(b"\r\n");
            }
        }
    }
}

fn push_tagged_line(out: &mut Vec<u8>, tag: u8, text: &[u8]) {
    out.push(tag);
    push_line(out, text);
}

fn encode_all(tag: u8, frames: &[Frame], out: &mut Vec<u8>) {
    push_header(out, tag, frames.len());
    for frame in frames {
        frame.encode(out);
    }
}

fn encode_pairs(tag: u8, pairs: &[(Frame, Frame)], out: &mut Vec<u8>) {
    push_header(out, tag, pairs.len());
    for (key, value) in pairs {
        key.encode(out);
        value.encode(out);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::scan::scan_frame;

    fn check(bytes: &[u8], expected: Frame) {
        assert_eq!(
            parse_frame(bytes),
            Ok(Some((expected.clone(), bytes.len()))),
            "{}",
            bytes.escape_ascii()
        );
        assert_eq!(scan_frame(bytes), Ok(Some(bytes.len())));
        for len in 0..bytes.len() {
            assert_eq!(
                parse_frame(&bytes[..len]),
                Ok(None),
                "{}",
                bytes[..len].escape_ascii()
            );
            assert_eq!(scan_frame(&bytes[..len]), Ok(None));
        }
        let mut encoded = Vec::new();
        expected.encode(&mut encoded);
        assert_eq!(encoded, bytes);
    }

    fn check_error(bytes: &[u8], expected: FrameError) {
        assert_eq!(parse_frame(bytes), Err(expected), "{}", bytes.escape_ascii());
        assert_eq!(scan_frame(bytes), Err(expected));
    }

    #[test]
    fn every_type_is_read_and_written_back() {
        let bulk = |text: &str| Frame::Bulk(text.into());
        check(b"+OK\r\n", Frame::Simple(b"OK".to_vec()));
        check(b"+\r\n", Frame::Simple(Vec::new()));
        check(b"-ERR no\r\n", Frame::Error(b"ERR no".to_vec()));
        check(b":-12\r\n", Frame::Int(-12));
        check(b"$5\r\na\r\nbc\r\n", bulk("a\r\nbc"));
        check(b"$0\r\n\r\n", bulk(""));
        check(b"$-1\r\n", Frame::Nil);
        check(b"*-1\r\n", Frame::NilArray);
        check(b"_\r\n", Frame::Null);
        check(b"*0\r\n", Frame::Array(vec![]));
        check(
            b"*2\r\n:1\r\n*1\r\n_\r\n",
            Frame::Array(vec![Frame::Int(1), Frame::Array(vec![Frame::Null])]),
        );
        check(
            b"%1\r\n+k\r\n$1\r\nv\r\n",
            Frame::Map(vec![(Frame::Simple(b"k".to_vec()), bulk("v"))]),
        );
        check(
            b"~2\r\n:1\r\n:2\r\n",
            Frame::Set(vec![Frame::Int(1), Frame::Int(2)]),
        );
        check(b">1\r\n$1\r\nm\r\n", Frame::Push(vec![bulk("m")]));
        check(
            b"|1\r\n+ttl\r\n:5\r\n",
            Frame::Attribute(vec![(Frame::Simple(b"ttl".to_vec()), Frame::Int(5))]),
        );
        check(b",3.25\r\n", Frame::Double(3.25));
        check(b",-inf\r\n", Frame::Double(f64::NEG_INFINITY));
        check(b"#t\r\n", Frame::Bool(true));
        check(b"#f\r\n", Frame::Bool(false));
        check(
            b"=6\r\ntxt:hi\r\n",
            Frame::Verbatim {
                format: *b"txt",
                text: b"hi".to_vec(),
            },
        );
        check(
            b"(-123456789012345678901234567890\r\n",
            Frame::BigNumber(b"-123456789012345678901234567890".to_vec()),
        );
        check(b"!6\r\nERR no\r\n", Frame::BlobError(b"ERR no".to_vec()));
    }

    #[test]
    fn an_attribute_inside_an_aggregate_is_not_an_element() {
        let bytes = b"*2\r\n|1\r\n+a\r\n|0\r\n:9\r\n:1\r\n|0\r\n:2\r\n";
        let expected = Frame::Array(vec![Frame::Int(1), Frame::Int(2)]);
        assert_eq!(parse_frame(bytes), Ok(Some((expected, bytes.len()))));
        assert_eq!(scan_frame(bytes), Ok(Some(bytes.len())));
    }

    #[test]
    fn malformed_replies_are_refused() {
        check_error(b"hello", FrameError::UnknownType(b'h'));
        check_error(b"*1\r\n\r\n", FrameError::UnknownType(b'\r'));
        check_error(b"$-2\r\n", FrameError::BadLength);
        check_error(b"$?\r\n", FrameError::BadLength);
        check_error(b"*-2\r\n", FrameError::BadLength);
        check_error(b"%-1\r\n", FrameError::BadLength);
        check_error(b"*01\r\n", FrameError::BadLength);
        check_error(b":1.5\r\n", FrameError::BadNumber);
        check_error(b":\r\n", FrameError::BadNumber);
        check_error(b",one\r\n", FrameError::BadNumber);
        check_error(b"(1x\r\n", FrameError::BadNumber);
        check_error(b"(-\r\n", FrameError::BadNumber);
        check_error(b"#y\r\n", FrameError::BadBool);
        check_error(b"_x\r\n", FrameError::BadNull);
        check_error(b"=3\r\ntxt\r\n", FrameError::BadVerbatim);
        check_error(b"=6\r\ntxt-hi\r\n", FrameError::BadVerbatim);
        check_error(b"+OK\rX", FrameError::BadLineEnd);
        check_error(b"$2\r\nabc\r\n", FrameError::BadLineEnd);
        check_error(&[&b":"[..], &[b'1'; 64]].concat(), FrameError::BadLineEnd);
    }

    #[test]
    fn a_claimed_length_is_waited_for_and_never_reserved() {
        for head in [
            "*9223372036854775807\r\n",
            "%9223372036854775807\r\n",
            "$9223372036854775807\r\n",
        ] {
            assert_eq!(parse_frame(head.as_bytes()), Ok(None));
            assert_eq!(scan_frame(head.as_bytes()), Ok(None));
        }
    }

    #[test]
    fn nesting_has_a_limit() {
        let nested = |depth: usize| [b"*1\r\n".repeat(depth), b":1\r\n".to_vec()].concat();
        let deepest = nested(FRAME_DEPTH_MAX);
        assert!(matches!(parse_frame(&deepest), Ok(Some(_))));
        assert_eq!(scan_frame(&deepest), Ok(Some(deepest.len())));
        check_error(&nested(FRAME_DEPTH_MAX + 1), FrameError::TooDeep);
        check_error(&nested(1_000_000), FrameError::TooDeep);
    }

    #[test]
    fn a_request_is_an_array_of_bulk_strings() {
        let mut out = Vec::new();
        encode_request(&[b"GET", b""], &mut out);
        assert_eq!(out, b"*2\r\n$3\r\nGET\r\n$0\r\n\r\n");
    }
}
