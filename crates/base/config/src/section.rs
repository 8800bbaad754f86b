//! What a declared section says about itself.

use crate::value::{Choice, Raw, Value};

/// When a changed value takes effect.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ReloadPolicy {
    /// At the next start.
    Fixed,
    /// While running.
    Reloadable,
}

/// One setting, as declared.
#[derive(Debug)]
pub struct Field {
    pub name: &'static str,
    /// The doc comment, line by line.
    pub doc: &'static [&'static str],
    pub kind: &'static str,
    pub choices: fn() -> &'static [Choice],
    pub default: fn() -> Raw,
    pub range: Option<fn() -> (Raw, Raw)>,
    /// What a plain number counts; durations and sizes carry their own unit.
    pub unit: Option<&'static str>,
    pub reload: ReloadPolicy,
    pub secret: bool,
    /// The flag that sets it besides `--set`.
    pub flag: Option<&'static str>,
    /// Checks type and range and returns the canonical form.
    pub check: fn(&Raw) -> Result<Raw, InvalidValue>,
}

/// One section: a TOML table and its settings.
#[derive(Debug)]
pub struct SectionMeta {
    /// The table's name; a nested one has dots, as in `jobs.webhooks`.
    pub name: &'static str,
    pub doc: &'static [&'static str],
    pub fields: &'static [Field],
}

/// A struct made by [`settings!`](crate::settings).
pub trait Section: Sized {
    const META: &'static SectionMeta;

    /// Builds the struct from checked values, one per field.
    fn build(value_of: &dyn Fn(&str) -> Raw) -> Self;
}

/// Why a value was refused.
#[derive(Debug, PartialEq)]
pub enum InvalidValue {
    WrongType,
    OutOfRange { low: Raw, high: Raw },
}

/// Checks a value of a setting without a range.
pub fn check<T: Value>(raw: &Raw) -> Result<Raw, InvalidValue> {
    T::read(raw)
        .map(|value| value.write())
        .ok_or(InvalidValue::WrongType)
}

/// Checks a value of a setting with a range; both ends are allowed. A number too large for
/// its type is out of range too, not of the wrong type.
pub fn check_range<T: Value + PartialOrd>(raw: &Raw, low: Raw, high: Raw) -> Result<Raw, InvalidValue> {
    let ends = (T::read(&low), T::read(&high));
    let (Some(lowest), Some(highest)) = ends else {
        unreachable!("the range {low} to {high} was declared with values of another type");
    };
    match T::read(raw) {
        Some(value) if value.write() == Raw::Unset || (lowest <= value && value <= highest) => {
            Ok(value.write())
        }
        Some(_) => Err(InvalidValue::OutOfRange { low, high }),
        None if is_whole_number(raw) && matches!(low, Raw::Integer(_)) => {
            Err(InvalidValue::OutOfRange { low, high })
        }
        None => Err(InvalidValue::WrongType),
    }
}

impl Field {
    /// The name with its section, as errors and `--set` use it.
    pub fn full_name(&self, section: &SectionMeta) -> String {
        format!("{}.{}", section.name, self.name)
    }

    /// The environment variable that sets it.
    pub fn env_name(&self, section: &SectionMeta) -> String {
        env_name(&self.full_name(section))
    }
}

/// The environment variable of a setting's full name.
pub(crate) fn env_name(key: &str) -> String {
    format!("NAGAYA_{}", key.replace('.', "__").to_ascii_uppercase())
}

fn is_whole_number(raw: &Raw) -> bool {
    match raw {
        Raw::Integer(_) => true,
        Raw::Words(words) => {
            let digits = words.trim().trim_start_matches('-');
            !digits.is_empty() && digits.bytes().all(|b| b.is_ascii_digit())
        }
        _ => false,
    }
}
