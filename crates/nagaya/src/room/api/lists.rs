//! Tags and keys as they are listed.

use nagaya_keyspace::residency::{KeyFigures, TagFigures};
use nagaya_redis_client::{Frame, reply};
use nagaya_tiering::cold::Row;
use serde_json::{Map, Value, json};

use super::bytes;

/// A tag, from any source.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct ListedTag {
    pub(super) tag: Vec<u8>,
    pub(super) keys: u64,
    pub(super) bytes: u64,
    pub(super) idle_seconds: Option<u64>,
    pub(super) place: String,
    pub(super) is_dirty: bool,
}

impl ListedTag {
    pub(super) fn to_json(&self) -> Map<String, Value> {
        let mut object = Map::new();
        bytes::put(&mut object, "tag", &self.tag);
        object.insert("keys".to_owned(), json!(self.keys));
        object.insert("bytes".to_owned(), json!(self.bytes));
        object.insert("idle_seconds".to_owned(), json!(self.idle_seconds));
        object.insert("place".to_owned(), json!(self.place));
        object.insert("dirty".to_owned(), json!(self.is_dirty));
        object
    }

    /// Reads one of the maps that ROOM.TAGS replies.
    fn from_reply(map: &Frame) -> Option<ListedTag> {
        let mut tag = ListedTag::default();
        for (name, value) in reply::pairs(map) {
            match reply::bytes(name)? {
                b"tag" => tag.tag = reply::bytes(value)?.to_vec(),
                b"keys" => tag.keys = reply::unsigned(value)?,
                b"bytes" => tag.bytes = reply::unsigned(value)?,
                b"idle" => tag.idle_seconds = reply::unsigned(value),
                b"place" => tag.place = reply::text(value)?,
                b"dirty" => tag.is_dirty = matches!(value, Frame::Bool(true)) || reply::int(value) == Some(1),
                _ => (),
            }
        }
        Some(tag)
    }
}

impl From<TagFigures> for ListedTag {
    fn from(stats: TagFigures) -> ListedTag {
        ListedTag {
            tag: stats.tag,
            keys: stats.keys,
            bytes: stats.bytes,
            idle_seconds: stats.idle_s,
            place: stats.place.name().to_owned(),
            is_dirty: stats.is_dirty,
        }
    }
}

/// Reads what ROOM.TAGS replies: a cursor and maps, or maps alone.
pub(super) fn parse_tags(frame: &Frame) -> Option<(Option<Vec<u8>>, Vec<ListedTag>)> {
    let (cursor, maps) = match reply::items(frame) {
        [cursor, maps @ Frame::Array(_)] if reply::is_nil(cursor) || reply::bytes(cursor).is_some() => {
            (reply::bytes(cursor).map(<[u8]>::to_vec), reply::items(maps))
        }
        maps => (None, maps),
    };
    let tags = maps.iter().map(ListedTag::from_reply);
    Some((cursor, tags.collect::<Option<_>>()?))
}

/// A key in the list of a tag's keys.
pub(super) fn key_json(key: &[u8], kind: &str, bytes: Option<u64>, expires_ms: Option<i64>) -> Value {
    let mut object = Map::new();
    bytes::put(&mut object, "key", key);
    object.insert("type".to_owned(), json!(kind));
    object.insert("bytes".to_owned(), json!(bytes));
    object.insert("expires_ms".to_owned(), json!(expires_ms));
    Value::from(object)
}

pub(super) fn key_in_memory(key: &KeyFigures) -> Value {
    key_json(&key.key, key.kind, Some(key.bytes), key.expires_at_ms)
}

pub(super) fn key_at_rest(row: &Row) -> Value {
    let bytes = (row.key.len() + row.value.payload.len()) as u64;
    key_json(
        &row.key,
        row.value.kind.name(),
        Some(bytes),
        row.value.expires_at_ms,
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    fn bulk(text: &str) -> Frame {
        Frame::Bulk(text.as_bytes().to_vec())
    }

    fn map() -> Frame {
        Frame::Array(vec![
            bulk("tag"),
            bulk("u"),
            bulk("keys"),
            Frame::Int(2),
            bulk("bytes"),
            Frame::Int(70),
            bulk("idle"),
            Frame::Nil,
            bulk("place"),
            bulk("both"),
            bulk("dirty"),
            Frame::Int(1),
        ])
    }

    #[test]
    fn tags_are_read_with_a_cursor_and_without() {
        let maps = || Frame::Array(vec![map(), map()]);
        let (cursor, tags) = parse_tags(&Frame::Array(vec![bulk("next"), maps()])).unwrap();
        assert_eq!((cursor.as_deref(), tags.len()), (Some(&b"next"[..]), 2));
        let (cursor, tags) = parse_tags(&Frame::Array(vec![Frame::Nil, maps()])).unwrap();
        assert_eq!((cursor, tags.len()), (None, 2));
        let (cursor, tags) = parse_tags(&maps()).unwrap();
        assert_eq!((cursor, tags.len()), (None, 2));
        let shown = Value::from(tags[0].to_json());
        let expected =
            json!({"tag": "u", "keys": 2, "bytes": 70, "idle_seconds": null, "place": "both", "dirty": true});
        assert_eq!(shown, expected);
        assert!(parse_tags(&Frame::Array(vec![])).unwrap().1.is_empty());
    }
}
