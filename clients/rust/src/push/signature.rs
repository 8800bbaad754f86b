//! Signatures as defined by Standard Webhooks 1.0.

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use hmac::{Hmac, KeyInit, Mac};
use sha2::Sha256;

const PREFIX: &str = "whsec_";
/// Key lengths that the standard allows, in bytes.
const KEY_BYTES: std::ops::RangeInclusive<usize> = 24..=64;

/// A key shared with the endpoint.
#[derive(Clone, PartialEq, Eq)]
pub struct Secret(Vec<u8>);

#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("a secret looks like `whsec_` and 24 to 64 bytes in base64")]
pub struct SecretError;

impl Secret {
    /// Parses a secret, with or without its `whsec_`.
    pub fn parse(text: &str) -> Result<Secret, SecretError> {
        let text = text.trim();
        let key = STANDARD
            .decode(text.strip_prefix(PREFIX).unwrap_or(text))
            .map_err(|_| SecretError)?;
        if KEY_BYTES.contains(&key.len()) {
            Ok(Secret(key))
        } else {
            Err(SecretError)
        }
    }

    /// Returns the value of the header `webhook-signature`.
    pub fn sign(&self, id: &str, unix_seconds: u64, body: &[u8]) -> String {
        let mut mac = Hmac::<Sha256>::new_from_slice(&self.0).expect("a key of any length is taken");
        mac.update(id.as_bytes());
        mac.update(format!(".{unix_seconds}.").as_bytes());
        mac.update(body);
        format!("v1,{}", STANDARD.encode(mac.finalize().into_bytes()))
    }
}

impl std::fmt::Debug for Secret {
    fn fmt(&self, out: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        out.write_str("Secret(***)")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The expected value was computed with Python's hmac module.
    #[test]
    fn signatures_are_those_of_the_standard() {
        let secret = Secret::parse("whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw").unwrap();
        assert_eq!(
            secret.sign(
                "msg_p5jXN8AQM9LWM0D4loKWxJek",
                1_614_265_330,
                b"{\"test\": 2432232314}"
            ),
            "v1,g0hM9SsE+OTPJTGt/tmIKtSyZlE3uFJELVlNIOLJ1OE="
        );
    }

    #[test]
    fn what_is_no_secret_is_refused_and_secrets_are_not_shown() {
        assert_eq!(Secret::parse("whsec_short"), Err(SecretError));
        assert_eq!(Secret::parse("whsec_c2hvcnQ="), Err(SecretError));
        let secret = Secret::parse("MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw").unwrap();
        assert_eq!(format!("{secret:?}"), "Secret(***)");
    }
}
