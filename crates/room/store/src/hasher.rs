//! The hash of a byte string, shared by every table of the process.

use std::hash::{BuildHasher, Hasher};
use std::sync::OnceLock;

/// Hashes a key with a secret drawn once per process, so that clients cannot aim for one bucket.
///
/// Tables take the bucket from the low bits and an 8-bit tag from the top byte.
#[inline]
pub fn hash_bytes(bytes: &[u8]) -> u64 {
    static STATE: OnceLock<ahash::RandomState> = OnceLock::new();
    let mut hasher = STATE.get_or_init(ahash::RandomState::new).build_hasher();
    hasher.write(bytes);
    hasher.finish()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn equal_bytes_hash_alike_and_lengths_matter() {
        assert_eq!(hash_bytes(b"alpha"), hash_bytes(b"alpha"));
        assert_ne!(hash_bytes(b""), hash_bytes(b"\0"));
        assert_ne!(hash_bytes(b"\0"), hash_bytes(b"\0\0"));
    }

    #[test]
    fn low_bits_and_top_byte_are_both_spread() {
        let (mut low, mut top) = ([0u32; 256], [0u32; 256]);
        for i in 0..25_600u32 {
            let hash = hash_bytes(format!("key:{i}").as_bytes());
            low[hash as u8 as usize] += 1;
            top[(hash >> 56) as usize] += 1;
        }
        for counts in [low, top] {
            assert!(counts.iter().all(|&n| (40..190).contains(&n)), "{counts:?}");
        }
    }
}
