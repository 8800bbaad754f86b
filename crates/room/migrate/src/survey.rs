//! What a file holds, without touching any server.

use std::collections::{BTreeMap, HashSet};
use std::io::Read;

use nagaya_rdb::{Checksum, Item, Key, Limits, Reader, payload};
use nagaya_tiering::tag::tag_of;
use serde::Serialize;

use crate::key_set::fingerprint;
use crate::{Progress, Selection, shown};

/// Largest values that are named.
const BIGGEST: usize = 10;
/// Tags that are told apart; beyond, their number is a lower bound.
const TAGS_MAX: usize = 10_000_000;

/// What was found in a file.
#[derive(Debug, Default, Serialize)]
pub struct Survey {
    /// The version in the header.
    pub version: u16,
    pub bytes: u64,
    /// Keys to import: selected, not expired, of types that can be.
    pub keys: u64,
    /// Of these, keys that will expire.
    pub expiring: u64,
    /// Keys past their time.
    pub expired: u64,
    /// Keys that the selection leaves out.
    pub left_out: u64,
    /// Collections without elements, which an old defect of Redis wrote; no server keeps them.
    pub empty: u64,
    pub functions: u64,
    pub types: BTreeMap<&'static str, OfType>,
    /// Keys by database, whatever the selection says.
    pub databases: BTreeMap<u32, u64>,
    /// Keys whose value belongs to a module, by module: they cannot be imported.
    pub modules: BTreeMap<String, u64>,
    /// Hashes that have room for field expiries.
    pub hashes_with_field_expiries: u64,
    /// Different tags, and whether there may be more than were counted.
    pub tags: u64,
    pub more_tags: bool,
    /// Keys without a tag in braces: each is a tag of its own.
    pub keys_without_tag: u64,
    pub biggest: Vec<Big>,
    pub checksum: &'static str,
    /// What is wrong with the file and where; everything above is then what comes before.
    pub damage: Option<String>,
    pub damaged_at: Option<u64>,
    #[serde(skip)]
    tag_set: HashSet<u64>,
}

/// Keys of one type.
#[derive(Debug, Default, Serialize)]
pub struct OfType {
    pub keys: u64,
    /// As they stand in the file.
    pub bytes: u64,
}

/// A large value.
#[derive(Debug, PartialEq, Eq, Serialize)]
pub struct Big {
    pub bytes: u64,
    pub key: String,
    #[serde(rename = "type")]
    pub kind: &'static str,
    pub elements: Option<u64>,
}

/// Reads a whole file up to its checksum, or up to where it is damaged. `now_ms` decides what is expired.
pub fn survey(file: impl Read, selection: &Selection, now_ms: i64, progress: &Progress) -> Survey {
    let mut survey = Survey {
        checksum: "not reached",
        ..Survey::default()
    };
    if let Err(error) = survey.read(file, selection, now_ms, progress) {
        survey.damaged_at = Some(error.offset());
        survey.damage = Some(crate::Error::File(error).chain());
    }
    survey.tags = survey.tag_set.len() as u64;
    survey.tag_set = HashSet::new();
    survey
}

impl Survey {
    fn read(
        &mut self,
        file: impl Read,
        selection: &Selection,
        now_ms: i64,
        progress: &Progress,
    ) -> Result<(), nagaya_rdb::Error> {
        let mut reader = Reader::new(file, Limits::default())?;
        self.version = reader.version();
        while let Some(item) = reader.next()? {
            match item {
                Item::Function { .. } => self.functions += 1,
                Item::Key(key) => {
                    reader.pass_value()?;
                    let bytes = reader.offset() - key.offset;
                    self.key(&key, bytes, selection, now_ms);
                    progress.add_keys(1);
                }
                Item::Aux { .. } | Item::Sizes { .. } | Item::ModuleData { .. } => (),
            }
            progress.set_bytes(reader.offset());
            self.bytes = reader.offset();
        }
        reader.expect_end()?;
        self.bytes = reader.offset();
        self.checksum = match reader.checksum() {
            Some(Checksum::Verified) => "verified",
            Some(Checksum::Absent) | None => "absent",
        };
        Ok(())
    }

    fn key(&mut self, key: &Key, bytes: u64, selection: &Selection, now_ms: i64) {
        *self.databases.entry(key.db).or_default() += 1;
        if !selection.has_db(key.db) || !selection.has_name(&key.name) {
            self.left_out += 1;
        } else if key.expires_at_ms.is_some_and(|at_ms| at_ms <= now_ms) {
            self.expired += 1;
        } else if let Some(module) = &key.module {
            *self.modules.entry(module.clone()).or_default() += 1;
        } else if key.elements == Some(0) {
            self.empty += 1;
        } else {
            self.importable(key, bytes);
        }
    }

    fn importable(&mut self, key: &Key, bytes: u64) {
        self.keys += 1;
        self.expiring += u64::from(key.expires_at_ms.is_some());
        self.hashes_with_field_expiries += u64::from(payload::has_field_expiries(key.kind));
        let kind = payload::type_name(key.kind);
        let of_type = self.types.entry(kind).or_default();
        of_type.keys += 1;
        of_type.bytes += bytes;
        let tag = tag_of(&key.name);
        self.keys_without_tag += u64::from(tag.len() == key.name.len());
        if self.tag_set.len() < TAGS_MAX {
            self.tag_set.insert(fingerprint(&[tag]) as u64);
        } else {
            self.more_tags = true;
        }
        if self.biggest.len() < BIGGEST || self.biggest.last().is_some_and(|last| bytes > last.bytes) {
            let at = self.biggest.partition_point(|big| big.bytes >= bytes);
            let key_shown = shown(&key.name);
            let elements = key.elements;
            self.biggest.insert(
                at,
                Big {
                    bytes,
                    key: key_shown,
                    kind,
                    elements,
                },
            );
            self.biggest.truncate(BIGGEST);
        }
    }
}
