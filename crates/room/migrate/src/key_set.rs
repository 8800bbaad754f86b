//! Sets of keys that may be many: 16 bytes each instead of the names.

use std::collections::HashSet;
use std::hash::{DefaultHasher, Hasher};

/// A number that two different inputs share with a chance of one in 2^128, roughly.
pub(crate) fn fingerprint(parts: &[&[u8]]) -> u128 {
    let mut halves = [DefaultHasher::new(), DefaultHasher::new()];
    halves[1].write_u8(1);
    for half in &mut halves {
        for part in parts {
            half.write_usize(part.len());
            half.write(part);
        }
    }
    u128::from(halves[0].finish()) << 64 | u128::from(halves[1].finish())
}

/// The keys that were seen.
#[derive(Default)]
pub(crate) struct KeySet(HashSet<u128>);

impl KeySet {
    /// Adds a key and returns whether it is new.
    pub(crate) fn insert(&mut self, key: &[u8]) -> bool {
        self.0.insert(fingerprint(&[key]))
    }

    pub(crate) fn contains(&self, key: &[u8]) -> bool {
        self.0.contains(&fingerprint(&[key]))
    }
}
