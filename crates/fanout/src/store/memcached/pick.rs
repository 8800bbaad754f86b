//! Selects the server of a key, exactly as serinin's clients do.

use std::hash::Hasher;

use crate::config::NodeChoice;

/// The fixed key of the hash in serinin's binary client.
const SIP_KEYS: (u64, u64) = (0x0706_0504_0302_0100, 0x0f0e_0d0c_0b0a_0908);

/// Returns the index of the server, below `servers`.
pub(super) fn server_of(key: &[u8], servers: usize, choice: NodeChoice) -> usize {
    match (servers, choice) {
        (0 | 1, _) => 0,
        (_, NodeChoice::Crc32) => crc32fast::hash(key) as usize % servers,
        (_, NodeChoice::Jump) => jump(sip_hash(key), servers),
    }
}

/// SipHash-2-4.
#[allow(
    deprecated,
    reason = "the standard library's current hashers promise no algorithm; this one does"
)]
fn sip_hash(key: &[u8]) -> u64 {
    let mut hasher = std::hash::SipHasher::new_with_keys(SIP_KEYS.0, SIP_KEYS.1);
    hasher.write(key);
    hasher.finish()
}

/// Jump consistent hash (Lamping and Veach, 2014): growing from n to n + 1 buckets moves only the keys that
/// go to the new bucket. The hash seeds a generator of jumps; the last jump below `buckets` is the result.
fn jump(hash: u64, buckets: usize) -> usize {
    let mut state = hash;
    let (mut bucket, mut next) = (0_i64, 0_i64);
    while next < buckets as i64 {
        bucket = next;
        state = state.wrapping_mul(2_862_933_555_777_941_757).wrapping_add(1);
        let scale = (1_u64 << 31) as f64 / ((state >> 33) + 1) as f64;
        next = ((bucket + 1) as f64 * scale) as i64;
    }
    bucket as usize
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The expected values were computed with serinin's own two clients.
    #[test]
    fn keys_lie_where_serinins_clients_put_them() {
        let keys = [
            "0b0f8b1e-6a3c-4f3b-9a57-0d6a2f7c1e11",
            "0b0f8b1e-6a3c-4f3b-9a57-0d6a2f7c1e11.dst1",
            "0b0f8b1e-6a3c-4f3b-9a57-0d6a2f7c1e11.dst2",
            "0b0f8b1e-6a3c-4f3b-9a57-0d6a2f7c1e11.端点",
            "x",
        ];
        let places = |servers, choice| keys.map(|key| server_of(key.as_bytes(), servers, choice));
        assert_eq!(places(3, NodeChoice::Crc32), CRC32_OF_3);
        assert_eq!(places(3, NodeChoice::Jump), JUMP_OF_3);
        assert_eq!(places(17, NodeChoice::Jump), JUMP_OF_17);
        assert_eq!(places(1, NodeChoice::Jump), [0; 5]);
    }

    const CRC32_OF_3: [usize; 5] = [0, 1, 1, 1, 0];
    const JUMP_OF_3: [usize; 5] = [1, 2, 1, 2, 1];
    const JUMP_OF_17: [usize; 5] = [1, 6, 3, 7, 12];
}
