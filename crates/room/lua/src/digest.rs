//! SHA-1, the name of a script.

use sha1::{Digest, Sha1};

/// Returns the SHA-1 of a script's text as 40 lower-case hexadecimal digits.
pub fn sha1_hex(body: &[u8]) -> [u8; 40] {
    const DIGITS: &[u8; 16] = b"0123456789abcdef";
    let mut hex = [0; 40];
    for (pair, byte) in hex.chunks_exact_mut(2).zip(Sha1::digest(body)) {
        pair[0] = DIGITS[usize::from(byte >> 4)];
        pair[1] = DIGITS[usize::from(byte & 15)];
    }
    hex
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn digests_are_lower_case_hex() {
        assert_eq!(&sha1_hex(b""), b"da39a3ee5e6b4b0d3255bfef95601890afd80709");
        assert_eq!(
            &sha1_hex(b"Pizza & Mandolino"),
            b"74822d82031af7493c20eefa13bd07ec4fada82f"
        );
    }
}
