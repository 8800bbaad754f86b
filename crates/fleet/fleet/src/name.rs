//! Names of apps, instances and workers, validated where they enter.

use std::fmt;
use std::sync::Arc;

/// Longest name in bytes.
pub const NAME_BYTES_MAX: usize = 256;

/// Why a text is not a valid name.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{kind} {shown:?} {reason}")]
pub struct BadName {
    kind: &'static str,
    shown: String,
    reason: &'static str,
}

macro_rules! name {
    ($(#[$doc:meta])* $type:ident, $kind:literal, $check:path) => {
        $(#[$doc])*
        #[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
        pub struct $type(Arc<str>);

        impl $type {
            pub fn new(text: &str) -> Result<$type, BadName> {
                match $check(text) {
                    None => Ok($type(text.into())),
                    Some(reason) => {
                        let shown = text.chars().take(40).collect();
                        Err(BadName { kind: $kind, shown, reason })
                    }
                }
            }

            pub fn as_str(&self) -> &str {
                &self.0
            }
        }

        impl fmt::Display for $type {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str(&self.0)
            }
        }

        impl fmt::Debug for $type {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                write!(f, "{:?}", &self.0)
            }
        }

        impl std::str::FromStr for $type {
            type Err = BadName;

            fn from_str(text: &str) -> Result<$type, BadName> {
                $type::new(text)
            }
        }
    };
}

name!(
    /// An application. Its name is the hash tag of all its keys.
    AppName, "app", word
);
name!(
    /// An instance that runs workers.
    InstanceName, "instance", word
);
name!(
    /// A worker, under the id that the external list gives it.
    WorkerId, "worker", line
);

/// Checks a label, zone or group.
pub fn check_label(text: &str) -> Result<(), BadName> {
    let reason = word(text).or(text.contains([',', '/', '=']).then_some("contains , / or ="));
    match reason {
        None => Ok(()),
        Some(reason) => Err(BadName {
            kind: "label",
            shown: text.chars().take(40).collect(),
            reason,
        }),
    }
}

fn line(text: &str) -> Option<&'static str> {
    if text.is_empty() {
        Some("is empty")
    } else if text.len() > NAME_BYTES_MAX {
        Some("is longer than 256 bytes")
    } else if text.chars().any(char::is_control) {
        Some("contains control characters")
    } else {
        None
    }
}

fn word(text: &str) -> Option<&'static str> {
    if text.contains(char::is_whitespace) {
        Some("contains white space")
    } else if text.contains(['{', '}', '"', '\\']) {
        Some("contains a brace, quote or backslash")
    } else {
        line(text)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_that_would_break_records_or_keys_are_refused() {
        for bad in ["", "a b", "a\nb", "{a", "a\"b", &"x".repeat(257)] {
            assert!(InstanceName::new(bad).is_err(), "{bad:?}");
        }
        for bad in ["", "a\nb"] {
            assert!(WorkerId::new(bad).is_err(), "{bad:?}");
        }
        assert!(WorkerId::new("1234-5678 {x} \"y\"").is_ok());
        assert!(check_label("gpu").is_ok() && check_label("a,b").is_err());
    }
}
