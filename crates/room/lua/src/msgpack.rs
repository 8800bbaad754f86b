//! The `cmsgpack` library: MessagePack as Redis reads and writes it (the old format, without binary or extension
//! types).

use crate::number;
use crate::raw::{Kind, Lua, Raise, Slice, function};

/// Tables nested deeper than this are written as nil, which also ends circular references.
const PACK_DEPTH_MAX: u32 = 16;
const TOO_MANY: &str =
    "stack overflow (too many return values at once; use unpack_one or unpack_limit instead.)";

/// Pushes the `cmsgpack` table.
pub(crate) fn push_library(lua: Lua<'_>) {
    lua.new_table(0, 8);
    lua.set_function(-1, "pack", function!(pack));
    lua.set_function(-1, "unpack", function!(unpack));
    lua.set_function(-1, "unpack_one", function!(unpack_one));
    lua.set_function(-1, "unpack_limit", function!(unpack_limit));
    for (name, text) in [
        ("_NAME", "cmsgpack"),
        ("_VERSION", "lua-cmsgpack 0.4.0"),
        ("_COPYRIGHT", "Copyright (C) 2012, Salvatore Sanfilippo"),
        ("_DESCRIPTION", "MessagePack C implementation for Lua"),
    ] {
        lua.push_bytes(text.as_bytes());
        lua.set_field(-2, name);
    }
}

/// cmsgpack.pack(...): all arguments, one after the other.
fn pack(lua: Lua<'_>) -> Result<i32, Raise> {
    let count = lua.top();
    if count == 0 {
        return Err(Raise::Argument(0, "MessagePack pack needs input.".into()));
    }
    if !lua.reserve(count) {
        return Err(Raise::Argument(
            0,
            "Too many arguments for MessagePack pack.".into(),
        ));
    }
    let mut out = lua.context().text.take();
    out.clear();
    let outcome = (1..=count).try_for_each(|index| {
        lua.push_value(index);
        pack_value(lua, &mut out, 0)
    });
    if outcome.is_ok() {
        lua.push_bytes(&out);
    }
    lua.context().text.set(out);
    outcome.map(|()| 1)
}

/// Appends and pops the top value.
fn pack_value(lua: Lua<'_>, out: &mut Vec<u8>, depth: u32) -> Result<(), Raise> {
    match lua.kind(-1) {
        Kind::String => {
            lua.lend(|lua| pack_bytes(out, lua.bytes(-1).unwrap_or_default()));
            // Many references to one string take no memory in Lua, but do here.
            lua.context().check_room(out.len())?;
        }
        Kind::Boolean => out.push(if lua.boolean(-1) { 0xc3 } else { 0xc2 }),
        Kind::Number => pack_number(out, lua.number(-1)),
        Kind::Table if depth < PACK_DEPTH_MAX => {
            if !lua.reserve(4) {
                return Err(Raise::located(
                    "stack overflow (in function mp_encode_lua_table_as_map)",
                ));
            }
            if is_array(lua) {
                pack_array(lua, out, depth)?
            } else {
                pack_map(lua, out, depth)?
            }
        }
        _ => out.push(0xc0),
    }
    lua.pop(1);
    Ok(())
}

fn pack_bytes(out: &mut Vec<u8>, bytes: &[u8]) {
    let len = bytes.len() as u32;
    match len {
        0..32 => out.push(0xa0 | len as u8),
        32..=0xff => out.extend_from_slice(&[0xd9, len as u8]),
        0x100..=0xffff => {
            out.push(0xda);
            out.extend_from_slice(&(len as u16).to_be_bytes());
        }
        _ => {
            out.push(0xdb);
            out.extend_from_slice(&len.to_be_bytes());
        }
    }
    out.extend_from_slice(bytes);
}

fn pack_number(out: &mut Vec<u8>, number: f64) {
    if number::I64_RANGE.contains(&number) && number.trunc() == number {
        return pack_integer(out, number as i64);
    }
    let single = number as f32;
    if f64::from(single) == number {
        out.push(0xca);
        out.extend_from_slice(&single.to_be_bytes());
    } else {
        out.push(0xcb);
        out.extend_from_slice(&number.to_be_bytes());
    }
}

fn pack_integer(out: &mut Vec<u8>, number: i64) {
    let bytes = number.to_be_bytes();
    let (tag, width) = match number {
        -32..=127 => return out.push(number as u8),
        128..=0xff => (0xcc, 1),
        0x100..=0xffff => (0xcd, 2),
        0x1_0000..=0xffff_ffff => (0xce, 4),
        0x1_0000_0000.. => (0xcf, 8),
        -128..=-33 => (0xd0, 1),
        -32768..=-129 => (0xd1, 2),
        -2_147_483_648..=-32769 => (0xd2, 4),
        _ => (0xd3, 8),
    };
    out.push(tag);
    out.extend_from_slice(&bytes[8 - width..]);
}

/// Appends a container's header: few items fit its first byte.
fn pack_header(out: &mut Vec<u8>, small: u8, large: u8, len: usize) {
    let len = len as u32;
    match len {
        0..=15 => out.push(small | len as u8),
        16..=0xffff => {
            out.push(large);
            out.extend_from_slice(&(len as u16).to_be_bytes());
        }
        _ => {
            out.push(large + 1);
            out.extend_from_slice(&len.to_be_bytes());
        }
    }
}

/// Returns whether the keys of the table on top are exactly 1 to n. An empty table counts.
fn is_array(lua: Lua<'_>) -> bool {
    let (mut count, mut most) = (0.0, 0.0);
    lua.push_nil();
    while lua.next(-2) {
        lua.pop(1);
        let key = if lua.kind(-1) == Kind::Number {
            lua.number(-1)
        } else {
            0.0
        };
        if key <= 0.0 || key > f64::from(i32::MAX) || key.trunc() != key {
            lua.pop(1);
            return false;
        }
        most = key.max(most);
        count += 1.0;
    }
    most == count
}

fn pack_array(lua: Lua<'_>, out: &mut Vec<u8>, depth: u32) -> Result<(), Raise> {
    let len = lua.length(-1);
    pack_header(out, 0x90, 0xdc, len);
    for index in 1..=len {
        lua.raw_get_index(-1, index as i32);
        pack_value(lua, out, depth + 1)?;
    }
    Ok(())
}

fn pack_map(lua: Lua<'_>, out: &mut Vec<u8>, depth: u32) -> Result<(), Raise> {
    let mut count = 0;
    lua.push_nil();
    while lua.next(-2) {
        lua.pop(1);
        count += 1;
    }
    pack_header(out, 0x80, 0xde, count);
    lua.push_nil();
    while lua.next(-2) {
        lua.push_value(-2);
        pack_value(lua, out, depth + 1)?;
        pack_value(lua, out, depth + 1)?;
    }
    Ok(())
}

/// cmsgpack.unpack(bytes): every value in it.
fn unpack(lua: Lua<'_>) -> Result<i32, Raise> {
    unpack_values(lua, 0, 0)
}

/// cmsgpack.unpack_one(bytes [, offset]): the next offset, then one value.
fn unpack_one(lua: Lua<'_>) -> Result<i32, Raise> {
    let offset = lua.optional_integer(2, 0)?;
    lua.set_top(1);
    unpack_values(lua, 1, offset)
}

/// cmsgpack.unpack_limit(bytes, limit [, offset])
fn unpack_limit(lua: Lua<'_>) -> Result<i32, Raise> {
    let (limit, offset) = (lua.check_integer(2)?, lua.optional_integer(3, 0)?);
    lua.set_top(1);
    unpack_values(lua, limit, offset)
}

fn unpack_values(lua: Lua<'_>, limit: i64, offset: i64) -> Result<i32, Raise> {
    let bytes = lua.check_bytes(1)?;
    let everything = limit == 0 && offset == 0;
    if offset < 0 || limit < 0 {
        // The second number is the length: so the C library prints it.
        let text = format!(
            "Invalid request to unpack with offset of {} and limit of {}.",
            offset as i32,
            bytes.len() as i32
        );
        return Err(Raise::located(text));
    }
    let Some(rest) = usize::try_from(offset)
        .ok()
        .and_then(|offset| bytes.get(offset..))
    else {
        let text = format!(
            "Start offset {} greater than input length {}.",
            offset as i32,
            bytes.len() as i32
        );
        return Err(Raise::located(text));
    };
    let limit = if everything { i64::from(i32::MAX) } else { limit };
    let mut reader = Reader {
        lua,
        rest,
        open: Vec::new(),
    };
    let mut count = 0;
    while !reader.rest.is_empty() && i64::from(count) < limit {
        reader.push_value()?;
        count += 1;
    }
    if !everything {
        let next = if reader.rest.is_empty() {
            -1.0
        } else {
            (bytes.len() - reader.rest.len()) as f64
        };
        if !lua.reserve(1) {
            return Err(Raise::located("stack overflow (in function mp_unpack_full)"));
        }
        lua.push_number(next);
        lua.insert(2);
        count += 1;
    }
    Ok(count)
}

/// Reads values without recursion, so that nesting is bounded by Lua's stack limit and not by ours.
struct Reader<'l> {
    lua: Lua<'l>,
    rest: Slice<'l>,
    open: Vec<Open>,
}

/// A container whose members are still being read; its table is on the stack.
enum Open {
    Array {
        index: i32,
        left: u32,
    },
    /// The next value read is a key.
    MapKey {
        left: u32,
    },
    /// The key is on the stack and the next value read belongs to it.
    MapValue {
        left: u32,
    },
}

impl<'l> Reader<'l> {
    /// Pushes one value with all its members.
    fn push_value(&mut self) -> Result<(), Raise> {
        loop {
            if self.push_item()? && self.close_finished()? {
                return Ok(());
            }
        }
    }

    /// Puts the finished value on top into the container it belongs to, and that one into its own when it was the
    /// last member. True when nothing is left open.
    fn close_finished(&mut self) -> Result<bool, Raise> {
        while let Some(open) = self.open.pop() {
            let left = match open {
                Open::MapKey { left } => {
                    self.open.push(Open::MapValue { left });
                    return Ok(false);
                }
                Open::Array { index, left } => {
                    self.lua.raw_set_index(-2, index);
                    if left > 1 {
                        self.open.push(Open::Array {
                            index: index.wrapping_add(1),
                            left: left - 1,
                        });
                    }
                    left
                }
                Open::MapValue { left } => {
                    set_pair(self.lua)?;
                    if left > 1 {
                        self.open.push(Open::MapKey { left: left - 1 });
                    }
                    left
                }
            };
            if left > 1 {
                return Ok(false);
            }
        }
        Ok(true)
    }

    /// Pushes the next scalar, or an empty table for a container. False when that container waits for members.
    fn push_item(&mut self) -> Result<bool, Raise> {
        let lua = self.lua;
        let tag = self.take(1)?[0];
        if !lua.reserve(2) {
            return Err(Raise::located(TOO_MANY));
        }
        match tag {
            0x00..=0x7f => lua.push_number(f64::from(tag)),
            0xe0..=0xff => lua.push_number(f64::from(tag as i8)),
            0xcc => lua.push_number(f64::from(self.fixed::<1>()?[0])),
            0xcd => lua.push_number(f64::from(u16::from_be_bytes(self.fixed()?))),
            0xce => lua.push_number(f64::from(u32::from_be_bytes(self.fixed()?))),
            0xcf => lua.push_number(u64::from_be_bytes(self.fixed()?) as f64),
            0xd0 => lua.push_number(f64::from(self.fixed::<1>()?[0] as i8)),
            0xd1 => lua.push_number(f64::from(i16::from_be_bytes(self.fixed()?))),
            0xd2 => lua.push_number(f64::from(i32::from_be_bytes(self.fixed()?))),
            0xd3 => lua.push_number(i64::from_be_bytes(self.fixed()?) as f64),
            0xca => lua.push_number(f64::from(f32::from_be_bytes(self.fixed()?))),
            0xcb => lua.push_number(f64::from_be_bytes(self.fixed()?)),
            0xc0 => lua.push_nil(),
            0xc2 | 0xc3 => lua.push_boolean(tag == 0xc3),
            0xa0..=0xbf | 0xd9..=0xdb => {
                let len = self.length(tag)?;
                lua.push_bytes(self.take(len as usize)?);
            }
            0x90..=0x9f | 0xdc | 0xdd => {
                let left = self.length(tag)?;
                return self.open_table(left, Open::Array { index: 1, left });
            }
            0x80..=0x8f | 0xde | 0xdf => {
                let left = self.length(tag)?;
                return self.open_table(left, Open::MapKey { left });
            }
            _ => return Err(Raise::located("Bad data format in input.")),
        }
        Ok(true)
    }

    fn open_table(&mut self, left: u32, open: Open) -> Result<bool, Raise> {
        self.lua.context().check_room(0)?;
        self.lua.new_table(0, 0);
        if left > 0 {
            self.open.push(open);
        }
        Ok(left == 0)
    }

    /// Returns the length of a string or container, from its tag or the bytes after it.
    fn length(&mut self, tag: u8) -> Result<u32, Raise> {
        Ok(match tag {
            0xa0..=0xbf => u32::from(tag & 0x1f),
            0x80..=0x9f => u32::from(tag & 0x0f),
            0xd9 => u32::from(self.fixed::<1>()?[0]),
            0xda | 0xdc | 0xde => u32::from(u16::from_be_bytes(self.fixed()?)),
            _ => u32::from_be_bytes(self.fixed()?),
        })
    }

    fn take(&mut self, len: usize) -> Result<Slice<'l>, Raise> {
        let (taken, rest) = self
            .rest
            .split_at_checked(len)
            .ok_or(Raise::located("Missing bytes in input."))?;
        self.rest = rest;
        Ok(taken)
    }

    fn fixed<const N: usize>(&mut self) -> Result<[u8; N], Raise> {
        let mut bytes = [0; N];
        bytes.copy_from_slice(self.take(N)?);
        Ok(bytes)
    }
}

/// Sets the key and value on top into the table below, with Lua's errors for keys it cannot hold.
fn set_pair(lua: Lua<'_>) -> Result<(), Raise> {
    let refusal = match lua.kind(-2) {
        Kind::Nil => "table index is nil",
        Kind::Number if lua.number(-2).is_nan() => "table index is NaN",
        _ => {
            lua.raw_set(-3);
            return Ok(());
        }
    };
    lua.push_bytes(refusal.as_bytes());
    Err(Raise::Top)
}
