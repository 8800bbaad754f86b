//! Crossing between Rust and Lua: entering a Rust function, running a script, compiling, the instruction hook.

use std::any::Any;
use std::borrow::Cow;
use std::ffi::{CStr, CString, c_char, c_int, c_void};
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};

use mlua::ffi::{self, lua_Debug, lua_State};

use super::handle::Scope;
use super::{CFunction, Context, Lua, Mode, Raise};
use crate::host::Host;

/// How a protected call ended.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum RunStatus {
    Done,
    Failed,
}

/// Where a function on the call stack stands.
pub(crate) struct Position {
    pub(crate) is_c: bool,
    pub(crate) source: Vec<u8>,
    pub(crate) line: i32,
}

/// Runs a Rust function for Lua and raises its failure afterwards.
///
/// # Safety
/// `state` must be a live thread of a state made by `Owner::open`, called by Lua with the function's arguments.
pub(crate) unsafe fn enter(state: *mut lua_State, body: fn(Lua<'_>) -> Result<i32, Raise>) -> c_int {
    // SAFETY: the caller's promise.
    let context = unsafe { context_of(state) };
    let outer = context.unbounded.replace(true);
    let scope = Scope::frame(&context.lent);
    let lua = Lua::new(state, context);
    let raise = match catch_unwind(AssertUnwindSafe(|| body(lua))) {
        Ok(Ok(results)) if !context.over_limit() => {
            context.unbounded.set(outer);
            return results;
        }
        Ok(Ok(_)) => Raise::Memory,
        Ok(Err(raise)) => raise,
        Err(payload) => keep_panic(context, payload),
    };
    // The body is gone, and what it was lent with it.
    scope.release();
    let throw = push_raise(lua, raise);
    drop(scope);
    context.unbounded.set(outer);
    // SAFETY: nothing in this frame needs dropping from here on, so Lua may jump over it.
    unsafe {
        match throw {
            Throw::Top => ffi::lua_error(state),
            Throw::Argument(argument) => ffi::luaL_argerror(
                state,
                argument,
                ffi::lua_tolstring(state, -1, std::ptr::null_mut()),
            ),
            Throw::Type(argument, expected) => ffi::luaL_typerror(state, argument, expected),
        }
    }
}

/// What is left to do once the value to raise is on the stack. Owns nothing.
#[derive(Clone, Copy)]
enum Throw {
    Top,
    Argument(c_int),
    Type(c_int, *const c_char),
}

fn push_raise(lua: Lua<'_>, raise: Raise) -> Throw {
    match raise {
        Raise::Top => return Throw::Top,
        Raise::Type(argument, expected) => {
            lua.set_top(lua.top().min(argument));
            return Throw::Type(argument, expected.as_ptr());
        }
        _ => lua.set_top(0),
    }
    match raise {
        Raise::Located(text) => {
            let mut message = lua.location(1);
            message.extend_from_slice(text.as_bytes());
            lua.push_bytes(&message);
        }
        Raise::Argument(argument, text) => {
            lua.push_bytes(text.as_bytes());
            return Throw::Argument(argument);
        }
        Raise::Reply(text) => push_error_table(lua, &text),
        Raise::Memory => lua.push_bytes(b"not enough memory"),
        Raise::Killed => push_killed(lua),
        Raise::Top | Raise::Type(..) => unreachable!("returned above"),
    }
    Throw::Top
}

/// Pushes `{err = "CODE text"}`. A text that starts with '-' brings its code, any other gets `ERR`.
pub(crate) fn push_error_table(lua: Lua<'_>, text: &[u8]) {
    lua.new_table(0, 2);
    lua.push_bytes(&error_line(text));
    lua.set_field(-2, "err");
}

fn error_line(text: &[u8]) -> Vec<u8> {
    let text = text.split(|byte| *byte == 0).next().unwrap_or_default();
    let (code, message) = match text.strip_prefix(b"-") {
        None => (&b"ERR"[..], text),
        Some(rest) => match rest.iter().position(|byte| *byte == b' ') {
            None => (&b"ERR"[..], rest),
            Some(space) => (&rest[..space], &rest[space + 1..]),
        },
    };
    let is_newline = |byte: &u8| matches!(byte, b'\r' | b'\n');
    let start = message
        .iter()
        .position(|byte| !is_newline(byte))
        .unwrap_or(message.len());
    let end = message
        .iter()
        .rposition(|byte| !is_newline(byte))
        .map_or(start, |last| last + 1);
    [code, b" ", &message[start..end]].concat()
}

fn push_killed(lua: Lua<'_>) {
    let text = lua.context().killed.borrow().clone().unwrap_or_default();
    push_error_table(lua, text.as_bytes());
}

fn keep_panic(context: &Context, payload: Box<dyn Any + Send>) -> Raise {
    *context.panic.borrow_mut() = Some(payload);
    *context.killed.borrow_mut() = Some("internal error".to_owned());
    context.arm_hook(context.main.get(), true);
    Raise::Killed
}

/// SAFETY: `state` must belong to a state made by `Owner::open`.
pub(super) unsafe fn context_of<'a>(state: *mut lua_State) -> &'a Context {
    let mut user: *mut c_void = std::ptr::null_mut();
    // SAFETY: the allocator's user pointer is the context, which outlives the state.
    unsafe {
        ffi::lua_getallocf(state, &mut user);
        &*user.cast::<Context>()
    }
}

/// The instruction hook: Lua calls it at an interval of instructions, and on every one once the script is killed.
pub(super) unsafe extern "C-unwind" fn hook(state: *mut lua_State, _: *mut lua_Debug) {
    // SAFETY: only ever set on our own states.
    let context = unsafe { context_of(state) };
    let outer = context.unbounded.replace(true);
    let verdict = catch_unwind(AssertUnwindSafe(|| context.tick()))
        .unwrap_or_else(|payload| Err(keep_panic(context, payload)));
    let killed = verdict.is_err();
    drop(verdict);
    // Every instruction from now on: a script that catches the error meets it again at once.
    context.arm_hook(state, killed);
    if killed {
        let scope = Scope::frame(&context.lent);
        push_killed(Lua::new(state, context));
        drop(scope);
    } else {
        collect_when_tight(state, context);
    }
    context.unbounded.set(outer);
    if killed {
        // SAFETY: nothing in this frame needs dropping.
        unsafe { ffi::lua_error(state) };
    }
}

/// Lua 5.1 fails an allocation without collecting first, so garbage must not be what fills the limit.
fn collect_when_tight(state: *mut lua_State, context: &Context) {
    let used = context.used_bytes();
    let step = context.limit_bytes / 8;
    if used > context.limit_bytes / 2 && used > context.collected_bytes.get().saturating_add(step) {
        // SAFETY: hooks may collect; no value of ours is off the stack.
        unsafe { ffi::lua_gc(state, ffi::LUA_GCCOLLECT, 0) };
        context.collected_bytes.set(context.used_bytes());
    }
}

impl Lua<'_> {
    /// Calls the function under the top `arguments` values. `handler` is the stack index of an error handler, or 0.
    /// On failure exactly the error value is pushed.
    pub(crate) fn call(self, arguments: i32, results: i32, handler: i32) -> RunStatus {
        let context = self.context();
        self.give_up(arguments + 1);
        let scope = Scope::frame(&context.lent);
        let outer = context.unbounded.replace(false);
        // SAFETY: errors end at this call; the function and its arguments are on the stack.
        let status = unsafe { ffi::lua_pcall(self.state, arguments, results, handler) };
        drop(scope);
        context.unbounded.set(outer);
        if status == ffi::LUA_OK {
            RunStatus::Done
        } else {
            RunStatus::Failed
        }
    }

    /// Lends `host` to the state while `body` runs scripts on it, and carries on a panic of the host.
    pub(crate) fn with_host<R>(self, host: &mut dyn Host, mode: Mode, body: impl FnOnce(Self) -> R) -> R {
        let context = self.context();
        // SAFETY: only the lifetime changes; `Lent` removes the pointer before the borrow of `host` ends.
        let host = unsafe { std::mem::transmute::<*mut (dyn Host + '_), *mut (dyn Host + 'static)>(host) };
        context.host.set(Some(host));
        context.mode.set(mode);
        context.arm_hook(self.state, false);
        let lent = Lent { lua: self };
        let result = body(self);
        drop(lent);
        if let Some(payload) = context.panic.borrow_mut().take() {
            resume_unwind(payload);
        }
        result
    }

    /// Compiles `source` and pushes the function, or pushes the message that says why not.
    ///
    /// Lua's compiler holds strings that its collector cannot see, so no collection happens meanwhile. Precompiled
    /// code is refused: Lua does not check it, and it can do anything. A leading blank makes the compiler read it as
    /// text, which gives Redis's own message.
    pub(crate) fn compile(self, source: &[u8], name: &CStr) -> RunStatus {
        let context = self.context();
        if source.len() > context.source_bytes_max {
            self.push_bytes(format!("script is larger than {} bytes", context.source_bytes_max).as_bytes());
            return RunStatus::Failed;
        }
        let source = match source.first() {
            Some(0x1b) => Cow::Owned([b" ", source].concat()),
            _ => Cow::Borrowed(source),
        };
        let outer = context.unbounded.replace(false);
        // SAFETY: compiling is protected by Lua itself and ends here whatever happens.
        let status = unsafe {
            ffi::lua_gc(self.state, ffi::LUA_GCSTOP, 0);
            let text = source.as_ptr().cast::<c_char>();
            let status = ffi::luaL_loadbuffer(self.state, text, source.len(), name.as_ptr());
            ffi::lua_gc(self.state, ffi::LUA_GCRESTART, 0);
            status
        };
        context.unbounded.set(outer);
        if status == ffi::LUA_OK {
            RunStatus::Done
        } else {
            RunStatus::Failed
        }
    }

    /// Chunk names are C strings: what follows a zero byte is dropped.
    pub(crate) fn chunk_name(bytes: &[u8]) -> CString {
        let end = bytes.iter().position(|byte| *byte == 0).unwrap_or(bytes.len());
        CString::new(&bytes[..end]).unwrap_or_default()
    }

    /// Returns where the function `level` calls up stands; 0 is the running one.
    pub(crate) fn position(self, level: i32) -> Option<Position> {
        // SAFETY: plain data, filled in by Lua before it is read.
        unsafe {
            let mut record: lua_Debug = std::mem::zeroed();
            if ffi::lua_getstack(self.state, level, &mut record) == 0 {
                return None;
            }
            ffi::lua_getinfo(self.state, c"Sl".as_ptr(), &mut record);
            Some(Position {
                is_c: CStr::from_ptr(record.what) == c"C",
                source: CStr::from_ptr(record.source).to_bytes().to_vec(),
                line: record.currentline,
            })
        }
    }

    /// Returns the `chunk:line: ` that Lua puts before messages, empty outside Lua code.
    fn location(self, level: i32) -> Vec<u8> {
        // SAFETY: pushes one string, read and popped here.
        unsafe { ffi::luaL_where(self.state, level) };
        let text = self.lend(|lua| lua.bytes(-1).unwrap_or_default().to_vec());
        self.pop(1);
        text
    }

    /// Opens one of Lua's own libraries.
    pub(crate) fn open(self, library: CFunction, name: &str) {
        self.push_function(library, 0);
        self.push_bytes(name.as_bytes());
        // SAFETY: runs before any script, unbounded, so nothing in it raises.
        unsafe { ffi::lua_call(self.state, 1, 0) };
    }

    pub(crate) fn collect(self) {
        // SAFETY: no value of ours is off the stack.
        unsafe { ffi::lua_gc(self.state, ffi::LUA_GCCOLLECT, 0) };
    }

    /// Collects when a run has left half the limit full.
    pub(crate) fn collect_if_half_full(self) {
        if self.context().used_bytes() > self.context().limit_bytes / 2 {
            self.collect();
        }
        self.context().collected_bytes.set(0);
    }
}

/// Takes the host back when a run ends, also when it ends by a panic, and undoes what scripts did to the collector.
struct Lent<'a> {
    lua: Lua<'a>,
}

impl Drop for Lent<'_> {
    fn drop(&mut self) {
        let context = self.lua.context();
        context.host.set(None);
        context.mode.set(Mode::Idle);
        *context.killed.borrow_mut() = None;
        // SAFETY: removing the hook of a live state; restoring the collector's defaults.
        unsafe {
            ffi::lua_sethook(self.lua.state, None, 0, 0);
            if context.collector_touched.replace(false) {
                ffi::lua_gc(self.lua.state, ffi::LUA_GCSETPAUSE, 200);
                ffi::lua_gc(self.lua.state, ffi::LUA_GCSETSTEPMUL, 200);
                ffi::lua_gc(self.lua.state, ffi::LUA_GCRESTART, 0);
            }
        }
    }
}
