//! The value a script returns, turned into a RESP reply.
//!
//! Works through nested tables with its own list of open ones instead of recursion, because a script can return a
//! table that contains itself: Redis then goes on until Lua's stack limit, some eight thousand levels down. A reply
//! may be as large as the memory limit: a table of many references to one string would else grow without bound.

use nagaya_resp::{Out, Proto};

use crate::number;
use crate::raw::{Kind, Lua};

/// Takes the top value and appends it to `out`. After a reply that grew too large, values are left on the stack.
pub(crate) fn write_reply(lua: Lua<'_>, out: &mut Out) -> Written {
    let start = out.len();
    let reply_bytes_max = lua.context().limit_bytes;
    let mut writer = Writer {
        lua,
        out,
        open: Vec::new(),
        written: Written::Value,
    };
    writer.write_value();
    while let Some(open) = writer.open.pop() {
        writer.step(open);
        if writer.out.len() - start > reply_bytes_max {
            writer.out.truncate(start);
            writer
                .out
                .error(&format!("ERR reply is larger than {reply_bytes_max} bytes"));
            return Written::Error {
                already_counted: false,
            };
        }
    }
    writer.written
}

/// What kind of reply was written.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Written {
    Value,
    Error { already_counted: bool },
}

struct Writer<'l, 'o> {
    lua: Lua<'l>,
    out: &'o mut Out,
    open: Vec<Open>,
    written: Written,
}

/// A table whose members are still being written. It and its bookkeeping values stay on the Lua stack.
enum Open {
    /// Stack: table. The next index to write.
    Array(i32),
    /// Stack: table, map, last key.
    MapKey,
    /// Stack: table, map, key, value.
    MapValue,
    /// Stack: table, set, last key.
    Set,
}

impl Writer<'_, '_> {
    /// Writes the next member of an open table, or closes it.
    fn step(&mut self, open: Open) {
        let lua = self.lua;
        match open {
            Open::Array(index) => {
                lua.raw_get_index(-1, index);
                if lua.kind(-1) == Kind::Nil {
                    lua.pop(2);
                } else {
                    self.open.push(Open::Array(index + 1));
                    self.write_value();
                }
            }
            Open::MapKey => {
                if lua.next(-2) {
                    lua.push_value(-2);
                    self.open.push(Open::MapValue);
                    self.write_value();
                } else {
                    lua.pop(2);
                }
            }
            Open::MapValue => {
                self.open.push(Open::MapKey);
                self.write_value();
            }
            Open::Set => {
                if lua.next(-2) {
                    lua.pop(1);
                    lua.push_value(-1);
                    self.open.push(Open::Set);
                    self.write_value();
                } else {
                    lua.pop(2);
                }
            }
        }
    }

    /// Writes and pops the top value, or leaves it there as an open table.
    fn write_value(&mut self) {
        let lua = self.lua;
        if !lua.reserve(4) {
            self.out.error("ERR reached lua stack limit");
            lua.pop(1);
            return;
        }
        match lua.kind(-1) {
            Kind::String => lua.lend(|lua| self.out.bulk(lua.bytes(-1).unwrap_or_default())),
            Kind::Boolean => self.write_boolean(lua.boolean(-1)),
            Kind::Number => self.out.int(truncate(lua.number(-1))),
            Kind::Table => return self.write_table(),
            _ => self.out.nil(),
        }
        lua.pop(1);
    }

    /// A script that speaks RESP2 has no booleans to give: true is 1, false is nil.
    fn write_boolean(&mut self, value: bool) {
        match (self.lua.context().proto.get(), value) {
            (Proto::Resp2, true) => self.out.int(1),
            (Proto::Resp2, false) => self.out.nil(),
            (Proto::Resp3, value) => self.out.bool(value),
        }
    }

    fn write_table(&mut self) {
        let lua = self.lua;
        if self.write_tagged() {
            lua.pop(1);
            return;
        }
        lua.raw_field(-1, "map");
        if lua.kind(-1) == Kind::Table {
            self.out.map(count_pairs(lua));
            lua.push_nil();
            self.open.push(Open::MapKey);
            return;
        }
        lua.pop(1);
        lua.raw_field(-1, "set");
        if lua.kind(-1) == Kind::Table {
            self.out.set(count_pairs(lua));
            lua.push_nil();
            self.open.push(Open::Set);
            return;
        }
        lua.pop(1);
        self.out.array(count_items(lua));
        self.open.push(Open::Array(1));
    }

    /// Writes a table that stands for one value (`{err=..}`, `{ok=..}`, `{double=..}` ...), if it is one.
    fn write_tagged(&mut self) -> bool {
        let (lua, out) = (self.lua, &mut *self.out);
        lua.raw_field(-1, "err");
        if lua.kind(-1) == Kind::String {
            lua.lend(|lua| write_error(out, lua.bytes(-1).unwrap_or_default()));
            lua.pop(1);
            lua.raw_field(-1, "ignore_error_stats_update");
            if self.open.is_empty() {
                self.written = Written::Error {
                    already_counted: lua.boolean(-1),
                };
            }
            lua.pop(1);
            return true;
        }
        lua.pop(1);
        lua.raw_field(-1, "ok");
        let mut found = lua.kind(-1) == Kind::String;
        if found {
            lua.lend(|lua| out.simple_bytes(until_zero(lua.bytes(-1).unwrap_or_default())));
        }
        lua.pop(1);
        if found {
            return true;
        }
        lua.raw_field(-1, "double");
        found = lua.kind(-1) == Kind::Number;
        if found {
            out.double(lua.number(-1));
        }
        lua.pop(1);
        if found {
            return true;
        }
        lua.raw_field(-1, "big_number");
        found = lua.kind(-1) == Kind::String;
        if found {
            lua.lend(|lua| write_big_number(out, lua.bytes(-1).unwrap_or_default()));
        }
        lua.pop(1);
        found || write_verbatim(lua, out)
    }
}

/// Appends an error line: text ends at a zero byte, outer line ends are cut, inner ones become blanks.
pub(crate) fn write_error(out: &mut Out, text: &[u8]) {
    let is_newline = |byte: &u8| matches!(byte, b'\r' | b'\n');
    let text = until_zero(text);
    let start = text
        .iter()
        .position(|byte| !is_newline(byte))
        .unwrap_or(text.len());
    let end = text
        .iter()
        .rposition(|byte| !is_newline(byte))
        .map_or(start, |last| last + 1);
    out.error_bytes(&text[start..end]);
}

fn write_big_number(out: &mut Out, digits: &[u8]) {
    let digits: Vec<u8> = digits
        .iter()
        .map(|byte| {
            if matches!(byte, b'\r' | b'\n') {
                b' '
            } else {
                *byte
            }
        })
        .collect();
    match out.proto {
        Proto::Resp2 => out.bulk(&digits),
        Proto::Resp3 => {
            out.raw(b"(");
            out.raw(&digits);
            out.raw(b"\r\n");
        }
    }
}

/// `{verbatim_string = {format = 'txt', string = '...'}}`
fn write_verbatim(lua: Lua<'_>, out: &mut Out) -> bool {
    lua.raw_field(-1, "verbatim_string");
    let mut found = lua.kind(-1) == Kind::Table;
    if found {
        lua.raw_field(-1, "format");
        lua.raw_field(-2, "string");
        found = lua.kind(-2) == Kind::String && lua.kind(-1) == Kind::String;
        if found {
            lua.lend(|lua| {
                let format = three_letters(lua.bytes(-2).unwrap_or_default());
                out.verbatim(&format, lua.bytes(-1).unwrap_or_default());
            });
        }
        lua.pop(2);
    }
    lua.pop(1);
    found
}

/// Returns a format as the three letters of the wire: shorter ones are filled with blanks, longer ones cut.
fn three_letters(format: &[u8]) -> String {
    let mut letters: String = until_zero(format)
        .iter()
        .take(3)
        .map(|byte| char::from(byte & 0x7f))
        .collect();
    while letters.len() < 3 {
        letters.push(' ');
    }
    letters
}

fn until_zero(text: &[u8]) -> &[u8] {
    text.split(|byte| *byte == 0).next().unwrap_or_default()
}

/// Numbers lose their fraction. Those out of range become the smallest integer, as the processor converts them.
fn truncate(number: f64) -> i64 {
    if number::I64_RANGE.contains(&number) {
        number as i64
    } else {
        i64::MIN
    }
}

/// Returns how many items come before the first nil of the table on top.
fn count_items(lua: Lua<'_>) -> usize {
    let mut count = 0;
    loop {
        lua.raw_get_index(-1, count + 1);
        let ended = lua.kind(-1) == Kind::Nil;
        lua.pop(1);
        if ended {
            return usize::try_from(count).unwrap_or(0);
        }
        count += 1;
    }
}

fn count_pairs(lua: Lua<'_>) -> usize {
    let mut count = 0;
    lua.push_nil();
    while lua.next(-2) {
        lua.pop(1);
        count += 1;
    }
    count
}
