//! Splits an inline request, the form people type into a raw connection, into words.
//!
//! Words are separated by white space. A double-quoted part knows `\n \r \t \b \a`, `\xHH` and a backslash
//! before any other byte; a single-quoted part knows only `\'`. A closing quote must end its word.

use crate::args::Span;

/// The line ended inside quotes, or a closing quote was followed by more of the word.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct UnbalancedQuotes;

/// Appends the words of `line` to `words`, end to end, and where each one lies to `spans`.
pub(crate) fn split(line: &[u8], words: &mut Vec<u8>, spans: &mut Vec<Span>) -> Result<(), UnbalancedQuotes> {
    let mut rest = line;
    loop {
        rest = skip_blanks(rest);
        if rest.is_empty() {
            return Ok(());
        }
        let start = words.len();
        rest = take_word(rest, words)?;
        // A line has at most as many word bytes as it has bytes, and it fits a span.
        spans.push((start as u32, words.len() as u32));
    }
}

fn take_word<'a>(mut rest: &'a [u8], words: &mut Vec<u8>) -> Result<&'a [u8], UnbalancedQuotes> {
    while let Some((&byte, after)) = rest.split_first() {
        match byte {
            b' ' | b'\n' | b'\r' | b'\t' => return Ok(after),
            b'"' => return end_of_word(take_double_quoted(after, words)?),
            b'\'' => return end_of_word(take_single_quoted(after, words)?),
            _ => words.push(byte),
        }
        rest = after;
    }
    Ok(rest)
}

fn take_double_quoted<'a>(mut rest: &'a [u8], words: &mut Vec<u8>) -> Result<&'a [u8], UnbalancedQuotes> {
    loop {
        rest = match rest {
            [] => return Err(UnbalancedQuotes),
            [b'"', after @ ..] => return Ok(after),
            [b'\\', b'x', high, low, after @ ..] if high.is_ascii_hexdigit() && low.is_ascii_hexdigit() => {
                words.push(hex_value(*high) * 16 + hex_value(*low));
                after
            }
            [b'\\', escaped, after @ ..] => {
                words.push(unescape(*escaped));
                after
            }
            [byte, after @ ..] => {
                words.push(*byte);
                after
            }
        }
    }
}

fn take_single_quoted<'a>(mut rest: &'a [u8], words: &mut Vec<u8>) -> Result<&'a [u8], UnbalancedQuotes> {
    loop {
        rest = match rest {
            [] => return Err(UnbalancedQuotes),
            [b'\'', after @ ..] => return Ok(after),
            [b'\\', b'\'', after @ ..] => {
                words.push(b'\'');
                after
            }
            [byte, after @ ..] => {
                words.push(*byte);
                after
            }
        }
    }
}

/// Checks that nothing but a blank follows a closing quote.
fn end_of_word(rest: &[u8]) -> Result<&[u8], UnbalancedQuotes> {
    match rest.first() {
        Some(&byte) if !is_blank(byte) => Err(UnbalancedQuotes),
        _ => Ok(rest),
    }
}

fn unescape(byte: u8) -> u8 {
    match byte {
        b'n' => b'\n',
        b'r' => b'\r',
        b't' => b'\t',
        b'b' => 0x08,
        b'a' => 0x07,
        other => other,
    }
}

fn hex_value(digit: u8) -> u8 {
    match digit {
        b'0'..=b'9' => digit - b'0',
        b'a'..=b'f' => digit - b'a' + 10,
        _ => digit - b'A' + 10,
    }
}

fn skip_blanks(bytes: &[u8]) -> &[u8] {
    let blanks = bytes.iter().take_while(|&&byte| is_blank(byte)).count();
    &bytes[blanks..]
}

/// White space as C sees it, vertical tab and form feed included.
fn is_blank(byte: u8) -> bool {
    matches!(byte, b' ' | b'\t' | b'\n' | 0x0b | 0x0c | b'\r')
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::args::Args;

    fn check(line: &[u8], expected: Option<&[&[u8]]>) {
        let (mut words, mut spans) = (Vec::new(), Vec::new());
        let outcome = split(line, &mut words, &mut spans);
        match expected {
            Some(expected) => {
                assert_eq!(outcome, Ok(()), "{}", line.escape_ascii());
                assert_eq!(Args::from_spans(&words, &spans), Args::from_slices(expected));
            }
            None => assert_eq!(outcome, Err(UnbalancedQuotes), "{}", line.escape_ascii()),
        }
    }

    #[test]
    fn words_are_parted_by_any_white_space() {
        check(b"", Some(&[]));
        check(b" \t \x0b\x0c\r", Some(&[]));
        check(b"SET key value", Some(&[b"SET", b"key", b"value"]));
        check(b"  SET\t key  ", Some(&[b"SET", b"key"]));
        check(b"a\rb", Some(&[b"a", b"b"]));
    }

    #[test]
    fn a_vertical_tab_inside_a_word_belongs_to_it() {
        check(b"a\x0bb", Some(&[b"a\x0bb"]));
    }

    #[test]
    fn double_quotes_resolve_escapes() {
        check(
            br#"SET k "a b\n\r\t\b\a\x41\xfF\q\"" "#,
            Some(&[b"SET", b"k", b"a b\n\r\t\x08\x07A\xffq\""]),
        );
        check(br#""\xZZ""#, Some(&[b"xZZ"]));
        check(br#""" x"#, Some(&[b"", b"x"]));
    }

    #[test]
    fn single_quotes_resolve_only_the_quote() {
        check(br"'a\n\'b' c", Some(&[br"a\n'b", b"c"]));
        check(br"''", Some(&[b""]));
    }

    #[test]
    fn quotes_may_start_inside_a_word_but_must_end_it() {
        check(br#"ab"cd""#, Some(&[b"abcd"]));
        check(br#""ab"cd"#, None);
        check(br"'ab'cd", None);
        check(br#"'ab'"cd""#, None);
    }

    #[test]
    fn an_open_quote_is_refused() {
        check(br#"GET "a"#, None);
        check(br"GET 'a", None);
        check(br#"GET "a\""#, None);
        check(b"\"\\", None);
        check(br"'\'", None);
    }
}
