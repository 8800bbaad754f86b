//! Which slot of a cluster a key belongs to.

/// How many slots a cluster has.
pub const SLOTS: u16 = 16384;

/// Returns the slot of a key: of what is between its first `{` and the next `}`, if that is not
/// empty, and of the whole key otherwise.
pub fn of_key(key: &[u8]) -> u16 {
    crc16(hash_tag(key)) % SLOTS
}

fn hash_tag(key: &[u8]) -> &[u8] {
    let Some(open) = key.iter().position(|byte| *byte == b'{') else {
        return key;
    };
    let inner = &key[open + 1..];
    match inner.iter().position(|byte| *byte == b'}') {
        None | Some(0) => key,
        Some(close) => &inner[..close],
    }
}

/// CRC-16/XMODEM: polynomial 0x1021, start 0, not reflected.
fn crc16(bytes: &[u8]) -> u16 {
    bytes.iter().fold(0, |crc, byte| {
        (0..8).fold(crc ^ (u16::from(*byte) << 8), |crc, _| {
            if crc & 0x8000 == 0 {
                crc << 1
            } else {
                (crc << 1) ^ 0x1021
            }
        })
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn slots_are_those_of_redis() {
        assert_eq!(crc16(b"123456789"), 0x31c3);
        assert_eq!(of_key(b"foo"), 12182);
        assert_eq!(of_key(b"{user1000}.following"), of_key(b"user1000"));
        assert_eq!(of_key(b"foo{}{bar}"), crc16(b"foo{}{bar}") % SLOTS);
        assert_eq!(of_key(b"foo{{bar}}zap"), of_key(b"{bar"));
    }
}
