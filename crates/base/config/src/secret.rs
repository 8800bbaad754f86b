//! Strings that must not be shown.

use std::fmt;

use crate::value::{Raw, Value};

/// A string that prints as `***`; [`Secret::reveal`] is the only way to the text.
#[derive(Clone, PartialEq, Eq)]
pub struct Secret(String);

impl Secret {
    pub fn new(text: impl Into<String>) -> Secret {
        Secret(text.into())
    }

    /// The text itself, for comparing or sending; never for logging.
    pub fn reveal(&self) -> &str {
        &self.0
    }
}

impl fmt::Debug for Secret {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("***")
    }
}

impl fmt::Display for Secret {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("***")
    }
}

impl Value for Secret {
    const KIND: &'static str = "a secret string";
    const SECRET: bool = true;

    /// An empty secret is refused: it would look like protection and be none.
    fn read(raw: &Raw) -> Option<Secret> {
        raw.text().filter(|text| !text.is_empty()).map(Secret::new)
    }

    fn write(&self) -> Raw {
        Raw::Text("***".to_owned())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_secret_never_shows_its_text() {
        let secret = Secret::read(&Raw::from("hunter2")).unwrap();
        assert_eq!(
            format!("{secret} {secret:?} {}", secret.write()),
            "*** *** \"***\""
        );
        assert_eq!(secret.reveal(), "hunter2");
    }
}
