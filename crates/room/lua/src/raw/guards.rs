//! Stand-ins for Lua's own functions that check before they act.
//!
//! Redis patches its Lua with read-only tables. Stock Lua has none, so each protected table is hidden behind an
//! empty one, its *proxy*: reads go through `__index`, writes meet `__newindex`, and the functions that look past
//! metatables (`next`, `rawget`, `rawset`, `table.insert` ...) are replaced by these, which know the proxies.
//!
//! These are the thin guards of rule 2: they own nothing, so Lua may jump over them at any point.

use std::ffi::{c_char, c_int, c_void};

use mlua::ffi::{self, lua_State};

use super::call::{context_of, enter};
use super::context::Proxy;
use super::{CFunction, Lua, StateRef};
use crate::strings;

const READONLY: &std::ffi::CStr = c"Attempt to modify a readonly table";

impl Lua<'_> {
    /// Pops a table and pushes its proxy. `getmetatable` of the proxy gives `metatable`, or nil.
    pub(crate) fn push_proxy(self, metatable: Option<StateRef>) {
        let hidden = {
            self.push_value(-1);
            self.keep()
        };
        self.new_table(0, 0);
        let address = self.address(-1);
        self.new_table(0, 2);
        self.push_value(-3);
        self.set_field(-2, "__index");
        self.set_function(-1, "__newindex", refuse_write);
        self.set_metatable(-2);
        self.remove(-2);
        self.context().proxies.borrow_mut().push(Proxy {
            address,
            hidden,
            metatable,
        });
    }

    /// Replaces the proxy on top by the table it hides.
    pub(crate) fn push_hidden(self) {
        // SAFETY: the top slot is valid.
        unsafe { unwrap_proxy(self.state, -1) };
    }
}

/// Returns the proxy at a stack slot, if the value there is one.
///
/// SAFETY: `state` is one of ours and `index` is valid.
unsafe fn proxy_at(state: *mut lua_State, index: c_int) -> Option<Proxy> {
    unsafe {
        if ffi::lua_type(state, index) != ffi::LUA_TTABLE || ffi::lua_getmetatable(state, index) == 0 {
            return None; // A proxy always has a metatable, most tables have none.
        }
        ffi::lua_settop(state, -2);
        context_of(state).proxy(ffi::lua_topointer(state, index) as usize)
    }
}

/// SAFETY: as `proxy_at`. Does not return when the value is a proxy.
unsafe fn refuse_proxy(state: *mut lua_State, index: c_int) {
    unsafe {
        if proxy_at(state, index).is_some() {
            ffi::lua_pushstring_(state, READONLY.as_ptr());
            ffi::lua_error(state);
        }
    }
}

/// SAFETY: as `proxy_at`. Puts the hidden table in place of its proxy.
unsafe fn unwrap_proxy(state: *mut lua_State, index: c_int) {
    unsafe {
        if let Some(proxy) = proxy_at(state, index) {
            ffi::lua_rawgeti_(state, ffi::LUA_REGISTRYINDEX, proxy.hidden);
            // A negative index counts from the value just pushed.
            ffi::lua_replace(state, if index < 0 { index - 1 } else { index });
        }
    }
}

/// `__newindex` of every proxy.
pub(crate) unsafe extern "C-unwind" fn refuse_write(state: *mut lua_State) -> c_int {
    // SAFETY: raises with the position of the writing line.
    unsafe { ffi::luaL_error(state, READONLY.as_ptr()) }
}

/// `__index` of the globals: reading what is not there.
pub(crate) unsafe extern "C-unwind" fn refuse_missing(state: *mut lua_State) -> c_int {
    // SAFETY: checks its arguments, because scripts can reach it through `getmetatable(_G)`.
    unsafe {
        if ffi::lua_gettop(state) != 2 {
            return ffi::luaL_error(
                state,
                c"Wrong number of arguments to luaProtectedTableError".as_ptr(),
            );
        }
        if ffi::lua_isstring(state, -1) == 0 {
            let text = c"Second argument to luaProtectedTableError must be a string or number";
            return ffi::luaL_error(state, text.as_ptr());
        }
        let name = ffi::lua_tolstring(state, -1, std::ptr::null_mut());
        ffi::luaL_error(
            state,
            c"Script attempted to access nonexistent global variable '%s'".as_ptr(),
            name,
        )
    }
}

pub(crate) unsafe extern "C-unwind" fn next(state: *mut lua_State) -> c_int {
    // SAFETY: as the stock function, after looking behind a proxy.
    unsafe {
        ffi::luaL_checktype(state, 1, ffi::LUA_TTABLE);
        ffi::lua_settop(state, 2);
        unwrap_proxy(state, 1);
        if ffi::lua_next(state, 1) != 0 {
            return 2;
        }
        ffi::lua_pushnil(state);
        1
    }
}

/// `pairs`; its upvalue is `next` above.
pub(crate) unsafe extern "C-unwind" fn pairs(state: *mut lua_State) -> c_int {
    // SAFETY: pushes three values, of which the caller's argument is one.
    unsafe {
        ffi::luaL_checktype(state, 1, ffi::LUA_TTABLE);
        ffi::lua_pushvalue(state, ffi::lua_upvalueindex(1));
        ffi::lua_pushvalue(state, 1);
        ffi::lua_pushnil(state);
        3
    }
}

pub(crate) unsafe extern "C-unwind" fn rawget(state: *mut lua_State) -> c_int {
    // SAFETY: as the stock function, after looking behind a proxy.
    unsafe {
        ffi::luaL_checktype(state, 1, ffi::LUA_TTABLE);
        ffi::luaL_checkany(state, 2);
        ffi::lua_settop(state, 2);
        unwrap_proxy(state, 1);
        ffi::lua_rawget_(state, 1);
        1
    }
}

/// Any stock function that writes to its first argument; the stock function is the upvalue.
pub(crate) unsafe extern "C-unwind" fn checked_write(state: *mut lua_State) -> c_int {
    // SAFETY: the upvalue is a stock C function, called with this call's own frame and arguments.
    unsafe {
        if ffi::lua_gettop(state) > 0 {
            refuse_proxy(state, 1);
        }
        match stock(state) {
            Some(function) => function(state),
            None => 0,
        }
    }
}

/// `collectgarbage`, noting that the defaults must be restored after the run.
pub(crate) unsafe extern "C-unwind" fn collectgarbage(state: *mut lua_State) -> c_int {
    // SAFETY: as `checked_write`.
    unsafe {
        context_of(state).collector_touched.set(true);
        match stock(state) {
            Some(function) => function(state),
            None => 0,
        }
    }
}

unsafe fn stock(state: *mut lua_State) -> Option<CFunction> {
    // SAFETY: reads an upvalue of the running function.
    unsafe { ffi::lua_tocfunction(state, ffi::lua_upvalueindex(1)) }
}

/// `getmetatable`; the upvalue is what a string shows as its metatable.
pub(crate) unsafe extern "C-unwind" fn getmetatable(state: *mut lua_State) -> c_int {
    // SAFETY: as the stock function, with proxies and strings answered for.
    unsafe {
        ffi::luaL_checkany(state, 1);
        if ffi::lua_type(state, 1) == ffi::LUA_TSTRING {
            ffi::lua_pushvalue(state, ffi::lua_upvalueindex(1));
            return 1;
        }
        if let Some(proxy) = proxy_at(state, 1) {
            match proxy.metatable {
                Some(shown) => ffi::lua_rawgeti_(state, ffi::LUA_REGISTRYINDEX, shown),
                None => ffi::lua_pushnil(state),
            }
            return 1;
        }
        if ffi::lua_getmetatable(state, 1) == 0 {
            ffi::lua_pushnil(state);
            return 1;
        }
        ffi::lua_pushstring_(state, c"__metatable".as_ptr());
        ffi::lua_rawget_(state, -2);
        if ffi::lua_type(state, -1) == ffi::LUA_TNIL {
            ffi::lua_settop(state, -2);
        }
        1
    }
}

/// `unpack`. The stock one overflows its count for a huge range and then runs off its stack.
pub(crate) unsafe extern "C-unwind" fn unpack(state: *mut lua_State) -> c_int {
    // SAFETY: every push is within the room asked for.
    unsafe {
        ffi::luaL_checktype(state, 1, ffi::LUA_TTABLE);
        // C ints, as in Lua: larger numbers wrap.
        let first = i64::from(ffi::luaL_optinteger(state, 2, 1) as c_int);
        let last = match ffi::lua_type(state, 3) {
            ffi::LUA_TNONE | ffi::LUA_TNIL => ffi::lua_objlen(state, 1) as i64,
            _ => i64::from(ffi::luaL_checkinteger(state, 3) as c_int),
        };
        if first > last {
            return 0;
        }
        let count = last - first + 1;
        if count >= i64::from(i32::MAX) || ffi::lua_checkstack(state, count as c_int) == 0 {
            return ffi::luaL_error(state, c"too many results to unpack".as_ptr());
        }
        for index in first..=last {
            ffi::lua_rawgeti_(state, 1, index as c_int);
        }
        count as c_int
    }
}

/// `pcall` as Redis 7 offers it: an error table comes back as its `err` text.
pub(crate) unsafe extern "C-unwind" fn pcall(state: *mut lua_State) -> c_int {
    // SAFETY: the protected call ends every error; the rest is raw access.
    unsafe {
        ffi::luaL_checkany(state, 1);
        let arguments = ffi::lua_gettop(state) - 1;
        ffi::lua_pushboolean(state, 1);
        ffi::lua_insert(state, 1);
        if ffi::lua_pcall(state, arguments, ffi::LUA_MULTRET, 0) != ffi::LUA_OK {
            if ffi::lua_type(state, -1) == ffi::LUA_TTABLE {
                ffi::lua_pushstring_(state, c"err".as_ptr());
                ffi::lua_rawget_(state, -2);
                let text = ffi::lua_isstring(state, -1) != 0;
                if text {
                    ffi::lua_replace(state, -2);
                } else {
                    ffi::lua_settop(state, -2);
                }
            }
            ffi::lua_pushboolean(state, 0);
            ffi::lua_replace(state, 1);
        }
        ffi::lua_gettop(state)
    }
}

/// `xpcall`, which keeps a handler away from the error that ends a script: that one is raised inside the instruction
/// hook, where Lua runs no hook, so an endless handler could not be stopped.
pub(crate) unsafe extern "C-unwind" fn xpcall(state: *mut lua_State) -> c_int {
    // SAFETY: as the stock function; a handler that is no function is left to Lua to refuse.
    unsafe {
        ffi::luaL_checkany(state, 2);
        ffi::lua_settop(state, 2);
        if ffi::lua_type(state, 2) == ffi::LUA_TFUNCTION {
            ffi::lua_pushcclosure(state, run_handler, 1);
        }
        ffi::lua_insert(state, 1);
        let status = ffi::lua_pcall(state, 0, ffi::LUA_MULTRET, 1);
        ffi::lua_pushboolean(state, c_int::from(status == ffi::LUA_OK));
        ffi::lua_replace(state, 1);
        ffi::lua_gettop(state)
    }
}

unsafe extern "C-unwind" fn run_handler(state: *mut lua_State) -> c_int {
    // SAFETY: called by Lua with the error as its argument; the upvalue is the script's handler.
    unsafe {
        if context_of(state).is_killed() {
            return 1;
        }
        ffi::lua_pushvalue(state, ffi::lua_upvalueindex(1));
        ffi::lua_insert(state, 1);
        ffi::lua_call(state, ffi::lua_gettop(state) - 1, 1);
        1
    }
}

/// `string.gsub`. The loop that calls a replacement lives here, where an error in it may jump out; the matching and
/// the text are in `strings`.
pub(crate) unsafe extern "C-unwind" fn gsub(state: *mut lua_State) -> c_int {
    // SAFETY: each `enter` runs on this call's frame; between them the frame owns nothing.
    unsafe {
        let kind = ffi::lua_type(state, 3);
        if kind == ffi::LUA_TSTRING || kind == ffi::LUA_TNUMBER {
            return enter(state, strings::gsub_text);
        }
        enter(state, strings::gsub_begin);
        loop {
            let pushed = enter(state, strings::gsub_next);
            if pushed == 0 {
                return enter(state, strings::gsub_finish);
            }
            if kind == ffi::LUA_TTABLE {
                ffi::lua_gettable_(state, 3);
            } else {
                ffi::lua_call(state, pushed - 1, 1);
            }
            enter(state, strings::gsub_accept);
        }
    }
}

/// What `load` has read. Plain data: an error in the reading function jumps over it.
#[repr(C)]
struct Reading {
    total: usize,
    most: usize,
    started: bool,
    /// A blank was given in place of the piece in slot 3, which is due next.
    held: bool,
}

/// `load(function [, name])`: the function gives the text piece by piece. Guarded as `Lua::compile` is.
pub(crate) unsafe extern "C-unwind" fn load(state: *mut lua_State) -> c_int {
    // SAFETY: the reading function runs inside Lua's own protection, which ends before this frame does.
    unsafe {
        ffi::luaL_checktype(state, 1, ffi::LUA_TFUNCTION);
        let name = ffi::luaL_optlstring(state, 2, c"=(load)".as_ptr(), std::ptr::null_mut());
        ffi::lua_settop(state, 3);
        let most = context_of(state).source_bytes_max;
        let mut reading = Reading {
            total: 0,
            most,
            started: false,
            held: false,
        };
        ffi::lua_gc(state, ffi::LUA_GCSTOP, 0);
        let status = ffi::lua_load(state, read_piece, (&raw mut reading).cast::<c_void>(), name);
        ffi::lua_gc(state, ffi::LUA_GCRESTART, 0);
        if status == ffi::LUA_OK {
            return 1;
        }
        ffi::lua_pushnil(state);
        ffi::lua_insert(state, -2);
        2
    }
}

unsafe extern "C-unwind" fn read_piece(
    state: *mut lua_State,
    user: *mut c_void,
    size: *mut usize,
) -> *const c_char {
    // SAFETY: `user` is the `Reading` of the `load` below us; slot 3 keeps the piece alive while it is read.
    unsafe {
        let reading = &mut *user.cast::<Reading>();
        if std::mem::take(&mut reading.held) {
            return ffi::lua_tolstring(state, 3, size);
        }
        ffi::luaL_checkstack_(state, 2, c"too many nested functions".as_ptr());
        ffi::lua_pushvalue(state, 1);
        ffi::lua_call(state, 0, 1);
        *size = 0;
        if ffi::lua_type(state, -1) == ffi::LUA_TNIL {
            return std::ptr::null();
        }
        if ffi::lua_isstring(state, -1) == 0 {
            ffi::luaL_error(state, c"reader function must return a string".as_ptr());
        }
        ffi::lua_replace(state, 3);
        let piece = ffi::lua_tolstring(state, 3, size);
        reading.total = reading.total.saturating_add(*size);
        if reading.total > reading.most {
            ffi::luaL_error(state, c"script is too large".as_ptr());
        }
        if *size > 0 && !std::mem::replace(&mut reading.started, true) && *piece == 0x1b {
            reading.held = true;
            *size = 1;
            return c" ".as_ptr();
        }
        piece
    }
}
