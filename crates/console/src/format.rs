//! Numbers and times as people read them.

use jiff::Timestamp;

const UNITS: [&str; 6] = ["B", "KiB", "MiB", "GiB", "TiB", "PiB"];

/// A size: `1.5 MiB`.
pub(crate) fn bytes(count: u64) -> String {
    let mut value = count as f64;
    let mut unit = 0;
    while value >= 1023.95 && unit + 1 < UNITS.len() {
        value /= 1024.0;
        unit += 1;
    }
    match unit {
        0 => format!("{count} B"),
        _ => format!("{} {}", short(value), UNITS[unit]),
    }
}

/// A whole number with spaces between thousands, so that it can be read at a glance.
pub(crate) fn count(number: u64) -> String {
    let digits = number.to_string();
    let mut text = String::with_capacity(digits.len() + digits.len() / 3);
    for (at, digit) in digits.chars().enumerate() {
        if at > 0 && (digits.len() - at).is_multiple_of(3) {
            // Narrow, and the line does not break there.
            text.push('\u{202f}');
        }
        text.push(digit);
    }
    text
}

/// A number and a noun: `1 job`, `2 jobs`, `2 deliveries`.
pub(crate) fn counted(number: u64, noun: &str) -> String {
    let stem = noun
        .strip_suffix('y')
        .filter(|stem| !stem.ends_with(['a', 'e', 'o', 'u']));
    match (number, stem) {
        (1, _) => format!("1 {noun}"),
        (_, Some(stem)) => format!("{} {stem}ies", count(number)),
        (_, None) => format!("{} {noun}s", count(number)),
    }
}

/// Any number, short: `0.25`, `12.5`, `1 234`, `1.2 M`.
pub(crate) fn number(value: f64) -> String {
    let size = value.abs();
    if size >= 999_950_000.0 {
        format!("{} G", short(value / 1e9))
    } else if size >= 999_950.0 {
        format!("{} M", short(value / 1e6))
    } else if size >= 1_000.0 {
        let sign = if value < 0.0 { "-" } else { "" };
        format!("{sign}{}", count(size.round() as u64))
    } else {
        short(value)
    }
}

/// A rate: `12.5/s`, and per minute where that is easier to grasp.
pub(crate) fn rate(per_second: f64) -> String {
    match per_second {
        slow if slow > 0.0 && slow < 0.1 => format!("{}/min", short(slow * 60.0)),
        rate => format!("{}/s", number(rate)),
    }
}

/// A share of the whole: `98.4 %`.
pub(crate) fn percent(share: f64) -> String {
    format!("{} %", short(share * 100.0))
}

/// A length of time, in one or two units: `340 ms`, `2 min 5 s`, `3 d 4 h`.
pub(crate) fn duration_ms(ms: u64) -> String {
    if ms < 1_000 {
        return format!("{ms} ms");
    }
    if ms < 60_000 {
        return format!("{} s", short(ms as f64 / 1_000.0));
    }
    let seconds = ms / 1_000;
    let (large, small) = match seconds {
        0..3_600 => ((seconds / 60, "min"), (seconds % 60, "s")),
        3_600..86_400 => ((seconds / 3_600, "h"), (seconds % 3_600 / 60, "min")),
        _ => ((seconds / 86_400, "d"), (seconds % 86_400 / 3_600, "h")),
    };
    match small.0 {
        0 => format!("{} {}", large.0, large.1),
        _ => format!("{} {} {} {}", large.0, large.1, small.0, small.1),
    }
}

pub(crate) fn duration_seconds(seconds: f64) -> String {
    duration_ms((seconds.max(0.0) * 1_000.0).round() as u64)
}

/// How far a time lies from now: `3 min ago`, `in 2 h`. One unit is enough there.
pub(crate) fn ago(at_ms: i64, now_ms: i64) -> String {
    let distance = now_ms.abs_diff(at_ms);
    let whole = match distance / 1_000 {
        0 => return "now".to_owned(),
        seconds @ 1..60 => format!("{seconds} s"),
        seconds @ 60..3_600 => format!("{} min", seconds / 60),
        seconds @ 3_600..86_400 => format!("{} h", seconds / 3_600),
        seconds => format!("{} d", seconds / 86_400),
    };
    if at_ms <= now_ms {
        format!("{whole} ago")
    } else {
        format!("in {whole}")
    }
}

/// A time in full, in UTC.
pub(crate) fn timestamp(at_ms: i64) -> String {
    Timestamp::from_millisecond(at_ms).map_or_else(|_| at_ms.to_string(), |time| time.to_string())
}

pub(crate) fn parse_time(text: &str) -> Option<i64> {
    text.parse::<Timestamp>().ok().map(|time| time.as_millisecond())
}

pub(crate) fn now_ms() -> i64 {
    Timestamp::now().as_millisecond()
}

/// Three digits that matter, without zeros at the end.
fn short(value: f64) -> String {
    let places = match value.abs() {
        size if size >= 99.95 => 0,
        size if size >= 9.995 => 1,
        _ => 2,
    };
    let text = format!("{value:.places$}");
    if text.contains('.') {
        text.trim_end_matches('0').trim_end_matches('.').to_owned()
    } else {
        text
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes_have_three_digits_and_a_unit() {
        let cases = [
            (0, "0 B"),
            (1023, "1023 B"),
            (1536, "1.5 KiB"),
            (1 << 20, "1 MiB"),
            (268_435_456, "256 MiB"),
        ];
        for (count, text) in cases {
            assert_eq!(bytes(count), text);
        }
    }

    #[test]
    fn numbers_are_short_and_grouped() {
        assert_eq!(count(1_234_567), "1\u{202f}234\u{202f}567");
        assert_eq!((count(0), count(999)), ("0".into(), "999".into()));
        let cases = [
            (0.0, "0"),
            (0.254, "0.25"),
            (12.5, "12.5"),
            (999.0, "999"),
            (1_200_000.0, "1.2 M"),
            (2e9, "2 G"),
        ];
        for (value, text) in cases {
            assert_eq!(number(value), text);
        }
        assert_eq!(
            (rate(0.02), rate(0.0), rate(3.0)),
            ("1.2/min".into(), "0/s".into(), "3/s".into())
        );
        assert_eq!(percent(0.984), "98.4 %");
        assert_eq!(
            (counted(1, "delivery"), counted(3, "delivery")),
            ("1 delivery".into(), "3 deliveries".into())
        );
        assert_eq!(counted(2, "key"), "2 keys");
    }

    #[test]
    fn lengths_of_time_have_at_most_two_units() {
        let cases = [
            (340, "340 ms"),
            (1_500, "1.5 s"),
            (125_000, "2 min 5 s"),
            (7_200_000, "2 h"),
            (273_600_000, "3 d 4 h"),
        ];
        for (ms, text) in cases {
            assert_eq!(duration_ms(ms), text);
        }
    }

    #[test]
    fn times_are_told_from_now() {
        assert_eq!(ago(1_000, 1_500), "now");
        assert_eq!(ago(0, 200_000), "3 min ago");
        assert_eq!(ago(7_200_000, 0), "in 2 h");
        assert_eq!(parse_time(&timestamp(1_700_000_000_123)), Some(1_700_000_000_123));
    }
}
