//! Parses parts of replies, and encodes requests.

use nagaya_redis_client::Run;
use nagaya_resp::{encode_request, parse_i64, scan_frame};

use crate::hot_tier::run::RunDigest;

/// Returns the bytes of each element of an array or set.
pub(crate) fn elements_of(reply: &[u8]) -> Vec<&[u8]> {
    let Some(head) = reply.iter().position(|&byte| byte == b'\n') else {
        return Vec::new();
    };
    let (mut rest, mut elements) = (&reply[head + 1..], Vec::new());
    while let Ok(Some(length)) = scan_frame(rest) {
        elements.push(&rest[..length]);
        rest = &rest[length..];
    }
    elements
}

/// Returns the number of an integer reply.
pub(crate) fn int(reply: &[u8]) -> Option<i64> {
    parse_i64(reply.strip_prefix(b":")?.trim_ascii_end())
}

/// Returns the bytes of a bulk string.
pub(crate) fn bulk(reply: &[u8]) -> Option<&[u8]> {
    let rest = reply.strip_prefix(b"$")?;
    let head = rest.iter().position(|&byte| byte == b'\n')?;
    rest.get(head + 1..rest.len().checked_sub(2)?)
}

/// Returns a field of a reply to INFO.
pub(crate) fn info_field(reply: &[u8], name: &str) -> Option<String> {
    let text = std::str::from_utf8(reply).ok()?;
    let mut lines = text.lines();
    lines.find_map(|line| Some(line.strip_prefix(name)?.strip_prefix(':')?.trim().to_owned()))
}

/// Returns the node's run as the scripts store it.
pub(crate) fn run_digest(run_id: &str, replication_id: String) -> RunDigest {
    RunDigest::from(&Run {
        run_id: run_id.to_owned(),
        replication_id,
    })
}

/// Encodes a request.
pub(crate) fn encoded(words: &[&[u8]]) -> Vec<u8> {
    let mut bytes = Vec::new();
    encode_request(words, &mut bytes);
    bytes
}
