//! Files as redis-server writes and reads them, and files that are damaged.

#![allow(
    clippy::unwrap_used,
    reason = "helpers of tests fail the test that calls them"
)]

mod by_hand;
mod damage;
mod old_encodings;
mod real_files;

use std::collections::BTreeMap;

use nagaya_rdb::{Error, Extent, Item, Key, Limits, Reader, payload};
use nagaya_store::limits::EncodingLimits;
use nagaya_store::rdb::{dump_sorted, restore};
use nagaya_store::value::{StrRef, Value, ValueRef};

/// All that a file holds.
#[derive(Debug, Default)]
struct Content {
    keys: BTreeMap<(u32, Vec<u8>), (Key, Vec<u8>)>,
    functions: Vec<Vec<u8>>,
    aux: BTreeMap<String, String>,
    modules: Vec<String>,
}

fn read(bytes: &[u8]) -> Result<Content, Error> {
    read_within(bytes, Limits::default())
}

/// Reads a whole file; values in parts are refused by the tests that do not expect them.
fn read_within(bytes: &[u8], limits: Limits) -> Result<Content, Error> {
    let mut reader = Reader::new(bytes, limits)?;
    let mut content = Content::default();
    while let Some(item) = reader.next()? {
        match item {
            Item::Aux { name, value } => {
                let text = |bytes: Vec<u8>| String::from_utf8_lossy(&bytes).into_owned();
                content.aux.insert(text(name), text(value));
            }
            Item::Function { code } => content.functions.push(code),
            Item::ModuleData { module } => content.modules.push(module),
            Item::Sizes { .. } => (),
            Item::Key(key) => {
                let mut value = Vec::new();
                assert_eq!(reader.value(&mut value)?, Extent::Whole);
                content.keys.insert((key.db, key.name.clone()), (key, value));
            }
        }
    }
    reader.expect_end()?;
    Ok(content)
}

fn sealed(body: &[u8]) -> Vec<u8> {
    let mut payload = body.to_vec();
    payload::seal(&mut payload, payload::version_of(body[0]));
    payload
}

/// The payload of a value whose members are in order, whatever encoding it came in.
#[track_caller]
fn in_order(body: &[u8]) -> Vec<u8> {
    let value = restore(&sealed(body), &EncodingLimits::default()).unwrap();
    dump_sorted(match &value {
        Value::Int(number) => ValueRef::Str(StrRef::Int(*number)),
        Value::Str(bytes) => ValueRef::Str(StrRef::Bytes(bytes)),
        Value::List(list) => ValueRef::List(list),
        Value::Set(set) => ValueRef::Set(set),
        Value::Hash(hash) => ValueRef::Hash(hash),
        Value::Zset(zset) => ValueRef::Zset(zset),
        Value::Stream(stream) => ValueRef::Stream(stream),
    })
}
