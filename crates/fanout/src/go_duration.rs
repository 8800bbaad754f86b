//! Durations as Go writes them: `1m30s`, `0.2s`, `100ms`, or a bare number of nanoseconds.

use std::time::Duration;

use serde::de::{Deserialize, Deserializer, Error};

/// Nanoseconds in each unit that Go knows.
const UNITS: [(&str, f64); 8] = [
    ("ns", 1.0),
    ("us", 1e3),
    ("\u{b5}s", 1e3),
    ("\u{3bc}s", 1e3),
    ("ms", 1e6),
    ("s", 1e9),
    ("m", 60e9),
    ("h", 3600e9),
];

/// A duration in a JSON file of serinin. A negative one counts as absent, as in serinin.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct GoDuration(pub(crate) Duration);

impl GoDuration {
    /// Returns the duration unless it is zero, which stands for absent.
    pub(crate) fn given(self) -> Option<Duration> {
        Some(self.0).filter(|duration| !duration.is_zero())
    }
}

impl<'de> Deserialize<'de> for GoDuration {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<GoDuration, D::Error> {
        let nanos = match serde_json::Value::deserialize(deserializer)? {
            serde_json::Value::Number(number) => number.as_f64(),
            serde_json::Value::String(text) => nanos(&text),
            _ => None,
        };
        let nanos = nanos.ok_or_else(|| {
            D::Error::custom("a duration is text such as \"1m30s\" or a number of nanoseconds")
        })?;
        Ok(GoDuration(Duration::from_nanos(nanos.max(0.0) as u64)))
    }
}

fn nanos(text: &str) -> Option<f64> {
    let (sign, mut rest) = match text.strip_prefix('-') {
        Some(rest) => (-1.0, rest),
        None => (1.0, text.strip_prefix('+').unwrap_or(text)),
    };
    if rest == "0" {
        return Some(0.0);
    }
    if rest.is_empty() {
        return None;
    }
    let mut total = 0.0;
    while !rest.is_empty() {
        let end = rest
            .find(|c: char| !c.is_ascii_digit() && c != '.')
            .unwrap_or(rest.len());
        let amount: f64 = rest[..end].parse().ok()?;
        rest = &rest[end..];
        let end = rest
            .find(|c: char| c.is_ascii_digit() || c == '.')
            .unwrap_or(rest.len());
        let (_, length) = UNITS.iter().find(|(name, _)| *name == &rest[..end])?;
        total += amount * length;
        rest = &rest[end..];
    }
    Some(sign * total.round())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(json: &str, expected: Option<Duration>) {
        let read = serde_json::from_str::<GoDuration>(json).ok();
        assert_eq!(read.map(|duration| duration.0), expected, "{json}");
    }

    #[test]
    fn durations_are_read_as_go_does() {
        check("\"0.2s\"", Some(Duration::from_millis(200)));
        check("\"1m30s\"", Some(Duration::from_secs(90)));
        check("\"1.5h\"", Some(Duration::from_secs(5400)));
        check("\"100us\"", Some(Duration::from_micros(100)));
        check("\"100\u{b5}s\"", Some(Duration::from_micros(100)));
        check("\"+.5s\"", Some(Duration::from_millis(500)));
        check("\"0\"", Some(Duration::ZERO));
        check("\"-1s\"", Some(Duration::ZERO));
        check("200000000", Some(Duration::from_millis(200)));
        check("1.5e9", Some(Duration::from_millis(1500)));
        for bad in [
            "\"\"", "\"5\"", "\"5x\"", "\"s\"", "\".s\"", "\"1d\"", "true", "[]",
        ] {
            check(bad, None);
        }
    }
}
