//! The part of a key that decides where it lives.

/// Returns the part of a key that decides where it lives: what stands in the first pair of braces, if
/// anything does, else all of it.
#[inline]
pub fn hash_tag(key: &[u8]) -> &[u8] {
    let Some(open) = memchr::memchr(b'{', key) else {
        return key;
    };
    match memchr::memchr(b'}', &key[open + 1..]) {
        Some(length) if length > 0 => &key[open + 1..open + 1 + length],
        _ => key,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_hash_tag_is_what_redis_cluster_takes_for_it() {
        for (key, tag) in [
            ("plain", "plain"),
            ("a{b}c", "b"),
            ("{}x", "{}x"),
            ("a{b", "a{b"),
            ("{a}{b}", "a"),
            ("x{{a}}", "{a"),
            ("", ""),
        ] {
            assert_eq!(hash_tag(key.as_bytes()), tag.as_bytes(), "{key}");
        }
    }
}
