//! One number per value: equal for equal values, whatever encoding and order of members they come in.

use nagaya_rdb::payload;
use nagaya_store::limits::EncodingLimits;
use nagaya_store::listpack::Item;
use nagaya_store::rdb::restore;
use nagaya_store::stream::{Group, Stream, StreamId};
use nagaya_store::value::Value;

use crate::key_set::fingerprint;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Digest(u128);

/// Takes the parts of a value one by one.
#[derive(Default)]
pub(crate) struct Digester {
    kind: &'static str,
    /// Elements without order add up; those with order are chained.
    sum: u128,
}

/// Returns the digest of a payload as DUMP gives it.
pub(crate) fn of_payload(dumped: &[u8]) -> Digest {
    let mut digester = Digester::default();
    digester.feed(payload::without_footer(dumped).to_vec());
    digester.finish()
}

impl Digester {
    /// Takes a value or a part of one: a type byte and what follows, without a footer.
    pub(crate) fn feed(&mut self, mut body: Vec<u8>) {
        let Some(&kind) = body.first() else { return };
        self.kind = payload::type_name(kind);
        let len = body.len();
        payload::seal(&mut body, payload::version_of(kind));
        // What a hash's fields expire at is not in the value that is read, so such hashes are taken as bytes,
        // like everything that cannot be read.
        let value = if payload::has_field_expiries(kind) {
            None
        } else {
            restore(&body, &EncodingLimits::default()).ok()
        };
        match value {
            Some(value) => self.value(&value),
            None => self.chain(&[b"bytes", &body[..len]]),
        }
    }

    pub(crate) fn finish(self) -> Digest {
        Digest(fingerprint(&[self.kind.as_bytes(), &self.sum.to_le_bytes()]))
    }

    fn chain(&mut self, parts: &[&[u8]]) {
        let before = self.sum.to_le_bytes();
        let parts: Vec<&[u8]> = std::iter::once(before.as_slice())
            .chain(parts.iter().copied())
            .collect();
        self.sum = fingerprint(&parts);
    }

    fn add(&mut self, parts: &[&[u8]]) {
        self.sum = self.sum.wrapping_add(fingerprint(parts));
    }

    fn value(&mut self, value: &Value) {
        match value {
            Value::Int(number) => self.chain(&[number.to_string().as_bytes()]),
            Value::Str(bytes) => self.chain(&[bytes]),
            Value::List(list) => list.iter().for_each(|item| self.chain(&[&item.to_vec()])),
            Value::Set(set) => set.iter().for_each(|item| self.add(&[&item.to_vec()])),
            Value::Hash(hash) => hash
                .iter()
                .for_each(|(field, value)| self.add(&[&field.to_vec(), &value.to_vec()])),
            Value::Zset(zset) => zset.iter().for_each(|entry| {
                // Both zeros are one score.
                let score = entry.score + 0.0;
                self.add(&[&entry.member.to_vec(), &score.to_bits().to_le_bytes()]);
            }),
            Value::Stream(stream) => self.stream(stream),
        }
    }

    /// Entries, ids, groups and what is pending; not when a consumer was last seen, which reading alone changes.
    fn stream(&mut self, stream: &Stream) {
        for entry in stream.range(StreamId::MIN, StreamId::MAX) {
            self.chain(&[b"entry", &entry.id.to_bytes()]);
            for (field, value) in entry.fields() {
                let text = |item: Item<'_>| item.to_vec();
                self.chain(&[&text(field), &text(value)]);
            }
        }
        self.chain(&[
            &stream.last_id().to_bytes(),
            &stream.max_deleted_id().to_bytes(),
            &stream.entries_added().to_le_bytes(),
        ]);
        let entries = self.sum;
        let mut groups: u128 = 0;
        for (name, group) in stream.groups() {
            self.sum = 0;
            self.group(name, group);
            groups = groups.wrapping_add(self.sum);
        }
        self.sum = entries;
        self.chain(&[b"groups", &groups.to_le_bytes()]);
    }

    fn group(&mut self, name: &[u8], group: &Group) {
        self.chain(&[name, &group.last_id.to_bytes(), &group.entries_read.to_le_bytes()]);
        for (id, pending) in group.pending_range(..) {
            self.chain(&[
                &id.to_bytes(),
                group.consumer(pending.owner()).name(),
                &pending.delivered_ms.to_le_bytes(),
                &pending.deliveries.to_le_bytes(),
            ]);
        }
        let mut names: Vec<&[u8]> = group.consumers().map(|(_, consumer)| consumer.name()).collect();
        names.sort_unstable();
        self.chain(&names);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn digest(parts: &[&[u8]]) -> Digest {
        let mut digester = Digester::default();
        for part in parts {
            digester.feed(part.to_vec());
        }
        digester.finish()
    }

    #[test]
    fn members_may_come_in_any_order_and_in_parts() {
        let whole = digest(&[b"\x02\x03\x01a\x01b\x01c"]);
        assert_eq!(whole, digest(&[b"\x02\x03\x01c\x01a\x01b"]));
        assert_eq!(whole, digest(&[b"\x02\x02\x01c\x01a", b"\x02\x01\x01b"]));
        assert_ne!(whole, digest(&[b"\x02\x03\x01c\x01a\x01d"]));
        assert_ne!(whole, digest(&[b"\x01\x03\x01a\x01b\x01c"]));
        let hash = digest(&[b"\x04\x02\x01a\x01b\x01c\x01d"]);
        assert_eq!(hash, digest(&[b"\x04\x02\x01c\x01d\x01a\x01b"]));
        assert_ne!(hash, digest(&[b"\x04\x02\x01a\x01d\x01c\x01b"]));
    }

    #[test]
    fn the_order_of_a_list_counts() {
        let list = digest(&[b"\x01\x02\x01a\x01b"]);
        assert_eq!(list, digest(&[b"\x01\x01\x01a", b"\x01\x01\x01b"]));
        assert_ne!(list, digest(&[b"\x01\x02\x01b\x01a"]));
    }

    #[test]
    fn a_number_equals_its_text_and_not_another() {
        assert_eq!(digest(&[b"\x00\xc0\x07"]), digest(&[b"\x00\x017"]));
        assert_ne!(digest(&[b"\x00\xc0\x07"]), digest(&[b"\x00\x0207"]));
    }
}
