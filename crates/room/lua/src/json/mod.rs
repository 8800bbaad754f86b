//! The `cjson` library.
//!
//! Same results as the C library Redis embeds, including what it accepts beyond JSON (hexadecimal numbers,
//! `nan`, leading zeros) and the order of object keys, which is Lua's own.

mod decode;
mod encode;

use crate::raw::{CFunction, Kind, Lua, Raise, function};

/// Settings of one `cjson` table, kept in a block shared by its functions.
#[derive(Clone, Copy)]
struct Config {
    sparse_convert: bool,
    sparse_ratio: i32,
    sparse_safe: i32,
    encode_max_depth: i32,
    decode_max_depth: i32,
    encode_invalid_numbers: InvalidNumbers,
    decode_invalid_numbers: bool,
    keep_buffer: bool,
    number_precision: i32,
}

/// What to make of infinities and NaN.
#[derive(Clone, Copy, PartialEq, Eq)]
enum InvalidNumbers {
    Refuse = 0,
    Write = 1,
    Null = 2,
}

impl Default for Config {
    fn default() -> Config {
        Config {
            sparse_convert: false,
            sparse_ratio: 2,
            sparse_safe: 10,
            encode_max_depth: 1000,
            decode_max_depth: 1000,
            encode_invalid_numbers: InvalidNumbers::Refuse,
            decode_invalid_numbers: true,
            keep_buffer: true,
            number_precision: 14,
        }
    }
}

/// Pushes a `cjson` table with settings of its own.
pub(crate) fn push_library(lua: Lua<'_>) {
    let functions: [(&str, CFunction); 10] = [
        ("encode", function!(encode::encode)),
        ("decode", function!(decode::decode)),
        ("encode_sparse_array", function!(encode_sparse_array)),
        ("encode_max_depth", function!(encode_max_depth)),
        ("decode_max_depth", function!(decode_max_depth)),
        ("encode_number_precision", function!(encode_number_precision)),
        ("encode_keep_buffer", function!(encode_keep_buffer)),
        ("encode_invalid_numbers", function!(encode_invalid_numbers)),
        ("decode_invalid_numbers", function!(decode_invalid_numbers)),
        ("new", function!(new)),
    ];
    lua.new_table(0, 13);
    lua.push_block(Config::default());
    for (name, function) in functions {
        lua.push_value(-1);
        lua.push_function(function, 1);
        lua.set_field(-3, name);
    }
    lua.pop(1);
    lua.push_null();
    lua.set_field(-2, "null");
    lua.push_bytes(b"cjson");
    lua.set_field(-2, "_NAME");
    lua.push_bytes(b"2.1.0");
    lua.set_field(-2, "_VERSION");
}

fn new(lua: Lua<'_>) -> Result<i32, Raise> {
    push_library(lua);
    Ok(1)
}

/// Settings with at most `count` arguments, missing ones filled with nil.
fn config(lua: Lua<'_>, count: i32) -> Result<Config, Raise> {
    if lua.top() > count {
        return Err(Raise::Argument(count + 1, "found too many arguments".into()));
    }
    lua.set_top(count);
    Ok(lua.block(1))
}

/// Reads an integer setting, if given, and pushes the value in force.
fn integer_option(lua: Lua<'_>, argument: i32, setting: &mut i32, least: i32) -> Result<(), Raise> {
    integer_option_up_to(lua, argument, setting, least, i32::MAX)
}

fn integer_option_up_to(
    lua: Lua<'_>,
    argument: i32,
    setting: &mut i32,
    least: i32,
    most: i32,
) -> Result<(), Raise> {
    if lua.kind(argument) != Kind::Nil {
        let value = lua.check_integer(argument)? as i32;
        if value < least || value > most {
            return Err(Raise::Argument(
                1,
                format!("expected integer between {least} and {most}").into(),
            ));
        }
        *setting = value;
    }
    lua.push_number(f64::from(*setting));
    Ok(())
}

/// Returns the position of the argument among `names`; booleans stand for the first two.
fn choice(lua: Lua<'_>, argument: i32, names: &[&str]) -> Result<Option<usize>, Raise> {
    match lua.kind(argument) {
        Kind::Nil => Ok(None),
        Kind::Boolean => Ok(Some(usize::from(lua.boolean(argument)))),
        _ => {
            let text = lua.check_bytes(argument)?;
            let found = names.iter().position(|name| name.as_bytes() == text);
            let refusal = || format!("invalid option '{}'", String::from_utf8_lossy(text));
            found
                .map(Some)
                .ok_or_else(|| Raise::Argument(argument, refusal().into()))
        }
    }
}

fn switch_option(lua: Lua<'_>, argument: i32, setting: &mut bool) -> Result<(), Raise> {
    if let Some(position) = choice(lua, argument, &["off", "on"])? {
        *setting = position == 1;
    }
    lua.push_boolean(*setting);
    Ok(())
}

fn encode_sparse_array(lua: Lua<'_>) -> Result<i32, Raise> {
    let mut config = config(lua, 3)?;
    let outcome = switch_option(lua, 1, &mut config.sparse_convert)
        .and_then(|()| integer_option(lua, 2, &mut config.sparse_ratio, 0))
        .and_then(|()| integer_option(lua, 3, &mut config.sparse_safe, 0));
    lua.set_block(1, config); // Settings before a refused one stay, as in the C library.
    outcome.map(|()| 3)
}

fn encode_max_depth(lua: Lua<'_>) -> Result<i32, Raise> {
    let mut config = config(lua, 1)?;
    integer_option(lua, 1, &mut config.encode_max_depth, 1)?;
    lua.set_block(1, config);
    Ok(1)
}

fn decode_max_depth(lua: Lua<'_>) -> Result<i32, Raise> {
    let mut config = config(lua, 1)?;
    integer_option(lua, 1, &mut config.decode_max_depth, 1)?;
    lua.set_block(1, config);
    Ok(1)
}

fn encode_number_precision(lua: Lua<'_>) -> Result<i32, Raise> {
    let mut config = config(lua, 1)?;
    integer_option_up_to(lua, 1, &mut config.number_precision, 1, 14)?;
    lua.set_block(1, config);
    Ok(1)
}

/// Remembered and reported only: our buffer is always reused.
fn encode_keep_buffer(lua: Lua<'_>) -> Result<i32, Raise> {
    let mut config = config(lua, 1)?;
    switch_option(lua, 1, &mut config.keep_buffer)?;
    lua.set_block(1, config);
    Ok(1)
}

fn encode_invalid_numbers(lua: Lua<'_>) -> Result<i32, Raise> {
    let mut config = config(lua, 1)?;
    match choice(lua, 1, &["off", "on", "null"])? {
        Some(0) => config.encode_invalid_numbers = InvalidNumbers::Refuse,
        Some(1) => config.encode_invalid_numbers = InvalidNumbers::Write,
        Some(_) => config.encode_invalid_numbers = InvalidNumbers::Null,
        None => (),
    }
    lua.set_block(1, config);
    match config.encode_invalid_numbers {
        InvalidNumbers::Null => lua.push_bytes(b"null"),
        other => lua.push_boolean(other == InvalidNumbers::Write),
    }
    Ok(1)
}

fn decode_invalid_numbers(lua: Lua<'_>) -> Result<i32, Raise> {
    let mut config = config(lua, 1)?;
    switch_option(lua, 1, &mut config.decode_invalid_numbers)?;
    lua.set_block(1, config);
    Ok(1)
}
