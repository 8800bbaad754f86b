//! Glob patterns as KEYS, SCAN, PSUBSCRIBE and ACL rules use them.
//!
//! `*`, `?`, `[a-z]`, `[^a]` and `\` as Redis matches them, on bytes. A run of
//! stars is one star, and a pattern cannot make the work exponential: as in
//! Redis 7, once a star's tail failed to match at every position, the stars
//! before it need not be tried again.

/// Returns whether `text` matches `pattern`.
pub fn matches(pattern: &[u8], text: &[u8]) -> bool {
    match_from(pattern, text, false, &mut false)
}

/// Returns whether `text` matches `pattern`, letter case ignored.
pub fn matches_ignoring_case(pattern: &[u8], text: &[u8]) -> bool {
    match_from(pattern, text, true, &mut false)
}

/// Returns whether `pattern` surely matches every text that begins with `prefix`: it matches the prefix, and
/// ends in a star that takes whatever follows.
///
/// A few patterns that do without a last star, such as `*?`, are not recognised; they count as matching less
/// than they do.
pub fn matches_all_beginning_with(pattern: &[u8], prefix: &[u8]) -> bool {
    ends_in_star(pattern) && matches(pattern, prefix)
}

/// Returns whether the last part of a pattern is a star that stands for itself no more.
fn ends_in_star(mut pattern: &[u8]) -> bool {
    let mut is_star = false;
    while let Some((&first, rest)) = pattern.split_first() {
        is_star = first == b'*';
        pattern = match first {
            b'[' => match_class(rest, 0, false).1,
            b'\\' if !rest.is_empty() => &rest[1..],
            _ => rest,
        };
    }
    is_star
}

fn match_from(mut pattern: &[u8], mut text: &[u8], nocase: bool, give_up: &mut bool) -> bool {
    while let Some((&first, rest)) = pattern.split_first() {
        if text.is_empty() {
            break;
        }
        match first {
            b'*' => return match_star(rest, text, nocase, give_up),
            b'?' => pattern = rest,
            b'[' => {
                let (matched, after) = match_class(rest, text[0], nocase);
                if !matched {
                    return false;
                }
                pattern = after;
            }
            _ => {
                let (byte, after) = match (first, rest.split_first()) {
                    (b'\\', Some((&escaped, after))) => (escaped, after),
                    _ => (first, rest),
                };
                if !same(byte, text[0], nocase) {
                    return false;
                }
                pattern = after;
            }
        }
        text = &text[1..];
    }
    if text.is_empty() {
        while let Some((b'*', rest)) = pattern.split_first() {
            pattern = rest;
        }
    }
    pattern.is_empty() && text.is_empty()
}

fn match_star(mut rest: &[u8], mut text: &[u8], nocase: bool, give_up: &mut bool) -> bool {
    while let Some((b'*', after)) = rest.split_first() {
        rest = after;
    }
    if rest.is_empty() {
        return true;
    }
    while !text.is_empty() {
        if match_from(rest, text, nocase, give_up) {
            return true;
        }
        if *give_up {
            return false;
        }
        text = &text[1..];
    }
    // The rest matches nowhere from here on, so an earlier star can only fail too.
    *give_up = true;
    false
}

/// Matches one byte against the class after `[`; returns what follows the class.
fn match_class(mut class: &[u8], byte: u8, nocase: bool) -> (bool, &[u8]) {
    let negated = class.first() == Some(&b'^');
    if negated {
        class = &class[1..];
    }
    let mut matched = false;
    loop {
        match class {
            [] => break,
            [b'\\', escaped, after @ ..] => {
                matched |= *escaped == byte;
                class = after;
            }
            [b']', after @ ..] => {
                class = after;
                break;
            }
            [low, b'-', high, after @ ..] => {
                matched |= in_range(*low, *high, byte, nocase);
                class = after;
            }
            [one, after @ ..] => {
                matched |= same(*one, byte, nocase);
                class = after;
            }
        }
    }
    (matched != negated, class)
}

fn in_range(low: u8, high: u8, byte: u8, nocase: bool) -> bool {
    let fold = |b: u8| if nocase { b.to_ascii_lowercase() } else { b };
    let (low, high) = if low > high { (high, low) } else { (low, high) };
    let (low, high, byte) = (fold(low), fold(high), fold(byte));
    byte >= low && byte <= high
}

fn same(a: u8, b: u8, nocase: bool) -> bool {
    a == b || nocase && a.eq_ignore_ascii_case(&b)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_pattern_takes_all_with_a_prefix_only_by_a_last_star() {
        for (pattern, prefix, expected) in [
            ("{user:*", "{user:1}", true),
            ("{user:1}*", "{user:1}", true),
            ("{user:1}**", "{user:1}", true),
            ("*", "{user:1}", true),
            ("*{user:[0-9]}*", "{user:1}", true),
            ("{user:1}", "{user:1}", false),
            ("{user:1}:*", "{user:1}", false),
            ("{user:1}\\*", "{user:1}", false),
            ("{user:1}[*", "{user:1}", false),
            ("{user:1}[*]", "{user:1}", false),
            ("{user:1}*x", "{user:1}", false),
            ("{user:2}*", "{user:1}", false),
            ("", "", false),
        ] {
            let found = matches_all_beginning_with(pattern.as_bytes(), prefix.as_bytes());
            assert_eq!(found, expected, "{pattern} {prefix}");
        }
    }

    #[track_caller]
    fn check(pattern: &str, text: &str, expected: bool) {
        assert_eq!(
            matches(pattern.as_bytes(), text.as_bytes()),
            expected,
            "{pattern} on {text}"
        );
    }

    #[test]
    fn patterns_match_as_redis_matches_them() {
        for (pattern, text, expected) in [
            ("*", "", true),
            ("*", "anything", true),
            ("", "", true),
            ("", "a", false),
            ("a?c", "abc", true),
            ("a?c", "ac", false),
            ("h[ae]llo", "hello", true),
            ("h[^e]llo", "hello", false),
            ("h[^e]llo", "hallo", true),
            ("h[a-b]llo", "hbllo", true),
            ("h[b-a]llo", "hbllo", true),
            ("h[z", "hz", true),
            ("\\*", "*", true),
            ("\\*", "a", false),
            ("a\\", "a\\", true),
            ("foo*bar*", "foo123bar", true),
            ("*a*a*a*b", "aaaaaaaaac", false),
            ("[\\]]", "]", true),
            ("a**b", "axxb", true),
        ] {
            check(pattern, text, expected);
        }
        assert!(matches_ignoring_case(b"MaX*", b"maxmemory"));
        assert!(!matches(b"MaX*", b"maxmemory"));
    }

    #[test]
    fn a_pattern_of_many_stars_ends_quickly() {
        let pattern = "a*".repeat(500) + "b";
        check(&pattern, &"a".repeat(2000), false);
    }
}
