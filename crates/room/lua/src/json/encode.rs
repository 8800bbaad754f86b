//! `cjson.encode`.

use super::{Config, InvalidNumbers};
use crate::number;
use crate::raw::{Kind, Lua, Raise};

/// Levels at most, whatever the setting: the encoder's own recursion must fit a thread's stack.
const DEPTH_MAX: i32 = 2000;

/// cjson.encode(value)
pub(super) fn encode(lua: Lua<'_>) -> Result<i32, Raise> {
    if lua.top() != 1 {
        return Err(Raise::Argument(1, "expected 1 argument".into()));
    }
    let mut out = lua.context().text.take();
    out.clear();
    let mut encoder = Encoder {
        lua,
        config: lua.block(1),
        out,
    };
    let outcome = encoder.append(0);
    if outcome.is_ok() {
        lua.push_bytes(&encoder.out);
    }
    lua.context().text.set(encoder.out);
    outcome.map(|()| 1)
}

struct Encoder<'l> {
    lua: Lua<'l>,
    config: Config,
    out: Vec<u8>,
}

impl Encoder<'_> {
    /// Appends the top value and leaves it there.
    fn append(&mut self, depth: i32) -> Result<(), Raise> {
        let lua = self.lua;
        match lua.kind(-1) {
            Kind::String => {
                lua.lend(|lua| self.append_string(lua.bytes(-1).unwrap_or_default()));
                // Many references to one string take no memory in Lua, but do here.
                lua.context().check_room(self.out.len())?;
            }
            Kind::Number => return self.append_number(-1),
            Kind::Boolean if lua.boolean(-1) => self.out.extend_from_slice(b"true"),
            Kind::Boolean => self.out.extend_from_slice(b"false"),
            Kind::Table => return self.append_table(depth + 1),
            Kind::Nil => self.out.extend_from_slice(b"null"),
            Kind::LightUserdata if lua.is_null(-1) => self.out.extend_from_slice(b"null"),
            _ => return Err(self.refuse(-1, "type not supported")),
        }
        Ok(())
    }

    fn append_table(&mut self, depth: i32) -> Result<(), Raise> {
        if depth > self.config.encode_max_depth.min(DEPTH_MAX) || !self.lua.reserve(4) {
            return Err(Raise::located(format!(
                "Cannot serialise, excessive nesting ({depth})"
            )));
        }
        match self.array_length()? {
            Some(length) if length > 0 => self.append_array(depth, length),
            _ => self.append_object(depth),
        }
    }

    /// Returns the length of the table on top as an array; `None` when it has other keys or too many holes.
    fn array_length(&self) -> Result<Option<i32>, Raise> {
        let lua = self.lua;
        let (mut most, mut items) = (0i32, 0i32);
        lua.push_nil();
        while lua.next(-2) {
            lua.pop(1);
            let key = if lua.kind(-1) == Kind::Number {
                lua.number(-1)
            } else {
                0.0
            };
            if key < 1.0 || key.floor() != key {
                lua.pop(1);
                return Ok(None);
            }
            if key > f64::from(most) {
                // The processor's conversion: out of range becomes the smallest integer.
                most = if key <= f64::from(i32::MAX) {
                    key as i32
                } else {
                    i32::MIN
                };
            }
            items += 1;
        }
        let config = &self.config;
        let dense = items.wrapping_mul(config.sparse_ratio);
        if config.sparse_ratio > 0 && most > dense && most > config.sparse_safe {
            if !config.sparse_convert {
                return Err(self.refuse(-1, "excessively sparse array"));
            }
            return Ok(None);
        }
        Ok(Some(most))
    }

    fn append_array(&mut self, depth: i32, length: i32) -> Result<(), Raise> {
        self.out.push(b'[');
        for index in 1..=length {
            if index > 1 {
                self.out.push(b',');
            }
            self.lua.raw_get_index(-1, index);
            self.append(depth)?;
            self.lua.pop(1);
        }
        self.out.push(b']');
        Ok(())
    }

    fn append_object(&mut self, depth: i32) -> Result<(), Raise> {
        let lua = self.lua;
        self.out.push(b'{');
        let mut first = true;
        lua.push_nil();
        while lua.next(-2) {
            if !first {
                self.out.push(b',');
            }
            first = false;
            match lua.kind(-2) {
                Kind::Number => {
                    self.out.push(b'"');
                    self.append_number(-2)?;
                    self.out.extend_from_slice(b"\":");
                }
                Kind::String => {
                    lua.lend(|lua| self.append_string(lua.bytes(-2).unwrap_or_default()));
                    self.out.push(b':');
                }
                _ => return Err(self.refuse(-2, "table key must be a number or string")),
            }
            self.append(depth)?;
            lua.pop(1);
        }
        self.out.push(b'}');
        Ok(())
    }

    fn append_number(&mut self, index: i32) -> Result<(), Raise> {
        let number = self.lua.number(index);
        if !number.is_finite() {
            match self.config.encode_invalid_numbers {
                InvalidNumbers::Refuse => return Err(self.refuse(index, "must not be NaN or Inf")),
                InvalidNumbers::Write if number.is_nan() => {
                    self.out.extend_from_slice(b"nan");
                    return Ok(());
                }
                InvalidNumbers::Write => (),
                InvalidNumbers::Null => {
                    self.out.extend_from_slice(b"null");
                    return Ok(());
                }
            }
        }
        number::append_general(&mut self.out, number, self.config.number_precision);
        Ok(())
    }

    fn append_string(&mut self, text: &[u8]) {
        self.out.push(b'"');
        let mut clean = 0;
        for (at, byte) in text.iter().enumerate() {
            if !needs_escape(*byte) {
                continue;
            }
            self.out.extend_from_slice(&text[clean..at]);
            clean = at + 1;
            let short = match byte {
                b'"' => b'"',
                b'\\' => b'\\',
                b'/' => b'/',
                8 => b'b',
                b'\t' => b't',
                b'\n' => b'n',
                12 => b'f',
                b'\r' => b'r',
                other => {
                    self.out.extend_from_slice(format!("\\u{other:04x}").as_bytes());
                    continue;
                }
            };
            self.out.extend_from_slice(&[b'\\', short]);
        }
        self.out.extend_from_slice(&text[clean..]);
        self.out.push(b'"');
    }

    fn refuse(&self, index: i32, reason: &str) -> Raise {
        Raise::located(format!(
            "Cannot serialise {}: {reason}",
            self.lua.type_name(index)
        ))
    }
}

fn needs_escape(byte: u8) -> bool {
    byte < 0x20 || matches!(byte, b'"' | b'\\' | b'/' | 0x7f)
}
