//! What the commands on members and fields share: replies, scans, random choice.

use std::collections::HashSet;

use nagaya_command_spec::error::CommandError;
use nagaya_command_spec::glob;
use nagaya_resp::{Args, Out, parse_i64};
use nagaya_store::listpack::{Item, ItemBuf};
use nagaya_store::rng::Rng;

/// Writes an element as a bulk string.
#[inline]
pub(crate) fn bulk_item(out: &mut Out, item: Item<'_>) {
    match item {
        Item::Int(int) => out.bulk_int(int),
        Item::Str(bytes) => out.bulk(bytes),
    }
}

/// Reads a cursor as `strtoul` does: nothing at all is 0, a minus wraps around, a zero byte ends it.
pub(crate) fn parse_cursor(text: &[u8]) -> Result<u64, CommandError> {
    let text = text.split(|&byte| byte == 0).next().unwrap_or_default();
    let (negative, digits) = match text {
        [] => return Ok(0),
        [b'-', digits @ ..] => (true, digits),
        [b'+', digits @ ..] => (false, digits),
        digits => (false, digits),
    };
    let invalid = || CommandError::err("invalid cursor");
    if digits.is_empty() || !digits.iter().all(u8::is_ascii_digit) {
        return Err(invalid());
    }
    let value = digits.iter().try_fold(0u64, |value, digit| {
        value.checked_mul(10)?.checked_add(u64::from(digit - b'0'))
    });
    value
        .map(|value| if negative { value.wrapping_neg() } else { value })
        .ok_or_else(invalid)
}

/// The options of HSCAN, SSCAN and ZSCAN.
pub(crate) struct ScanOptions<'a> {
    count: usize,
    pattern: Option<&'a [u8]>,
    /// HSCAN leaves the values out.
    no_values: bool,
}

impl<'a> ScanOptions<'a> {
    /// Reads the options from the fourth argument on.
    pub(crate) fn parse(args: &Args<'a>) -> Result<ScanOptions<'a>, CommandError> {
        let mut options = ScanOptions {
            count: 10,
            pattern: None,
            no_values: false,
        };
        let is_hscan = args
            .get(0)
            .is_some_and(|name| name.eq_ignore_ascii_case(b"hscan"));
        let mut at = 3;
        while let Some(word) = args.get(at) {
            if is_hscan && word.eq_ignore_ascii_case(b"novalues") {
                options.no_values = true;
                at += 1;
                continue;
            }
            let value = args.get(at + 1).ok_or(CommandError::Syntax)?;
            if word.eq_ignore_ascii_case(b"count") {
                let count = parse_i64(value).ok_or(CommandError::NotInteger)?;
                options.count = usize::try_from(count)
                    .ok()
                    .filter(|&count| count > 0)
                    .ok_or(CommandError::Syntax)?;
            } else if word.eq_ignore_ascii_case(b"match") {
                options.pattern = (value != b"*").then_some(value);
            } else {
                return Err(CommandError::Syntax);
            }
            at += 2;
        }
        Ok(options)
    }
}

/// One scan call on its way to a reply.
pub(crate) struct ScanReply<'a> {
    options: ScanOptions<'a>,
    body: Out,
    /// Elements met, those that the pattern left out included.
    met: usize,
    written: usize,
}

impl<'a> ScanReply<'a> {
    pub(crate) fn new(options: ScanOptions<'a>, out: &Out) -> ScanReply<'a> {
        ScanReply {
            options,
            body: Out::new(out.proto),
            met: 0,
            written: 0,
        }
    }

    /// Adds a member, or a field with its value, unless the pattern leaves it out.
    pub(crate) fn add(&mut self, member: Item<'_>, value: Option<Item<'_>>) {
        self.met += 1;
        if let Some(pattern) = self.options.pattern
            && !glob::matches(pattern, member.as_bytes(&mut ItemBuf::new()))
        {
            return;
        }
        bulk_item(&mut self.body, member);
        self.written += 1;
        if let Some(value) = value.filter(|_| !self.options.no_values) {
            bulk_item(&mut self.body, value);
            self.written += 1;
        }
    }

    /// Calls `step` with a cursor until enough was met, and writes the reply.
    ///
    /// In a sparse table the work is bounded by ten steps per element asked for.
    pub(crate) fn run(mut self, mut cursor: u64, out: &mut Out, mut step: impl FnMut(&mut Self, u64) -> u64) {
        let mut steps_left = self.options.count.saturating_mul(10);
        loop {
            cursor = step(&mut self, cursor);
            steps_left -= 1;
            if cursor == 0 || steps_left == 0 || self.met >= self.options.count {
                break;
            }
        }
        out.array(2);
        out.bulk(itoa::Buffer::new().format(cursor).as_bytes());
        out.array(self.written);
        out.raw(&self.body.buf);
    }
}

/// Writes the reply of a scan of nothing.
pub(crate) fn empty_scan(out: &mut Out) {
    out.array(2);
    out.bulk(b"0");
    out.array(0);
}

/// Reads how many random elements are wanted; negative means with repeats.
pub(crate) fn random_count(text: &[u8]) -> Result<i64, CommandError> {
    match parse_i64(text).ok_or(CommandError::NotInteger)? {
        i64::MIN => Err(CommandError::err(format!(
            "value is out of range, value must between {} and {}",
            -i64::MAX,
            i64::MAX
        ))),
        count => Ok(count),
    }
}

/// Calls `take` with `wanted` of the `total` elements of `all`, every choice equally likely, in order.
pub(crate) fn choose<T>(
    rng: &mut Rng,
    all: impl Iterator<Item = T>,
    total: usize,
    wanted: usize,
    mut take: impl FnMut(T),
) {
    let mut missing = wanted;
    for (seen, element) in all.take(total).enumerate() {
        if rng.below(total - seen) < missing {
            missing -= 1;
            take(element);
        }
        if missing == 0 {
            return;
        }
    }
}

/// Elements drawn so far from one collection, told apart by value or by where they lie in memory.
#[derive(Default)]
pub(crate) struct Drawn(HashSet<u64>);

impl Drawn {
    /// Notes an element; false when it was drawn before.
    pub(crate) fn insert(&mut self, item: Item<'_>) -> bool {
        self.0.insert(match item {
            Item::Int(int) => int as u64,
            Item::Str(bytes) => bytes.as_ptr() as u64,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn cursors_are_read_as_strtoul_reads_them() {
        for (text, expected) in [
            ("", Some(0)),
            ("0", Some(0)),
            ("+17", Some(17)),
            ("18446744073709551615", Some(u64::MAX)),
            ("18446744073709551616", None),
            ("-1", Some(u64::MAX)),
            ("5\0x", Some(5)),
            (" 1", None),
            ("1 ", None),
            ("x", None),
            ("-", None),
        ] {
            assert_eq!(parse_cursor(text.as_bytes()).ok(), expected, "{text:?}");
        }
    }

    #[test]
    fn choose_takes_exactly_as_many_and_favours_none() {
        let mut rng = Rng::seeded(9);
        let mut counts = [0u32; 10];
        for _ in 0..10_000 {
            let mut taken = 0;
            choose(&mut rng, 0..10, 10, 3, |at: usize| {
                counts[at] += 1;
                taken += 1;
            });
            assert_eq!(taken, 3);
        }
        assert!(counts.iter().all(|&n| (2_700..3_300).contains(&n)), "{counts:?}");
    }
}
