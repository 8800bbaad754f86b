//! The number inside the command's arguments.

use std::ffi::{OsStr, OsString};
use std::os::unix::ffi::{OsStrExt, OsStringExt};

/// Puts the number in place of every occurrence of the placeholder in every argument.
pub fn replace(arguments: &[OsString], placeholder: &str, number: u64) -> Vec<OsString> {
    let number = number.to_string();
    let place = |argument: &OsString| replace_in(argument, placeholder.as_bytes(), number.as_bytes());
    arguments.iter().map(place).collect()
}

fn replace_in(argument: &OsStr, placeholder: &[u8], number: &[u8]) -> OsString {
    let mut rest = argument.as_bytes();
    let mut out = Vec::with_capacity(rest.len());
    while let Some(first) = rest.first() {
        if !placeholder.is_empty() && rest.starts_with(placeholder) {
            out.extend_from_slice(number);
            rest = &rest[placeholder.len()..];
        } else {
            out.push(*first);
            rest = &rest[1..];
        }
    }
    OsString::from_vec(out)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(arguments: &[&str], placeholder: &str, expected: &[&str]) {
        let arguments: Vec<OsString> = arguments.iter().map(OsString::from).collect();
        assert_eq!(replace(&arguments, placeholder, 42), expected);
    }

    #[test]
    fn every_occurrence_in_every_argument_is_replaced() {
        check(
            &["cmd", "-w={}", "{}{}", "x"],
            "{}",
            &["cmd", "-w=42", "4242", "x"],
        );
        check(&["worker-id", "{}"], "worker-id", &["42", "{}"]);
        check(&["{{}}", "{"], "{}", &["{42}", "{"]);
        check(&["a"], "", &["a"]);
    }

    #[test]
    fn bytes_that_are_not_text_stay_as_they_are() {
        let argument = OsString::from_vec(b"\xff{}\xfe".to_vec());
        assert_eq!(
            replace(&[argument], "{}", 1),
            [OsString::from_vec(b"\xff1\xfe".to_vec())]
        );
    }
}
