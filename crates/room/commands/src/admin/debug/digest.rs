//! DEBUG DIGEST: a checksum of data that does not depend on the order in which it is kept.
//!
//! It is Redis's: ordered things are mixed one after the other, unordered ones
//! are combined by XOR, so that equal data gives equal digests on both sides.

use nagaya_exec::ctx::Ctx;
use nagaya_store::entry::Entry;
use nagaya_store::listpack::{Item, ItemBuf};
use nagaya_store::stream::StreamId;
use nagaya_store::table::Keyed;
use nagaya_store::value::{ValueKind, ValueRef};
use sha1::{Digest as _, Sha1};

use super::Reply;

/// A digest under construction.
#[derive(Clone, Copy, Default)]
struct Digest([u8; 20]);

impl Digest {
    /// Combines with something whose order does not matter.
    fn xor(&mut self, bytes: &[u8]) {
        let hash = Sha1::digest(bytes);
        self.0.iter_mut().zip(hash).for_each(|(own, other)| *own ^= other);
    }

    /// Combines with something whose order matters.
    fn mix(&mut self, bytes: &[u8]) {
        self.xor(bytes);
        self.0 = Sha1::digest(self.0).into();
    }

    fn mix_item(&mut self, item: Item<'_>) {
        self.mix(item.as_bytes(&mut ItemBuf::new()));
    }

    fn hex(&self) -> String {
        self.0.iter().map(|byte| format!("{byte:02x}")).collect()
    }

    /// Takes in a value and whether it expires.
    fn value(&mut self, entry: &Entry) {
        self.mix(&type_number(entry.kind()).to_be_bytes());
        match entry.value() {
            ValueRef::Str(text) => self.mix(text.as_bytes(&mut itoa::Buffer::new())),
            ValueRef::List(list) => list.iter().for_each(|item| self.mix_item(item)),
            ValueRef::Set(set) => set
                .iter()
                .for_each(|item| self.xor(item.as_bytes(&mut ItemBuf::new()))),
            ValueRef::Zset(zset) => {
                for entry in zset.iter() {
                    let mut element = Digest::default();
                    element.mix_item(entry.member);
                    element.mix(seventeen_digits(entry.score).as_bytes());
                    self.xor(&element.0);
                }
            }
            ValueRef::Hash(hash) => {
                for (field, value) in hash.iter() {
                    let mut element = Digest::default();
                    element.mix_item(field);
                    element.mix_item(value);
                    self.xor(&element.0);
                }
            }
            ValueRef::Stream(stream) => {
                for entry in stream.range(StreamId::MIN, StreamId::MAX) {
                    self.mix(format!("{}.{}", entry.id.ms, entry.id.seq).as_bytes());
                    for (field, value) in entry.fields() {
                        self.mix_item(field);
                        self.mix_item(value);
                    }
                }
            }
        }
        if entry.expiry().is_some() {
            self.xor(b"!!expire!!");
        }
    }
}

/// Redis's own numbers of the types.
fn type_number(kind: ValueKind) -> u32 {
    match kind {
        ValueKind::String => 0,
        ValueKind::List => 1,
        ValueKind::Set => 2,
        ValueKind::Zset => 3,
        ValueKind::Hash => 4,
        ValueKind::Stream => 6,
    }
}

/// DEBUG DIGEST
pub(super) fn dataset(ctx: &mut Ctx<'_, '_>) -> Reply {
    let mut whole = Digest::default();
    let home = ctx.db.database();
    for database in 0..ctx.db.data().databases.count() {
        if ctx.db.figures_of(database).keys == 0 {
            continue;
        }
        ctx.db.select(database);
        // The number of the database comes first.
        whole.mix(&(database as u32).to_be_bytes());
        ctx.db.for_each(|entry| {
            let mut digest = Digest::default();
            digest.mix(entry.key());
            digest.value(entry);
            whole.xor(&digest.0);
        });
    }
    ctx.db.select(home);
    ctx.out.simple(&whole.hex());
    Ok(())
}

/// DEBUG DIGEST-VALUE key [key ...]
pub(super) fn values(ctx: &mut Ctx<'_, '_>) -> Reply {
    ctx.out.array(ctx.args.len() - 2);
    for key in ctx.args.iter().skip(2) {
        let mut digest = Digest::default();
        if let Some(entry) = ctx.db.peek(key) {
            digest.value(entry);
        }
        ctx.out.simple(&digest.hex());
    }
    Ok(())
}

/// Writes a number with up to seventeen digits, as C's `%.17g` does.
fn seventeen_digits(number: f64) -> String {
    const DIGITS: i32 = 17;
    if !number.is_finite() {
        return if number.is_nan() {
            "nan"
        } else if number > 0.0 {
            "inf"
        } else {
            "-inf"
        }
        .to_owned();
    }
    let text = format!("{number:.*e}", DIGITS as usize - 1);
    let (digits, exponent) = text.split_once('e').unwrap_or((&text, "0"));
    let exponent: i32 = exponent.parse().unwrap_or(0);
    let trimmed = |text: &str| {
        if text.contains('.') {
            text.trim_end_matches('0').trim_end_matches('.').to_owned()
        } else {
            text.to_owned()
        }
    };
    if !(-4..DIGITS).contains(&exponent) {
        let sign = if exponent < 0 { '-' } else { '+' };
        return format!("{}e{sign}{:02}", trimmed(digits), exponent.abs());
    }
    trimmed(&format!("{number:.*}", (DIGITS - 1 - exponent) as usize))
}

#[cfg(test)]
mod tests {
    use super::seventeen_digits;

    #[test]
    fn numbers_are_written_as_c_writes_them() {
        for (number, text) in [
            (0.0, "0"),
            (-0.0, "-0"),
            (1.0, "1"),
            (0.1, "0.10000000000000001"),
            (100.5, "100.5"),
            (1e16, "10000000000000000"),
            (1e17, "1e+17"),
            (0.0001, "0.0001"),
            (0.00001, "1.0000000000000001e-05"),
            (-1.5e300, "-1.5000000000000001e+300"),
            (f64::INFINITY, "inf"),
            (f64::NEG_INFINITY, "-inf"),
        ] {
            assert_eq!(seventeen_digits(number), text);
        }
    }
}
