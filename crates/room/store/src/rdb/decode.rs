//! Bytes to values, from every type byte that Redis 7.0 reads, and those for hashes of 7.4.

use super::encode::{PACKED, PLAIN};
use super::legacy::{Element, read_ziplist, read_zipmap};
use super::wire::Reader;
use super::{RestoreError, hash_expiry, kind, stream};
use crate::hash::Hash;
use crate::intset::Intset;
use crate::limits::EncodingLimits;
use crate::list::{List, OwnedNode};
use crate::listpack::Listpack;
use crate::set::Set;
use crate::value::Value;
use crate::zset::{AddFlags, AddOutcome, Zset};

pub(super) fn read_value(from: &mut Reader<'_>, limits: &EncodingLimits) -> Result<Value, RestoreError> {
    let type_byte = from.byte()?;
    match type_byte {
        kind::STRING => Ok(Value::string(&from.string()?)),
        kind::LIST | kind::LIST_ZIPLIST | kind::LIST_OF_ZIPLISTS | kind::LIST_OF_LISTPACKS => {
            let list = read_list(from, type_byte, limits)?;
            filled(list.len(), || Value::List(Box::new(list)))
        }
        kind::SET | kind::SET_INTSET | kind::SET_LISTPACK => {
            let set = read_set(from, type_byte, limits)?;
            filled(set.len(), || Value::Set(Box::new(set)))
        }
        kind::HASH | kind::HASH_ZIPMAP | kind::HASH_ZIPLIST | kind::HASH_LISTPACK => {
            let hash = read_hash(from, type_byte, limits)?;
            filled(hash.len(), || Value::Hash(Box::new(hash)))
        }
        kind::HASH_EXPIRING | kind::HASH_LISTPACK_EXPIRING => {
            let hash = hash_expiry::read_hash(from, type_byte, limits)?;
            filled(hash.len(), || Value::Hash(Box::new(hash)))
        }
        kind::ZSET | kind::ZSET_TEXT_SCORES | kind::ZSET_ZIPLIST | kind::ZSET_LISTPACK => {
            let zset = read_zset(from, type_byte, limits)?;
            filled(zset.len(), || Value::Zset(Box::new(zset)))
        }
        kind::STREAM_5 => Ok(Value::Stream(Box::new(stream::read_stream(
            from,
            stream::Layout::Redis5,
        )?))),
        kind::STREAM => Ok(Value::Stream(Box::new(stream::read_stream(
            from,
            stream::Layout::Redis7,
        )?))),
        kind::STREAM_7_2 => Ok(Value::Stream(Box::new(stream::read_stream(
            from,
            stream::Layout::Redis72,
        )?))),
        _ => Err(RestoreError::BadData),
    }
}

/// Refuses empty collections, which no key may hold.
fn filled(len: usize, wrap: impl FnOnce() -> Value) -> Result<Value, RestoreError> {
    if len == 0 {
        Err(RestoreError::BadData)
    } else {
        Ok(wrap())
    }
}

pub(super) fn refuse_unless(sound: bool) -> Result<(), RestoreError> {
    if sound { Ok(()) } else { Err(RestoreError::BadData) }
}

pub(super) fn read_listpack(from: &mut Reader<'_>) -> Result<Listpack, RestoreError> {
    Listpack::from_bytes(from.string()?.into_owned()).ok_or(RestoreError::BadData)
}

fn listpack_of(elements: &[Element<'_>]) -> Listpack {
    let mut pack = Listpack::new();
    for element in elements {
        match element {
            Element::Int(number) => pack.push_back_int(*number),
            Element::Text(text) => pack.push_back(text),
        }
    }
    pack.shrink_to_fit();
    pack
}

fn read_ziplist_pack(from: &mut Reader<'_>) -> Result<Listpack, RestoreError> {
    Ok(listpack_of(&read_ziplist(&from.string()?)?))
}

fn read_list(from: &mut Reader<'_>, type_byte: u8, limits: &EncodingLimits) -> Result<List, RestoreError> {
    let mut list = List::new();
    match type_byte {
        kind::LIST => {
            for _ in 0..from.count()? {
                list.push_back(&from.string()?, limits);
            }
        }
        kind::LIST_ZIPLIST => {
            for element in read_ziplist(&from.string()?)? {
                list.push_back(&element.to_vec(), limits);
            }
        }
        _ => {
            let mut nodes = Vec::new();
            for _ in 0..from.count()? {
                nodes.push(read_list_node(from, type_byte)?);
            }
            list = List::from_nodes(nodes);
        }
    }
    Ok(list)
}

fn read_list_node(from: &mut Reader<'_>, type_byte: u8) -> Result<OwnedNode, RestoreError> {
    if type_byte == kind::LIST_OF_ZIPLISTS {
        return read_ziplist_pack(from).map(OwnedNode::Packed);
    }
    match from.length()? {
        PACKED => read_listpack(from).map(OwnedNode::Packed),
        PLAIN => {
            let bytes = from.string()?;
            refuse_unless(!bytes.is_empty())?;
            Ok(OwnedNode::Plain(bytes.into_owned()))
        }
        _ => Err(RestoreError::BadData),
    }
}

fn read_set(from: &mut Reader<'_>, type_byte: u8, limits: &EncodingLimits) -> Result<Set, RestoreError> {
    let mut set = Set::new();
    match type_byte {
        kind::SET_INTSET => {
            let intset = Intset::from_bytes(from.string()?.into_owned()).ok_or(RestoreError::BadData)?;
            set = Set::from_intset(intset, limits);
        }
        kind::SET_LISTPACK => {
            for member in read_listpack(from)?.iter() {
                refuse_unless(set.add_item(member, limits))?;
            }
        }
        _ => {
            for _ in 0..from.count()? {
                refuse_unless(set.add(&from.string()?, limits))?;
            }
        }
    }
    Ok(set)
}

fn read_hash(from: &mut Reader<'_>, type_byte: u8, limits: &EncodingLimits) -> Result<Hash, RestoreError> {
    let pack = match type_byte {
        kind::HASH_LISTPACK => read_listpack(from)?,
        kind::HASH_ZIPLIST => read_ziplist_pack(from)?,
        kind::HASH_ZIPMAP => {
            let bytes = from.string()?;
            let mut pack = Listpack::new();
            for (field, value) in read_zipmap(&bytes)? {
                pack.push_back(field);
                pack.push_back(value);
            }
            pack.shrink_to_fit();
            pack
        }
        _ => {
            let mut hash = Hash::new();
            for _ in 0..from.count()? {
                let field = from.string()?;
                refuse_unless(hash.set(&field, &from.string()?, limits))?;
            }
            return Ok(hash);
        }
    };
    Hash::from_listpack(pack, limits).ok_or(RestoreError::BadData)
}

fn read_zset(from: &mut Reader<'_>, type_byte: u8, limits: &EncodingLimits) -> Result<Zset, RestoreError> {
    let pack = match type_byte {
        kind::ZSET_LISTPACK => read_listpack(from)?,
        kind::ZSET_ZIPLIST => read_ziplist_pack(from)?,
        _ => {
            let mut zset = Zset::new();
            for _ in 0..from.count()? {
                let member = from.string()?;
                let score = if type_byte == kind::ZSET {
                    from.binary_score()?
                } else {
                    from.text_score()?
                };
                let outcome = zset.add(score, &member, AddFlags::default(), limits);
                refuse_unless(matches!(outcome, AddOutcome::Added(_)))?;
            }
            return Ok(zset);
        }
    };
    Zset::from_listpack(pack, limits).ok_or(RestoreError::BadData)
}
