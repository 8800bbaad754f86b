//! The release of Redis that clients are told.

use std::fmt;
use std::sync::Arc;

/// The level that the engine has reached: what releases up to this one document is there, but for what
/// COMPAT.md says.
const REACHED: (u8, u8, u8) = (7, 4, 0);

/// A release of Redis, as INFO, HELLO and scripts tell it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RedisVersion {
    text: Arc<str>,
    number: u32,
}

impl RedisVersion {
    /// Makes a version of its three parts.
    pub fn new(major: u8, minor: u8, patch: u8) -> RedisVersion {
        RedisVersion {
            text: format!("{major}.{minor}.{patch}").into(),
            number: u32::from_be_bytes([0, major, minor, patch]),
        }
    }

    /// Reads a version such as `7.4.0`; nothing when it is none.
    pub fn parse(text: &str) -> Option<RedisVersion> {
        let parts: Option<Vec<u8>> = text.split('.').map(|part| part.parse().ok()).collect();
        let version = match parts?.as_slice() {
            &[major, minor, patch] => RedisVersion::new(major, minor, patch),
            _ => return None,
        };
        // Signs and leading zeros would come back as another text.
        (*version.text == *text).then_some(version)
    }

    /// Returns the version as text.
    pub fn as_str(&self) -> &str {
        &self.text
    }

    /// Returns the version as `0x00MMmmpp`, the form in which scripts compare it.
    pub fn number(&self) -> u32 {
        self.number
    }
}

impl Default for RedisVersion {
    fn default() -> Self {
        let (major, minor, patch) = REACHED;
        RedisVersion::new(major, minor, patch)
    }
}

impl fmt::Display for RedisVersion {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.text)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_version_has_three_parts_and_one_spelling() {
        let version = RedisVersion::parse("7.2.15").expect("a version");
        assert_eq!((version.as_str(), version.number()), ("7.2.15", 0x0007_020f));
        for text in [
            "", "7", "7.2", "7.2.1.1", "7.02.1", "+7.2.1", "7.2.256", "7.2.x", "v7.2.1",
        ] {
            assert_eq!(RedisVersion::parse(text), None, "{text}");
        }
    }
}
