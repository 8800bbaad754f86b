//! Forms, queries and parts of paths, as browsers write them.

/// Name and value, in the order in which they were sent.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Fields(Vec<(String, String)>);

impl Fields {
    /// Reads `application/x-www-form-urlencoded`; bytes that are no UTF-8 are replaced.
    pub(crate) fn parse(text: &[u8]) -> Fields {
        let pairs = text.split(|byte| *byte == b'&').filter(|pair| !pair.is_empty());
        Fields(
            pairs
                .map(|pair| {
                    let mut parts = pair.splitn(2, |byte| *byte == b'=');
                    let mut next = || decode(parts.next().unwrap_or_default(), true);
                    (lossy(next()), lossy(next()))
                })
                .collect(),
        )
    }

    /// The first value of a name, trimmed; nothing when it is empty.
    pub(crate) fn get(&self, name: &str) -> Option<&str> {
        let found = self.0.iter().find(|(one, _)| one == name);
        found
            .map(|(_, value)| value.trim())
            .filter(|value| !value.is_empty())
    }
}

fn lossy(bytes: Vec<u8>) -> String {
    String::from_utf8_lossy(&bytes).into_owned()
}

fn decode(text: &[u8], plus_is_space: bool) -> Vec<u8> {
    let mut bytes = Vec::with_capacity(text.len());
    let mut at = 0;
    while at < text.len() {
        let hex = |byte: Option<&u8>| byte.and_then(|byte| char::from(*byte).to_digit(16));
        match (text[at], hex(text.get(at + 1)), hex(text.get(at + 2))) {
            (b'%', Some(high), Some(low)) => {
                bytes.push((high * 16 + low) as u8);
                at += 3;
                continue;
            }
            (b'+', ..) if plus_is_space => bytes.push(b' '),
            (byte, ..) => bytes.push(byte),
        }
        at += 1;
    }
    bytes
}

/// Writes text so that it may stand in a path or a query.
pub(crate) fn encode(text: &str) -> String {
    encode_bytes(text.as_bytes())
}

/// The same for bytes, which tags and keys are.
pub(crate) fn encode_bytes(bytes: &[u8]) -> String {
    let mut text = String::with_capacity(bytes.len());
    for byte in bytes {
        match byte {
            b'A'..=b'Z' | b'a'..=b'z' | b'0'..=b'9' | b'-' | b'_' | b'.' | b'~' => {
                text.push(char::from(*byte))
            }
            _ => text.push_str(&format!("%{byte:02X}")),
        }
    }
    text
}

/// Path and query from what is to be asked; pairs without a value are left out.
pub(crate) fn with_query<'a>(
    path: &str,
    pairs: impl IntoIterator<Item = (&'a str, Option<&'a str>)>,
) -> String {
    let mut text = path.to_owned();
    let mut sign = '?';
    for (name, value) in pairs {
        if let Some(value) = value {
            text.push(sign);
            text.push_str(name);
            text.push('=');
            text.push_str(&encode(value));
            sign = '&';
        }
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn fields_are_read_as_browsers_write_them() {
        let fields = Fields::parse(b"a=1+2&b=%E9%95%B7&id=x&id=y&empty=&c=%zz&%");
        assert_eq!(fields.get("a"), Some("1 2"));
        assert_eq!(fields.get("b"), Some("長"));
        assert_eq!(fields.get("id"), Some("x"));
        assert_eq!((fields.get("empty"), fields.get("none")), (None, None));
        assert_eq!(fields.get("c"), Some("%zz"));
    }

    #[test]
    fn what_is_encoded_can_be_read_again() {
        for text in ["user:7/ä b&c=d?e#f", "..", "%41"] {
            assert_eq!(lossy(decode(encode(text).as_bytes(), false)), text);
        }
        assert_eq!(encode_bytes(b"\xff/"), "%FF%2F");
    }

    #[test]
    fn a_query_leaves_out_what_is_not_there() {
        let path = with_query(
            "/v1/jobs",
            [("queue", Some("a b")), ("kind", None), ("limit", Some("5"))],
        );
        assert_eq!(path, "/v1/jobs?queue=a%20b&limit=5");
    }
}
