//! The token of an attempt: lease, fence and credential in one opaque string.
//!
//! It holds the job, the attempt and the nonce that the claim drew, and a MAC over them under a secret that the
//! servers of a store share. The nonce is the fence: the store compares it. The MAC rejects guesses before they
//! reach the store. It also keeps the jobs of one claim, which share a nonce, apart.

use std::fmt;

use base64::Engine;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use hmac::{Hmac, KeyInit, Mac};
use sha2::Sha256;
use subtle::ConstantTimeEq;

use crate::id::JobId;

/// The metadata key under which the servers of a store share the secret.
pub const SECRET_METADATA: &str = "token-secret";
pub const SECRET_BYTES: usize = 32;

const FIELDS_BYTES: usize = 8 + 4 + 8;
/// Bytes of the MAC in a token. 128 bits cannot be guessed; more would only make tokens longer.
const MAC_BYTES: usize = 16;

/// Which attempt of which job, and the claim's nonce.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Lease {
    pub id: JobId,
    pub attempt: u32,
    pub nonce: i64,
}

/// The secret of a store.
#[derive(Clone)]
pub struct TokenKey([u8; SECRET_BYTES]);

impl fmt::Debug for TokenKey {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.write_str("TokenKey(***)")
    }
}

impl TokenKey {
    pub fn new(secret: [u8; SECRET_BYTES]) -> TokenKey {
        TokenKey(secret)
    }

    /// Draws a secret.
    pub fn random() -> TokenKey {
        TokenKey(rand::random())
    }

    pub fn secret(&self) -> &[u8; SECRET_BYTES] {
        &self.0
    }

    /// Makes the token of an attempt.
    pub fn mint(&self, lease: Lease) -> String {
        let mut bytes = [0; FIELDS_BYTES + MAC_BYTES];
        let fields = fields(lease);
        bytes[..FIELDS_BYTES].copy_from_slice(&fields);
        bytes[FIELDS_BYTES..].copy_from_slice(&self.mac(&fields));
        URL_SAFE_NO_PAD.encode(bytes)
    }

    /// Reads a token that this store issued; `None` for anything else.
    pub fn verify(&self, token: &str) -> Option<Lease> {
        let mut bytes = [0; FIELDS_BYTES + MAC_BYTES];
        if URL_SAFE_NO_PAD.decode_slice(token, &mut bytes).ok()? != bytes.len() {
            return None;
        }
        let (fields, mac) = bytes.split_at(FIELDS_BYTES);
        if !bool::from(self.mac(fields).ct_eq(mac)) {
            return None;
        }
        let number = |from: usize| i64::from_be_bytes(fields[from..from + 8].try_into().expect("8 bytes"));
        Some(Lease {
            id: JobId::new(number(0))?,
            attempt: u32::from_be_bytes(fields[8..12].try_into().expect("4 bytes")),
            nonce: number(12),
        })
    }

    fn mac(&self, fields: &[u8]) -> [u8; MAC_BYTES] {
        let mut mac = Hmac::<Sha256>::new_from_slice(&self.0).expect("a MAC takes keys of any length");
        mac.update(fields);
        let mut short = [0; MAC_BYTES];
        short.copy_from_slice(&mac.finalize().into_bytes()[..MAC_BYTES]);
        short
    }
}

fn fields(lease: Lease) -> [u8; FIELDS_BYTES] {
    let mut fields = [0; FIELDS_BYTES];
    fields[..8].copy_from_slice(&lease.id.get().to_be_bytes());
    fields[8..12].copy_from_slice(&lease.attempt.to_be_bytes());
    fields[12..].copy_from_slice(&lease.nonce.to_be_bytes());
    fields
}

#[cfg(test)]
mod tests {
    use super::*;

    fn lease() -> Lease {
        Lease {
            id: JobId::new(77).unwrap(),
            attempt: 3,
            nonce: -9,
        }
    }

    #[test]
    fn a_token_leads_back_to_its_attempt() {
        let key = TokenKey::new([7; 32]);
        let token = key.mint(lease());
        assert_eq!(token.len(), 48);
        assert_eq!(key.verify(&token), Some(lease()));
    }

    #[test]
    fn another_store_does_not_know_it() {
        let token = TokenKey::new([7; 32]).mint(lease());
        assert_eq!(TokenKey::new([8; 32]).verify(&token), None);
    }

    #[test]
    fn no_changed_character_passes() {
        let key = TokenKey::new([7; 32]);
        let token = key.mint(lease());
        for at in 0..token.len() {
            let mut changed = token.clone().into_bytes();
            changed[at] = if changed[at] == b'A' { b'B' } else { b'A' };
            assert_eq!(key.verify(std::str::from_utf8(&changed).unwrap()), None, "{at}");
        }
        for strange in ["", "x", &token[1..], &format!("{token}A"), "=====", "あ"] {
            assert_eq!(key.verify(strange), None, "{strange}");
        }
    }
}
