//! Round trips over generated requests and replies.

use nagaya_resp::{
    ArgVec, Frame, Limits, Out, Parsed, Proto, RequestParser, encode_request, format_double,
    format_human_double, parse_f64, parse_frame, parse_i64, scan_frame,
};
use proptest::collection::vec;
use proptest::prelude::*;

use crate::checks::{check_frame, check_request};

fn bytes() -> impl Strategy<Value = Vec<u8>> {
    vec(any::<u8>(), 0..40)
}

/// Bytes that a one-line type can hold.
fn line() -> impl Strategy<Value = Vec<u8>> {
    vec(
        any::<u8>().prop_filter("no line breaks", |byte| !matches!(byte, b'\r' | b'\n')),
        0..20,
    )
}

fn leaf() -> impl Strategy<Value = Frame> {
    prop_oneof![
        line().prop_map(Frame::Simple),
        line().prop_map(Frame::Error),
        any::<i64>().prop_map(Frame::Int),
        bytes().prop_map(Frame::Bulk),
        Just(Frame::Nil),
        Just(Frame::NilArray),
        Just(Frame::Null),
        any::<f64>()
            .prop_filter("equal to itself", |value| !value.is_nan())
            .prop_map(Frame::Double),
        any::<bool>().prop_map(Frame::Bool),
        (any::<[u8; 3]>(), bytes()).prop_map(|(format, text)| Frame::Verbatim { format, text }),
        "-?[0-9]{1,40}".prop_map(|digits| Frame::BigNumber(digits.into_bytes())),
        bytes().prop_map(Frame::BlobError),
    ]
}

fn frame() -> impl Strategy<Value = Frame> {
    leaf().prop_recursive(4, 40, 8, |inner| {
        prop_oneof![
            vec(inner.clone(), 0..8).prop_map(Frame::Array),
            vec(inner.clone(), 0..8).prop_map(Frame::Set),
            vec(inner.clone(), 0..8).prop_map(Frame::Push),
            vec((inner.clone(), inner), 0..4).prop_map(Frame::Map),
        ]
    })
}

/// Writes `frame` with the reply writer and returns what a client should read back.
fn write(frame: &Frame, out: &mut Out) -> Frame {
    let resp3 = out.proto == Proto::Resp3;
    match frame {
        Frame::Simple(text) => out.simple_bytes(text),
        Frame::Error(text) | Frame::BlobError(text) => {
            let text: Vec<u8> = text
                .iter()
                .copied()
                .filter(|byte| !matches!(byte, b'\r' | b'\n'))
                .collect();
            out.error_bytes(&text);
            return Frame::Error(text);
        }
        Frame::Int(value) => out.int(*value),
        Frame::Bulk(bytes) => out.bulk(bytes),
        Frame::Nil | Frame::Null => {
            out.nil();
            return if resp3 { Frame::Null } else { Frame::Nil };
        }
        Frame::NilArray => {
            out.nil_array();
            return if resp3 { Frame::Null } else { Frame::NilArray };
        }
        Frame::Double(value) => {
            out.double(*value);
            let mut text = Vec::new();
            format_double(*value, &mut text);
            return if resp3 { frame.clone() } else { Frame::Bulk(text) };
        }
        Frame::Bool(value) => {
            out.bool(*value);
            return if resp3 {
                frame.clone()
            } else {
                Frame::Int(i64::from(*value))
            };
        }
        Frame::Verbatim { text, .. } => {
            out.verbatim("txt", text);
            let format = *b"txt";
            return if resp3 {
                Frame::Verbatim {
                    format,
                    text: text.clone(),
                }
            } else {
                Frame::Bulk(text.clone())
            };
        }
        Frame::BigNumber(digits) => {
            out.big_number(std::str::from_utf8(digits).expect("generated as digits"));
            return if resp3 {
                frame.clone()
            } else {
                Frame::Bulk(digits.clone())
            };
        }
        Frame::Array(frames) | Frame::Set(frames) | Frame::Push(frames) => {
            let mark = out.defer();
            let read: Vec<Frame> = frames.iter().map(|frame| write(frame, out)).collect();
            return match frame {
                Frame::Set(_) if resp3 => {
                    out.finish_set(mark, read.len());
                    Frame::Set(read)
                }
                Frame::Push(_) if resp3 => {
                    out.finish_push(mark, read.len());
                    Frame::Push(read)
                }
                _ => {
                    out.finish_array(mark, read.len());
                    Frame::Array(read)
                }
            };
        }
        Frame::Map(pairs) | Frame::Attribute(pairs) => {
            out.map(pairs.len());
            let read: Vec<(Frame, Frame)> = pairs
                .iter()
                .map(|(key, value)| (write(key, out), write(value, out)))
                .collect();
            let flat = || {
                read.iter()
                    .flat_map(|(key, value)| [key.clone(), value.clone()])
                    .collect()
            };
            return if resp3 {
                Frame::Map(read)
            } else {
                Frame::Array(flat())
            };
        }
    }
    frame.clone()
}

proptest! {
    #[test]
    fn an_encoded_request_parses_back_at_every_split(args in vec(bytes(), 1..12)) {
        let slices: Vec<&[u8]> = args.iter().map(Vec::as_slice).collect();
        let mut encoded = Vec::new();
        encode_request(&slices, &mut encoded);
        for split in 0..encoded.len() {
            let mut parser = RequestParser::default();
            let parsed = parser.parse(&encoded[..split], &Limits::default());
            prop_assert_eq!(parsed, Ok(Parsed::Incomplete));
            let parsed = parser.parse(&encoded, &Limits::default());
            prop_assert_eq!(parsed, Ok(Parsed::Complete { consumed: encoded.len() }));
            prop_assert_eq!(ArgVec::from(parser.args(&encoded)), ArgVec::from_iter(&args));
        }
    }

    #[test]
    fn a_quoted_inline_request_parses_back(args in vec(bytes(), 1..6)) {
        let quote = |arg: &Vec<u8>| {
            let escaped: String = arg.iter().map(|byte| format!("\\x{byte:02x}")).collect();
            format!("\"{escaped}\"")
        };
        let request = args.iter().map(quote).collect::<Vec<_>>().join(" ") + "\r\n";
        let mut parser = RequestParser::default();
        let parsed = parser.parse(request.as_bytes(), &Limits::default());
        prop_assert_eq!(parsed, Ok(Parsed::Complete { consumed: request.len() }));
        prop_assert_eq!(ArgVec::from(parser.args(request.as_bytes())), ArgVec::from_iter(&args));
    }

    #[test]
    fn an_encoded_frame_parses_back(frame in frame(), rest in bytes()) {
        let mut encoded = Vec::new();
        frame.encode(&mut encoded);
        let len = encoded.len();
        for split in 0..len {
            prop_assert_eq!(scan_frame(&encoded[..split]), Ok(None));
        }
        encoded.extend(rest);
        prop_assert_eq!(scan_frame(&encoded), Ok(Some(len)));
        prop_assert_eq!(parse_frame(&encoded), Ok(Some((frame, len))));
    }

    #[test]
    fn a_written_reply_parses_back_in_both_protocols(frame in frame()) {
        for proto in [Proto::Resp2, Proto::Resp3] {
            let mut out = Out::new(proto);
            let expected = write(&frame, &mut out);
            prop_assert_eq!(parse_frame(&out.buf), Ok(Some((expected, out.len()))));
        }
    }

    #[test]
    fn arbitrary_bytes_never_break_a_promise(bytes in vec(any::<u8>(), 0..200)) {
        check_request(&bytes);
        check_frame(&bytes);
    }

    #[test]
    fn wire_like_bytes_never_break_a_promise(text in "([*$:+~%|>=!,#_(-]|[0-9]{1,3}|\r\n|[\"'\\\\ xnt]){0,60}") {
        check_request(text.as_bytes());
        check_frame(text.as_bytes());
    }

    #[test]
    fn a_printed_integer_reads_back_and_nothing_else_does(value in any::<i64>(), text in "[-+]?[0-9]{0,21}") {
        prop_assert_eq!(parse_i64(value.to_string().as_bytes()), Some(value));
        let canonical = text.parse::<i64>().ok().filter(|value| value.to_string() == text);
        prop_assert_eq!(parse_i64(text.as_bytes()), canonical);
    }

    #[test]
    fn a_printed_double_reads_back(value in any::<f64>().prop_filter("a number", |value| !value.is_nan())) {
        let mut text = Vec::new();
        format_double(value, &mut text);
        prop_assert_eq!(parse_f64(&text).map(f64::to_bits), Some(value.to_bits()));
    }

    #[test]
    fn a_human_double_has_no_exponent_and_reads_back(value in -1e12..1e12f64) {
        let mut text = Vec::new();
        format_human_double(value, &mut text);
        prop_assert!(!text.contains(&b'e'));
        let read = parse_f64(&text).unwrap();
        prop_assert!((read - value).abs() <= 1e-17 + value.abs() * f64::EPSILON);
    }
}
