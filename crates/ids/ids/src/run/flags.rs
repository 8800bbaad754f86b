//! yaraus's command line: single dashes and Go's notation of durations.

use std::ffi::OsString;
use std::time::Duration;

/// The flags of yaraus that ours accept too; those with a value say so.
const FLAGS: &[(&str, bool)] = &[
    ("server", true),
    ("interval", true),
    ("delay", true),
    ("expire", true),
    ("replacement", true),
    ("min", true),
    ("max", true),
    ("i-am-a-database-removable-specialist", false),
];

/// Writes yaraus's flags with two dashes and leaves all else as it is. Nothing is touched after `--`
/// or from the first argument on that is no flag: from there on it may be the command's. So a flag
/// of ours with its value apart (`--name a`) ends it too; yaraus's flags go first, or use `=`.
pub fn with_two_dashes(arguments: Vec<OsString>) -> Vec<OsString> {
    let mut out = Vec::with_capacity(arguments.len());
    let mut rest = arguments.into_iter();
    while let Some(argument) = rest.next() {
        let known = argument.to_str().and_then(known_flag);
        let ours = argument
            .to_str()
            .is_some_and(|text| text.starts_with("--") && text != "--");
        match known {
            Some((text, wants_value)) => {
                out.push(text);
                if wants_value {
                    out.extend(rest.next());
                }
            }
            None if ours => out.push(argument),
            None => {
                out.push(argument);
                out.extend(rest.by_ref());
            }
        }
    }
    out
}

/// Writes a flag of yaraus with two dashes; returns it and whether its value is the next argument.
fn known_flag(argument: &str) -> Option<(OsString, bool)> {
    let single = argument.strip_prefix('-')?;
    let bare = single.strip_prefix('-').unwrap_or(single);
    let (name, value) = match bare.split_once('=') {
        Some((name, value)) => (name, Some(value)),
        None => (bare, None),
    };
    let (name, takes_value) = FLAGS.iter().find(|(known, _)| *known == name)?;
    let text = match value {
        Some(value) => format!("--{name}={value}"),
        None => format!("--{name}"),
    };
    Some((text.into(), *takes_value && value.is_none()))
}

/// Why a text is not a duration.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{0:?} is not a length of time such as 500ms, 1.5s or 1h30m")]
pub struct BadDuration(String);

/// Parses a duration in Go's notation: numbers with units, one after the other.
pub fn parse_duration(text: &str) -> Result<Duration, BadDuration> {
    let bad = || BadDuration(text.to_owned());
    if text == "0" {
        return Ok(Duration::ZERO);
    }
    if text.is_empty() {
        return Err(bad());
    }
    let mut rest = text;
    let mut sum = Duration::ZERO;
    while !rest.is_empty() {
        let digits = rest
            .find(|c: char| !c.is_ascii_digit() && c != '.')
            .ok_or_else(bad)?;
        let number: f64 = rest[..digits].parse().map_err(|_| bad())?;
        rest = &rest[digits..];
        let unit = rest.find(|c: char| c.is_ascii_digit()).unwrap_or(rest.len());
        let seconds = match &rest[..unit] {
            "ns" => 1e-9,
            "us" | "µs" => 1e-6,
            "ms" => 1e-3,
            "s" => 1.0,
            "m" => 60.0,
            "h" => 3600.0,
            _ => return Err(bad()),
        };
        let part = Duration::try_from_secs_f64(number * seconds).map_err(|_| bad())?;
        sum = sum.checked_add(part).ok_or_else(bad)?;
        rest = &rest[unit..];
    }
    Ok(sum)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(arguments: &[&str], expected: &[&str]) {
        let arguments = arguments.iter().map(OsString::from).collect();
        assert_eq!(with_two_dashes(arguments), expected);
    }

    #[test]
    fn single_dashes_become_two_up_to_the_command() {
        check(
            &["-interval", "1s", "-delay=2s", "--", "cmd", "-delay", "{}"],
            &["--interval", "1s", "--delay=2s", "--", "cmd", "-delay", "{}"],
        );
        check(
            &["-server", "-x", "--name", "a", "-expire", "3s"],
            &["--server", "-x", "--name", "a", "-expire", "3s"],
        );
        check(
            &[
                "--name=a",
                "-i-am-a-database-removable-specialist",
                "cmd",
                "-expire",
            ],
            &[
                "--name=a",
                "--i-am-a-database-removable-specialist",
                "cmd",
                "-expire",
            ],
        );
        check(&["-unknown", "-delay"], &["-unknown", "-delay"]);
    }

    #[test]
    fn lengths_are_read_as_go_writes_them() {
        let ms = Duration::from_millis;
        for (text, expected) in [
            ("0", ms(0)),
            ("500ms", ms(500)),
            ("1.5s", ms(1500)),
            ("30m", ms(1_800_000)),
            ("1h2m3s", ms(3_723_000)),
            ("2s500ms", ms(2500)),
        ] {
            assert_eq!(parse_duration(text), Ok(expected), "{text}");
        }
        for text in [
            "",
            "5",
            "s",
            "-1s",
            "1x",
            "1.2.3s",
            "1s ",
            "99999999999999999999h",
        ] {
            assert_eq!(parse_duration(text), Err(BadDuration(text.to_owned())), "{text}");
        }
    }
}
