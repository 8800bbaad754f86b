//! Bearer tokens in the `Authorization` header.

use http::HeaderMap;
use http::header::AUTHORIZATION;
use subtle::ConstantTimeEq;

/// The scheme with the space after it.
const SCHEME: &[u8] = b"bearer ";

/// Returns the token that a request carries. The scheme may be written in any case.
pub fn sent(headers: &HeaderMap) -> Option<&[u8]> {
    token_of(headers.get(AUTHORIZATION)?.as_bytes())
}

/// Returns the token in the value of an `Authorization` header.
pub fn token_of(value: &[u8]) -> Option<&[u8]> {
    let (scheme, token) = value.split_at_checked(SCHEME.len())?;
    scheme.eq_ignore_ascii_case(SCHEME).then(|| token.trim_ascii())
}

/// Returns whether a request carries this token. Takes the same time wherever the first difference is.
pub fn matches(headers: &HeaderMap, token: &[u8]) -> bool {
    sent(headers).is_some_and(|sent| sent.ct_eq(token).into())
}

#[cfg(test)]
mod tests {
    use http::HeaderValue;

    use super::*;

    #[test]
    fn the_scheme_may_be_written_in_any_case() {
        assert_eq!(token_of(b"Bearer abc"), Some(&b"abc"[..]));
        assert_eq!(token_of(b"bearer  abc "), Some(&b"abc"[..]));
        assert_eq!(token_of(b"Basic abc"), None);
        assert_eq!(token_of(b"Bearer"), None);
    }

    #[test]
    fn only_the_whole_token_matches() {
        let headers =
            |value: &'static str| HeaderMap::from_iter([(AUTHORIZATION, HeaderValue::from_static(value))]);
        assert!(matches(&headers("BEARER secret"), b"secret"));
        for other in [
            "Bearer secre",
            "Bearer secrets",
            "Bearer",
            "Basic secret",
            "secret",
        ] {
            assert!(!matches(&headers(other), b"secret"), "{other}");
        }
        assert!(!matches(&HeaderMap::new(), b"secret") && !matches(&HeaderMap::new(), b""));
    }
}
