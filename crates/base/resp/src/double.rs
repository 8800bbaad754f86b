//! Doubles as Redis prints them.

use std::io::Write;

/// Integers up to here print as they are: beyond 2^53 a double skips integers, and the general way is
/// used to be safe.
const EXACT_INTEGER_MAX: f64 = 9_007_199_254_740_992.0;

/// Appends `value` as C's `%.17g` prints it, the shape of scores and double replies.
///
/// Seventeen significant digits always read back as the same double. Infinities are `inf` and `-inf`,
/// and not-a-number is `nan` whatever its sign.
pub fn format_double(value: f64, out: &mut Vec<u8>) {
    if format_plainly(value, out) {
        return;
    }
    // Sign, 17 digits with a point after the first, and an exponent such as `e-308`.
    let mut text = [0u8; 32];
    let mut unwritten = &mut text[..];
    write!(unwritten, "{:.16e}", value.abs()).expect("seventeen digits and an exponent fit 32 bytes");
    let unwritten_len = unwritten.len();
    let text = &text[..32 - unwritten_len];
    let exponent_at = text
        .iter()
        .position(|&byte| byte == b'e')
        .expect("{:e} always prints an exponent");
    let exponent = std::str::from_utf8(&text[exponent_at + 1..])
        .ok()
        .and_then(|power| power.parse().ok());
    let exponent: i32 = exponent.expect("{:e} prints its exponent as a plain integer");
    let mut digits = [0u8; 17];
    digits[0] = text[0];
    digits[1..].copy_from_slice(&text[2..exponent_at]);

    if value < 0.0 {
        out.push(b'-');
    }
    let significant = digits
        .iter()
        .rposition(|&digit| digit != b'0')
        .map_or(1, |last| last + 1);
    place_digits(&digits[..significant], exponent, out);
}

/// Puts the decimal point among `digits`, or an exponent behind them, by the rules of `%.17g`.
fn place_digits(digits: &[u8], exponent: i32, out: &mut Vec<u8>) {
    match exponent {
        0..=16 => {
            let whole = exponent as usize + 1;
            if digits.len() <= whole {
                out.extend_from_slice(digits);
                out.resize(out.len() + whole - digits.len(), b'0');
            } else {
                out.extend_from_slice(&digits[..whole]);
                out.push(b'.');
                out.extend_from_slice(&digits[whole..]);
            }
        }
        -4..=-1 => {
            out.extend_from_slice(b"0.");
            out.resize(out.len() + (-exponent) as usize - 1, b'0');
            out.extend_from_slice(digits);
        }
        _ => {
            out.push(digits[0]);
            if digits.len() > 1 {
                out.push(b'.');
                out.extend_from_slice(&digits[1..]);
            }
            out.extend_from_slice(if exponent < 0 { b"e-" } else { b"e+" });
            let power = exponent.unsigned_abs();
            if power < 10 {
                out.push(b'0');
            }
            out.extend_from_slice(itoa::Buffer::new().format(power).as_bytes());
        }
    }
}

/// Appends `value` without an exponent and with at most 17 decimals, in the digits people typed.
///
/// These are the shortest decimals that read back as the same double. Redis prints such numbers from
/// 80-bit floats: [`Extended`](crate::Extended) does exactly that, and is what INCRBYFLOAT and GEOPOS
/// need.
pub fn format_human_double(value: f64, out: &mut Vec<u8>) {
    if value == 0.0 {
        out.push(b'0');
        return;
    }
    if format_plainly(value, out) {
        return;
    }
    let start = out.len();
    write!(out, "{value}").expect("writing to a vector cannot fail");
    let decimals = match out[start..].iter().position(|&byte| byte == b'.') {
        Some(point) => out.len() - start - point - 1,
        None => 0,
    };
    if decimals > 17 {
        out.truncate(start);
        write!(out, "{value:.17}").expect("writing to a vector cannot fail");
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

/// Appends what needs no digit work: integers, zeros, infinities and not-a-number. False if it did not.
fn format_plainly(value: f64, out: &mut Vec<u8>) -> bool {
    if value.abs() < EXACT_INTEGER_MAX && value.trunc() == value {
        if value == 0.0 && value.is_sign_negative() {
            out.push(b'-');
        }
        out.extend_from_slice(itoa::Buffer::new().format(value as i64).as_bytes());
    } else if value.is_nan() {
        out.extend_from_slice(b"nan");
    } else if value.is_infinite() {
        out.extend_from_slice(if value > 0.0 { b"inf" } else { b"-inf" });
    } else {
        return false;
    }
    true
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(format: fn(f64, &mut Vec<u8>), value: f64, expected: &str) {
        let mut out = b"kept ".to_vec();
        format(value, &mut out);
        assert_eq!(String::from_utf8(out).unwrap(), format!("kept {expected}"));
    }

    /// Expected texts are those of C's `%.17g`, checked against the scores of a Redis 7.0.15.
    #[test]
    fn doubles_print_with_seventeen_digits() {
        let cases = [
            (0.0, "0"),
            (-0.0, "-0"),
            (1.0, "1"),
            (-42.0, "-42"),
            (3.5, "3.5"),
            (0.1, "0.10000000000000001"),
            (-0.1, "-0.10000000000000001"),
            (2.0 / 3.0, "0.66666666666666663"),
            (100.25, "100.25"),
            (123456.789, "123456.789"),
            (std::f64::consts::PI, "3.1415926535897931"),
            (0.0001, "0.0001"),
            (0.00012345, "0.00012344999999999999"),
            (0.00001, "1.0000000000000001e-05"),
            (1e15, "1000000000000000"),
            (9007199254740992.0, "9007199254740992"),
            (9007199254740993.5, "9007199254740994"),
            (1e16, "10000000000000000"),
            (12345678901234567.0, "12345678901234568"),
            (1e17, "1e+17"),
            (-1e17, "-1e+17"),
            (123456789012345680.0, "1.2345678901234568e+17"),
            (1e21, "1e+21"),
            (1e100, "1e+100"),
            (f64::MAX, "1.7976931348623157e+308"),
            (f64::MIN_POSITIVE, "2.2250738585072014e-308"),
            (f64::from_bits(1), "4.9406564584124654e-324"),
            (f64::INFINITY, "inf"),
            (f64::NEG_INFINITY, "-inf"),
            (f64::NAN, "nan"),
            (-f64::NAN, "nan"),
        ];
        for (value, expected) in cases {
            check(format_double, value, expected);
        }
    }

    #[test]
    fn a_tie_in_the_last_digit_goes_to_the_even_one() {
        check(format_double, 2f64.powi(-25), "2.9802322387695312e-08");
        check(format_double, 3.0 * 2f64.powi(-25), "8.9406967163085938e-08");
        check(format_double, 5.0 * 2f64.powi(-25), "1.4901161193847656e-07");
    }

    #[test]
    fn human_doubles_have_no_exponent_and_no_trailing_zeros() {
        let cases = [
            (0.0, "0"),
            (-0.0, "0"),
            (10.6, "10.6"),
            (-3.5, "-3.5"),
            (5200.0, "5200"),
            (0.1, "0.1"),
            (1e16, "10000000000000000"),
            (1e23, "100000000000000000000000"),
            (1e-5, "0.00001"),
            (1.25e-17, "0.00000000000000001"),
            (1e-20, "0"),
            (-1e-20, "0"),
            (f64::INFINITY, "inf"),
            (f64::NEG_INFINITY, "-inf"),
        ];
        for (value, expected) in cases {
            check(format_human_double, value, expected);
        }
    }
}
