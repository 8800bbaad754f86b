//! The hash tag of a key.

/// Returns the tag of a key: what stands between its first `{` and the next `}`, or the whole key when
/// there is no such part or nothing in it. As Redis Cluster decides.
pub fn tag_of(key: &[u8]) -> &[u8] {
    let Some(open) = key.iter().position(|&byte| byte == b'{') else {
        return key;
    };
    let rest = &key[open + 1..];
    match rest.iter().position(|&byte| byte == b'}') {
        None | Some(0) => key,
        Some(length) => &rest[..length],
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_tag_is_the_first_braced_part_that_is_not_empty() {
        let cases: &[(&[u8], &[u8])] = &[
            (b"user", b"user"),
            (b"{user}:name", b"user"),
            (b"a{user}b{other}", b"user"),
            (b"{}user", b"{}user"),
            (b"{user", b"{user"),
            (b"}{user}", b"user"),
            (b"{{user}}", b"{user"),
            (b"", b""),
        ];
        for (key, tag) in cases {
            assert_eq!(tag_of(key), *tag, "{}", String::from_utf8_lossy(key));
        }
    }
}
