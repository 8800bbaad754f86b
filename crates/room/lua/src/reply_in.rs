//! RESP replies of the host turned into Lua values.
//!
//! The bytes come from our own engine, so they are trusted to be whole; anything else is a broken invariant.

use crate::raw::{Lua, Raise};

/// Pushes the one value `reply` holds. True when it is an error reply.
pub(crate) fn push_reply(lua: Lua<'_>, reply: &[u8]) -> Result<bool, Raise> {
    let mut reader = Reader { lua, rest: reply };
    reader.push_value()?;
    Ok(reply.first() == Some(&b'-'))
}

struct Reader<'a, 'l> {
    lua: Lua<'l>,
    rest: &'a [u8],
}

impl<'a> Reader<'a, '_> {
    fn push_value(&mut self) -> Result<(), Raise> {
        let lua = self.lua;
        if !lua.reserve(5) {
            return Err(Raise::reply(
                "lua stack limit reach when parsing redis.call reply",
            ));
        }
        let (kind, line) = self.line();
        match kind {
            b':' => lua.push_number(integer(line) as f64),
            b'$' | b'!' => match length(line) {
                None => lua.push_boolean(false),
                Some(len) => lua.push_bytes(self.take(len)),
            },
            b'+' => push_field(lua, "ok", |lua| lua.push_bytes(line)),
            b'-' => {
                crate::raw::push_error_table(lua, &[b"-", line].concat());
                lua.push_boolean(true);
                lua.set_field(-2, "ignore_error_stats_update");
            }
            b'*' | b'>' => match length(line) {
                None => lua.push_boolean(false),
                Some(len) => return self.push_array(len),
            },
            b'%' => return self.push_map(integer(line)),
            b'~' => return self.push_set(integer(line)),
            b'_' => lua.push_nil(),
            b'#' => lua.push_boolean(line == b"t"),
            b',' => {
                let (number, _) = crate::number::parse_prefix(line);
                push_field(lua, "double", |lua| lua.push_number(number));
            }
            b'(' => push_field(lua, "big_number", |lua| lua.push_bytes(line)),
            b'=' => {
                let text = self.take(length(line).unwrap_or(0));
                push_verbatim(lua, text);
            }
            b'|' => return self.skip_attribute(integer(line)),
            other => unreachable!("the engine wrote a reply of type {:?}", char::from(other)),
        }
        Ok(())
    }

    fn push_array(&mut self, len: usize) -> Result<(), Raise> {
        self.lua.new_table(len, 0);
        for index in 1..=len {
            self.push_value()?;
            self.lua
                .raw_set_index(-2, i32::try_from(index).map_err(|_| Raise::Memory)?);
        }
        self.check_room()
    }

    fn push_map(&mut self, pairs: i64) -> Result<(), Raise> {
        self.lua.new_table(0, 1);
        self.lua.new_table(0, usize::try_from(pairs).unwrap_or(0));
        for _ in 0..pairs {
            self.push_value()?;
            self.push_value()?;
            set_pair(self.lua);
        }
        self.lua.set_field(-2, "map");
        self.check_room()
    }

    fn push_set(&mut self, len: i64) -> Result<(), Raise> {
        self.lua.new_table(0, 1);
        self.lua.new_table(0, usize::try_from(len).unwrap_or(0));
        for _ in 0..len {
            self.push_value()?;
            self.lua.push_boolean(true);
            set_pair(self.lua);
        }
        self.lua.set_field(-2, "set");
        self.check_room()
    }

    /// Attributes are not shown to scripts: reads over them, then pushes the value they describe.
    fn skip_attribute(&mut self, pairs: i64) -> Result<(), Raise> {
        for _ in 0..pairs * 2 {
            self.push_value()?;
            self.lua.pop(1);
        }
        self.push_value()
    }

    fn check_room(&self) -> Result<(), Raise> {
        self.lua.context().check_room(0)
    }

    /// Takes one line: its type byte and the text up to CR LF.
    fn line(&mut self) -> (u8, &'a [u8]) {
        let end = self
            .rest
            .iter()
            .position(|byte| *byte == b'\r')
            .unwrap_or(self.rest.len());
        let line = &self.rest[..end];
        self.rest = self.rest.get(end + 2..).unwrap_or_default();
        match line.split_first() {
            Some((kind, text)) => (*kind, text),
            None => unreachable!("the engine wrote an incomplete reply"),
        }
    }

    fn take(&mut self, len: usize) -> &'a [u8] {
        let (text, rest) = self.rest.split_at(len);
        self.rest = rest.get(2..).unwrap_or_default();
        text
    }
}

fn push_field(lua: Lua<'_>, key: &str, push: impl FnOnce(Lua<'_>)) {
    lua.new_table(0, 1);
    push(lua);
    lua.set_field(-2, key);
}

fn push_verbatim(lua: Lua<'_>, text: &[u8]) {
    push_field(lua, "verbatim_string", |lua| {
        lua.new_table(0, 2);
        lua.push_bytes(text.get(4..).unwrap_or_default());
        lua.set_field(-2, "string");
        lua.push_bytes(text.get(..3).unwrap_or_default());
        lua.set_field(-2, "format");
    });
}

/// Sets the key and value on top into the table below them; keys Lua cannot hold are dropped.
fn set_pair(lua: Lua<'_>) {
    use crate::raw::Kind;
    if lua.kind(-2) == Kind::Nil || (lua.kind(-2) == Kind::Number && lua.number(-2).is_nan()) {
        lua.pop(2);
    } else {
        lua.raw_set(-3);
    }
}

fn integer(text: &[u8]) -> i64 {
    let (negative, digits) = match text {
        [b'-', digits @ ..] => (true, digits),
        digits => (false, digits),
    };
    let value = digits.iter().fold(0i64, |value, digit| {
        value.wrapping_mul(10).wrapping_add(i64::from(digit - b'0'))
    });
    if negative { value.wrapping_neg() } else { value }
}

fn length(text: &[u8]) -> Option<usize> {
    usize::try_from(integer(text)).ok()
}
