//! Values by themselves, as DUMP gives them: a type byte, the value, two bytes of version, eight of checksum.

use nagaya_store::rdb::crc64;

/// The footer: version and checksum.
const FOOTER_BYTES: usize = 10;

/// Appends the footer to a type byte and its value.
pub fn seal(body: &mut Vec<u8>, version: u16) {
    body.extend_from_slice(&version.to_le_bytes());
    let checksum = crc64(0, body);
    body.extend_from_slice(&checksum.to_le_bytes());
}

/// Returns what stands before the footer, and the version; nothing if the checksum is of other bytes.
pub fn open(payload: &[u8]) -> Option<(&[u8], u16)> {
    let (signed, checksum) = payload.split_last_chunk::<8>()?;
    let (body, version) = signed.split_last_chunk::<2>()?;
    let sound = !body.is_empty() && crc64(0, signed) == u64::from_le_bytes(*checksum);
    sound.then_some((body, u16::from_le_bytes(*version)))
}

/// As [`open`], for payloads that were just checked by others or made here.
pub fn without_footer(payload: &[u8]) -> &[u8] {
    &payload[..payload.len().saturating_sub(FOOTER_BYTES)]
}

/// Returns the first version of the format that has a type, so that the oldest server possible takes it.
pub fn version_of(kind: u8) -> u16 {
    match kind {
        0..=4 | 9..=13 => 6,
        14 => 7,
        5..=8 => 8,
        15 => 9,
        16..=19 => 10,
        20 | 21 => 11,
        _ => 12,
    }
}

/// Returns the name that TYPE has for a type byte.
pub fn type_name(kind: u8) -> &'static str {
    match kind {
        0 => "string",
        1 | 10 | 14 | 18 => "list",
        2 | 11 | 20 => "set",
        3 | 5 | 12 | 17 => "zset",
        4 | 9 | 13 | 16 | 22..=25 => "hash",
        15 | 19 | 21 => "stream",
        6 | 7 => "module",
        _ => "unknown",
    }
}

/// Returns whether values of this type are hashes whose fields may have expiries of their own.
pub fn has_field_expiries(kind: u8) -> bool {
    matches!(kind, 22..=25)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_sealed_payload_is_opened_and_a_changed_one_is_not() {
        let mut payload = b"\x00\x02ab".to_vec();
        seal(&mut payload, 10);
        assert_eq!(open(&payload), Some((&b"\x00\x02ab"[..], 10)));
        assert_eq!(without_footer(&payload), b"\x00\x02ab");
        for at in 0..payload.len() {
            let mut changed = payload.clone();
            changed[at] ^= 0x10;
            assert_eq!(open(&changed), None, "byte {at}");
        }
        for len in 0..payload.len() {
            assert_eq!(open(&payload[..len]), None, "{len} bytes");
        }
    }
}
