//! Conversions of replies.

use nagaya_resp::Frame;

use crate::error::Error;

/// Returns the text of a string reply of any kind, as bytes.
pub fn bytes(frame: &Frame) -> Option<&[u8]> {
    match frame {
        Frame::Simple(text) | Frame::Bulk(text) | Frame::Verbatim { text, .. } => Some(text),
        _ => None,
    }
}

/// Returns the text of a string reply; bytes that are not UTF-8 are replaced.
pub fn text(frame: &Frame) -> Option<String> {
    bytes(frame).map(|bytes| String::from_utf8_lossy(bytes).into_owned())
}

/// Returns an integer, sent as one or as a string of digits.
pub fn int(frame: &Frame) -> Option<i64> {
    match frame {
        Frame::Int(value) => Some(*value),
        other => nagaya_resp::parse_i64(bytes(other)?),
    }
}

/// Returns an unsigned number, sent as an integer or as a string of digits.
pub fn unsigned(frame: &Frame) -> Option<u64> {
    match frame {
        Frame::Int(value) => u64::try_from(*value).ok(),
        other => std::str::from_utf8(bytes(other)?).ok()?.parse().ok(),
    }
}

/// Returns the elements of an array, a set or a push; none for anything else.
pub fn items(frame: &Frame) -> &[Frame] {
    match frame {
        Frame::Array(items) | Frame::Set(items) | Frame::Push(items) => items,
        _ => &[],
    }
}

/// Returns the pairs of a map, or of an array that stands for one.
pub fn pairs(frame: &Frame) -> Vec<(&Frame, &Frame)> {
    match frame {
        Frame::Map(pairs) => pairs.iter().map(|(key, value)| (key, value)).collect(),
        other => items(other)
            .chunks_exact(2)
            .map(|pair| (&pair[0], &pair[1]))
            .collect(),
    }
}

pub fn is_nil(frame: &Frame) -> bool {
    matches!(frame, Frame::Nil | Frame::NilArray | Frame::Null)
}

/// One field of the text that `INFO` answers.
pub fn info_field<'a>(info: &'a str, name: &str) -> Option<&'a str> {
    info.lines()
        .find_map(|line| line.strip_prefix(name)?.strip_prefix(':'))
        .map(str::trim_end)
}

/// Returns the error for a reply that is not what the command answers.
pub fn unexpected(what: &str, frame: &Frame) -> Error {
    let mut found = format!("{frame:?}");
    // Replies can be long; their beginning identifies them.
    if let Some((at, _)) = found.char_indices().nth(80) {
        found.truncate(at);
        found.push_str("...");
    }
    Error::Unexpected {
        what: what.to_owned(),
        found,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_are_read_from_integers_and_from_text() {
        assert_eq!(int(&Frame::Int(-3)), Some(-3));
        assert_eq!(int(&Frame::Bulk(b"42".to_vec())), Some(42));
        assert_eq!(
            unsigned(&Frame::Bulk(u64::MAX.to_string().into())),
            Some(u64::MAX)
        );
        assert_eq!(unsigned(&Frame::Int(-1)), None);
        assert_eq!(int(&Frame::Nil), None);
    }

    #[test]
    fn info_fields_are_found_by_their_whole_name() {
        let info = "# Server\r\nrun_id_x:no\r\nrun_id:abc\r\n";
        assert_eq!(info_field(info, "run_id"), Some("abc"));
        assert_eq!(info_field(info, "role"), None);
    }
}
