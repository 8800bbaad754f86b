//! Values as JSON, for operators who query the cold tier with SQL.
//!
//! Text stays text. Bytes that are not UTF-8 become `{"base64": "..."}`, and
//! `base64:...` where JSON allows only a name. Nothing is ever read back from
//! here: the payload is the value.

use nagaya_store::limits::EncodingLimits;
use nagaya_store::listpack::{Item, ItemBuf};
use nagaya_store::rdb;
use nagaya_store::stream::{Group, Stream, StreamId};
use nagaya_store::value::Value;
use serde_json::{Map, Value as Json, json};

/// Largest payload that is decoded, and largest JSON that is kept, in bytes. Larger values are not read by people.
/// The first is smaller because a payload may be compressed, to about a ninetieth at best.
const PAYLOAD_BYTES_MAX: usize = 256 << 10;
const JSON_BYTES_MAX: usize = 1 << 20;

/// Returns the value of a payload as JSON, or `None` when it cannot be read.
pub fn value_as_json(payload: &[u8]) -> Option<Json> {
    let value = rdb::restore(payload, &EncodingLimits::default()).ok()?;
    Some(json_of(&value))
}

/// Returns bytes as JSON: text if they are UTF-8, else `{"base64": "..."}`.
pub fn bytes_as_json(bytes: &[u8]) -> Json {
    match std::str::from_utf8(bytes) {
        Ok(text) => Json::String(text.to_owned()),
        Err(_) => json!({"base64": base64(bytes)}),
    }
}

/// Returns bytes in base64, padded.
pub fn base64(bytes: &[u8]) -> String {
    const DIGITS: &[u8; 64] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
    let mut out = String::with_capacity(bytes.len().div_ceil(3) * 4);
    for chunk in bytes.chunks(3) {
        let byte = |at: usize| u32::from(chunk.get(at).copied().unwrap_or(0));
        let bits = byte(0) << 16 | byte(1) << 8 | byte(2);
        for place in 0..4 {
            // n bytes make n + 1 digits; the rest is padding.
            if place <= chunk.len() {
                out.push(char::from(DIGITS[(bits >> (18 - 6 * place)) as usize & 63]));
            } else {
                out.push('=');
            }
        }
    }
    out
}

/// Returns the value of a payload as JSON text, or `None` when it is too large or cannot be read.
pub(crate) fn decode(payload: &[u8]) -> Option<String> {
    if payload.len() > PAYLOAD_BYTES_MAX {
        return None;
    }
    let json = value_as_json(payload)?.to_string();
    (json.len() <= JSON_BYTES_MAX).then_some(json)
}

fn json_of(value: &Value) -> Json {
    match value {
        Value::Int(number) => Json::String(number.to_string()),
        Value::Str(bytes) => bytes_as_json(bytes),
        Value::List(list) => list.iter().map(item).collect(),
        Value::Set(set) => set.iter().map(item).collect(),
        Value::Hash(hash) => object(hash.iter()),
        Value::Zset(zset) => zset
            .iter()
            .map(|entry| json!([item(entry.member), score(entry.score)]))
            .collect(),
        Value::Stream(stream) => stream_json(stream),
    }
}

fn stream_json(stream: &Stream) -> Json {
    let entries: Json = stream
        .range(StreamId::MIN, StreamId::MAX)
        .map(|entry| json!({"id": entry.id.to_string(), "fields": pairs(entry.fields())}))
        .collect();
    let groups: Map<String, Json> = stream
        .groups()
        .map(|(group_name, group)| (name(group_name), group_json(group)))
        .collect();
    json!({"last_id": stream.last_id().to_string(), "entries": entries, "groups": groups})
}

fn group_json(group: &Group) -> Json {
    let pending: Json = group
        .pending_range(..)
        .map(|(id, pending)| {
            json!({
                "id": id.to_string(),
                "consumer": bytes_as_json(group.consumer(pending.owner()).name()),
                "delivered_at_ms": pending.delivered_ms,
                "deliveries": pending.deliveries,
            })
        })
        .collect();
    let consumers: Json = group
        .consumers()
        .map(|(_, consumer)| json!({"name": bytes_as_json(consumer.name()), "seen_at_ms": consumer.seen_ms}))
        .collect();
    json!({"last_id": group.last_id.to_string(), "consumers": consumers, "pending": pending})
}

fn object<'a>(fields: impl Iterator<Item = (Item<'a>, Item<'a>)>) -> Json {
    let members: Map<String, Json> = fields
        .map(|(field, value)| (name(field.as_bytes(&mut ItemBuf::new())), item(value)))
        .collect();
    Json::Object(members)
}

/// Returns fields as an array of pairs, because a stream entry may name a field twice.
fn pairs<'a>(fields: impl Iterator<Item = (Item<'a>, Item<'a>)>) -> Json {
    fields
        .map(|(field, value)| json!([item(field), item(value)]))
        .collect()
}

fn item(item: Item<'_>) -> Json {
    bytes_as_json(item.as_bytes(&mut ItemBuf::new()))
}

fn name(bytes: &[u8]) -> String {
    match std::str::from_utf8(bytes) {
        Ok(text) => text.to_owned(),
        Err(_) => format!("base64:{}", base64(bytes)),
    }
}

/// JSON has no infinite numbers, so these come as the text Redis prints.
fn score(score: f64) -> Json {
    match serde_json::Number::from_f64(score) {
        Some(number) => Json::Number(number),
        None if score > 0.0 => Json::String("inf".to_owned()),
        None => Json::String("-inf".to_owned()),
    }
}

#[cfg(test)]
mod tests {
    use nagaya_store::hash::Hash;
    use nagaya_store::list::List;
    use nagaya_store::set::Set;
    use nagaya_store::stream::{Delivery, NewId};
    use nagaya_store::value::{StrRef, ValueRef};
    use nagaya_store::zset::Zset;

    use super::*;

    fn limits() -> EncodingLimits {
        EncodingLimits::default()
    }

    #[track_caller]
    fn check(value: ValueRef<'_>, expected: Json) {
        let decoded = decode(&rdb::dump_value(value)).unwrap();
        assert_eq!(serde_json::from_str::<Json>(&decoded).unwrap(), expected);
    }

    #[test]
    fn strings_are_text_and_other_bytes_are_base64() {
        check(ValueRef::Str(StrRef::Bytes(b"caf\xc3\xa9")), json!("caf\u{e9}"));
        check(ValueRef::Str(StrRef::Int(-7)), json!("-7"));
        check(ValueRef::Str(StrRef::Bytes(b"a\0b")), json!("a\u{0}b"));
        check(
            ValueRef::Str(StrRef::Bytes(b"\xff\xfe")),
            json!({"base64": "//4="}),
        );
    }

    #[test]
    fn base64_pads_to_four_digits() {
        let cases: [(&[u8], &str); 5] = [
            (b"", ""),
            (b"f", "Zg=="),
            (b"fo", "Zm8="),
            (b"foo", "Zm9v"),
            (b"foob", "Zm9vYg=="),
        ];
        for (bytes, expected) in cases {
            assert_eq!(base64(bytes), expected);
        }
    }

    #[test]
    fn collections_keep_their_shape() {
        let mut list = List::new();
        list.push_back(b"one", &limits());
        list.push_back(b"2", &limits());
        check(ValueRef::List(&list), json!(["one", "2"]));

        let mut set = Set::new();
        set.add(b"12", &limits());
        check(ValueRef::Set(&set), json!(["12"]));

        let mut hash = Hash::new();
        hash.set(b"name", b"Aiko", &limits());
        hash.set(b"\xff", b"1", &limits());
        check(ValueRef::Hash(&hash), json!({"name": "Aiko", "base64:/w==": "1"}));

        let mut zset = Zset::new();
        zset.insert(1.5, b"low", &limits());
        zset.insert(f64::INFINITY, b"top", &limits());
        check(ValueRef::Zset(&zset), json!([["low", 1.5], ["top", "inf"]]));
    }

    #[test]
    fn streams_show_entries_and_groups() {
        let mut stream = Stream::new();
        let fields = [(b"f".as_slice(), b"v".as_slice()), (b"f", b"w")];
        let id = stream
            .add(NewId::Exact(StreamId::new(5, 1)), fields.into_iter(), &limits())
            .unwrap();
        stream.create_group(b"g", StreamId::MIN, 0);
        let consumer = stream
            .group_mut(b"g")
            .unwrap()
            .create_consumer(b"c", 100)
            .unwrap();
        stream.deliver(b"g", &[id], consumer, Delivery::Pending { now_ms: 100 });
        let group = json!({
            "last_id": stream.group(b"g").unwrap().last_id.to_string(),
            "consumers": [{"name": "c", "seen_at_ms": 100}],
            "pending": [{"id": "5-1", "consumer": "c", "delivered_at_ms": 100, "deliveries": 1}],
        });
        check(
            ValueRef::Stream(&stream),
            json!({
                "last_id": "5-1",
                "entries": [{"id": "5-1", "fields": [["f", "v"], ["f", "w"]]}],
                "groups": {"g": group},
            }),
        );
    }

    #[test]
    fn a_payload_that_cannot_be_read_or_is_huge_has_no_json() {
        assert_eq!(decode(b"nonsense"), None);
        let mut state = 1u32;
        let mut noise = || {
            state = state.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
            (state >> 24) as u8
        };
        let huge: Vec<u8> = (0..PAYLOAD_BYTES_MAX).map(|_| noise()).collect();
        let even = vec![b'a'; JSON_BYTES_MAX];
        for value in [huge, even] {
            let payload = rdb::dump_value(ValueRef::Str(StrRef::Bytes(&value)));
            assert!(decode(&payload).is_none());
        }
    }
}
