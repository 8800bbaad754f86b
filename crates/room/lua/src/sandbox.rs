//! Making a bare Lua state into the one scripts see.
//!
//! Two tables stand for the globals. The *real* one holds them and raises when something missing is read. The
//! *visible* one is its empty proxy, so that every write raises; it is what scripts know as `_G`.

use crate::raw::{CFunction, Kind, Lua, Raise, RunStatus, StateRef, function, guards};
use crate::{bits, handler, json, msgpack, random, redis_api, register, strings, structs};

/// Fixed slots at the bottom of a state's own stack, so that a run reaches them without a lookup.
pub(crate) const HANDLER: i32 = 1;
pub(crate) const REAL: i32 = 2;
pub(crate) const VISIBLE: i32 = 3;
pub(crate) const KEYS_NAME: i32 = 4;
pub(crate) const ARGV_NAME: i32 = 5;
/// The metatable of the visible globals, whose `__index` is swapped while a library loads.
pub(crate) const VISIBLE_METATABLE: i32 = 6;
/// What a loading library sees in place of the real globals; nil in a state for EVAL.
pub(crate) const LIBRARY_API: i32 = 7;
/// The real `redis` table, behind its proxy.
pub(crate) const REDIS: i32 = 8;

/// What a state is for.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Purpose {
    Eval,
    Functions,
}

/// Globals that scripts may see; everything else that Lua's libraries define is dropped. `getfenv`, `setfenv` and
/// `newproxy` are among those: Redis switched them off as unsafe, and without them nothing a script does to its
/// environment outlives it.
const ALLOWED: &[&str] = &[
    "xpcall",
    "tostring",
    "setmetatable",
    "next",
    "assert",
    "tonumber",
    "rawequal",
    "collectgarbage",
    "getmetatable",
    "rawset",
    "pcall",
    "coroutine",
    "type",
    "select",
    "unpack",
    "gcinfo",
    "pairs",
    "rawget",
    "loadstring",
    "ipairs",
    "_VERSION",
    "load",
    "error",
    "string",
    "math",
    "table",
];

/// Opens the libraries and locks them. The state's stack must be empty and ends with the fixed slots.
pub(crate) fn furnish(lua: Lua<'_>, purpose: Purpose) {
    lua.push_function(function!(handler::describe_error), 0);
    lua.push_globals(); // Becomes REAL.
    lua.open(mlua::ffi::luaopen_base, "");
    lua.open(mlua::ffi::luaopen_table, "table");
    lua.open(mlua::ffi::luaopen_string, "string");
    lua.open(mlua::ffi::luaopen_math, "math");
    lua.open(mlua::ffi::luaopen_os, "os");
    keep_only_clock(lua);
    drop_unlisted(lua);
    guard_base(lua);
    fill_libraries(lua);
    push_redis(lua, purpose);
    protect(lua);
    if purpose == Purpose::Functions {
        push_library_api(lua);
    } else {
        lua.push_nil();
    }
    lua.insert(-2); // LIBRARY_API below REDIS.
    debug_assert_eq!(lua.top(), REDIS, "furnishing leaves exactly the fixed slots");
}

/// Of `os` only `clock` is harmless.
fn keep_only_clock(lua: Lua<'_>) {
    lua.raw_field(REAL, "os");
    lua.new_table(0, 1);
    lua.raw_field(-2, "clock");
    lua.set_field(-2, "clock");
    lua.set_field(REAL, "os");
    lua.pop(1);
}

fn drop_unlisted(lua: Lua<'_>) {
    let mut unlisted = Vec::new();
    lua.push_nil();
    while lua.next(REAL) {
        lua.pop(1);
        if lua.kind(-1) == Kind::String {
            let name = lua.lend(|lua| {
                let bytes = lua.bytes(-1).unwrap_or_default();
                String::from_utf8_lossy(bytes).into_owned()
            });
            if name != "os" && !ALLOWED.contains(&name.as_str()) {
                unlisted.push(name);
            }
        }
    }
    for name in unlisted {
        lua.push_nil();
        lua.set_field(REAL, &name);
    }
}

/// Replaces what would look past a proxy, run precompiled code, or overflow.
fn guard_base(lua: Lua<'_>) {
    lua.set_function(REAL, "next", guards::next);
    lua.raw_field(REAL, "next");
    lua.push_function(guards::pairs, 1);
    lua.set_field(REAL, "pairs");
    lua.set_function(REAL, "rawget", guards::rawget);
    lua.set_function(REAL, "unpack", guards::unpack);
    lua.set_function(REAL, "pcall", guards::pcall);
    lua.set_function(REAL, "xpcall", guards::xpcall);
    lua.set_function(REAL, "loadstring", function!(loadstring));
    lua.set_function(REAL, "load", guards::load);
    wrap(lua, REAL, "rawset", guards::checked_write);
    wrap(lua, REAL, "setmetatable", guards::checked_write);
    wrap(lua, REAL, "collectgarbage", guards::collectgarbage);
    lua.raw_field(REAL, "table");
    let table = lua.top();
    for name in ["insert", "remove", "sort", "setn"] {
        wrap(lua, table, name, guards::checked_write);
    }
    lua.pop(1);
}

/// Puts `guard` in place of a stock function, which becomes its upvalue.
fn wrap(lua: Lua<'_>, table: i32, name: &str, guard: CFunction) {
    lua.raw_field(table, name);
    debug_assert!(lua.c_function(-1).is_some(), "{name} is a stock function");
    lua.push_function(guard, 1);
    lua.set_field(table, name);
}

fn fill_libraries(lua: Lua<'_>) {
    lua.raw_field(REAL, "string");
    strings::fill(lua);
    lua.pop(1);
    lua.raw_field(REAL, "math");
    lua.set_function(-1, "random", function!(random::random));
    lua.set_function(-1, "randomseed", function!(random::randomseed));
    lua.pop(1);
    json::push_library(lua);
    lua.set_field(REAL, "cjson");
    msgpack::push_library(lua);
    lua.set_field(REAL, "cmsgpack");
    structs::push_library(lua);
    lua.set_field(REAL, "struct");
    bits::push_library(lua);
    lua.set_field(REAL, "bit");
}

/// Puts the `redis` table among the globals and leaves it on the stack.
fn push_redis(lua: Lua<'_>, purpose: Purpose) {
    lua.new_table(0, 24);
    redis_api::fill(lua);
    if purpose == Purpose::Eval {
        redis_api::fill_eval(lua);
    }
    lua.push_value(-1);
    lua.set_field(REAL, "redis");
}

/// Hides every library behind its proxy, then the globals. Expects `redis` on top; leaves VISIBLE, the two names
/// and the visible metatable below it.
fn protect(lua: Lua<'_>) {
    lock_string_metatable(lua);
    for name in [
        "string",
        "math",
        "table",
        "coroutine",
        "os",
        "redis",
        "cjson",
        "cmsgpack",
        "struct",
        "bit",
    ] {
        lua.raw_field(REAL, name);
        lua.push_proxy(None);
        lua.set_field(REAL, name);
    }
    lua.new_table(0, 1);
    lua.set_function(-1, "__index", guards::refuse_missing);
    lua.push_value(-1);
    lua.set_metatable(REAL);
    let shown = keep_proxy(lua);
    lua.push_value(REAL);
    lua.push_proxy(Some(shown));
    lua.push_value(-1);
    lua.set_field(REAL, "_G");
    lua.push_value(-1);
    lua.set_globals();
    lua.insert(VISIBLE);
    lua.push_bytes(b"KEYS");
    lua.insert(KEYS_NAME);
    lua.push_bytes(b"ARGV");
    lua.insert(ARGV_NAME);
    lua.push_metatable(VISIBLE);
    lua.insert(VISIBLE_METATABLE);
}

/// Pops a table, hides it behind a proxy and keeps that.
fn keep_proxy(lua: Lua<'_>) -> StateRef {
    lua.push_proxy(None);
    lua.keep()
}

/// Strings share one metatable, through which a script could replace methods for all later scripts. Scripts get to
/// see a read-only picture of it instead.
fn lock_string_metatable(lua: Lua<'_>) {
    lua.new_table(0, 1);
    lua.raw_field(REAL, "string");
    lua.push_proxy(None);
    lua.set_field(-2, "__index");
    lua.push_proxy(None);
    lua.push_function(guards::getmetatable, 1);
    lua.set_field(REAL, "getmetatable");
}

/// Pushes what a library sees while it loads: a `redis` table that can register and log, and nothing else.
fn push_library_api(lua: Lua<'_>) {
    lua.new_table(0, 1);
    lua.new_table(0, 8);
    lua.set_function(-1, "register_function", function!(register::register_function));
    redis_api::fill_log(lua);
    refuse_missing_fields(lua);
    lua.push_proxy(None);
    lua.set_field(-2, "redis");
    refuse_missing_fields(lua);
}

fn refuse_missing_fields(lua: Lua<'_>) {
    lua.new_table(0, 1);
    lua.set_function(-1, "__index", guards::refuse_missing);
    lua.set_metatable(-2);
}

/// loadstring(text [, name])
fn loadstring(lua: Lua<'_>) -> Result<i32, Raise> {
    let text = lua.check_bytes(1)?;
    let name = match lua.kind(2) {
        Kind::None | Kind::Nil => text,
        _ => lua.check_bytes(2)?,
    };
    Ok(compile(lua, text, name))
}

/// Pushes the function, or nil and the reason.
fn compile(lua: Lua<'_>, text: &[u8], name: &[u8]) -> i32 {
    match lua.compile(text, &Lua::chunk_name(name)) {
        RunStatus::Done => 1,
        RunStatus::Failed => {
            lua.push_nil();
            lua.insert(-2);
            2
        }
    }
}
