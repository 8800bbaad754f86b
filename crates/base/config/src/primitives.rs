//! Plain types as settings: booleans, numbers, strings, lists, paths, options.

use std::path::PathBuf;

use crate::value::{Choice, Raw, Value};

impl Value for bool {
    const KIND: &'static str = "`true` or `false`";

    fn read(raw: &Raw) -> Option<bool> {
        match raw {
            Raw::Bool(value) => Some(*value),
            Raw::Words(words) => words.trim().parse().ok(),
            _ => None,
        }
    }

    fn write(&self) -> Raw {
        Raw::Bool(*self)
    }
}

macro_rules! integer {
    ($($type:ty),+) => {$(
        impl Value for $type {
            const KIND: &'static str = "a whole number";

            fn read(raw: &Raw) -> Option<$type> {
                match raw {
                    Raw::Integer(value) => <$type>::try_from(*value).ok(),
                    Raw::Words(words) => words.trim().parse().ok(),
                    _ => None,
                }
            }

            /// A number beyond TOML's 64-bit integers is written as text rather than cut.
            fn write(&self) -> Raw {
                i64::try_from(*self).map_or_else(|_| Raw::Words(self.to_string()), Raw::Integer)
            }
        }
    )+};
}

integer!(u8, u16, u32, u64, usize, i32, i64);

impl Value for f64 {
    const KIND: &'static str = "a number";

    fn read(raw: &Raw) -> Option<f64> {
        let value = match raw {
            Raw::Float(value) => *value,
            Raw::Integer(value) => *value as f64,
            Raw::Words(words) => words.trim().parse().ok()?,
            _ => return None,
        };
        value.is_finite().then_some(value)
    }

    fn write(&self) -> Raw {
        Raw::Float(*self)
    }
}

impl Value for String {
    const KIND: &'static str = "a string";

    fn read(raw: &Raw) -> Option<String> {
        raw.text().map(str::to_owned)
    }

    fn write(&self) -> Raw {
        Raw::Text(self.clone())
    }
}

impl Value for PathBuf {
    const KIND: &'static str = "a path";

    fn read(raw: &Raw) -> Option<PathBuf> {
        raw.text().filter(|text| !text.is_empty()).map(PathBuf::from)
    }

    fn write(&self) -> Raw {
        Raw::Text(self.display().to_string())
    }
}

impl Value for Vec<String> {
    const KIND: &'static str = "a list of strings (with commas between them outside TOML)";

    fn read(raw: &Raw) -> Option<Vec<String>> {
        match raw {
            Raw::List(items) => items.iter().map(|item| item.text().map(str::to_owned)).collect(),
            Raw::Words(words) if words.trim().is_empty() => Some(Vec::new()),
            Raw::Words(words) => Some(words.split(',').map(|item| item.trim().to_owned()).collect()),
            _ => None,
        }
    }

    fn write(&self) -> Raw {
        Raw::List(self.iter().cloned().map(Raw::Text).collect())
    }
}

/// An empty environment variable or flag unsets an optional setting.
impl<T: Value> Value for Option<T> {
    const KIND: &'static str = T::KIND;
    const SECRET: bool = T::SECRET;

    fn read(raw: &Raw) -> Option<Option<T>> {
        match raw {
            Raw::Unset => Some(None),
            Raw::Words(words) if words.is_empty() => Some(None),
            other => T::read(other).map(Some),
        }
    }

    fn write(&self) -> Raw {
        self.as_ref().map_or(Raw::Unset, T::write)
    }

    fn choices() -> &'static [Choice] {
        T::choices()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn words(text: &str) -> Raw {
        Raw::Words(text.to_owned())
    }

    #[test]
    fn numbers_are_read_from_toml_and_from_words() {
        assert_eq!(u16::read(&Raw::Integer(7)), Some(7));
        assert_eq!(u16::read(&words(" 7 ")), Some(7));
        assert_eq!(u16::read(&Raw::Integer(70_000)), None);
        assert_eq!(u16::read(&Raw::from("7")), None);
        assert_eq!(f64::read(&Raw::Integer(2)), Some(2.0));
        assert_eq!(f64::read(&words("nan")), None);
    }

    #[test]
    fn lists_are_split_at_commas_outside_toml() {
        assert_eq!(
            Vec::<String>::read(&words("a, b")),
            Some(vec!["a".into(), "b".into()])
        );
        assert_eq!(Vec::<String>::read(&words("")), Some(vec![]));
        assert_eq!(Vec::<String>::read(&Raw::List(vec![Raw::Integer(1)])), None);
    }

    #[test]
    fn empty_words_unset_an_option() {
        assert_eq!(Option::<String>::read(&words("")), Some(None));
        assert_eq!(Option::<String>::read(&words("x")), Some(Some("x".into())));
        assert_eq!(Option::<String>::read(&Raw::Integer(1)), None);
    }
}
