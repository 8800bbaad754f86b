//! Hashes with fields that expire, in the two forms of Redis 7.4.
//!
//! Both begin with the earliest expiry, eight bytes of Unix milliseconds. The
//! large form then has, for each field, its expiry counted from that one plus
//! one (0 for a field that has none), its name and its value. The small form is
//! a listpack of names, values and expiries (0 for none), the earliest first.

use super::decode::{read_listpack, refuse_unless};
use super::wire::{Reader, put_length, put_string};
use super::{Order, RestoreError, kind};
use crate::hash::{EXPIRY_MS_MAX, Hash};
use crate::limits::EncodingLimits;
use crate::listpack::{ItemBuf, Listpack};

pub(super) fn put_hash(out: &mut Vec<u8>, hash: &Hash, order: Order) {
    let soonest = hash.soonest().unwrap_or(0);
    let is_small = hash.as_listpack().is_some();
    out.push(if is_small {
        kind::HASH_LISTPACK_EXPIRING
    } else {
        kind::HASH_EXPIRING
    });
    out.extend_from_slice(&soonest.to_le_bytes());
    if is_small {
        return put_string(out, triples(hash).as_bytes());
    }
    put_length(out, hash.len() as u64);
    let mut put = |field: &[u8], value: &[u8]| {
        let after = hash.expiry(field).map_or(0, |at_ms| at_ms - soonest + 1);
        put_length(out, after as u64);
        put_string(out, field);
        put_string(out, value);
    };
    if order == Order::Sorted {
        let fields = hash.iter().map(|(field, value)| (field.to_vec(), value.to_vec()));
        let mut fields: Vec<(Vec<u8>, Vec<u8>)> = fields.collect();
        fields.sort_unstable();
        return fields.iter().for_each(|(field, value)| put(field, value));
    }
    let (mut field_buf, mut value_buf) = (ItemBuf::new(), ItemBuf::new());
    for (field, value) in hash.iter() {
        put(field.as_bytes(&mut field_buf), value.as_bytes(&mut value_buf));
    }
}

/// Fields of the same expiry, and those without any, keep the order of their arrival.
fn triples(hash: &Hash) -> Listpack {
    let mut fields: Vec<(i64, Vec<u8>, Vec<u8>)> = hash
        .iter()
        .map(|(field, value)| {
            let field = field.to_vec();
            let at_ms = hash.expiry(&field).unwrap_or(i64::MAX);
            (at_ms, field, value.to_vec())
        })
        .collect();
    fields.sort_by_key(|(at_ms, ..)| *at_ms);
    let mut pack = Listpack::new();
    for (at_ms, field, value) in fields {
        pack.push_back(&field);
        pack.push_back(&value);
        pack.push_back_int(if at_ms == i64::MAX { 0 } else { at_ms });
    }
    pack
}

pub(super) fn read_hash(
    from: &mut Reader<'_>,
    type_byte: u8,
    limits: &EncodingLimits,
) -> Result<Hash, RestoreError> {
    let soonest = i64::from_le_bytes(from.array()?);
    refuse_unless((0..=EXPIRY_MS_MAX).contains(&soonest))?;
    let mut hash = Hash::new();
    if type_byte == kind::HASH_LISTPACK_EXPIRING {
        let pack = read_listpack(from)?;
        refuse_unless(pack.len().is_multiple_of(3))?;
        let mut items = pack.iter();
        while let (Some(field), Some(value), Some(at_ms)) = (items.next(), items.next(), items.next()) {
            let at_ms = at_ms.int().ok_or(RestoreError::BadData)?;
            let (field, value) = (field.to_vec(), value.to_vec());
            add(&mut hash, &field, &value, at_ms, limits)?;
        }
        return Ok(hash);
    }
    for _ in 0..from.count()? {
        let after = i64::try_from(from.length()?).map_err(|_| RestoreError::BadData)?;
        let at_ms = if after == 0 {
            0
        } else {
            soonest.checked_add(after - 1).ok_or(RestoreError::BadData)?
        };
        let field = from.string()?;
        add(&mut hash, &field, &from.string()?, at_ms, limits)?;
    }
    Ok(hash)
}

/// Adds a field that must be new; an expiry of 0 means none.
fn add(
    hash: &mut Hash,
    field: &[u8],
    value: &[u8],
    at_ms: i64,
    limits: &EncodingLimits,
) -> Result<(), RestoreError> {
    refuse_unless((0..=EXPIRY_MS_MAX).contains(&at_ms))?;
    refuse_unless(hash.set(field, value, limits))?;
    if at_ms > 0 {
        hash.set_expiry(field, Some(at_ms));
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::super::{dump_sorted, dump_value, restore, restore_as_it_was};
    use super::*;
    use crate::value::{Value, ValueRef};

    fn hash_of(fields: usize) -> Hash {
        let mut hash = Hash::new();
        for n in 0..fields {
            let field = format!("f{n}");
            hash.set(field.as_bytes(), b"value", &EncodingLimits::default());
            if n % 3 == 0 {
                hash.set_expiry(field.as_bytes(), Some(1_700_000_000_000 + 7 * n as i64));
            }
        }
        hash
    }

    fn restored(payload: &[u8]) -> Hash {
        match restore(payload, &EncodingLimits::default()) {
            Ok(Value::Hash(hash)) => *hash,
            other => panic!("{other:?}"),
        }
    }

    #[test]
    fn expiries_of_fields_survive_a_dump_in_both_forms() {
        for (fields, type_byte) in [(5, 25), (600, 24)] {
            let hash = hash_of(fields);
            let payload = dump_value(ValueRef::Hash(&hash));
            assert_eq!(payload[0], type_byte);
            let back = restored(&payload);
            assert_eq!((back.len(), back.soonest()), (fields, hash.soonest()));
            for (field, value) in hash.iter() {
                let field = field.to_vec();
                assert_eq!(back.expiry(&field), hash.expiry(&field));
                assert_eq!(back.get(&field).map(|item| item.to_vec()), Some(value.to_vec()));
            }
            let Ok(Value::Hash(same)) = restore_as_it_was(&payload) else {
                panic!("a payload of our own")
            };
            assert_eq!(same.encoding(), hash.encoding());
            assert_eq!(
                dump_sorted(ValueRef::Hash(&same)),
                dump_sorted(ValueRef::Hash(&hash))
            );
        }
    }

    #[test]
    fn a_hash_without_expiries_is_written_as_ever() {
        let mut hash = hash_of(4);
        hash.set_expiry(b"f0", None);
        hash.set_expiry(b"f3", None);
        let payload = dump_value(ValueRef::Hash(&hash));
        assert_eq!((payload[0], payload[payload.len() - 10]), (16, 10));
    }

    #[test]
    fn cut_and_changed_payloads_give_a_hash_or_a_refusal() {
        for fields in [5, 600] {
            let body = {
                let payload = dump_value(ValueRef::Hash(&hash_of(fields)));
                payload[..payload.len() - 10].to_vec()
            };
            for at in 0..body.len().min(400) {
                for flip in [0x01, 0x80, 0xff] {
                    let mut changed = body.clone();
                    changed[at] ^= flip;
                    super::super::decode::read_value(&mut Reader::new(&changed), &EncodingLimits::default())
                        .ok();
                }
                let cut = super::super::decode::read_value(
                    &mut Reader::new(&body[..at]),
                    &EncodingLimits::default(),
                );
                assert!(cut.is_err(), "cut at {at}");
            }
        }
    }
}
