//! Raw values as sources give them, and the trait that turns them into types.

use std::fmt;

/// A value before it has a type, as a source wrote it.
#[derive(Clone, Debug, PartialEq)]
pub enum Raw {
    /// No value: the default of an optional setting.
    Unset,
    Bool(bool),
    Integer(i64),
    Float(f64),
    /// A quoted string from TOML.
    Text(String),
    List(Vec<Raw>),
    /// A table with the keys in the order of the file, for settings that are lists of named things.
    Table(Vec<(String, Raw)>),
    /// Words from the environment or a flag, which have no type of their own: `5` may be
    /// meant as a number or as a string, and only the setting knows.
    Words(String),
    /// Anything that no setting takes (a date, a list of tables), with its TOML name.
    Other(&'static str),
}

/// The default of an optional setting that is not set.
pub struct Unset;

/// One allowed word of a closed set.
#[derive(Debug)]
pub struct Choice {
    pub word: &'static str,
    pub doc: &'static [&'static str],
}

/// A type that a setting can have.
pub trait Value: Sized {
    /// What the value looks like, as a noun phrase: `a duration such as "5s"`.
    const KIND: &'static str;
    /// Whether the value is shown as `***`.
    const SECRET: bool = false;

    /// Reads the value; `None` means that `raw` is not one. The caller knows the key and
    /// the origin and says so together with [`Value::KIND`].
    fn read(raw: &Raw) -> Option<Self>;

    /// Writes the value in its canonical form, so that `5000ms` is shown as `5s`.
    fn write(&self) -> Raw;

    /// The allowed words, for a closed set.
    fn choices() -> &'static [Choice] {
        &[]
    }
}

impl Raw {
    /// The text of a TOML string or of untyped words.
    pub fn text(&self) -> Option<&str> {
        match self {
            Raw::Text(text) | Raw::Words(text) => Some(text),
            _ => None,
        }
    }
}

/// Writes the value as TOML would have it.
impl fmt::Display for Raw {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Raw::Unset => f.write_str("not set"),
            Raw::Bool(value) => write!(f, "{value}"),
            Raw::Integer(value) => write!(f, "{value}"),
            Raw::Float(value) => write!(f, "{value:?}"),
            Raw::Text(text) | Raw::Words(text) => write_quoted(f, text),
            Raw::List(items) => {
                f.write_str("[")?;
                for (index, item) in items.iter().enumerate() {
                    let separator = if index == 0 { "" } else { ", " };
                    write!(f, "{separator}{item}")?;
                }
                f.write_str("]")
            }
            Raw::Table(rows) => {
                f.write_str("{")?;
                for (index, (key, item)) in rows.iter().enumerate() {
                    f.write_str(if index == 0 { " " } else { ", " })?;
                    write_key(f, key)?;
                    write!(f, " = {item}")?;
                }
                f.write_str(" }")
            }
            Raw::Other(name) => f.write_str(name),
        }
    }
}

/// Writes a key bare where TOML allows it.
fn write_key(f: &mut fmt::Formatter<'_>, key: &str) -> fmt::Result {
    let bare = |byte: u8| byte.is_ascii_alphanumeric() || matches!(byte, b'_' | b'-');
    if !key.is_empty() && key.bytes().all(bare) {
        f.write_str(key)
    } else {
        write_quoted(f, key)
    }
}

fn write_quoted(f: &mut fmt::Formatter<'_>, text: &str) -> fmt::Result {
    f.write_str("\"")?;
    for character in text.chars() {
        match character {
            '"' => f.write_str("\\\"")?,
            '\\' => f.write_str("\\\\")?,
            '\n' => f.write_str("\\n")?,
            '\t' => f.write_str("\\t")?,
            other if other.is_control() => write!(f, "\\u{:04X}", u32::from(other))?,
            other => write!(f, "{other}")?,
        }
    }
    f.write_str("\"")
}

impl From<Unset> for Raw {
    fn from(_: Unset) -> Raw {
        Raw::Unset
    }
}

impl From<bool> for Raw {
    fn from(value: bool) -> Raw {
        Raw::Bool(value)
    }
}

impl From<i32> for Raw {
    fn from(value: i32) -> Raw {
        Raw::Integer(i64::from(value))
    }
}

impl From<i64> for Raw {
    fn from(value: i64) -> Raw {
        Raw::Integer(value)
    }
}

impl From<f64> for Raw {
    fn from(value: f64) -> Raw {
        Raw::Float(value)
    }
}

impl From<&str> for Raw {
    fn from(value: &str) -> Raw {
        Raw::Text(value.to_owned())
    }
}

impl<const N: usize> From<[&str; N]> for Raw {
    fn from(items: [&str; N]) -> Raw {
        Raw::List(items.into_iter().map(Raw::from).collect())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values_are_shown_as_toml_would_write_them() {
        assert_eq!(Raw::from("a \"b\"\n\\").to_string(), r#""a \"b\"\n\\""#);
        assert_eq!(Raw::from("\u{1}").to_string(), r#""\u0001""#);
        assert_eq!(Raw::from(["x", "y"]).to_string(), r#"["x", "y"]"#);
        assert_eq!(Raw::from(1.0).to_string(), "1.0");
        let table = Raw::Table(vec![("a".into(), Raw::from(1)), ("b c".into(), Raw::from("d"))]);
        assert_eq!(table.to_string(), r#"{ a = 1, "b c" = "d" }"#);
    }
}
