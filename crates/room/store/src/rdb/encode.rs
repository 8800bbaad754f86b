//! Values to bytes.

use super::wire::{put_int, put_length, put_string};
use super::{Order, hash_expiry, kind, stream};
use crate::hash::Hash;
use crate::list::{List, NodeRef};
use crate::listpack::ItemBuf;
use crate::set::Set;
use crate::value::{StrRef, ValueRef};
use crate::zset::Zset;

/// Marks of a list node: one large element, or a listpack.
pub(super) const PLAIN: u64 = 1;
pub(super) const PACKED: u64 = 2;

pub(super) fn put_value(out: &mut Vec<u8>, value: ValueRef<'_>, order: Order) {
    match value {
        ValueRef::Str(text) => put_text(out, text),
        ValueRef::List(list) => put_list(out, list),
        ValueRef::Set(set) => put_set(out, set, order),
        ValueRef::Hash(hash) => put_hash(out, hash, order),
        ValueRef::Zset(zset) => put_zset(out, zset),
        ValueRef::Stream(value) => {
            out.push(kind::STREAM);
            stream::put_stream(out, value);
        }
    }
}

fn put_text(out: &mut Vec<u8>, text: StrRef<'_>) {
    out.push(kind::STRING);
    match text {
        StrRef::Int(number) => put_int(out, number),
        StrRef::Bytes(bytes) => put_string(out, bytes),
    }
}

fn put_list(out: &mut Vec<u8>, list: &List) {
    out.push(kind::LIST_OF_LISTPACKS);
    let nodes = list.nodes();
    put_length(out, nodes.len() as u64);
    for node in nodes {
        let (mark, bytes) = match node {
            NodeRef::Plain(bytes) => (PLAIN, bytes),
            NodeRef::Packed(pack) => (PACKED, pack.as_bytes()),
        };
        put_length(out, mark);
        put_string(out, bytes);
    }
}

fn put_set(out: &mut Vec<u8>, set: &Set, order: Order) {
    if let Some(intset) = set.as_intset() {
        out.push(kind::SET_INTSET);
        return put_string(out, intset.as_bytes());
    }
    out.push(kind::SET);
    put_length(out, set.len() as u64);
    if order == Order::Sorted {
        let mut members: Vec<Vec<u8>> = set.iter().map(|member| member.to_vec()).collect();
        members.sort_unstable();
        return members.iter().for_each(|member| put_string(out, member));
    }
    let mut buf = ItemBuf::new();
    for member in set.iter() {
        put_string(out, member.as_bytes(&mut buf));
    }
}

fn put_hash(out: &mut Vec<u8>, hash: &Hash, order: Order) {
    if hash.has_expiries() {
        return hash_expiry::put_hash(out, hash, order);
    }
    if let Some(pack) = hash.as_listpack() {
        out.push(kind::HASH_LISTPACK);
        return put_string(out, pack.as_bytes());
    }
    out.push(kind::HASH);
    put_length(out, hash.len() as u64);
    if order == Order::Sorted {
        let fields = hash.iter().map(|(field, value)| (field.to_vec(), value.to_vec()));
        let mut fields: Vec<(Vec<u8>, Vec<u8>)> = fields.collect();
        fields.sort_unstable();
        for (field, value) in fields {
            put_string(out, &field);
            put_string(out, &value);
        }
        return;
    }
    let mut buf = ItemBuf::new();
    for (field, value) in hash.iter() {
        put_string(out, field.as_bytes(&mut buf));
        put_string(out, value.as_bytes(&mut buf));
    }
}

/// A large sorted set goes from the highest score down, which is the quickest
/// order for Redis to read.
fn put_zset(out: &mut Vec<u8>, zset: &Zset) {
    if let Some(pack) = zset.as_listpack() {
        out.push(kind::ZSET_LISTPACK);
        return put_string(out, pack.as_bytes());
    }
    out.push(kind::ZSET);
    put_length(out, zset.len() as u64);
    let mut buf = ItemBuf::new();
    for entry in zset.range(0..zset.len(), true) {
        put_string(out, entry.member.as_bytes(&mut buf));
        out.extend_from_slice(&entry.score.to_le_bytes());
    }
}
