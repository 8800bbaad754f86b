//! Numbers as Redis reads them from arguments: stricter than most parsers for integers, as lenient as
//! the C library for floats.

/// Reads an integer in its one canonical form: an optional minus, no plus, no leading zeros, no blanks.
#[inline]
pub fn parse_i64(text: &[u8]) -> Option<i64> {
    let (negative, digits) = match text {
        [b'0'] => return Some(0),
        [b'-', digits @ ..] => (true, digits),
        digits => (false, digits),
    };
    if !matches!(digits.first(), Some(b'1'..=b'9')) || digits.len() > 19 {
        return None;
    }
    // Nineteen digits always fit a u64.
    let mut magnitude = 0u64;
    for byte in digits {
        let digit = byte.wrapping_sub(b'0');
        if digit > 9 {
            return None;
        }
        magnitude = magnitude * 10 + u64::from(digit);
    }
    if negative {
        0i64.checked_sub_unsigned(magnitude)
    } else {
        i64::try_from(magnitude).ok()
    }
}

/// Reads a float the way Redis does through `strtod`: the whole text, no blanks, decimal or hexadecimal,
/// `inf` and `infinity` in any case.
///
/// Not-a-number is refused, and so is a number that overflows or that vanishes to zero.
pub fn parse_f64(text: &[u8]) -> Option<f64> {
    let (negative, unsigned) = match text {
        [b'-', rest @ ..] => (true, rest),
        [b'+', rest @ ..] => (false, rest),
        rest => (false, rest),
    };
    let magnitude = match unsigned {
        [b'0', b'x' | b'X', hex @ ..] => parse_hex(hex)?,
        [b'0'..=b'9' | b'.', ..] => parse_decimal(unsigned)?,
        _ if unsigned.eq_ignore_ascii_case(b"inf") || unsigned.eq_ignore_ascii_case(b"infinity") => {
            f64::INFINITY
        }
        _ => return None,
    };
    Some(if negative { -magnitude } else { magnitude })
}

fn parse_decimal(text: &[u8]) -> Option<f64> {
    let value: f64 = std::str::from_utf8(text).ok()?.parse().ok()?;
    let mantissa = text
        .split(|byte| matches!(byte, b'e' | b'E'))
        .next()
        .unwrap_or_default();
    let vanished = value == 0.0 && mantissa.iter().any(|byte| matches!(byte, b'1'..=b'9'));
    (value.is_finite() && !vanished).then_some(value)
}

/// Reads what follows `0x`: hexadecimal digits with an optional point, then an optional `p` and a decimal
/// power of two.
fn parse_hex(text: &[u8]) -> Option<f64> {
    let power_at = text.iter().position(|byte| matches!(byte, b'p' | b'P'));
    let (digits, power) = match power_at {
        Some(at) => (&text[..at], parse_power(&text[at + 1..])?),
        None => (text, 0),
    };
    let mut mantissa = 0u64;
    let mut exponent = 0i64;
    let mut after_point = false;
    let mut any_digit = false;
    for &byte in digits {
        if byte == b'.' {
            if after_point {
                return None;
            }
            after_point = true;
            continue;
        }
        let digit = u64::from(char::from(byte).to_digit(16)?);
        any_digit = true;
        if mantissa >> 58 == 0 {
            mantissa = mantissa << 4 | digit;
            exponent -= if after_point { 4 } else { 0 };
        } else {
            // Past what a double can hold only "was there anything" matters, for rounding.
            mantissa |= u64::from(digit != 0);
            exponent += if after_point { 0 } else { 4 };
        }
    }
    if !any_digit {
        return None;
    }
    if mantissa == 0 {
        return Some(0.0);
    }
    scale(mantissa, exponent.saturating_add(power))
}

/// Reads a decimal exponent; one too long to matter is cut to a value far outside any double.
pub(crate) fn parse_power(text: &[u8]) -> Option<i64> {
    let (negative, digits) = match text {
        [b'-', rest @ ..] => (true, rest),
        [b'+', rest @ ..] => (false, rest),
        rest => (false, rest),
    };
    if digits.is_empty() || !digits.iter().all(u8::is_ascii_digit) {
        return None;
    }
    let power = digits.iter().fold(0i64, |power, digit| {
        power
            .saturating_mul(10)
            .saturating_add(i64::from(digit - b'0'))
            .min(i64::MAX / 4)
    });
    Some(if negative { -power } else { power })
}

/// Returns `mantissa * 2^exponent` rounded half to even, or `None` if that overflows or vanishes.
///
/// The mantissa has 1 to 62 bits.
fn scale(mantissa: u64, exponent: i64) -> Option<f64> {
    let bits = i64::from(64 - mantissa.leading_zeros());
    let highest = exponent.saturating_add(bits - 1);
    if !(-1075..=1023).contains(&highest) {
        return None;
    }
    // A double keeps 53 bits, fewer when it is too small to be normal.
    let kept = 53.min(highest + 1075);
    let (rounded, exponent) = if bits <= kept {
        (mantissa, exponent)
    } else {
        let dropped = (bits - kept) as u32;
        let half = 1u64 << (dropped - 1);
        let rest = mantissa & (half * 2 - 1);
        let floor = mantissa >> dropped;
        let up = rest > half || (rest == half && floor & 1 == 1);
        (floor + u64::from(up), exponent + i64::from(dropped))
    };
    let value = rounded as f64 * power_of_two(exponent);
    (value.is_finite() && value != 0.0).then_some(value)
}

/// Returns 2^`exponent` for an exponent between -1074 and 1023.
fn power_of_two(exponent: i64) -> f64 {
    if exponent >= -1022 {
        f64::from_bits(((exponent + 1023) as u64) << 52)
    } else {
        f64::from_bits(1u64 << (exponent + 1074))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn integers_have_one_spelling() {
        let good: [(&str, i64); 7] = [
            ("0", 0),
            ("7", 7),
            ("-1", -1),
            ("1234567890", 1234567890),
            ("9223372036854775807", i64::MAX),
            ("-9223372036854775808", i64::MIN),
            ("1000000000000000000", 1_000_000_000_000_000_000),
        ];
        for (text, expected) in good {
            assert_eq!(parse_i64(text.as_bytes()), Some(expected), "{text}");
        }
        let bad = [
            "",
            "-",
            "+1",
            "-0",
            "00",
            "01",
            "-01",
            " 1",
            "1 ",
            "1a",
            "a",
            "1.0",
            "1e3",
            "0x1",
            "9223372036854775808",
            "-9223372036854775809",
            "18446744073709551616",
            "99999999999999999999",
            "123456789012345678901234567890",
        ];
        for text in bad {
            assert_eq!(parse_i64(text.as_bytes()), None, "{text}");
        }
    }

    #[test]
    fn floats_are_read_as_strtod_reads_them() {
        let good: [(&str, f64); 24] = [
            ("0", 0.0),
            ("-0", -0.0),
            ("1", 1.0),
            ("+1.5", 1.5),
            (".5", 0.5),
            ("5.", 5.0),
            ("1e3", 1000.0),
            ("1E+3", 1000.0),
            ("010", 10.0),
            ("0e999", 0.0),
            ("inf", f64::INFINITY),
            ("+Inf", f64::INFINITY),
            ("-iNFinity", f64::NEG_INFINITY),
            ("1.7976931348623157e308", f64::MAX),
            ("5e-324", f64::from_bits(1)),
            ("0x10", 16.0),
            ("-0X1.8p1", -3.0),
            ("0x.8", 0.5),
            ("0x0p99999999999999999999", 0.0),
            ("0x1p-1074", f64::from_bits(1)),
            ("0x1.fffffffffffffp1023", f64::MAX),
            ("0x1.00000000000008p0", 1.0),
            ("0x1.000000000000080000000000001p0", 1.0 + f64::EPSILON),
            ("0x1.8p-1075", f64::from_bits(1)),
        ];
        for (text, expected) in good {
            let got = parse_f64(text.as_bytes());
            assert_eq!(
                got.map(f64::to_bits),
                Some(expected.to_bits()),
                "{text} gave {got:?}"
            );
        }
    }

    #[test]
    fn floats_that_are_not_whole_finite_numbers_are_refused() {
        let bad = [
            "",
            "+",
            "-",
            ".",
            "e5",
            ".e5",
            "1e",
            "1e+",
            " 1",
            "1 ",
            "1x",
            "1_0",
            "--1",
            "+-1",
            "nan",
            "-NaN",
            "nan(1)",
            "infinit",
            "infinityy",
            "1e400",
            "-1e400",
            "1e-400",
            "0x",
            "0x.",
            "0xp1",
            "0x1p",
            "0x1p+",
            "0x1.1.1",
            "0xg",
            "0x1p1024",
            "0x1.fffffffffffff8p1023",
            "0x1p-1075",
            "0x1p-9999999999999999999",
            "0x1p9999999999999999999",
            "1\0",
        ];
        for text in bad {
            assert_eq!(parse_f64(text.as_bytes()), None, "{text}");
        }
        assert_eq!(parse_f64(b"1\xff"), None);
    }
}
