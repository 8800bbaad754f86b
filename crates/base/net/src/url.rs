//! Parts of URLs that the `url` crate does not parse: several hosts in one URL, folders as hosts.

use percent_encoding::{AsciiSet, NON_ALPHANUMERIC, percent_decode_str, utf8_percent_encode};

/// The characters that are encoded in a login, a path or a parameter's value.
pub const ENCODED: &AsciiSet = &NON_ALPHANUMERIC
    .remove(b'-')
    .remove(b'.')
    .remove(b'_')
    .remove(b'~');

/// Decodes percent encoding.
pub fn decode(text: &str) -> Result<String, String> {
    let is_hex = |two: &[u8]| two.iter().all(u8::is_ascii_hexdigit);
    let well_formed = text
        .match_indices('%')
        .all(|(at, _)| text.as_bytes().get(at + 1..at + 3).is_some_and(is_hex));
    if !well_formed {
        return Err("% is not followed by two hex digits".into());
    }
    let decoded = percent_decode_str(text).decode_utf8();
    decoded
        .map(String::from)
        .map_err(|_| "percent-encoded bytes are not UTF-8".into())
}

/// As [`decode`], and `None` for an empty text.
pub fn decode_some(text: &str) -> Result<Option<String>, String> {
    Ok(Some(decode(text)?).filter(|text| !text.is_empty()))
}

/// Percent-encodes the characters of the set.
pub fn encode(text: &str, encoded: &'static AsciiSet) -> String {
    utf8_percent_encode(text, encoded).to_string()
}

/// Splits `host`, `host:port`, `:port`, `[v6]` or `[v6]:port` into host and port, unchanged.
pub fn host_and_port(text: &str) -> Result<(&str, Option<&str>), String> {
    let (host, port) = match text.strip_prefix('[').and_then(|rest| rest.split_once(']')) {
        Some((host, "")) => (host, None),
        Some((host, rest)) => (host, Some(rest.strip_prefix(':').ok_or("text after the ]")?)),
        None => match text.rsplit_once(':') {
            Some((host, port)) => (host, Some(port)),
            None => (text, None),
        },
    };
    Ok((host, port.filter(|port| !port.is_empty())))
}

/// Returns a URL, which may be malformed, without anything that may be a secret.
pub fn without_secrets(text: &str) -> String {
    let (scheme, rest) = text.split_once("://").unwrap_or(("", text));
    let (rest, query) = rest.split_once('?').unwrap_or((rest, ""));
    let rest = rest.rsplit_once('@').map_or(rest, |(_, hosts)| hosts);
    let login = if text.contains('@') { "***@" } else { "" };
    let query = if query.is_empty() { "" } else { "?..." };
    format!("{scheme}://{login}{rest}{query}")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_encoded_comes_back() {
        for text in ["", "plain-._~", "p@ss:w/rd?", "長屋", "100 %"] {
            assert_eq!(decode(&encode(text, ENCODED)).as_deref(), Ok(text));
        }
        assert_eq!(encode("a@b", ENCODED), "a%40b");
    }

    #[test]
    fn half_an_escape_is_refused() {
        for text in ["%", "a%4", "%zz", "%+1"] {
            assert!(decode(text).unwrap_err().contains("two hex digits"), "{text}");
        }
        assert!(decode("%ff").unwrap_err().contains("UTF-8"));
    }

    #[test]
    fn hosts_and_ports_are_told_apart() {
        assert_eq!(host_and_port("h"), Ok(("h", None)));
        assert_eq!(host_and_port("h:1"), Ok(("h", Some("1"))));
        assert_eq!(host_and_port(":1"), Ok(("", Some("1"))));
        assert_eq!(host_and_port("h:"), Ok(("h", None)));
        assert_eq!(host_and_port("[::1]"), Ok(("::1", None)));
        assert_eq!(host_and_port("[::1]:1"), Ok(("::1", Some("1"))));
        assert!(host_and_port("[::1]1").is_err());
    }

    #[test]
    fn secrets_are_hidden_even_in_what_is_no_url() {
        assert_eq!(
            without_secrets("redis://u:p@h/0?password=x"),
            "redis://***@h/0?..."
        );
        assert_eq!(without_secrets("u:p@h"), "://***@h");
    }
}
