//! The `redis` table: what scripts call.

use nagaya_resp::Proto;

use crate::host::LogLevel;
use crate::raw::{Kind, Lua, Mode, Raise, Slice, function, push_error_table};
use crate::{digest, number, reply_in};

/// Commands with at most this many arguments need no list on the heap.
const SHORT_COMMAND: usize = 12;

/// Fills the table on top with what both scripts and functions may call.
pub(crate) fn fill(lua: Lua<'_>) {
    lua.set_function(-1, "call", function!(call));
    lua.set_function(-1, "pcall", function!(pcall));
    lua.set_function(-1, "setresp", function!(setresp));
    lua.set_function(-1, "sha1hex", function!(sha1hex));
    lua.set_function(-1, "error_reply", function!(error_reply));
    lua.set_function(-1, "status_reply", function!(status_reply));
    lua.set_function(-1, "set_repl", function!(set_repl));
    lua.set_function(-1, "acl_check_cmd", function!(acl_check_cmd));
    for (name, flags) in [
        ("REPL_NONE", 0.0),
        ("REPL_AOF", 1.0),
        ("REPL_SLAVE", 2.0),
        ("REPL_REPLICA", 2.0),
        ("REPL_ALL", 3.0),
    ] {
        lua.push_number(flags);
        lua.set_field(-2, name);
    }
    fill_log(lua);
}

/// Adds what only EVAL scripts have: the debugger's functions, idle here, and a promise that changed nothing.
pub(crate) fn fill_eval(lua: Lua<'_>) {
    lua.set_function(-1, "breakpoint", function!(breakpoint));
    lua.set_function(-1, "debug", function!(debug));
    lua.set_function(-1, "replicate_commands", function!(replicate_commands));
}

/// Adds `redis.log` and its levels, which a library may use while it loads.
pub(crate) fn fill_log(lua: Lua<'_>) {
    lua.set_function(-1, "log", function!(log));
    for (name, level) in [
        ("LOG_DEBUG", 0.0),
        ("LOG_VERBOSE", 1.0),
        ("LOG_NOTICE", 2.0),
        ("LOG_WARNING", 3.0),
    ] {
        lua.push_number(level);
        lua.set_field(-2, name);
    }
}

/// Fails with a plain message unless a script is running; used outside the `redis` table.
pub(crate) fn require_running(lua: Lua<'_>, name: &str) -> Result<(), Raise> {
    match lua.context().mode.get() {
        Mode::Running => Ok(()),
        _ => Err(Raise::located(format!(
            "{name} can only be called inside a script invocation"
        ))),
    }
}

fn require_script(lua: Lua<'_>, text: &'static str) -> Result<(), Raise> {
    if lua.context().mode.get() == Mode::Running {
        Ok(())
    } else {
        Err(Raise::reply(text))
    }
}

/// redis.call(command, ...) raises an error reply.
fn call(lua: Lua<'_>) -> Result<i32, Raise> {
    if run_command(lua)? { Err(Raise::Top) } else { Ok(1) }
}

/// redis.pcall(command, ...) returns an error reply as a table.
fn pcall(lua: Lua<'_>) -> Result<i32, Raise> {
    match run_command(lua) {
        // Wrong arguments are returned too; calling outside a script is not a reply and still raises.
        Err(Raise::Reply(text)) if lua.context().mode.get() == Mode::Running => {
            lua.set_top(0);
            push_error_table(lua, &text);
            Ok(1)
        }
        Err(raise) => Err(raise),
        Ok(_) => Ok(1),
    }
}

/// Runs the command whose words are the arguments and pushes its reply. True when that is an error.
fn run_command(lua: Lua<'_>) -> Result<bool, Raise> {
    require_script(
        lua,
        "redis.call/pcall can only be called inside a script invocation",
    )?;
    let context = lua.context();
    let mut reply = context.reply.take();
    reply.clear();
    with_arguments(lua, |args| {
        context.with_host(|host| host.call(args, context.proto.get(), &mut reply))
    })?;
    lua.set_top(0);
    let is_error = reply_in::push_reply(lua, &reply);
    context.reply.set(reply);
    is_error
}

/// Lends the arguments of the running function as bytes. Numbers become text with all their digits.
fn with_arguments<R>(lua: Lua<'_>, body: impl FnOnce(&[Slice<'_>]) -> R) -> Result<R, Raise> {
    lua.lend(|lua| lend_arguments(lua, body))
}

fn lend_arguments<'a, R>(lua: Lua<'a>, body: impl FnOnce(&[Slice<'a>]) -> R) -> Result<R, Raise> {
    let count = usize::try_from(lua.top()).unwrap_or(0);
    if count == 0 {
        return Err(Raise::reply(
            "Please specify at least one argument for this redis lib call",
        ));
    }
    let mut short: [Slice<'a>; SHORT_COMMAND] = [&[]; SHORT_COMMAND];
    let mut long = Vec::new();
    let slots = if count <= SHORT_COMMAND {
        &mut short[..count]
    } else {
        long.resize(count, &[][..]);
        &mut long[..]
    };
    for (slot, index) in slots.iter_mut().zip(1..) {
        *slot = argument(lua, index).ok_or(Raise::reply(
            "Lua redis lib command arguments must be strings or integers",
        ))?;
    }
    Ok(body(slots))
}

fn argument(lua: Lua<'_>, index: i32) -> Option<Slice<'_>> {
    match lua.kind(index) {
        Kind::String => (),
        Kind::Number => {
            // Lua leaves a called function some free slots however many arguments it got: asking for one more
            // would be refused past its limit of 8000.
            let mut text = lua.context().text.take();
            text.clear();
            number::append_general(&mut text, lua.number(index), 17);
            lua.push_bytes(&text);
            lua.replace(index);
            lua.context().text.set(text);
        }
        _ => return None,
    }
    lua.bytes(index)
}

/// redis.setresp(2 | 3)
fn setresp(lua: Lua<'_>) -> Result<i32, Raise> {
    require_script(lua, "redis.setresp can only be called inside a script invocation")?;
    if lua.top() != 1 {
        return Err(Raise::reply("redis.setresp() requires one argument."));
    }
    let proto = match lua.number(1) as i32 {
        2 => Proto::Resp2,
        3 => Proto::Resp3,
        _ => return Err(Raise::reply("RESP version must be 2 or 3.")),
    };
    lua.context().proto.set(proto);
    Ok(0)
}

/// redis.sha1hex(text)
fn sha1hex(lua: Lua<'_>) -> Result<i32, Raise> {
    if lua.top() != 1 {
        return Err(Raise::reply("wrong number of arguments"));
    }
    let text = lua.bytes(1).unwrap_or_default();
    lua.push_bytes(&digest::sha1_hex(text));
    Ok(1)
}

fn one_string(lua: Lua<'_>) -> Option<Slice<'_>> {
    if lua.top() == 1 && lua.kind(1) == Kind::String {
        lua.bytes(1)
    } else {
        None
    }
}

/// redis.error_reply(text): a table to return; a wrong argument gives an error table too.
fn error_reply(lua: Lua<'_>) -> Result<i32, Raise> {
    match one_string(lua) {
        None => push_error_table(lua, b"wrong number or type of arguments"),
        Some(text) if text.first() == Some(&b'-') => push_error_table(lua, text),
        Some(text) => push_error_table(lua, &[b"-", text].concat()),
    }
    Ok(1)
}

/// redis.status_reply(text)
fn status_reply(lua: Lua<'_>) -> Result<i32, Raise> {
    if one_string(lua).is_none() {
        push_error_table(lua, b"wrong number or type of arguments");
        return Ok(1);
    }
    lua.new_table(0, 1);
    lua.push_value(1);
    lua.set_field(-2, "ok");
    Ok(1)
}

/// redis.set_repl(flags)
fn set_repl(lua: Lua<'_>) -> Result<i32, Raise> {
    require_script(
        lua,
        "redis.set_repl can only be called inside a script invocation",
    )?;
    if lua.top() != 1 {
        return Err(Raise::reply("redis.set_repl() requires two arguments."));
    }
    let flags = i64::from(lua.number(1) as i32);
    if flags & !3 != 0 {
        let text = "Invalid replication flags. Use REPL_AOF, REPL_REPLICA, REPL_ALL or REPL_NONE.";
        return Err(Raise::reply(text));
    }
    lua.context().with_host(|host| host.set_repl(flags));
    Ok(0)
}

/// redis.acl_check_cmd(command, ...)
fn acl_check_cmd(lua: Lua<'_>) -> Result<i32, Raise> {
    require_script(
        lua,
        "redis.acl_check_cmd can only be called inside a script invocation",
    )?;
    let context = lua.context();
    let answer = with_arguments(lua, |args| context.with_host(|host| host.acl_check(args)))?;
    match answer {
        Some(Err(text)) => Err(Raise::Reply(text.into_bytes().into())),
        answer => {
            lua.push_boolean(matches!(answer, Some(Ok(true))));
            Ok(1)
        }
    }
}

/// redis.log(level, text, ...)
fn log(lua: Lua<'_>) -> Result<i32, Raise> {
    let count = lua.top();
    if count < 2 {
        return Err(Raise::reply("redis.log() requires two arguments or more."));
    }
    if !lua.is_number(1) {
        return Err(Raise::reply("First argument must be a number (log level)."));
    }
    let level = match lua.number(1) as i32 {
        0 => LogLevel::Debug,
        1 => LogLevel::Verbose,
        2 => LogLevel::Notice,
        3 => LogLevel::Warning,
        _ => return Err(Raise::reply("Invalid debug level.")),
    };
    let mut line = Vec::new();
    for index in 2..=count {
        if let Some(text) = lua.bytes(index) {
            if index > 2 {
                line.push(b' ');
            }
            lua.context().check_room(line.len() + text.len())?;
            line.extend_from_slice(text);
        }
    }
    lua.context().with_host(|host| host.log(level, &line));
    Ok(0)
}

fn breakpoint(lua: Lua<'_>) -> Result<i32, Raise> {
    lua.push_boolean(false);
    Ok(1)
}

fn debug(_: Lua<'_>) -> Result<i32, Raise> {
    Ok(0)
}

fn replicate_commands(lua: Lua<'_>) -> Result<i32, Raise> {
    lua.push_boolean(true);
    Ok(1)
}
