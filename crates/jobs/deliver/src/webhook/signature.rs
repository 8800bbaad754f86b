//! Signatures as Standard Webhooks 1.0 describes them.

use std::fmt;

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use hmac::{Hmac, KeyInit, Mac};
use sha2::Sha256;
use subtle::ConstantTimeEq;

const PREFIX: &str = "whsec_";
const BYTES_MIN: usize = 24;
const BYTES_MAX: usize = 64;
/// Accepted difference between a signature's time and the receiver's clock, in seconds.
const TOLERANCE_S: i64 = 300;

/// A secret shared with receivers.
#[derive(Clone, PartialEq, Eq)]
pub struct Secret(Vec<u8>);

#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum SecretError {
    #[error("a webhook secret begins with whsec_ and goes on in base64")]
    Form,
    #[error("a webhook secret has 24 to 64 bytes")]
    Length,
}

impl fmt::Debug for Secret {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.write_str("Secret(***)")
    }
}

impl Secret {
    /// Generates a random secret.
    pub fn random() -> Secret {
        Secret(rand::random::<[u8; 32]>().to_vec())
    }

    /// Parses the text form.
    pub fn parse(text: &str) -> Result<Secret, SecretError> {
        let text = text.strip_prefix(PREFIX).ok_or(SecretError::Form)?;
        let bytes = STANDARD.decode(text).map_err(|_| SecretError::Form)?;
        if (BYTES_MIN..=BYTES_MAX).contains(&bytes.len()) {
            Ok(Secret(bytes))
        } else {
            Err(SecretError::Length)
        }
    }

    /// Returns the text form.
    pub fn reveal(&self) -> String {
        format!("{PREFIX}{}", STANDARD.encode(&self.0))
    }

    fn mac(&self, id: &str, at_s: i64, body: &[u8]) -> Vec<u8> {
        let mut mac = Hmac::<Sha256>::new_from_slice(&self.0).expect("a MAC takes keys of any length");
        mac.update(id.as_bytes());
        mac.update(b".");
        mac.update(at_s.to_string().as_bytes());
        mac.update(b".");
        mac.update(body);
        mac.finalize().into_bytes().to_vec()
    }
}

/// Returns the value of `webhook-signature`: one signature per secret, so that receivers may switch at any
/// time while two are in use.
pub fn sign(secrets: &[Secret], id: &str, at_s: i64, body: &[u8]) -> String {
    let signature = |secret: &Secret| format!("v1,{}", STANDARD.encode(secret.mac(id, at_s, body)));
    let all: Vec<String> = secrets.iter().map(signature).collect();
    all.join(" ")
}

/// Verifies a signature as a receiver does.
pub fn verify(secret: &Secret, id: &str, at_s: i64, body: &[u8], signatures: &str, now_s: i64) -> bool {
    let right = secret.mac(id, at_s, body);
    let fits = |signature: &str| {
        let given = signature
            .strip_prefix("v1,")
            .and_then(|text| STANDARD.decode(text).ok());
        given.is_some_and(|given| bool::from(given.ct_eq(&right)))
    };
    (now_s - at_s).abs() <= TOLERANCE_S && signatures.split(' ').any(fits)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The example that the specification's own libraries test with.
    #[test]
    fn a_signature_is_what_other_libraries_make() {
        let secret = Secret::parse("whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw").unwrap();
        let body = br#"{"test": 2432232314}"#;
        let signature = sign(&[secret], "msg_p5jXN8AQM9LWM0D4loKWxJek", 1_614_265_330, body);
        assert_eq!(signature, "v1,g0hM9SsE+OTPJTGt/tmIKtSyZlE3uFJELVlNIOLJ1OE=");
    }

    #[test]
    fn any_secret_in_use_fits_and_nothing_else_does() {
        let (old, new, other) = (Secret::random(), Secret::random(), Secret::random());
        let signatures = sign(&[new.clone(), old.clone()], "e1", 100, b"body");
        for secret in [&old, &new] {
            assert!(verify(secret, "e1", 100, b"body", &signatures, 130));
        }
        assert!(!verify(&other, "e1", 100, b"body", &signatures, 130));
        assert!(!verify(&old, "e2", 100, b"body", &signatures, 130));
        assert!(!verify(&old, "e1", 101, b"body", &signatures, 130));
        assert!(!verify(&old, "e1", 100, b"bodY", &signatures, 130));
        assert!(!verify(&old, "e1", 100, b"body", &signatures, 401), "too old");
    }

    #[test]
    fn secrets_keep_to_their_form() {
        let secret = Secret::random();
        assert_eq!(Secret::parse(&secret.reveal()), Ok(secret.clone()));
        assert_eq!(format!("{secret:?}"), "Secret(***)");
        assert_eq!(
            Secret::parse("MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw"),
            Err(SecretError::Form)
        );
        assert_eq!(Secret::parse("whsec_%%"), Err(SecretError::Form));
        assert_eq!(Secret::parse("whsec_c2hvcnQ="), Err(SecretError::Length));
    }
}
