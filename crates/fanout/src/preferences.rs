//! What a client prefers instead of an id at once, told in `Prefer` (RFC 7240).
//!
//! `wait=250ms` waits that long for answers. `first` and `quorum=N` end the wait with so many good answers, `max=FIELD`
//! and `min=FIELD` choose one of them. Other preferences are for others and are ignored, as the RFC asks; one of ours
//! that makes no sense is an error, because its sender would take the reply for something else.

use std::time::Duration;

use http::HeaderMap;

use crate::read_back::parse_timeout;

/// Longest name of a field, in bytes.
const FIELD_BYTES_MAX: usize = 200;

/// When a wait ends before its time.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum Enough {
    /// When all endpoints are accounted for.
    #[default]
    All,
    /// When this many have answered well.
    Answers(usize),
}

/// Which answer is the best.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Best {
    /// A JSON pointer to a number in the answer.
    pub(crate) pointer: String,
    pub(crate) side: Side,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Side {
    Max,
    Min,
}

/// The preferences that concern us.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Preferences {
    pub(crate) wait: Option<Duration>,
    pub(crate) enough: Enough,
    pub(crate) best: Option<Best>,
}

impl Preferences {
    /// Reads the headers of a request; the error says which preference makes no sense.
    pub(crate) fn read(headers: &HeaderMap) -> Result<Preferences, String> {
        let mut read = Preferences::default();
        for line in headers.get_all("prefer") {
            let line = line
                .to_str()
                .map_err(|_| "`Prefer` may only have ASCII characters".to_owned())?;
            for (name, value) in items(line)? {
                read.set(&name.to_ascii_lowercase(), &value)?;
            }
        }
        Ok(read)
    }

    fn set(&mut self, name: &str, value: &str) -> Result<(), String> {
        match name {
            "wait" => {
                let wait = parse_timeout(value)
                    .ok_or("`Prefer: wait=` needs a duration such as 250ms or 2s, or a number of seconds")?;
                // The first one counts, says the RFC.
                self.wait.get_or_insert(wait);
            }
            "first" if value.is_empty() => self.ends_with(Enough::Answers(1))?,
            "first" => return Err("`Prefer: first` takes no value".to_owned()),
            "quorum" => {
                let count = value.parse().ok().filter(|count| *count > 0);
                let count = count.ok_or("`Prefer: quorum=` needs the number of good answers to wait for")?;
                self.ends_with(Enough::Answers(count))?;
            }
            "max" => self.chooses(Side::Max, value)?,
            "min" => self.chooses(Side::Min, value)?,
            _ => (),
        }
        Ok(())
    }

    fn ends_with(&mut self, enough: Enough) -> Result<(), String> {
        if self.enough != Enough::All {
            return Err("`Prefer` has two of `first` and `quorum`; one can be met".to_owned());
        }
        self.enough = enough;
        Ok(())
    }

    fn chooses(&mut self, side: Side, field: &str) -> Result<(), String> {
        if self.best.is_some() {
            return Err("`Prefer` has two of `max` and `min`; one answer can be the best".to_owned());
        }
        if field.is_empty() || field.len() > FIELD_BYTES_MAX {
            return Err(format!(
                "`Prefer: max=` and `min=` need the name of a field, such as price, offer.price or \"/offer/price\", \
                 {FIELD_BYTES_MAX} bytes long at most"
            ));
        }
        self.best = Some(Best {
            pointer: pointer(field),
            side,
        });
        Ok(())
    }
}

/// Returns the JSON pointer for a name with dots; one that begins with a slash is a pointer already.
fn pointer(field: &str) -> String {
    if field.starts_with('/') {
        return field.to_owned();
    }
    let escape = |part: &str| format!("/{}", part.replace('~', "~0").replace('/', "~1"));
    field.split('.').map(escape).collect()
}

/// Splits a header into preferences with their values, which may be quoted. Parameters after a semicolon belong to
/// none of ours and are left out.
fn items(line: &str) -> Result<Vec<(String, String)>, String> {
    let mut items = Vec::new();
    for item in split(line, ',')? {
        let item = split(item, ';')?.first().copied().unwrap_or_default();
        let (name, value) = item.split_once('=').unwrap_or((item, ""));
        let (name, value) = (name.trim(), unquoted(value.trim()));
        if !name.is_empty() {
            items.push((name.to_owned(), value));
        }
    }
    Ok(items)
}

/// Splits at a character outside quotes.
fn split(text: &str, at: char) -> Result<Vec<&str>, String> {
    let (mut parts, mut start) = (Vec::new(), 0);
    let (mut is_quoted, mut is_escaped) = (false, false);
    for (index, found) in text.char_indices() {
        match found {
            _ if is_escaped => is_escaped = false,
            '\\' if is_quoted => is_escaped = true,
            '"' => is_quoted = !is_quoted,
            found if found == at && !is_quoted => {
                parts.push(&text[start..index]);
                start = index + at.len_utf8();
            }
            _ => (),
        }
    }
    if is_quoted {
        return Err("`Prefer` has a quoted text without its end".to_owned());
    }
    parts.push(&text[start..]);
    Ok(parts)
}

fn unquoted(value: &str) -> String {
    let Some(inner) = value.strip_prefix('"').and_then(|rest| rest.strip_suffix('"')) else {
        return value.to_owned();
    };
    let mut text = String::with_capacity(inner.len());
    let mut chars = inner.chars();
    while let Some(found) = chars.next() {
        text.extend(if found == '\\' { chars.next() } else { Some(found) });
    }
    text
}

#[cfg(test)]
mod tests {
    use http::HeaderValue;

    use super::*;

    fn read(lines: &[&str]) -> Result<Preferences, String> {
        let lines = lines.iter().map(|line| HeaderValue::from_str(line).unwrap());
        Preferences::read(
            &lines
                .map(|line| (http::header::HeaderName::from_static("prefer"), line))
                .collect(),
        )
    }

    #[test]
    fn what_is_ours_is_read_and_the_rest_is_for_others() {
        assert_eq!(read(&[]), Ok(Preferences::default()));
        assert_eq!(
            read(&["return=minimal; wait=1, , respond-async"]),
            Ok(Preferences::default())
        );
        let read = |line| read(&[line]).unwrap();
        assert_eq!(read("wait=250ms").wait, Some(Duration::from_millis(250)));
        assert_eq!(read("Wait = \"2\"").wait, Some(Duration::from_secs(2)));
        assert_eq!(read("wait=1, wait=2").wait, Some(Duration::from_secs(1)));
        assert_eq!(read("first").enough, Enough::Answers(1));
        assert_eq!(read("wait=1, quorum=3").enough, Enough::Answers(3));
        let best = |line| read(line).best.unwrap();
        assert_eq!(
            (best("max=price").pointer.as_str(), best("max=price").side),
            ("/price", Side::Max)
        );
        assert_eq!(best("min=offer.0.price").pointer, "/offer/0/price");
        assert_eq!(best(r#"min="/a,b~1\"c""#).pointer, "/a,b~1\"c");
    }

    #[test]
    fn several_headers_are_one() {
        let both = read(&["wait=1", "quorum=2, min=price"]).unwrap();
        assert_eq!(
            (both.wait, both.enough),
            (Some(Duration::from_secs(1)), Enough::Answers(2))
        );
        assert!(both.best.is_some());
    }

    #[test]
    fn what_makes_no_sense_is_told() {
        for bad in [
            "wait",
            "wait=soon",
            "wait=-1",
            "first=2",
            "quorum",
            "quorum=0",
            "quorum=-1",
            "quorum=99999999999999999999",
            "first, quorum=2",
            "max",
            "max=\"\"",
            "max=a, min=b",
            "max=\"a",
        ] {
            assert!(read(&[bad]).is_err(), "{bad}");
        }
        assert!(read(&[&format!("max={}", "x".repeat(201))]).is_err());
    }
}
