//! Dump payloads: a value as bytes that DUMP gives and RESTORE takes.
//!
//! A payload is a type byte, the value in the snapshot format of Redis 7.0, two
//! bytes of format version and eight bytes of checksum. A hash with fields that
//! expire is written as Redis 7.4 does, which older servers do not read. Small
//! collections are copied as they lie in memory. Reading trusts nothing: any bytes give a sound
//! value or a refusal, and no allocation is larger than what is really there.

mod crc64;
mod decode;
mod encode;
mod functions;
mod hash_expiry;
mod legacy;
mod lzf;
mod stream;
mod wire;

use crate::limits::EncodingLimits;
use crate::value::{Value, ValueRef};
use wire::Reader;

pub use crc64::crc64;
pub use functions::{FunctionError, dump_functions, functions};
pub use lzf::decompress as unpack_lzf;

/// Format version we write: Redis 7.0's.
const VERSION: u16 = 10;
/// Format version of a hash with fields that expire: Redis 7.4's.
const VERSION_FIELD_EXPIRY: u16 = 12;
/// Newest format version we read: Redis 7.4's and 8.0's. 7.2 added two types, 7.4 those for fields that expire.
const VERSION_READ_MAX: u16 = 12;

/// The type bytes of values.
mod kind {
    pub(super) const STRING: u8 = 0;
    pub(super) const LIST: u8 = 1;
    pub(super) const SET: u8 = 2;
    pub(super) const ZSET_TEXT_SCORES: u8 = 3;
    pub(super) const HASH: u8 = 4;
    pub(super) const ZSET: u8 = 5;
    pub(super) const HASH_ZIPMAP: u8 = 9;
    pub(super) const LIST_ZIPLIST: u8 = 10;
    pub(super) const SET_INTSET: u8 = 11;
    pub(super) const ZSET_ZIPLIST: u8 = 12;
    pub(super) const HASH_ZIPLIST: u8 = 13;
    pub(super) const LIST_OF_ZIPLISTS: u8 = 14;
    /// Without first id, deleted id and counts read.
    pub(super) const STREAM_5: u8 = 15;
    pub(super) const HASH_LISTPACK: u8 = 16;
    pub(super) const ZSET_LISTPACK: u8 = 17;
    pub(super) const LIST_OF_LISTPACKS: u8 = 18;
    pub(super) const STREAM: u8 = 19;
    pub(super) const SET_LISTPACK: u8 = 20;
    /// Consumers also have the time of their last success.
    pub(super) const STREAM_7_2: u8 = 21;
    /// Each field with its expiry before it.
    pub(super) const HASH_EXPIRING: u8 = 24;
    /// Fields, values and expiries in a listpack.
    pub(super) const HASH_LISTPACK_EXPIRING: u8 = 25;
}

/// Why a payload was refused.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RestoreError {
    /// The footer is missing, of a newer format, or of other bytes.
    VersionOrChecksum,
    /// The value itself cannot be read.
    BadData,
}

/// Returns the payload of a value, byte for byte as Redis 7.0 would write it, or 7.4 what 7.0 does not know.
/// Large sets and hashes come in the order of their tables, since Redis's is random too.
pub fn dump_value(value: ValueRef<'_>) -> Vec<u8> {
    dump(value, Order::AsItComes)
}

/// Returns the payload of a value with the elements of large sets and hashes sorted: equal values of the same
/// form have equal payloads, whatever they went through. Takes longer than [`dump_value`].
pub fn dump_sorted(value: ValueRef<'_>) -> Vec<u8> {
    dump(value, Order::Sorted)
}

/// The order in which the elements of a large set or hash are written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Order {
    AsItComes,
    Sorted,
}

fn dump(value: ValueRef<'_>, order: Order) -> Vec<u8> {
    let mut out = Vec::new();
    encode::put_value(&mut out, value, order);
    let version = match out.first() {
        Some(&(kind::HASH_EXPIRING | kind::HASH_LISTPACK_EXPIRING)) => VERSION_FIELD_EXPIRY,
        _ => VERSION,
    };
    put_footer(&mut out, version);
    out
}

fn put_footer(out: &mut Vec<u8>, version: u16) {
    out.extend_from_slice(&version.to_le_bytes());
    let checksum = crc64::crc64(0, out);
    out.extend_from_slice(&checksum.to_le_bytes());
}

/// Reads a payload. Collections over the limits come in their large form.
pub fn restore(payload: &[u8], limits: &EncodingLimits) -> Result<Value, RestoreError> {
    let body = check_footer(payload).ok_or(RestoreError::VersionOrChecksum)?;
    decode::read_value(&mut Reader::new(body), limits)
}

/// Reads a payload that we wrote ourselves: the value comes back in the form it had, small or large, whatever
/// its size and the limits say.
pub fn restore_as_it_was(payload: &[u8]) -> Result<Value, RestoreError> {
    let large = matches!(
        payload.first(),
        Some(&(kind::SET | kind::HASH | kind::ZSET | kind::HASH_EXPIRING))
    );
    let bound = if large { 0 } else { usize::MAX };
    let limits = EncodingLimits {
        hash_max_listpack_entries: bound,
        hash_max_listpack_value: bound,
        set_max_intset_entries: bound,
        zset_max_listpack_entries: bound,
        zset_max_listpack_value: bound,
        ..EncodingLimits::default()
    };
    restore(payload, &limits)
}

fn check_footer(payload: &[u8]) -> Option<&[u8]> {
    let (signed, checksum) = payload.split_last_chunk::<8>()?;
    let (body, version) = signed.split_last_chunk::<2>()?;
    let known = u16::from_le_bytes(*version) <= VERSION_READ_MAX;
    (known && crc64::crc64(0, signed) == u64::from_le_bytes(*checksum)).then_some(body)
}

#[cfg(test)]
mod tests;
