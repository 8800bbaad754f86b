//! Rules for endpoint names: a name becomes a field or part of a key.

/// Longest name in bytes. With an id and our prefix it stays within memcached's limit of 250 for a key.
const NAME_BYTES_MAX: usize = 200;

/// Fields of the request itself, serinin's and ours. An endpoint with this name would overwrite one.
const RESERVED: [&str; 5] = ["_id", "_method", "_url", ENDPOINTS, COMPLETE];

/// The names of all endpoints, contacted or shed, as a JSON list.
pub(crate) const ENDPOINTS: &str = "_endpoints";
/// Present once nothing more will come: milliseconds from acceptance to the end.
pub(crate) const COMPLETE: &str = "_complete";
/// Prefix of an endpoint's name for the field with its outcome.
pub(crate) const OUTCOME_PREFIX: &str = "_outcome:";

/// Returns whether a field is one of ours, which endpoints cannot be named as.
pub(crate) fn is_ours(name: &str) -> bool {
    name == ENDPOINTS || name == COMPLETE || name.starts_with(OUTCOME_PREFIX)
}

/// The kind of store, as far as names are concerned.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Place {
    Anything,
    /// The text protocol ends keys at spaces and control characters.
    MemcachedKeys,
}

/// Returns what is wrong with a name, if anything.
pub(crate) fn problem_with(name: &str, place: Place) -> Option<String> {
    if name.is_empty() {
        return Some("an endpoint needs a name".to_owned());
    }
    if name.len() > NAME_BYTES_MAX {
        let length = name.len();
        return Some(format!(
            "the endpoint name has {length} bytes, {NAME_BYTES_MAX} are allowed"
        ));
    }
    if RESERVED.contains(&name) || name.starts_with(OUTCOME_PREFIX) {
        return Some(format!(
            "the endpoint name `{name}` is taken by a field of every request; rename it"
        ));
    }
    let breaks_keys = |byte: u8| byte <= b' ' || byte == 0x7f;
    if place == Place::MemcachedKeys && name.bytes().any(breaks_keys) {
        return Some(format!(
            "the endpoint name `{}` has a space or control character, which memcached's keys cannot have; \
             rename it or use another store",
            name.escape_debug()
        ));
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_names_that_would_overwrite_something_are_refused() {
        for good in ["dst1", "_own", "a.b", "a b", "端点", "_outcome", "a\nb"] {
            assert_eq!(problem_with(good, Place::Anything), None, "{good}");
        }
        for bad in [
            "",
            "_id",
            "_method",
            "_url",
            "_endpoints",
            "_complete",
            "_outcome:x",
        ] {
            assert!(problem_with(bad, Place::Anything).is_some(), "{bad}");
        }
        assert!(problem_with(&"x".repeat(201), Place::Anything).is_some());
    }

    #[test]
    fn memcached_takes_no_spaces() {
        for good in ["dst1", "_own", "a.b", "端点"] {
            assert_eq!(problem_with(good, Place::MemcachedKeys), None, "{good}");
        }
        for bad in ["a b", "a\tb", "a\r\nset x", "\u{7f}"] {
            assert!(problem_with(bad, Place::MemcachedKeys).is_some(), "{bad:?}");
        }
    }
}
