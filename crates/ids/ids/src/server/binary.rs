//! The binary protocol: a 24-byte header, then extras, key and value.
//!
//! GET, VERSION and STAT as katsubushi has them, and what clients use around them: the GET
//! forms that return the key or are quiet about misses, NOOP, QUIT. Errors are answers in the
//! protocol's own form, with the opcode and opaque of the request.

use super::connection::{Answers, Taken};

pub(super) const REQUEST_MAGIC: u8 = 0x80;
const RESPONSE_MAGIC: u8 = 0x81;
const HEADER_BYTES: usize = 24;
const KEY_BYTES_MAX: usize = 250;

mod opcode {
    pub(super) const GET: u8 = 0x00;
    pub(super) const QUIT: u8 = 0x07;
    pub(super) const GETQ: u8 = 0x09;
    pub(super) const NOOP: u8 = 0x0a;
    pub(super) const VERSION: u8 = 0x0b;
    pub(super) const GETK: u8 = 0x0c;
    pub(super) const GETKQ: u8 = 0x0d;
    pub(super) const STAT: u8 = 0x10;
    pub(super) const QUITQ: u8 = 0x17;
}

mod status {
    pub(super) const OK: u16 = 0x00;
    pub(super) const TOO_LARGE: u16 = 0x03;
    pub(super) const INVALID_ARGUMENTS: u16 = 0x04;
    pub(super) const UNKNOWN_COMMAND: u16 = 0x81;
    pub(super) const TEMPORARY_FAILURE: u16 = 0x86;
}

struct Request<'a> {
    opcode: u8,
    opaque: [u8; 4],
    extras: &'a [u8],
    key: &'a [u8],
    value: &'a [u8],
}

/// Answers the first request in `input`, if it is complete.
pub(super) fn answer(input: &[u8], answers: &mut Answers<'_>) -> Taken {
    let Some((header, rest)) = input.split_first_chunk::<HEADER_BYTES>() else {
        return match input.first() {
            None | Some(&REQUEST_MAGIC) => Taken::More,
            Some(_) => Taken::Close,
        };
    };
    if header[0] != REQUEST_MAGIC {
        return Taken::Close;
    }
    let key_bytes = usize::from(u16::from_be_bytes([header[2], header[3]]));
    let extras_bytes = usize::from(header[4]);
    let body_bytes = u32::from_be_bytes([header[8], header[9], header[10], header[11]]) as usize;
    let mut request = Request {
        opcode: header[1],
        opaque: [header[12], header[13], header[14], header[15]],
        extras: &[],
        key: &[],
        value: &[],
    };
    if body_bytes > answers.config.body_bytes_max {
        failure(&request, status::TOO_LARGE, "Too large", answers);
        return Taken::Close;
    }
    if body_bytes < key_bytes + extras_bytes {
        failure(&request, status::INVALID_ARGUMENTS, "Invalid arguments", answers);
        return Taken::Close;
    }
    let Some(body) = rest.get(..body_bytes) else {
        return Taken::More;
    };
    request.extras = &body[..extras_bytes];
    request.key = &body[extras_bytes..extras_bytes + key_bytes];
    request.value = &body[extras_bytes + key_bytes..];
    if execute(&request, answers) {
        Taken::Bytes(HEADER_BYTES + body_bytes)
    } else {
        Taken::Close
    }
}

/// Returns false if the client ends the connection.
fn execute(request: &Request<'_>, answers: &mut Answers<'_>) -> bool {
    match request.opcode {
        opcode::GET | opcode::GETQ | opcode::GETK | opcode::GETKQ => get(request, answers),
        opcode::NOOP => respond(request, status::OK, &[], &[], &[], answers.out),
        opcode::VERSION => {
            let version = answers.stats.version().as_bytes();
            respond(request, status::OK, &[], &[], version, answers.out);
        }
        opcode::STAT => {
            for (name, value) in answers.snapshot().rows() {
                let (name, value) = (name.as_bytes(), value.as_bytes());
                respond(request, status::OK, &[], name, value, answers.out);
            }
            // An empty one ends the list.
            respond(request, status::OK, &[], &[], &[], answers.out);
        }
        opcode::QUIT => {
            respond(request, status::OK, &[], &[], &[], answers.out);
            return false;
        }
        opcode::QUITQ => return false,
        _ => failure(request, status::UNKNOWN_COMMAND, "Unknown command", answers),
    }
    true
}

fn get(request: &Request<'_>, answers: &mut Answers<'_>) {
    let key_is_good = (1..=KEY_BYTES_MAX).contains(&request.key.len());
    if !key_is_good || !request.extras.is_empty() || !request.value.is_empty() {
        answers.counts.commands += 1;
        return failure(request, status::INVALID_ARGUMENTS, "Invalid arguments", answers);
    }
    if let Err(error) = answers.make_ids(1) {
        return failure(request, status::TEMPORARY_FAILURE, &error.to_string(), answers);
    }
    let key = match request.opcode {
        opcode::GETK | opcode::GETKQ => request.key,
        _ => &[],
    };
    let mut digits = itoa::Buffer::new();
    let id = digits.format(answers.ids[0]).as_bytes();
    // The extras of a hit are the value's flags.
    respond(request, status::OK, &[0; 4], key, id, answers.out);
}

fn failure(request: &Request<'_>, status: u16, words: &str, answers: &mut Answers<'_>) {
    respond(request, status, &[], &[], words.as_bytes(), answers.out);
}

/// Key and value are ours or limited above, so their lengths fit the header.
fn respond(request: &Request<'_>, status: u16, extras: &[u8], key: &[u8], value: &[u8], out: &mut Vec<u8>) {
    let body_bytes = (extras.len() + key.len() + value.len()) as u32;
    out.extend_from_slice(&[RESPONSE_MAGIC, request.opcode]);
    out.extend_from_slice(&(key.len() as u16).to_be_bytes());
    out.extend_from_slice(&[extras.len() as u8, 0]);
    out.extend_from_slice(&status.to_be_bytes());
    out.extend_from_slice(&body_bytes.to_be_bytes());
    out.extend_from_slice(&request.opaque);
    out.extend_from_slice(&[0; 8]);
    out.extend_from_slice(extras);
    out.extend_from_slice(key);
    out.extend_from_slice(value);
}

#[cfg(test)]
mod tests {
    use super::super::connection::testing::TestSession;

    /// Returns a request with the opaque 01 02 03 04.
    fn request(opcode: u8, key: &[u8]) -> Vec<u8> {
        let mut bytes = vec![
            0x80,
            opcode,
            0,
            key.len() as u8,
            0,
            0,
            0,
            0,
            0,
            0,
            0,
            key.len() as u8,
        ];
        bytes.extend([1, 2, 3, 4, 0, 0, 0, 0, 0, 0, 0, 0]);
        bytes.extend(key);
        bytes
    }

    fn header(opcode: u8, key: u8, extras: u8, status: u8, body: u8) -> Vec<u8> {
        let mut bytes = vec![0x81, opcode, 0, key, extras, 0, 0, status, 0, 0, 0, body];
        bytes.extend([1, 2, 3, 4, 0, 0, 0, 0, 0, 0, 0, 0]);
        bytes
    }

    #[test]
    fn a_get_is_answered_with_flags_and_an_id() {
        let mut session = TestSession::new();
        let answer = session.raw(&request(0x00, b"id"));
        assert_eq!(answer[..24], header(0x00, 0, 4, 0, 4 + 19));
        assert_eq!(answer[24..28], [0; 4]);
        let id: u64 = std::str::from_utf8(&answer[28..]).unwrap().parse().unwrap();
        assert_eq!(session.mint.layout().decode(id).unwrap().worker, 5);
    }

    #[test]
    fn getk_returns_the_key_and_quiet_gets_are_hits_too() {
        let mut session = TestSession::new();
        for (opcode, key) in [(0x09, ""), (0x0c, "id"), (0x0d, "id")] {
            let answer = session.raw(&request(opcode, b"id"));
            assert_eq!(
                answer[..24],
                header(opcode, key.len() as u8, 4, 0, 23 + key.len() as u8)
            );
            assert_eq!(&answer[28..28 + key.len()], key.as_bytes());
        }
    }

    #[test]
    fn version_and_noop_are_answered() {
        let mut session = TestSession::new();
        let mut expected = header(0x0b, 0, 0, 0, 3);
        expected.extend(b"9.9");
        assert_eq!(session.raw(&request(0x0b, b"")), expected);
        assert_eq!(session.raw(&request(0x0a, b"")), header(0x0a, 0, 0, 0, 0));
    }

    #[test]
    fn stat_ends_with_an_empty_answer() {
        let mut session = TestSession::new();
        let answer = session.raw(&request(0x10, b"items"));
        let pid = std::process::id().to_string();
        assert_eq!(answer[..24], header(0x10, 3, 0, 0, 3 + pid.len() as u8));
        assert_eq!(&answer[24..27], b"pid");
        assert!(answer.ends_with(&header(0x10, 0, 0, 0, 0)));
    }

    #[test]
    fn unknown_commands_are_refused_in_the_protocols_own_form() {
        let mut session = TestSession::new();
        let mut expected = header(0x01, 0, 0, 0x81, 15);
        expected.extend(b"Unknown command");
        assert_eq!(session.raw(&request(0x01, b"id")), expected);
        assert!(!session.closed);
    }

    #[test]
    fn a_get_without_a_key_or_with_extras_is_refused() {
        let mut session = TestSession::new();
        assert_eq!(
            session.raw(&request(0x00, b""))[..24],
            header(0x00, 0, 0, 0x04, 17)
        );
        let mut with_extras = request(0x00, b"abcdef");
        (with_extras[3], with_extras[4]) = (2, 4);
        assert_eq!(session.raw(&with_extras)[..24], header(0x00, 0, 0, 0x04, 17));
        assert!(!session.closed);
    }

    #[test]
    fn a_header_cannot_make_us_reserve_memory() {
        let mut session = TestSession::new();
        let mut huge = request(0x00, b"");
        huge[8..12].copy_from_slice(&u32::MAX.to_be_bytes());
        assert_eq!(session.raw(&huge)[..24], header(0x00, 0, 0, 0x03, 9));
        assert!(session.closed);
    }

    #[test]
    fn lengths_that_contradict_each_other_end_the_connection() {
        let mut session = TestSession::new();
        let mut bad = request(0x00, b"");
        bad[3] = 1;
        assert_eq!(session.raw(&bad)[..24], header(0x00, 0, 0, 0x04, 17));
        assert!(session.closed);
    }

    #[test]
    fn a_missing_id_is_a_temporary_failure() {
        let mut session = TestSession::new();
        session.mint.set_permit(None);
        let answer = session.raw(&request(0x00, b"id"));
        assert_eq!(answer[..24], header(0x00, 0, 0, 0x86, 28));
        assert_eq!(&answer[24..], b"no worker number is held yet");
    }

    #[test]
    fn requests_may_arrive_byte_by_byte_or_many_at_once() {
        let mut session = TestSession::new();
        let two = [request(0x0a, b""), request(0x00, b"id")].concat();
        let mut answer = Vec::new();
        two.iter().for_each(|byte| answer.extend(session.raw(&[*byte])));
        assert_eq!(answer.len(), 24 + 24 + 4 + 19);
        assert_eq!(session.raw(&two).len(), 24 + 24 + 4 + 19);
    }

    #[test]
    fn quit_is_answered_quitq_is_not() {
        let mut session = TestSession::new();
        assert_eq!(session.raw(&request(0x07, b"")), header(0x07, 0, 0, 0, 0));
        assert!(session.closed);
        let mut session = TestSession::new();
        assert_eq!(session.raw(&request(0x17, b"")), b"");
        assert!(session.closed);
    }

    #[test]
    fn another_magic_in_mid_stream_ends_the_connection() {
        let mut session = TestSession::new();
        session.raw(&request(0x0a, b""));
        assert_eq!(session.raw(b"get a\r\n"), b"");
        assert!(session.closed);
    }
}
