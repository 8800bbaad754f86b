//! JSON as PostgreSQL can keep it.
//!
//! Its jsonb has no place for the character U+0000. Text with one is shown in base64
//! like other bytes that are no text, so that no value can keep a save from entering.

use serde_json::{Map, Value as Json, json};

use crate::decode::{base64, decode};

/// Returns the value of a payload as JSON text, or `None` when it is too large or cannot be read.
pub(super) fn for_column(payload: &[u8]) -> Option<String> {
    let text = decode(payload)?;
    if !text.contains("\\u0000") {
        return Some(text);
    }
    let json = serde_json::from_str(&text).ok()?;
    Some(without_zeros(json).to_string())
}

fn without_zeros(json: Json) -> Json {
    match json {
        Json::String(text) if text.contains('\0') => json!({"base64": base64(text.as_bytes())}),
        Json::Array(items) => items.into_iter().map(without_zeros).collect(),
        Json::Object(members) => {
            let name = |name: String| {
                if name.contains('\0') {
                    format!("base64:{}", base64(name.as_bytes()))
                } else {
                    name
                }
            };
            let members = members
                .into_iter()
                .map(|(key, value)| (name(key), without_zeros(value)));
            Json::Object(members.collect::<Map<_, _>>())
        }
        other => other,
    }
}

#[cfg(test)]
mod tests {
    use nagaya_store::rdb;
    use nagaya_store::value::{StrRef, ValueRef};

    use super::*;

    fn of(text: &[u8]) -> String {
        for_column(&rdb::dump_value(ValueRef::Str(StrRef::Bytes(text)))).unwrap()
    }

    #[test]
    fn text_with_a_zero_is_shown_as_bytes() {
        assert_eq!(of(b"plain"), "\"plain\"");
        assert_eq!(of(b"a\0b"), "{\"base64\":\"YQBi\"}");
        // What only looks like one stays text.
        assert_eq!(of(b"\\u0000"), "\"\\\\u0000\"");
    }

    #[test]
    fn zeros_are_found_in_names_and_deep_inside() {
        let json = without_zeros(json!({"a\u{0}": ["x", {"y": "\u{0}"}], "b": 1}));
        assert_eq!(
            json,
            json!({"base64:YQA=": ["x", {"y": {"base64": "AA=="}}], "b": 1})
        );
    }
}
