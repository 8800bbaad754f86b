//! Numbers as text, the way C prints them.
#![allow(
    unsafe_code,
    reason = "`%g` and `strtod` of the C library are the definition of the result"
)]

use std::ffi::{CStr, c_char};

/// Room for any number at up to 17 digits.
const TEXT_BYTES: usize = 40;

/// The range of numbers that convert to a signed 64-bit integer.
pub(crate) const I64_RANGE: std::ops::Range<f64> = -9_223_372_036_854_775_808.0..9_223_372_036_854_775_808.0;

/// Appends a number with `digits` significant digits, as `%.{digits}g` does.
pub(crate) fn append_general(out: &mut Vec<u8>, number: f64, digits: i32) {
    // Whole numbers of few digits print the same either way, and are most of what scripts use.
    if digits >= 14
        && number.fract() == 0.0
        && number.abs() < 1e14
        && (number != 0.0 || number.is_sign_positive())
    {
        out.extend_from_slice(itoa::Buffer::new().format(number as i64).as_bytes());
        return;
    }
    let mut text: [c_char; TEXT_BYTES] = [0; TEXT_BYTES];
    // SAFETY: the format takes an int and a double; at most 17 digits plus sign, point and exponent are written.
    let len = unsafe {
        libc::snprintf(
            text.as_mut_ptr(),
            TEXT_BYTES,
            c"%.*g".as_ptr(),
            digits.clamp(1, 17),
            number,
        )
    };
    let len = usize::try_from(len).unwrap_or(0).min(TEXT_BYTES - 1);
    out.extend(text[..len].iter().map(|byte| *byte as u8));
}

/// Reads the longest number at the start of `text` as `strtod` does, and how many bytes it took.
pub(crate) fn parse_prefix(text: &[u8]) -> (f64, usize) {
    // Numbers are short; a bounded copy supplies the terminator that C wants without copying a whole document.
    let mut end = text
        .iter()
        .position(|byte| !is_number_byte(*byte))
        .unwrap_or(text.len());
    let mut small = [0u8; 64];
    if end >= small.len() {
        return parse_long_prefix(&text[..end]);
    }
    small[..end].copy_from_slice(&text[..end]);
    let number;
    (number, end) = parse_terminated(&small);
    (number, end)
}

fn parse_long_prefix(text: &[u8]) -> (f64, usize) {
    parse_terminated(&[text, b"\0"].concat())
}

/// `text` must hold a zero byte.
fn parse_terminated(text: &[u8]) -> (f64, usize) {
    let Ok(text) = CStr::from_bytes_until_nul(text) else {
        return (0.0, 0);
    };
    let mut rest: *mut c_char = std::ptr::null_mut();
    // SAFETY: `text` ends with zero; `rest` points into it afterwards.
    let number = unsafe { libc::strtod(text.as_ptr(), &mut rest) };
    (number, rest as usize - text.as_ptr() as usize)
}

/// Returns whether a byte can occur in what `strtod` takes: digits, hexadecimal, "infinity", "nan".
fn is_number_byte(byte: u8) -> bool {
    byte.is_ascii_alphanumeric() || matches!(byte, b'+' | b'-' | b'.' | b'(' | b')' | b'_')
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_print_as_c_prints_them() {
        let check = |number: f64, digits: i32, expected: &str| {
            let mut out = Vec::new();
            append_general(&mut out, number, digits);
            assert_eq!(String::from_utf8_lossy(&out), expected);
        };
        check(3.0, 17, "3");
        check(-0.0, 17, "-0");
        check(0.1, 17, "0.10000000000000001");
        check(0.1, 14, "0.1");
        check(9007199254740991.0, 17, "9007199254740991");
        check(
            1e100,
            17,
            "1.0000000000000000e+100"
                .replace("0000000000000000", "")
                .replace("1.e", "1e")
                .as_str(),
        );
        check(123456.0, 3, "1.23e+05");
        check(f64::INFINITY, 14, "inf");
    }

    #[test]
    fn a_number_ends_where_strtod_stops() {
        assert_eq!(parse_prefix(b"12.5e1,3"), (125.0, 6));
        assert_eq!(parse_prefix(b"0x10]"), (16.0, 4));
        assert_eq!(parse_prefix(b"-"), (0.0, 0));
        assert_eq!(parse_prefix(&[b'1'; 100]).1, 100);
    }
}
