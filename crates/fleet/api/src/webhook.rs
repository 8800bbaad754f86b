//! Authenticates callers of the webhook that reports a changed list.
//!
//! A webhook comes from outside, often from a service that can only send a fixed token or sign its body. So
//! the path is exempt from the server's own token check and has this one. The caller either sends one of the
//! secrets as `Authorization: Bearer SECRET`, or signs the body with it: `X-Nagaya-Signature` or
//! `X-Hub-Signature-256` with `sha256=` and an HMAC-SHA256 in hex. Without any configured secret, every
//! caller is refused.

use std::sync::Arc;

use axum::http::HeaderMap;
use hmac::{Hmac, KeyInit, Mac};
use nagaya_config::Secret;
use nagaya_http_kit::bearer;
use sha2::Sha256;

/// The path of the webhook.
pub const WEBHOOK_PATH: &str = "/v1/fleet/webhook";

const SIGNATURE_HEADERS: [&str; 2] = ["x-nagaya-signature", "x-hub-signature-256"];

/// The accepted secrets. A caller has to know one of them.
#[derive(Clone, Debug, Default)]
pub struct Guard {
    secrets: Arc<[Secret]>,
}

impl Guard {
    pub fn new(secrets: impl IntoIterator<Item = Secret>) -> Guard {
        Guard {
            secrets: secrets.into_iter().collect(),
        }
    }

    /// Returns whether any caller can pass.
    pub fn is_open_to_some(&self) -> bool {
        !self.secrets.is_empty()
    }

    /// Returns whether this caller passes.
    pub(crate) fn lets_in(&self, headers: &HeaderMap, body: &[u8]) -> bool {
        self.secrets.iter().any(|secret| {
            let key = secret.reveal().as_bytes();
            bearer::matches(headers, key) || signs(headers, key, body)
        })
    }
}

fn signs(headers: &HeaderMap, key: &[u8], body: &[u8]) -> bool {
    let signatures = SIGNATURE_HEADERS.iter().filter_map(|name| headers.get(*name));
    let mut signatures =
        signatures.filter_map(|value| from_hex(value.to_str().ok()?.strip_prefix("sha256=")?));
    signatures.any(|signature| {
        let mut mac = Hmac::<Sha256>::new_from_slice(key).expect("a key may have any length");
        mac.update(body);
        mac.verify_slice(&signature).is_ok()
    })
}

fn from_hex(text: &str) -> Option<Vec<u8>> {
    let digits = text.as_bytes().chunks(2);
    digits
        .map(|pair| u8::from_str_radix(std::str::from_utf8(pair).ok()?, 16).ok())
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn headers(name: &'static str, value: &str) -> HeaderMap {
        HeaderMap::from_iter([(name.parse().unwrap(), value.parse().unwrap())])
    }

    #[test]
    fn a_caller_knows_a_secret_or_signs_with_it() {
        let guard = Guard::new([Secret::new("one"), Secret::new("two")]);
        assert!(guard.lets_in(&headers("authorization", "Bearer two"), b""));
        assert!(!guard.lets_in(&headers("authorization", "Bearer three"), b""));
        assert!(!guard.lets_in(&HeaderMap::new(), b""));
        // printf body | openssl dgst -sha256 -hmac one
        let mut mac = Hmac::<Sha256>::new_from_slice(b"one").unwrap();
        mac.update(b"body");
        let hex: String = mac
            .finalize()
            .into_bytes()
            .iter()
            .map(|byte| format!("{byte:02x}"))
            .collect();
        for name in SIGNATURE_HEADERS {
            let signed = headers(name, &format!("sha256={hex}"));
            assert!(guard.lets_in(&signed, b"body"));
            assert!(!guard.lets_in(&signed, b"another body"));
        }
        assert!(!guard.lets_in(&headers(SIGNATURE_HEADERS[0], "sha256=zz"), b"body"));
        assert!(!Guard::default().lets_in(&headers("authorization", "Bearer "), b""));
    }
}
