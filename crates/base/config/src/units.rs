//! Durations and sizes, always written with their unit.

use std::fmt;
use std::time::Duration;

use crate::value::{Raw, Value};

/// Units of time, largest first, with their length in milliseconds.
const TIME_UNITS: [(&str, u64); 5] = [
    ("d", 86_400_000),
    ("h", 3_600_000),
    ("m", 60_000),
    ("s", 1_000),
    ("ms", 1),
];

/// Units of size, largest first, in bytes. As in Redis's own config, `kb` is 1024 bytes.
const SIZE_UNITS: [(&str, u64); 5] = [
    ("tb", 1 << 40),
    ("gb", 1 << 30),
    ("mb", 1 << 20),
    ("kb", 1 << 10),
    ("b", 1),
];

/// A number of bytes, written `64mb`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct ByteSize(pub u64);

impl ByteSize {
    /// The size as a length in memory; saturates where `usize` is smaller.
    pub fn as_usize(self) -> usize {
        usize::try_from(self.0).unwrap_or(usize::MAX)
    }
}

impl fmt::Display for ByteSize {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write_in_units(f, self.0, &SIZE_UNITS)
    }
}

impl Value for ByteSize {
    const KIND: &'static str = "a size such as `\"64mb\"` (`b`, `kb`, `mb`, `gb`, `tb`; 1kb is 1024 bytes)";

    fn read(raw: &Raw) -> Option<ByteSize> {
        match raw {
            Raw::Integer(bytes) => u64::try_from(*bytes).ok().map(ByteSize),
            Raw::Words(words) if words.trim().bytes().all(|b| b.is_ascii_digit()) => {
                words.trim().parse().ok().map(ByteSize)
            }
            other => read_in_units(&other.text()?.to_ascii_lowercase(), &SIZE_UNITS).map(ByteSize),
        }
    }

    fn write(&self) -> Raw {
        Raw::Text(self.to_string())
    }
}

impl Value for Duration {
    const KIND: &'static str = "a duration such as `\"5s\"` (`ms`, `s`, `m`, `h`, `d`)";

    fn read(raw: &Raw) -> Option<Duration> {
        read_in_units(raw.text()?, &TIME_UNITS).map(Duration::from_millis)
    }

    fn write(&self) -> Raw {
        let ms = u64::try_from(self.as_millis()).unwrap_or(u64::MAX);
        Raw::Text(InUnits(ms, &TIME_UNITS).to_string())
    }
}

struct InUnits<'a>(u64, &'a [(&'a str, u64)]);

impl fmt::Display for InUnits<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write_in_units(f, self.0, self.1)
    }
}

/// Writes the amount in the largest unit that divides it, so nothing is rounded.
fn write_in_units(f: &mut fmt::Formatter<'_>, amount: u64, units: &[(&str, u64)]) -> fmt::Result {
    let exact = units
        .iter()
        .find(|(_, length)| amount != 0 && amount.is_multiple_of(*length));
    let smallest = units[units.len() - 1];
    let (name, length) = exact.copied().unwrap_or(smallest);
    write!(f, "{}{name}", amount / length)
}

/// Reads one or more numbers with units, as in `1m30s`; `None` on anything else and on overflow.
fn read_in_units(text: &str, units: &[(&str, u64)]) -> Option<u64> {
    let mut rest = text.trim();
    let mut total: u64 = 0;
    if rest.is_empty() {
        return None;
    }
    while !rest.is_empty() {
        let digits = rest.find(|c: char| !c.is_ascii_digit())?;
        let amount: u64 = rest[..digits].parse().ok()?;
        rest = &rest[digits..];
        let letters = rest
            .find(|c: char| !c.is_ascii_alphabetic())
            .unwrap_or(rest.len());
        let (_, length) = units.iter().find(|(name, _)| *name == &rest[..letters])?;
        total = total.checked_add(amount.checked_mul(*length)?)?;
        rest = &rest[letters..];
    }
    Some(total)
}

/// Reads a length of time such as `1m30s`, or a size such as `64mb`, as a command line has it.
pub fn with_unit<T: Value>(text: &str) -> Result<T, String> {
    T::read(&Raw::Words(text.to_owned())).ok_or_else(|| format!("must be {}", T::KIND))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lengths_on_the_command_line_need_their_unit() {
        assert_eq!(with_unit("1m30s"), Ok(Duration::from_secs(90)));
        assert!(with_unit::<Duration>("90").is_err());
        assert_eq!(with_unit("1kb"), Ok(ByteSize(1024)));
    }

    #[test]
    fn durations_are_read_with_their_unit_and_written_without_loss() {
        let check = |text: &str, ms: Option<u64>| {
            assert_eq!(
                Duration::read(&Raw::from(text)),
                ms.map(Duration::from_millis),
                "{text}"
            );
        };
        check("200ms", Some(200));
        check("5s", Some(5_000));
        check("1m30s", Some(90_000));
        check("2h", Some(7_200_000));
        check("5", None);
        check("", None);
        check("s", None);
        check("-1s", None);
        check("1.5s", None);
        check("99999999999999999999d", None);
        assert_eq!(Duration::from_millis(1500).write(), Raw::from("1500ms"));
        assert_eq!(Duration::from_secs(120).write(), Raw::from("2m"));
        assert_eq!(Duration::ZERO.write(), Raw::from("0ms"));
    }

    #[test]
    fn sizes_are_read_in_powers_of_1024() {
        assert_eq!(ByteSize::read(&Raw::from("64MB")), Some(ByteSize(64 << 20)));
        assert_eq!(ByteSize::read(&Raw::Integer(10)), Some(ByteSize(10)));
        assert_eq!(ByteSize::read(&Raw::Words("10".into())), Some(ByteSize(10)));
        assert_eq!(ByteSize::read(&Raw::from("10")), None);
        assert_eq!(ByteSize(3 << 10).write(), Raw::from("3kb"));
    }
}
