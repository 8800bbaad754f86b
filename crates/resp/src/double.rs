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

/// Appends `value` without an exponent and with at most 17 decimals, as INCRBYFLOAT stores it.
///
/// Redis computes these in 80-bit floats and prints 17 decimals, which shows the number people typed. A
/// double has not enough digits for that, so this prints the shortest decimals that read back as the
/// same double. The two agree while the result needs no more than about 15 significant digits.
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
