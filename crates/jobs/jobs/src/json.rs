//! What JSON must be like, so that every reader of it can read it.
//!
//! Parsers check the grammar; here is what the grammar allows and parsers do not: nesting without
//! end, which overflows the stack of many, and halves of surrogate pairs, which are no text in any encoding.

/// Deepest nesting of arrays and objects. Parsers in use stop between 100 and 1,000.
pub const DEPTH_MAX: usize = 128;

/// Checks valid JSON. Returns what is wrong with it.
pub fn check(bytes: &[u8]) -> Result<(), &'static str> {
    let (mut depth, mut at) = (0_usize, 0);
    while let Some(&byte) = bytes.get(at) {
        match byte {
            b'[' | b'{' => {
                depth += 1;
                if depth > DEPTH_MAX {
                    return Err("is nested deeper than 128 levels");
                }
            }
            b']' | b'}' => depth = depth.saturating_sub(1),
            b'"' => at = end_of_string(bytes, at + 1)?,
            _ => (),
        }
        at += 1;
    }
    Ok(())
}

/// Returns the position of the quote that ends a string.
fn end_of_string(bytes: &[u8], mut at: usize) -> Result<usize, &'static str> {
    const HALF: &str = "has half of a surrogate pair in a string";
    loop {
        match bytes.get(at) {
            None | Some(b'"') => return Ok(at),
            Some(b'\\') => {
                at += match code_unit(bytes, at) {
                    None => 2,
                    Some(0xdc00..=0xdfff) => return Err(HALF),
                    Some(0xd800..=0xdbff) => match code_unit(bytes, at + 6) {
                        Some(0xdc00..=0xdfff) => 12,
                        _ => return Err(HALF),
                    },
                    Some(_) => 6,
                }
            }
            Some(_) => at += 1,
        }
    }
}

/// Returns the number of an escape of the form `\u1234` at a position.
fn code_unit(bytes: &[u8], at: usize) -> Option<u16> {
    let digits = bytes.get(at..at + 6)?.strip_prefix(b"\\u")?;
    u16::from_str_radix(std::str::from_utf8(digits).ok()?, 16).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn usual_json_is_fine() {
        for text in [
            "1",
            "null",
            r#"{"a":[1,"x\"[{\\",{"b":"\u00e9\uD83D\uDE00"}]}"#,
            r#""\\ud800""#,
            r#""[[[[""#,
        ] {
            assert_eq!(check(text.as_bytes()), Ok(()), "{text}");
        }
        let deep = format!("{}{}", "[".repeat(DEPTH_MAX), "]".repeat(DEPTH_MAX));
        assert_eq!(check(deep.as_bytes()), Ok(()));
        let wide = format!("[{}1]", "[],".repeat(10_000));
        assert_eq!(check(wide.as_bytes()), Ok(()));
    }

    #[test]
    fn what_breaks_parsers_is_refused() {
        let deep = format!("{}{}", "[".repeat(DEPTH_MAX + 1), "]".repeat(DEPTH_MAX + 1));
        assert!(check(deep.as_bytes()).is_err());
        assert!(check("{\"a\":".repeat(100_000).as_bytes()).is_err());
        for text in [
            r#""\ud800""#,
            r#""\udc00""#,
            r#""\ud800\ud800""#,
            r#""\ud800x\udc00""#,
            r#"{"\uDBFF":1}"#,
            r#""\\\ud800""#,
        ] {
            assert!(check(text.as_bytes()).is_err(), "{text}");
        }
    }
}
