//! What must hold for any bytes at all. Shared by the mutation test here and by the fuzz targets.

use nagaya_resp::{
    ArgVec, FrameError, FrameScanner, Limits, Parsed, ProtocolError, RequestParser, encode_request,
    parse_frame, scan_frame,
};

/// Limits low enough for short inputs to run into every one of them. The query limit alone stays high:
/// it looks at the size of a read buffer, so it may depend on how the bytes were cut.
const LOW_LIMITS: Limits = Limits {
    bulk_bytes_max: 40,
    args_max: 12,
    inline_bytes_max: 48,
    query_bytes_max: 1 << 30,
};

/// The requests found in some bytes, and how the bytes ended.
#[derive(Debug, PartialEq)]
struct Outcome {
    requests: Vec<ArgVec>,
    unread_bytes: usize,
    error: Option<ProtocolError>,
}

/// Checks that the way bytes are cut into reads never changes what they say.
pub(crate) fn check_request(bytes: &[u8]) {
    for limits in [Limits::default(), Limits::unauthenticated(), LOW_LIMITS] {
        let at_once = parse_all(bytes, bytes.len().max(1), &limits);
        for read_bytes in [1, 3, 17] {
            assert_eq!(
                at_once,
                parse_all(bytes, read_bytes, &limits),
                "reads of {read_bytes} bytes"
            );
        }
        for request in &at_once.requests {
            check_encoded(request);
        }
    }
}

/// Checks that the scanner and the tree builder agree, at once and piece by piece, and that a tree can
/// be written out and read again.
pub(crate) fn check_frame(bytes: &[u8]) {
    let parsed = parse_frame(bytes);
    let length = parsed
        .as_ref()
        .map(|found| found.as_ref().map(|(_, len)| *len))
        .map_err(|error| *error);
    assert_eq!(scan_frame(bytes), length);
    assert_eq!(scan_in_pieces(bytes), length);
    if let Ok(Some((frame, len))) = parsed {
        assert!(len <= bytes.len());
        // Compared as bytes: not-a-number differs from itself.
        let mut encoded = Vec::new();
        frame.encode(&mut encoded);
        let (again, again_len) = parse_frame(&encoded)
            .expect("our own encoding")
            .expect("it is whole");
        assert_eq!(again_len, encoded.len());
        let mut encoded_again = Vec::new();
        again.encode(&mut encoded_again);
        assert_eq!(encoded, encoded_again);
    }
}

fn parse_all(bytes: &[u8], read_bytes: usize, limits: &Limits) -> Outcome {
    let mut parser = RequestParser::default();
    let mut requests = Vec::new();
    let (mut start, mut end) = (0, 0);
    loop {
        match parser.parse(&bytes[start..end], limits) {
            Ok(Parsed::Complete { consumed }) => {
                let args = parser.args(&bytes[start..end]);
                assert!(!args.is_empty());
                requests.push(ArgVec::from(args));
                start += consumed;
            }
            Ok(Parsed::Empty { consumed }) => {
                assert!(consumed > 0);
                start += consumed;
            }
            Ok(Parsed::Incomplete) if end == bytes.len() => {
                return Outcome {
                    requests,
                    unread_bytes: end - start,
                    error: None,
                };
            }
            Ok(Parsed::Incomplete) => end = (end + read_bytes).min(bytes.len()),
            Err(error) => {
                return Outcome {
                    requests,
                    unread_bytes: 0,
                    error: Some(error),
                };
            }
        }
    }
}

fn check_encoded(request: &ArgVec) {
    let args: Vec<&[u8]> = request.as_args().iter().collect();
    let mut encoded = Vec::new();
    encode_request(&args, &mut encoded);
    let outcome = parse_all(&encoded, encoded.len(), &Limits::default());
    assert_eq!(outcome.requests, std::slice::from_ref(request));
    assert_eq!(scan_frame(&encoded), Ok(Some(encoded.len())));
}

fn scan_in_pieces(bytes: &[u8]) -> Result<Option<usize>, FrameError> {
    let mut scanner = FrameScanner::default();
    let outcome = (0..=bytes.len())
        .map(|len| scanner.scan(&bytes[..len]))
        .find(|found| *found != Ok(None));
    outcome.unwrap_or(Ok(None))
}
