//! What a setting is: its names, which values it takes, and where they live.

use nagaya_resp::parse_i64;

use crate::config::Config;

/// One setting.
pub struct Setting {
    pub name: &'static str,
    /// An older name that works too.
    pub alias: Option<&'static str>,
    pub(crate) kind: Kind,
    pub(crate) place: Place,
    pub(crate) access: Access,
    /// Shown only to who asks for it by its full name.
    pub hidden: bool,
    /// Its value does not appear in any log.
    pub secret: bool,
    /// What becomes of a value that CONFIG SET gives it, when the data is in this process.
    pub(crate) effect: Effect,
    /// As above, when the data is on Redis servers; where nothing is said, the same.
    pub(crate) effect_on_redis: Option<Effect>,
}

/// What becomes of a value that CONFIG SET gives a setting.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Effect {
    /// It is in force.
    InForce,
    /// It is kept for who asks and changes nothing, which harms nobody for this reason.
    Harmless(&'static str),
    /// Any value but the one it has is refused with this text, since it would promise what does not happen.
    Refused(&'static str),
}

/// Who may change a setting.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Access {
    Free,
    /// Only the start sets it.
    Fixed,
    /// As above, for settings that could be used to write files.
    Protected,
}

/// Which values a setting takes.
#[derive(Clone, Copy)]
pub(crate) enum Kind {
    YesNo,
    Number {
        min: i128,
        max: i128,
        unit: Unit,
    },
    OneOf(&'static [&'static str]),
    /// Any number of these words.
    SomeOf(&'static [&'static str]),
    Text,
    /// The row's own function reads it.
    Special,
}

#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Unit {
    None,
    Bytes,
    BytesOrPercent,
    Octal,
}

/// Where the value lives.
#[derive(Clone, Copy)]
pub(crate) enum Place {
    Field {
        get: fn(&Config) -> String,
        set: fn(&mut Config, Value),
    },
    /// Reads and checks the text itself.
    Special {
        get: fn(&Config) -> String,
        set: fn(&mut Config, &str) -> Result<(), String>,
    },
    /// Nowhere but in the list of settings without effect; starts as this.
    Idle(&'static str),
}

/// A value that fits its kind.
pub(crate) enum Value {
    Bool(bool),
    Number(i128),
    Word(&'static str),
    Text(String),
}

/// A field that a plain setting can live in.
pub(crate) trait Field {
    fn show(&self) -> String;
    fn put(&mut self, value: Value);
}

impl Setting {
    /// Returns the value as CONFIG GET shows it.
    pub fn get(&self, config: &Config) -> String {
        match self.place {
            Place::Field { get, .. } | Place::Special { get, .. } => get(config),
            Place::Idle(default) => match config.without_effect.get(self.name) {
                Some(text) => text.clone(),
                None => default.to_owned(),
            },
        }
    }

    /// Returns why it cannot be set, if so.
    pub fn refusal(&self) -> Option<&'static str> {
        match self.access {
            Access::Free => None,
            Access::Fixed => Some("can't set immutable config"),
            Access::Protected => Some("can't set protected config"),
        }
    }

    /// Returns whether only the start sets it.
    pub fn is_fixed(&self) -> bool {
        self.access != Access::Free
    }

    /// Returns what becomes of a value that CONFIG SET gives it.
    pub fn effect(&self, data_on_redis: bool) -> Effect {
        match self.effect_on_redis {
            Some(effect) if data_on_redis => effect,
            _ => self.effect,
        }
    }

    /// Checks and sets a value; on failure returns the reason in Redis's words.
    pub fn set(&self, config: &mut Config, text: &[u8]) -> Result<(), String> {
        let text = std::str::from_utf8(text).map_err(|_| "argument must be UTF-8 text")?;
        let before = self.get(config);
        if let Place::Special { set, .. } = self.place {
            set(config, text)?;
        } else {
            let value = self.read(text)?;
            match self.place {
                Place::Field { set, .. } => set(config, value),
                _ => {
                    config.without_effect.insert(self.name, value.show(self.kind));
                }
            }
        }
        match self.effect(config.data_on_redis) {
            Effect::Refused(reason) if self.get(config) != before => Err(reason.to_owned()),
            _ => Ok(()),
        }
    }

    fn read(&self, text: &str) -> Result<Value, String> {
        match self.kind {
            Kind::YesNo => match text.to_ascii_lowercase().as_str() {
                "yes" => Ok(Value::Bool(true)),
                "no" => Ok(Value::Bool(false)),
                _ => Err("argument must be 'yes' or 'no'".to_owned()),
            },
            Kind::Number { min, max, unit } => read_number(text, min, max, unit).map(Value::Number),
            Kind::OneOf(words) => read_word(text, words).map(Value::Word),
            Kind::SomeOf(words) => {
                let chosen: Result<Vec<_>, _> = text.split(' ').map(|word| read_word(word, words)).collect();
                let chosen = chosen?;
                // Shown in the order of the list, whatever order they were given in.
                let shown: Vec<&str> = words
                    .iter()
                    .copied()
                    .filter(|word| chosen.contains(word))
                    .collect();
                Ok(Value::Text(shown.join(" ")))
            }
            Kind::Text | Kind::Special => Ok(Value::Text(text.to_owned())),
        }
    }
}

impl Value {
    fn show(self, kind: Kind) -> String {
        match (self, kind) {
            (Value::Bool(true), _) => "yes".to_owned(),
            (Value::Bool(false), _) => "no".to_owned(),
            (
                Value::Number(number),
                Kind::Number {
                    unit: Unit::Octal, ..
                },
            ) => format!("{number:o}"),
            (Value::Number(number), _) => number.to_string(),
            (Value::Word(word), _) => word.to_owned(),
            (Value::Text(text), _) => text,
        }
    }
}

pub(crate) fn read_word(text: &str, words: &[&'static str]) -> Result<&'static str, String> {
    let found = words.iter().find(|word| word.eq_ignore_ascii_case(text));
    found.copied().ok_or_else(|| {
        let words: Vec<&str> = words.to_vec();
        format!("argument(s) must be one of the following: {}", words.join(", "))
    })
}

pub(crate) fn read_number(text: &str, min: i128, max: i128, unit: Unit) -> Result<i128, String> {
    let number = match unit {
        Unit::None => parse_i64(text.as_bytes())
            .map(i128::from)
            .ok_or("argument couldn't be parsed into an integer")?,
        Unit::Octal => {
            i128::from_str_radix(text, 8).map_err(|_| "argument couldn't be parsed as an octal number")?
        }
        Unit::Bytes => parse_bytes(text).ok_or("argument must be a memory value")?,
        Unit::BytesOrPercent => match text.strip_suffix('%').and_then(|text| parse_i64(text.as_bytes())) {
            Some(percent) if percent >= 0 => {
                if percent > 100 {
                    return Err("percentage argument must be less or equal to 100".to_owned());
                }
                return Ok(-i128::from(percent));
            }
            _ => parse_bytes(text).ok_or("argument must be a memory or percent value")?,
        },
    };
    if number < min || number > max {
        return Err(format!("argument must be between {min} and {max} inclusive"));
    }
    Ok(number)
}

/// Reads a number of bytes, with one of Redis's units: `k` is a thousand, `kb` is 1024, and so on.
pub fn parse_bytes(text: &str) -> Option<i128> {
    let digits = text.len()
        - text
            .trim_start_matches(|letter: char| letter.is_ascii_digit())
            .len();
    let factor = match text[digits..].to_ascii_lowercase().as_str() {
        "" | "b" => 1,
        "k" => 1000,
        "kb" => 1 << 10,
        "m" => 1_000_000,
        "mb" => 1 << 20,
        "g" => 1_000_000_000,
        "gb" => 1 << 30,
        _ => return None,
    };
    let number: u64 = text[..digits].parse().ok()?;
    Some(i128::from(number) * factor)
}

impl Field for bool {
    fn show(&self) -> String {
        if *self { "yes" } else { "no" }.to_owned()
    }

    fn put(&mut self, value: Value) {
        if let Value::Bool(on) = value {
            *self = on;
        }
    }
}

impl Field for String {
    fn show(&self) -> String {
        self.clone()
    }

    fn put(&mut self, value: Value) {
        if let Value::Text(text) = value {
            *self = text;
        }
    }
}

impl Field for &'static str {
    fn show(&self) -> String {
        (*self).to_owned()
    }

    fn put(&mut self, value: Value) {
        if let Value::Word(word) = value {
            *self = word;
        }
    }
}

macro_rules! number_fields {
    ($($number:ty),*) => {$(
        impl Field for $number {
            fn show(&self) -> String {
                self.to_string()
            }

            fn put(&mut self, value: Value) {
                // The row's range lies inside the field's; were it not, the old value would stay.
                if let Value::Number(number) = value
                    && let Ok(number) = <$number>::try_from(number)
                {
                    *self = number;
                }
            }
        }
    )*};
}
number_fields!(i32, i64, u16, u32, u64, usize);
