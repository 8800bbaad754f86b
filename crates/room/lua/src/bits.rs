//! The `bit` library: 32-bit operations on Lua numbers.

use crate::raw::{Lua, Raise, function};

/// Pushes the `bit` table.
pub(crate) fn push_library(lua: Lua<'_>) {
    lua.new_table(0, 12);
    lua.set_function(-1, "tobit", function!(tobit));
    lua.set_function(-1, "bnot", function!(bnot));
    lua.set_function(-1, "band", function!(band));
    lua.set_function(-1, "bor", function!(bor));
    lua.set_function(-1, "bxor", function!(bxor));
    lua.set_function(-1, "lshift", function!(lshift));
    lua.set_function(-1, "rshift", function!(rshift));
    lua.set_function(-1, "arshift", function!(arshift));
    lua.set_function(-1, "rol", function!(rol));
    lua.set_function(-1, "ror", function!(ror));
    lua.set_function(-1, "bswap", function!(bswap));
    lua.set_function(-1, "tohex", function!(tohex));
}

/// Returns an argument as 32 bits. Adding 2^52 + 2^51 leaves the rounded number in the low bits of the double,
/// also for numbers far out of range, which is how scripts see them wrap.
fn argument(lua: Lua<'_>, index: i32) -> Result<u32, Raise> {
    let bits = (lua.number(index) + 6_755_399_441_055_744.0).to_bits() as u32;
    if bits == 0 && !lua.is_number(index) {
        return Err(Raise::Type(index, c"number"));
    }
    Ok(bits)
}

fn result(lua: Lua<'_>, bits: u32) -> Result<i32, Raise> {
    lua.push_number(f64::from(bits as i32));
    Ok(1)
}

fn tobit(lua: Lua<'_>) -> Result<i32, Raise> {
    result(lua, argument(lua, 1)?)
}

fn bnot(lua: Lua<'_>) -> Result<i32, Raise> {
    result(lua, !argument(lua, 1)?)
}

fn fold(lua: Lua<'_>, join: fn(u32, u32) -> u32) -> Result<i32, Raise> {
    let mut bits = argument(lua, 1)?;
    for index in (2..=lua.top()).rev() {
        bits = join(bits, argument(lua, index)?);
    }
    result(lua, bits)
}

fn band(lua: Lua<'_>) -> Result<i32, Raise> {
    fold(lua, |left, right| left & right)
}

fn bor(lua: Lua<'_>) -> Result<i32, Raise> {
    fold(lua, |left, right| left | right)
}

fn bxor(lua: Lua<'_>) -> Result<i32, Raise> {
    fold(lua, |left, right| left ^ right)
}

fn shift(lua: Lua<'_>, shift: fn(u32, u32) -> u32) -> Result<i32, Raise> {
    let bits = argument(lua, 1)?;
    result(lua, shift(bits, argument(lua, 2)? & 31))
}

fn lshift(lua: Lua<'_>) -> Result<i32, Raise> {
    shift(lua, |bits, by| bits << by)
}

fn rshift(lua: Lua<'_>) -> Result<i32, Raise> {
    shift(lua, |bits, by| bits >> by)
}

fn arshift(lua: Lua<'_>) -> Result<i32, Raise> {
    shift(lua, |bits, by| ((bits as i32) >> by) as u32)
}

fn rol(lua: Lua<'_>) -> Result<i32, Raise> {
    shift(lua, u32::rotate_left)
}

fn ror(lua: Lua<'_>) -> Result<i32, Raise> {
    shift(lua, u32::rotate_right)
}

fn bswap(lua: Lua<'_>) -> Result<i32, Raise> {
    result(lua, argument(lua, 1)?.swap_bytes())
}

/// bit.tohex(number [, digits]); negative digits mean upper case.
fn tohex(lua: Lua<'_>) -> Result<i32, Raise> {
    let bits = argument(lua, 1)?;
    let digits = if lua.top() < 2 {
        8
    } else {
        argument(lua, 2)? as i32
    };
    let text = if digits < 0 {
        format!("{bits:08X}")
    } else {
        format!("{bits:08x}")
    };
    let shown = usize::try_from(digits.unsigned_abs().min(8)).unwrap_or(8);
    lua.push_bytes(&text.as_bytes()[8 - shown..]);
    Ok(1)
}
