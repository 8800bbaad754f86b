//! What becomes of an error on its way out of a script.

use nagaya_resp::Out;

use crate::RunOutcome;
use crate::raw::{Kind, Lua, Raise};
use crate::reply_out;

/// Error handler of every run: turns the error into a table and notes where it happened.
///
/// When the failing function is not a Lua function, the line of its caller is what the author can use.
pub(crate) fn describe_error(lua: Lua<'_>) -> Result<i32, Raise> {
    lua.set_top(1);
    let position = match lua.position(1) {
        Some(position) if position.is_c => lua.position(2),
        other => other,
    };
    if lua.kind(1) != Kind::Table {
        let mut text = b"ERR ".to_vec();
        append_text(lua, &mut text);
        lua.new_table(0, 3);
        lua.push_bytes(&text);
        lua.set_field(-2, "err");
        lua.replace(1);
    }
    // A metatable could catch the writes, and a read-only table refuses them: both are left as they are.
    if let Some(position) = position
        && !lua.push_metatable(1)
    {
        lua.push_bytes(&position.source);
        lua.set_field(1, "source");
        lua.push_number(f64::from(position.line));
        lua.set_field(1, "line");
    }
    lua.set_top(1);
    Ok(1)
}

/// Appends what `tostring` shows of the value in slot 1.
fn append_text(lua: Lua<'_>, text: &mut Vec<u8>) {
    match lua.kind(1) {
        Kind::String | Kind::Number => {
            lua.lend(|lua| text.extend_from_slice(lua.bytes(1).unwrap_or_default()))
        }
        Kind::Nil | Kind::None => text.extend_from_slice(b"nil"),
        Kind::Boolean => text.extend_from_slice(if lua.boolean(1) { b"true" } else { b"false" }),
        _ => text.extend_from_slice(format!("{}: {:#x}", lua.type_name(1), lua.address(1)).as_bytes()),
    }
}

/// Pops the error that ended a run and appends it as an error reply. `name` is the script's digest or the
/// function's name.
pub(crate) fn write_failure(lua: Lua<'_>, name: &[u8], out: &mut Out) -> RunOutcome {
    let mut already_counted = false;
    let mut reply = Vec::new();
    if lua.kind(-1) == Kind::Table {
        reply = take_text(lua, "err").unwrap_or_else(|| b"ERR unknown error".to_vec());
        if let (Some(source), Some(line)) = (take_text(lua, "source"), take_text(lua, "line")) {
            reply.extend_from_slice(b" script: ");
            reply.extend_from_slice(name);
            reply.extend_from_slice(b", on ");
            reply.extend_from_slice(&source);
            reply.push(b':');
            reply.extend_from_slice(&line);
            reply.push(b'.');
        }
        lua.raw_field(-1, "ignore_error_stats_update");
        already_counted = lua.boolean(-1);
        lua.pop(1);
    } else {
        // Only errors that meet no handler come here: out of memory, or an error inside the handler.
        reply.extend_from_slice(b"ERR Error running script ");
        reply.extend_from_slice(name);
        reply.extend_from_slice(b", ");
        lua.lend(|lua| {
            let message = lua.bytes(-1).unwrap_or(b"execution failure");
            reply.extend_from_slice(&message[..message.len().min(100)]);
        });
    }
    lua.pop(1);
    reply_out::write_error(out, &reply);
    RunOutcome::Error { already_counted }
}

/// Returns the text or number in a field of the table on top.
fn take_text(lua: Lua<'_>, key: &str) -> Option<Vec<u8>> {
    lua.raw_field(-1, key);
    let text = lua.lend(|lua| lua.bytes(-1).map(<[u8]>::to_vec));
    lua.pop(1);
    text
}
