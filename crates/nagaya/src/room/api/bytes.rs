//! Tags and keys in JSON and in paths: they are bytes, and both want text.

use nagaya_cold::base64;
use serde_json::{Map, Value};

/// Adds a name as text, and as base64 beside it when the text had to be bent.
pub(super) fn put(object: &mut Map<String, Value>, field: &str, name: &[u8]) {
    let text = String::from_utf8_lossy(name);
    if text.as_bytes() != name {
        object.insert(format!("{field}_base64"), Value::from(base64(name)));
    }
    object.insert(field.to_owned(), Value::from(text.into_owned()));
}

/// The bytes that a part of a path stands for; nothing when its escapes are broken.
pub(super) fn unescaped(part: &str) -> Option<Vec<u8>> {
    let mut bytes = Vec::with_capacity(part.len());
    let mut rest = part.as_bytes();
    while let Some((first, after)) = rest.split_first() {
        rest = after;
        match first {
            b'%' => {
                let (digits, after) = rest.split_at_checked(2)?;
                bytes.push(u8::from_str_radix(std::str::from_utf8(digits).ok()?, 16).ok()?);
                rest = after;
            }
            byte => bytes.push(*byte),
        }
    }
    Some(bytes)
}

/// A cursor for a URL: hexadecimal, because what the room gives may be any bytes.
pub(super) fn as_cursor(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

/// The bytes of a cursor; nothing when it is not one of ours.
pub(super) fn from_cursor(text: &str) -> Option<Vec<u8>> {
    if !text.len().is_multiple_of(2) || !text.is_ascii() {
        return None;
    }
    let pairs = (0..text.len()).step_by(2).map(|at| &text[at..at + 2]);
    pairs.map(|pair| u8::from_str_radix(pair, 16).ok()).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_that_are_not_text_come_as_base64_too() {
        let shown = |name: &[u8]| {
            let mut object = Map::new();
            put(&mut object, "tag", name);
            Value::from(object).to_string()
        };
        assert_eq!(shown("端".as_bytes()), r#"{"tag":"端"}"#);
        assert_eq!(shown(b"a\xff"), "{\"tag\":\"a\u{fffd}\",\"tag_base64\":\"Yf8=\"}");
    }

    #[test]
    fn paths_and_cursors_carry_any_bytes() {
        assert_eq!(unescaped("user%3A1%2f%FF+"), Some(b"user:1/\xff+".to_vec()));
        for broken in ["%", "%4", "%zz"] {
            assert_eq!(unescaped(broken), None, "{broken}");
        }
        let bytes = b"\x00user:\xff".to_vec();
        assert_eq!(from_cursor(&as_cursor(&bytes)), Some(bytes));
        assert_eq!(from_cursor("abc"), None);
        assert_eq!(from_cursor("zz"), None);
    }
}
