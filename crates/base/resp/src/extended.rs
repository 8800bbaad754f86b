//! 80-bit floats, as C's `long double` is on x86.
//!
//! INCRBYFLOAT and HINCRBYFLOAT read both numbers into such floats, add them, and store 17 decimals of
//! the sum. Eleven bits more than a double are what makes 0.1 plus 0.2 come out as 0.3, and scripts rely
//! on that, so the type is rebuilt here in integers: 64 bits of mantissa, rounded half to even, and
//! decimal conversion that is exact.

use std::cmp::Ordering;

use crate::big::Big;
use crate::number::parse_power;

/// Weight of the highest bit of the largest and of the smallest such float.
const HIGHEST_BIT_MAX: i64 = 16_383;
const HIGHEST_BIT_MIN: i64 = -16_445;

/// Longest text that Redis reads as one of these.
const TEXT_BYTES_MAX: usize = 5 * 1024 - 1;

const DECIMALS: usize = 17;

/// The exponent that stands for an infinity; its mantissa is not zero.
const INFINITE: i64 = i64::MAX;

/// An 80-bit float, not-a-number left out.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Extended {
    negative: bool,
    /// The highest bit is set, except in zero.
    mantissa: u64,
    /// The value is `mantissa * 2^exponent`.
    exponent: i64,
}

impl Extended {
    pub const ZERO: Extended = Extended {
        negative: false,
        mantissa: 0,
        exponent: 0,
    };

    /// Reads a number as `strtold` does, by the rules of [`parse_f64`](crate::parse_f64).
    pub fn parse(text: &[u8]) -> Option<Extended> {
        if text.len() > TEXT_BYTES_MAX {
            return None;
        }
        let (negative, unsigned) = match text {
            [b'-', rest @ ..] => (true, rest),
            [b'+', rest @ ..] => (false, rest),
            rest => (false, rest),
        };
        let (mantissa, exponent) = match unsigned {
            [b'0', b'x' | b'X', hex @ ..] => parse_hex(hex)?,
            [b'i' | b'I', ..] => {
                let infinite =
                    unsigned.eq_ignore_ascii_case(b"inf") || unsigned.eq_ignore_ascii_case(b"infinity");
                infinite.then_some((1, INFINITE))?
            }
            decimal => parse_decimal(decimal)?,
        };
        Some(Extended {
            negative,
            mantissa,
            exponent,
        })
    }

    pub fn is_finite(self) -> bool {
        self.exponent != INFINITE
    }

    /// Adds two numbers, or returns `None` if the sum is not finite.
    pub fn checked_add(self, other: Extended) -> Option<Extended> {
        if !self.is_finite() || !other.is_finite() {
            return None;
        }
        if self.mantissa == 0 || other.mantissa == 0 {
            let sum = if self.mantissa == 0 { other } else { self };
            return Some(Extended {
                negative: sum.mantissa != 0 && sum.negative,
                ..sum
            });
        }
        let (large, small) = if self.exponent >= other.exponent {
            (self, other)
        } else {
            (other, self)
        };
        // 63 bits below the mantissa: a smaller number that reaches further down leaves a mark in the
        // lowest, which is all that rounding needs to know of it.
        let high = u128::from(large.mantissa) << 63;
        let aligned = u128::from(small.mantissa) << 63;
        let distance = large.exponent - small.exponent;
        let low = match u32::try_from(distance) {
            Ok(distance @ 0..=127) => {
                let kept = aligned >> distance;
                kept | u128::from(kept << distance != aligned)
            }
            _ => 1,
        };
        let (negative, sum) = if large.negative == small.negative {
            (large.negative, high + low)
        } else if high >= low {
            (large.negative, high - low)
        } else {
            (small.negative, low - high)
        };
        let (mantissa, exponent) = round_u128(sum, large.exponent - 63);
        let negative = negative && mantissa != 0;
        (exponent + 63 <= HIGHEST_BIT_MAX).then_some(Extended {
            negative,
            mantissa,
            exponent,
        })
    }

    /// Appends the number with at most 17 decimals, no exponent and no trailing zeros.
    pub fn write_human(self, out: &mut Vec<u8>) {
        let start = out.len();
        if self.negative && self.mantissa != 0 {
            out.push(b'-');
        }
        if !self.is_finite() {
            return out.extend_from_slice(b"inf");
        }
        if self.exponent >= 0 {
            write_whole(self.mantissa, self.exponent as usize, out);
            return;
        }
        // At most 64 bits times 57 bits.
        let scaled = u128::from(self.mantissa) * 10u128.pow(DECIMALS as u32);
        let rounded = shift_right_rounding(scaled, self.exponent.unsigned_abs());
        let digits = rounded.to_string();
        let padding = (DECIMALS + 1).saturating_sub(digits.len());
        out.resize(out.len() + padding, b'0');
        out.extend_from_slice(digits.as_bytes());
        out.insert(out.len() - DECIMALS, b'.');
        while out.last() == Some(&b'0') {
            out.pop();
        }
        if out.last() == Some(&b'.') {
            out.pop();
        }
        if &out[start..] == b"-0" {
            out.remove(start);
        }
    }
}

impl From<f64> for Extended {
    /// Widens a double, which changes nothing about its value. Not-a-number becomes an infinity, so that
    /// sums refuse it.
    fn from(value: f64) -> Self {
        let negative = value.is_sign_negative();
        if !value.is_finite() {
            return Extended {
                negative,
                mantissa: 1,
                exponent: INFINITE,
            };
        }
        let stored = (value.to_bits() >> 52 & 0x7ff) as i64;
        let fraction = value.to_bits() & ((1 << 52) - 1);
        let (mantissa, exponent) = if stored == 0 {
            (fraction, -1074)
        } else {
            (fraction | 1 << 52, stored - 1075)
        };
        let (mantissa, exponent) = round_u128(u128::from(mantissa), exponent);
        Extended {
            negative,
            mantissa,
            exponent,
        }
    }
}

/// Reads digits with an optional point and an optional power of ten.
fn parse_decimal(text: &[u8]) -> Option<(u64, i64)> {
    let (digits, power) = split_power(text, [b'e', b'E'])?;
    let mut number = Big::from_u64(0);
    let (mut digits_len, mut decimals, mut after_point) = (0i64, 0i64, false);
    for &byte in digits {
        match byte {
            b'0'..=b'9' => {
                number.mul_add(10, u32::from(byte - b'0'));
                digits_len += 1;
                decimals += i64::from(after_point);
            }
            b'.' if !after_point => after_point = true,
            _ => return None,
        }
    }
    if digits_len == 0 {
        return None;
    }
    if number.is_zero() {
        return Some((0, 0));
    }
    let power = power - decimals;
    // Far outside the range whatever the digits are; keeps the powers of ten below small.
    if !(-2 * TEXT_BYTES_MAX as i64..=TEXT_BYTES_MAX as i64).contains(&power) {
        return None;
    }
    if power >= 0 {
        number.mul_power_of_ten(power as usize);
        return in_range(round_big(&number, 0));
    }
    let mut divisor = Big::from_u64(1);
    divisor.mul_power_of_ten(power.unsigned_abs() as usize);
    in_range(divide(number, divisor))
}

/// Reads what follows `0x`.
fn parse_hex(text: &[u8]) -> Option<(u64, i64)> {
    let (digits, power) = split_power(text, [b'p', b'P'])?;
    let mut number = Big::from_u64(0);
    let (mut any_digit, mut exponent, mut after_point) = (false, power, false);
    for &byte in digits {
        if byte == b'.' && !after_point {
            after_point = true;
            continue;
        }
        number.mul_add(16, char::from(byte).to_digit(16)?);
        any_digit = true;
        exponent -= if after_point { 4 } else { 0 };
    }
    if !any_digit {
        return None;
    }
    if number.is_zero() {
        return Some((0, 0));
    }
    in_range(round_big(&number, exponent))
}

fn split_power(text: &[u8], letters: [u8; 2]) -> Option<(&[u8], i64)> {
    match text.iter().position(|byte| letters.contains(byte)) {
        Some(at) => Some((&text[..at], parse_power(&text[at + 1..])?)),
        None => Some((text, 0)),
    }
}

fn in_range((mantissa, exponent): (u64, i64)) -> Option<(u64, i64)> {
    let highest_bit = exponent + 63;
    (HIGHEST_BIT_MIN..=HIGHEST_BIT_MAX)
        .contains(&highest_bit)
        .then_some((mantissa, exponent))
}

/// Divides two numbers, bit by bit, to 64 bits.
fn divide(mut number: Big, mut divisor: Big) -> (u64, i64) {
    // Shift until the quotient lies between one and two.
    let mut exponent = number.bits() as i64 - divisor.bits() as i64;
    if exponent < 0 {
        number.shift_left(exponent.unsigned_abs() as usize);
    } else {
        divisor.shift_left(exponent as usize);
    }
    if number < divisor {
        number.shift_left(1);
        exponent -= 1;
    }
    let mut quotient = 0u64;
    for _ in 0..64 {
        quotient <<= 1;
        if number >= divisor {
            number.subtract(&divisor);
            quotient |= 1;
        }
        number.shift_left(1);
    }
    // What is left, doubled, against the divisor: the rest against half of the last bit.
    round_up_if(number.cmp(&divisor), quotient, exponent - 63)
}

/// Returns a number that is not zero as a mantissa with its highest bit set, and an exponent.
fn round_big(number: &Big, exponent: i64) -> (u64, i64) {
    let bits = number.bits();
    let dropped = bits.saturating_sub(64);
    let (high, rest) = number.split_bits(dropped);
    let missing = 64usize.saturating_sub(bits) as u32;
    round_up_if(
        rest,
        high << missing,
        exponent + dropped as i64 - i64::from(missing),
    )
}

fn round_u128(value: u128, exponent: i64) -> (u64, i64) {
    if value == 0 {
        return (0, 0);
    }
    let shift = value.leading_zeros();
    let normal = value << shift;
    let rest = (normal as u64).cmp(&(1 << 63));
    round_up_if(rest, (normal >> 64) as u64, exponent + 64 - i64::from(shift))
}

/// Rounds half to even, given how the bits below the mantissa compare with half of its lowest bit.
fn round_up_if(rest: Ordering, mantissa: u64, exponent: i64) -> (u64, i64) {
    let up = rest == Ordering::Greater || (rest == Ordering::Equal && mantissa & 1 == 1);
    match mantissa.checked_add(u64::from(up)) {
        Some(mantissa) => (mantissa, exponent),
        None => (1 << 63, exponent + 1),
    }
}

fn shift_right_rounding(value: u128, shift: u64) -> u128 {
    if shift > 127 {
        return 0;
    }
    let floor = value >> shift;
    let rest = value - (floor << shift);
    let up = match rest.cmp(&(1u128 << shift >> 1)) {
        Ordering::Less => false,
        Ordering::Equal => floor & 1 == 1,
        Ordering::Greater => true,
    };
    floor + u128::from(up && shift > 0)
}

/// Appends `mantissa * 2^shift` in decimal.
fn write_whole(mantissa: u64, shift: usize, out: &mut Vec<u8>) {
    let mut number = Big::from_u64(mantissa);
    number.shift_left(shift);
    let mut groups = Vec::new();
    while !number.is_zero() {
        groups.push(number.divide(1_000_000_000));
    }
    let highest = groups.pop().unwrap_or(0);
    out.extend_from_slice(itoa::Buffer::new().format(highest).as_bytes());
    for group in groups.into_iter().rev() {
        out.extend_from_slice(format!("{group:09}").as_bytes());
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn human(value: Extended) -> String {
        let mut out = Vec::new();
        value.write_human(&mut out);
        String::from_utf8(out).unwrap()
    }

    fn check_sum(left: &str, right: &str, expected: Option<&str>) {
        let [left_read, right_read] = [left, right].map(|text| Extended::parse(text.as_bytes()).unwrap());
        for sum in [
            left_read.checked_add(right_read),
            right_read.checked_add(left_read),
        ] {
            assert_eq!(sum.map(human).as_deref(), expected, "{left} + {right}");
        }
    }

    /// Expected sums are those of INCRBYFLOAT in Redis 7.0.15.
    #[test]
    fn sums_print_as_people_typed_them() {
        check_sum("0.1", "0.2", Some("0.3"));
        check_sum("10.5", "0.1", Some("10.6"));
        check_sum("3.0e3", "200", Some("3200"));
        check_sum("1e23", "1", Some("100000000000000000000000"));
        check_sum("1.23456789012345678", "0", Some("1.23456789012345678"));
        check_sum("0", "1e-17", Some("0.00000000000000001"));
        check_sum("99999999999999999", "0.1", Some("99999999999999999.1015625"));
        check_sum("5e-19", "0", Some("0"));
        check_sum("-5e-19", "0", Some("0"));
        check_sum("1.5", "-1.5", Some("0"));
        check_sum("-0", "-0", Some("0"));
        check_sum("1", "-1e-30", Some("1"));
        check_sum("0x1p-1", "0X.8", Some("1"));
    }

    #[test]
    fn a_sum_that_is_not_finite_is_refused() {
        check_sum("inf", "1", None);
        check_sum("-Infinity", "inf", None);
        check_sum("1.1e4932", "1.1e4932", None);
    }

    #[test]
    fn a_widened_double_prints_all_its_decimals() {
        assert_eq!(human(Extended::from(13.361389338970184)), "13.36138933897018433");
        assert_eq!(human(Extended::from(0.1)), "0.10000000000000001");
        assert_eq!(human(Extended::from(-0.0)), "0");
        assert_eq!(human(Extended::from(-2.5)), "-2.5");
        assert_eq!(human(Extended::from(f64::from_bits(1))), "0");
        assert_eq!(human(Extended::from(2f64.powi(70))), "1180591620717411303424");
        assert_eq!(human(Extended::from(f64::NEG_INFINITY)), "-inf");
        assert!(!Extended::from(f64::NAN).is_finite());
    }

    #[test]
    fn texts_that_are_not_whole_numbers_are_refused() {
        for text in [
            "", "-", ".", "e1", "1e", "1 ", " 1", "1.1.1", "nan", "in", "0x", "0x.p1", "1e5000", "1e-5000",
        ] {
            assert_eq!(Extended::parse(text.as_bytes()), None, "{text}");
        }
        assert!(Extended::parse(&[b'1'; TEXT_BYTES_MAX + 1]).is_none());
        assert_eq!(Extended::parse(b"0e99999999999999999999"), Some(Extended::ZERO));
    }
}
