//! Numbers as people read them.

/// A size, in units of 1024.
pub(super) fn bytes(bytes: u64) -> String {
    const UNITS: [&str; 5] = ["kB", "MB", "GB", "TB", "PB"];
    if bytes < 1024 {
        return format!("{bytes} B");
    }
    let mut size = bytes as f64 / 1024.0;
    let mut unit = 0;
    while size >= 1024.0 && unit + 1 < UNITS.len() {
        size /= 1024.0;
        unit += 1;
    }
    format!("{size:.1} {}", UNITS[unit])
}

/// A count; large ones to three digits.
pub(super) fn count(count: u64) -> String {
    match count {
        0..=9_999 => count.to_string(),
        _ => shortened(count as f64),
    }
}

/// A rate without its unit.
pub(super) fn rate(rate: f64) -> String {
    match rate {
        rate if rate < 0.005 => "0".to_owned(),
        rate if rate < 10.0 => {
            let text = format!("{rate:.2}");
            text.trim_end_matches('0').trim_end_matches('.').to_owned()
        }
        rate if rate < 1000.0 => format!("{rate:.0}"),
        rate => shortened(rate),
    }
}

/// A length of time in its two largest units.
pub(super) fn duration(seconds: u64) -> String {
    let (days, hours, minutes) = (seconds / 86_400, seconds / 3_600 % 24, seconds / 60 % 60);
    match (days, hours, minutes) {
        (0, 0, 0) => format!("{seconds}s"),
        (0, 0, _) => format!("{minutes}m {}s", seconds % 60),
        (0, _, _) => format!("{hours}h {minutes}m"),
        _ => format!("{days}d {hours}h"),
    }
}

fn shortened(number: f64) -> String {
    let (scaled, unit) = match number {
        number if number < 999_500.0 => (number / 1e3, "k"),
        number if number < 999_500_000.0 => (number / 1e6, "M"),
        number => (number / 1e9, "G"),
    };
    match scaled {
        scaled if scaled < 9.995 => format!("{scaled:.2}{unit}"),
        scaled if scaled < 99.95 => format!("{scaled:.1}{unit}"),
        scaled => format!("{scaled:.0}{unit}"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes_and_counts_have_few_digits() {
        for (given, expected) in [(0, "0 B"), (1536, "1.5 kB"), (5 << 30, "5.0 GB")] {
            assert_eq!(bytes(given), expected);
        }
        for (given, expected) in [(9_999, "9999"), (12_345, "12.3k"), (1_000_000, "1.00M")] {
            assert_eq!(count(given), expected);
        }
        for (given, expected) in [
            (0.0, "0"),
            (0.25, "0.25"),
            (3.0, "3"),
            (120.4, "120"),
            (1520.0, "1.52k"),
        ] {
            assert_eq!(rate(given), expected);
        }
    }

    #[test]
    fn times_are_told_in_their_two_largest_units() {
        let check = |seconds, expected: &str| assert_eq!(duration(seconds), expected);
        check(5, "5s");
        check(65, "1m 5s");
        check(3_700, "1h 1m");
        check(200_000, "2d 7h");
    }
}
