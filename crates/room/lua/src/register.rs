//! `redis.register_function`: how a library, while it loads, names its functions.

use crate::ScriptFlag;
use crate::raw::{Kind, Lua, Mode, Raise, StateRef};
use crate::shebang::{NAME_RULE, is_valid_name};

/// A function that a library registered.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct FunctionDef {
    /// The name FCALL uses.
    pub name: String,
    /// Free text given by the library.
    pub description: Option<String>,
    /// What the function promises or asks for.
    pub flags: Vec<ScriptFlag>,
}

/// The functions registered so far by the library that is loading.
#[derive(Default)]
pub(crate) struct Loading {
    pub(crate) functions: Vec<(FunctionDef, StateRef)>,
}

/// What one call of `register_function` says, before it is checked for completeness.
#[derive(Default)]
struct Named {
    name: Option<Vec<u8>>,
    description: Option<String>,
    flags: Vec<ScriptFlag>,
    /// The callback is on top of the stack.
    has_callback: bool,
}

/// redis.register_function(name, callback) or redis.register_function{function_name=, callback=, ...}
pub(crate) fn register_function(lua: Lua<'_>) -> Result<i32, Raise> {
    if lua.context().mode.get() != Mode::LoadingLibrary {
        return Err(Raise::reply(
            "redis.register_function can only be called on FUNCTION LOAD command",
        ));
    }
    let named = match lua.top() {
        1 => read_table(lua)?,
        2 => read_positions(lua)?,
        _ => {
            return Err(Raise::reply(
                "wrong number of arguments to redis.register_function",
            ));
        }
    };
    let Some(name) = named.name else {
        return Err(Raise::reply(
            "redis.register_function must get a function name argument",
        ));
    };
    if !named.has_callback {
        return Err(Raise::reply(
            "redis.register_function must get a callback argument",
        ));
    }
    if !is_valid_name(&name) {
        return Err(Raise::reply(NAME_RULE));
    }
    let name = String::from_utf8_lossy(&name).into_owned();
    let mut loading = lua.context().loading.borrow_mut();
    if loading
        .functions
        .iter()
        .any(|(function, _)| function.name == name)
    {
        return Err(Raise::reply("Function already exists in the library"));
    }
    let function = FunctionDef {
        name,
        description: named.description,
        flags: named.flags,
    };
    loading.functions.push((function, lua.keep()));
    Ok(0)
}

fn read_positions(lua: Lua<'_>) -> Result<Named, Raise> {
    let Some(name) = lua.bytes(1) else {
        return Err(Raise::reply(
            "first argument to redis.register_function must be a string",
        ));
    };
    if lua.kind(2) != Kind::Function {
        return Err(Raise::reply(
            "second argument to redis.register_function must be a function",
        ));
    }
    Ok(Named {
        name: Some(name.to_vec()),
        has_callback: true,
        ..Named::default()
    })
}

fn read_table(lua: Lua<'_>) -> Result<Named, Raise> {
    if lua.kind(1) != Kind::Table {
        let text = "calling redis.register_function with a single argument is only applicable to Lua table \
                    (representing named arguments).";
        return Err(Raise::reply(text));
    }
    let mut named = Named::default();
    lua.push_nil(); // Slot 2 receives the callback.
    lua.push_nil();
    while lua.next(1) {
        read_named(lua, &mut named)?;
        lua.pop(1);
    }
    lua.set_top(2);
    Ok(named)
}

/// Reads one named argument: key and value are on top.
fn read_named(lua: Lua<'_>, named: &mut Named) -> Result<(), Raise> {
    let key = match lua.kind(-2) {
        Kind::String => lua.lend(|lua| lua.bytes(-2).unwrap_or_default().to_ascii_lowercase()),
        Kind::Number => return Err(Raise::reply("unknown argument given to redis.register_function")),
        _ => {
            return Err(Raise::reply(
                "named argument key given to redis.register_function is not a string",
            ));
        }
    };
    if key == b"function_name" {
        named.name = Some(text(
            lua,
            "function_name argument given to redis.register_function must be a string",
        )?);
    } else if key == b"description" {
        let bytes = text(
            lua,
            "description argument given to redis.register_function must be a string",
        )?;
        named.description = Some(String::from_utf8_lossy(&bytes).into_owned());
    } else if key == b"callback" {
        if lua.kind(-1) != Kind::Function {
            return Err(Raise::reply(
                "callback argument given to redis.register_function must be a function",
            ));
        }
        lua.push_value(-1);
        lua.replace(2);
        named.has_callback = true;
    } else if key == b"flags" {
        if lua.kind(-1) != Kind::Table {
            let text =
                "flags argument to redis.register_function must be a table representing function flags";
            return Err(Raise::reply(text));
        }
        named.flags = read_flags(lua)?;
    } else {
        return Err(Raise::reply("unknown argument given to redis.register_function"));
    }
    Ok(())
}

fn text(lua: Lua<'_>, refusal: &'static str) -> Result<Vec<u8>, Raise> {
    lua.push_value(-1); // A copy, so that a number in the table stays a number.
    let bytes = lua.lend(|lua| lua.bytes(-1).map(<[u8]>::to_vec));
    lua.pop(1);
    bytes.ok_or(Raise::reply(refusal))
}

fn read_flags(lua: Lua<'_>) -> Result<Vec<ScriptFlag>, Raise> {
    let mut flags = Vec::new();
    for index in 1.. {
        lua.raw_get_index(-1, index);
        let ended = lua.kind(-1) == Kind::Nil;
        let flag = lua.lend(|lua| lua.bytes(-1).and_then(ScriptFlag::from_name_any_case));
        lua.pop(1);
        match flag {
            _ if ended => break,
            Some(flag) if flags.contains(&flag) => (),
            Some(flag) => flags.push(flag),
            None => return Err(Raise::reply("unknown flag given")),
        }
    }
    Ok(flags)
}
