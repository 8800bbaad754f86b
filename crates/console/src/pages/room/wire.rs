//! What `/v1/room` and its tags say, as far as the pages show it.

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use serde::Deserialize;

use crate::form::encode_bytes;

/// The answer of `GET /v1/room`.
#[derive(Debug, Default, Deserialize)]
#[serde(default)]
pub(super) struct Room {
    pub(super) mode: String,
    pub(super) memory_bytes: Option<u64>,
    pub(super) memory_limit_bytes: Option<u64>,
    pub(super) keys: Option<u64>,
    pub(super) tags_hot: Option<u64>,
    pub(super) tags_cold: Option<u64>,
    pub(super) clients: Option<u64>,
    pub(super) commands_per_second: Option<f64>,
    pub(super) hit_ratio: Option<f64>,
    pub(super) loads_per_second: Option<f64>,
    pub(super) staleness_seconds: Option<f64>,
    pub(super) evictions_per_second: Option<f64>,
    pub(super) saved_per_second: Option<f64>,
    pub(super) disk_bytes: Option<u64>,
    pub(super) persist: bool,
}

/// A list of tags, and where the next page of it begins.
#[derive(Debug, Deserialize)]
pub(super) struct Tags {
    pub(super) tags: Vec<Tag>,
    pub(super) cursor: Option<String>,
}

#[derive(Debug, Deserialize)]
pub(super) struct Tag {
    /// Made readable where it is no UTF-8; then the bytes are beside it.
    pub(super) tag: String,
    pub(super) tag_base64: Option<String>,
    pub(super) keys: Option<u64>,
    pub(super) bytes: Option<u64>,
    pub(super) idle_seconds: Option<f64>,
    pub(super) place: Place,
    #[serde(default)]
    pub(super) dirty: bool,
}

impl Tag {
    /// Where its page is. The bytes are what counts, not how they are shown.
    pub(super) fn page(&self) -> String {
        let bytes = self
            .tag_base64
            .as_ref()
            .and_then(|text| STANDARD.decode(text).ok());
        let bytes = bytes.unwrap_or_else(|| self.tag.clone().into_bytes());
        format!("/room/tags/{}", encode_bytes(&bytes))
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(super) enum Place {
    Memory,
    Disk,
    Both,
}

/// The answer of `GET /v1/room/tags/TAG`.
#[derive(Debug, Deserialize)]
pub(super) struct WholeTag {
    #[serde(flatten)]
    pub(super) tag: Tag,
    pub(super) saved_ms: Option<i64>,
    /// The first of its keys.
    #[serde(default)]
    pub(super) keys_listed: Vec<Key>,
    #[serde(default)]
    pub(super) keys_total: u64,
}

#[derive(Debug, Deserialize)]
pub(super) struct Key {
    pub(super) key: String,
    #[serde(rename = "type")]
    pub(super) kind: String,
    pub(super) bytes: Option<u64>,
    pub(super) expires_ms: Option<i64>,
}
