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

/// Reads the first frame of `buf`; returns it with its length, or nothing while it is incomplete.
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
