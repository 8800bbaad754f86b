//! Finds the ids in a line.

use crate::layout::Layout;

/// Shorter numbers are not taken for ids in a log: years, counts, times in milliseconds.
const LOG_DIGITS_MIN: usize = 15;
const DIGITS_MAX: usize = 20;

/// What the lines of an audited input are.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum Source {
    /// One id per line, perhaps in quotes or with a comma after it.
    #[default]
    Lines,
    /// Log lines with any number of ids in them.
    Log {
        /// The name that ids stand behind (`id=1`, `"id": "1"`). Without it every long number
        /// that makes sense as an id is one; a log that mentions an id twice has a duplicate.
        field: Option<String>,
    },
}

impl Source {
    pub(super) fn expects_an_id_per_line(&self) -> bool {
        matches!(self, Source::Lines)
    }
}

/// Calls `found` for each id of a line.
pub(super) fn each_id(
    line: &[u8],
    source: &Source,
    layout: &Layout,
    latest_ms: u64,
    found: &mut dyn FnMut(u64),
) {
    match source {
        Source::Lines => {
            let bare = line.strip_suffix(b",").unwrap_or(line);
            let quoted = bare.strip_prefix(b"\"").and_then(|rest| rest.strip_suffix(b"\""));
            let id = number(quoted.unwrap_or(bare)).filter(|id| layout.decode(*id).is_some());
            id.into_iter().for_each(found);
        }
        Source::Log { field } => {
            for (before, digits) in digit_runs(line) {
                let Some(id) = number(digits) else { continue };
                let Some(parts) = layout.decode(id) else { continue };
                let is_id = match field {
                    Some(field) => stands_behind(before, field.as_bytes()),
                    None => digits.len() >= LOG_DIGITS_MIN && parts.unix_ms <= latest_ms,
                };
                if is_id {
                    found(id);
                }
            }
        }
    }
}

fn number(digits: &[u8]) -> Option<u64> {
    if digits.is_empty() || digits.len() > DIGITS_MAX {
        return None;
    }
    digits.iter().try_fold(0u64, |number, byte| {
        let digit = byte.is_ascii_digit().then(|| u64::from(byte - b'0'))?;
        number.checked_mul(10)?.checked_add(digit)
    })
}

/// Returns the whole numbers of a line, each with what stands before it. Parts of words, of hexadecimal
/// numbers and of numbers with a point are none.
fn digit_runs(line: &[u8]) -> impl Iterator<Item = (&[u8], &[u8])> {
    let mut at = 0;
    std::iter::from_fn(move || {
        loop {
            let start = at + line[at..].iter().position(u8::is_ascii_digit)?;
            let length = line[start..]
                .iter()
                .take_while(|byte| byte.is_ascii_digit())
                .count();
            let end = start + length;
            at = end;
            let (before, after) = (&line[..start], &line[end..]);
            let joined_before = before
                .last()
                .is_some_and(|byte| is_word(*byte) || b".-".contains(byte));
            let joined_after = match after {
                [b'.', next, ..] => next.is_ascii_digit(),
                [next, ..] => is_word(*next),
                [] => false,
            };
            if !joined_before && !joined_after {
                return Some((before, &line[start..end]));
            }
        }
    })
}

/// Returns whether a text ends with the name and then `=` or `:`, with quotes and spaces around it.
fn stands_behind(before: &[u8], field: &[u8]) -> bool {
    let trim = |text: &mut &[u8], set: &[u8]| {
        let kept = text
            .iter()
            .rposition(|byte| !set.contains(byte))
            .map_or(0, |at| at + 1);
        *text = &text[..kept];
    };
    let mut rest = before;
    trim(&mut rest, b"\"' ");
    let Some((b'=' | b':', name)) = rest.split_last() else {
        return false;
    };
    rest = name;
    trim(&mut rest, b"\"' ");
    rest.strip_suffix(field)
        .is_some_and(|rest| !rest.last().is_some_and(|byte| is_word(*byte)))
}

fn is_word(byte: u8) -> bool {
    byte.is_ascii_alphanumeric() || byte == b'_'
}

#[cfg(test)]
mod tests {
    use super::*;

    const ID: u64 = 1_571_405_644_869_685_251;

    fn found(line: &str, source: &Source) -> Vec<u64> {
        let mut ids = Vec::new();
        each_id(
            line.as_bytes(),
            source,
            &Layout::default(),
            1_794_722_800_000,
            &mut |id| ids.push(id),
        );
        ids
    }

    #[test]
    fn a_line_is_an_id_with_or_without_quotes() {
        let check = |line: &str, ids: &[u64]| assert_eq!(found(line, &Source::Lines), ids, "{line}");
        check("7", &[7]);
        check("\"7\",", &[7]);
        check("7,", &[7]);
        check("7 8", &[]);
        check("\"7", &[]);
        check("9223372036854775808", &[]);
        check("00000000000000000007", &[7]);
        check("000000000000000000007", &[]);
    }

    #[test]
    fn a_log_gives_every_number_that_makes_sense_as_an_id() {
        let log = Source::Log { field: None };
        let check = |line: &str, count: usize| assert_eq!(found(line, &log), vec![ID; count], "{line}");
        check(&format!("2026-11-15T06:05:01.042 INFO made id={ID} for 42"), 1);
        check(&format!("[{ID},{ID}] {{\"id\":\"{ID}\"}} sentence {ID}."), 4);
        check(&format!("x{ID} {ID}x 0.{ID} {ID}.5 a-{ID} {ID}_"), 0);
        check(
            "1794722701042000000 is a time in nanoseconds, 1794722701042 in milliseconds",
            0,
        );
    }

    #[test]
    fn a_field_narrows_a_log_down() {
        let log = Source::Log {
            field: Some("request_id".to_owned()),
        };
        let check = |line: &str, count: usize| assert_eq!(found(line, &log).len(), count, "{line}");
        check(&format!("request_id={ID} id={ID}"), 1);
        check(&format!("{{\"request_id\": \"{ID}\", \"other\": {ID}}}"), 1);
        check(&format!("request_id: {ID}"), 1);
        check(&format!("my_request_id={ID} request_id {ID} {ID}"), 0);
        check("request_id=7", 1);
    }
}
