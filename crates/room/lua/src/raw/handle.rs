//! Typed access to a Lua stack.

use std::cell::Cell;
use std::ffi::{c_char, c_int};

use mlua::ffi::{self, lua_State};

use super::{CFunction, Context, Raise, StateRef};

/// A running Lua thread. Indices count from 1 at the bottom, or from -1 at the top.
#[derive(Clone, Copy)]
pub(crate) struct Lua<'a> {
    pub(super) state: *mut lua_State,
    context: &'a Context,
    /// The scope that the handle belongs to; see [`Lent`].
    scope: u32,
}

/// The stack slots whose strings are lent out as [`Slice`]s.
///
/// A slice is valid while its string stays on the stack. So a method that would take one of these slots away
/// panics instead, and a slice cannot outlive the scope that it was lent in: the running library function, the
/// body of [`Lua::lend`], or the owner's handle. Only a handle of the innermost scope lends, because the slots of a
/// scope are released at its end, and a slice from an outer handle could live longer.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Lent {
    scope: u32,
    /// Slots from 1 up to this one must stay.
    slots: i32,
}

/// A scope for lending; its end releases what was lent in it.
pub(super) struct Scope<'a> {
    lent: &'a Cell<Lent>,
    outer: Lent,
}

impl<'a> Scope<'a> {
    /// Begins a scope on the same stack frame: what is lent stays lent.
    fn nested(lent: &'a Cell<Lent>) -> Scope<'a> {
        Scope::begin(lent, lent.get().slots)
    }

    /// Begins a scope on a stack frame of its own, where nothing is lent.
    pub(super) fn frame(lent: &'a Cell<Lent>) -> Scope<'a> {
        Scope::begin(lent, 0)
    }

    /// Releases what was lent in the scope, once no slice of it is left.
    pub(super) fn release(&self) {
        let Lent { scope, .. } = self.lent.get();
        self.lent.set(Lent { scope, slots: 0 });
    }

    fn begin(lent: &'a Cell<Lent>, slots: i32) -> Scope<'a> {
        let outer = lent.get();
        let scope = outer.scope + 1;
        lent.set(Lent { scope, slots });
        Scope { lent, outer }
    }
}

impl Drop for Scope<'_> {
    fn drop(&mut self) {
        self.lent.set(self.outer);
    }
}

/// The type of a stack slot.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Kind {
    None,
    Nil,
    Boolean,
    LightUserdata,
    Number,
    String,
    Table,
    Function,
    Userdata,
    Thread,
}

/// Bytes of a Lua string that is on the stack.
pub(crate) type Slice<'a> = &'a [u8];

impl<'a> Lua<'a> {
    /// Makes a handle of the innermost scope, which must last as long as the handle.
    pub(super) fn new(state: *mut lua_State, context: &'a Context) -> Lua<'a> {
        let scope = context.lent.get().scope;
        Lua {
            state,
            context,
            scope,
        }
    }

    /// Makes a handle of the outermost scope.
    pub(super) fn outermost(state: *mut lua_State, context: &'a Context) -> Lua<'a> {
        Lua {
            state,
            context,
            scope: 0,
        }
    }

    pub(crate) fn context(self) -> &'a Context {
        self.context
    }
}

/// Reading the stack.
// SAFETY (whole block): `self.state` is live for 'a, and every index used is checked by the callee or refers to
// a slot the caller pushed or received.
impl<'a> Lua<'a> {
    pub(crate) fn top(self) -> i32 {
        unsafe { ffi::lua_gettop(self.state) }
    }

    pub(crate) fn kind(self, index: i32) -> Kind {
        match unsafe { ffi::lua_type(self.state, index) } {
            ffi::LUA_TNONE => Kind::None,
            ffi::LUA_TNIL => Kind::Nil,
            ffi::LUA_TBOOLEAN => Kind::Boolean,
            ffi::LUA_TLIGHTUSERDATA => Kind::LightUserdata,
            ffi::LUA_TNUMBER => Kind::Number,
            ffi::LUA_TSTRING => Kind::String,
            ffi::LUA_TTABLE => Kind::Table,
            ffi::LUA_TFUNCTION => Kind::Function,
            ffi::LUA_TTHREAD => Kind::Thread,
            _ => Kind::Userdata,
        }
    }

    /// Lua's name for the type of a slot, as its error texts use it.
    pub(crate) fn type_name(self, index: i32) -> &'static str {
        match self.kind(index) {
            Kind::None => "no value",
            Kind::Nil => "nil",
            Kind::Boolean => "boolean",
            Kind::LightUserdata | Kind::Userdata => "userdata",
            Kind::Number => "number",
            Kind::String => "string",
            Kind::Table => "table",
            Kind::Function => "function",
            Kind::Thread => "thread",
        }
    }

    /// Returns the number in a slot; numeric strings count, everything else is 0.
    pub(crate) fn number(self, index: i32) -> f64 {
        unsafe { ffi::lua_tonumber(self.state, index) }
    }

    pub(crate) fn is_number(self, index: i32) -> bool {
        unsafe { ffi::lua_isnumber(self.state, index) != 0 }
    }

    pub(crate) fn boolean(self, index: i32) -> bool {
        unsafe { ffi::lua_toboolean(self.state, index) != 0 }
    }

    pub(crate) fn is_null(self, index: i32) -> bool {
        self.kind(index) == Kind::LightUserdata && unsafe { ffi::lua_touserdata(self.state, index).is_null() }
    }

    /// Returns the bytes of a string slot; numbers are converted in place, as Lua does. Not for keys during `next`.
    ///
    /// The slot, and those below it, must stay on the stack until the handle's scope ends; see [`Lent`].
    pub(crate) fn bytes(self, index: i32) -> Option<Slice<'a>> {
        let lent = self.context.lent.get();
        assert_eq!(self.scope, lent.scope, "only the innermost scope lends strings");
        let slot = self.slot(index);
        assert!(slot > 0, "only strings on the stack are lent");
        let mut len = 0;
        let start = unsafe { ffi::lua_tolstring(self.state, index, &mut len) };
        if start.is_null() {
            return None;
        }
        let slots = lent.slots.max(slot);
        self.context.lent.set(Lent { slots, ..lent });
        // SAFETY: Lua strings do not move, and this one stays on the stack while its slot is lent.
        Some(unsafe { std::slice::from_raw_parts(start.cast::<u8>(), len) })
    }

    /// Runs `body` with a handle of a scope of its own: what it lends is released at the end.
    pub(crate) fn lend<R>(self, body: impl for<'s> FnOnce(Lua<'s>) -> R) -> R {
        let scope = Scope::nested(&self.context.lent);
        let result = body(Lua::new(self.state, self.context));
        drop(scope);
        result
    }

    /// Counts an index from the bottom of the stack.
    fn slot(self, index: i32) -> i32 {
        if index < 0 { self.top() + index + 1 } else { index }
    }

    /// Checks that the top `count` slots are not lent, because they are about to go.
    pub(super) fn give_up(self, count: i32) {
        self.keep_up_to(self.top() - count);
    }

    /// Checks that no slot above `slot` is lent, because those are about to go.
    fn keep_up_to(self, slot: i32) {
        assert!(
            slot >= self.context.lent.get().slots,
            "a string that is lent must stay on the stack"
        );
    }

    pub(crate) fn length(self, index: i32) -> usize {
        unsafe { ffi::lua_objlen(self.state, index) }
    }

    /// Returns the address of a table, function or thread, to tell objects apart.
    pub(crate) fn address(self, index: i32) -> usize {
        unsafe { ffi::lua_topointer(self.state, index) as usize }
    }

    pub(crate) fn c_function(self, index: i32) -> Option<CFunction> {
        unsafe { ffi::lua_tocfunction(self.state, index) }
    }

    /// Returns a copy of the plain value stored in the running function's upvalue by [`Lua::push_block`].
    pub(crate) fn block<T: Copy>(self, upvalue: i32) -> T {
        self.block_at(ffi::lua_upvalueindex(upvalue))
    }

    pub(crate) fn set_block<T: Copy>(self, upvalue: i32, value: T) {
        self.set_block_at(ffi::lua_upvalueindex(upvalue), value);
    }

    /// Returns a copy of a plain value at a stack index, put there by [`Lua::push_block`] with the same type.
    pub(crate) fn block_at<T: Copy>(self, index: i32) -> T {
        let block = unsafe { ffi::lua_touserdata(self.state, index) }.cast::<T>();
        assert!(!block.is_null(), "a block was put there");
        // SAFETY: made by `push_block` with the same type; Lua aligns blocks for any plain type.
        unsafe { block.read() }
    }

    pub(crate) fn set_block_at<T: Copy>(self, index: i32, value: T) {
        let block = unsafe { ffi::lua_touserdata(self.state, index) }.cast::<T>();
        assert!(!block.is_null(), "a block was put there");
        // SAFETY: as in `block_at`.
        unsafe { block.write(value) };
    }
}

/// Arguments, with the texts of Lua's own checks.
impl<'a> Lua<'a> {
    pub(crate) fn check_bytes(self, argument: i32) -> Result<Slice<'a>, Raise> {
        self.bytes(argument).ok_or(Raise::Type(argument, c"string"))
    }

    /// Checks that an argument is a string or a number, and makes it a string.
    pub(crate) fn check_string(self, argument: i32) -> Result<(), Raise> {
        self.lend(|lua| lua.check_bytes(argument).map(|_| ()))
    }

    pub(crate) fn check_number(self, argument: i32) -> Result<f64, Raise> {
        let number = self.number(argument);
        if number == 0.0 && !self.is_number(argument) {
            return Err(Raise::Type(argument, c"number"));
        }
        Ok(number)
    }

    pub(crate) fn check_integer(self, argument: i32) -> Result<i64, Raise> {
        self.check_number(argument)?;
        // SAFETY: as for the other readers; the C cast keeps Lua's meaning for numbers out of range.
        Ok(unsafe { ffi::lua_tointeger_(self.state, argument) } as i64)
    }

    pub(crate) fn optional_integer(self, argument: i32, default: i64) -> Result<i64, Raise> {
        match self.kind(argument) {
            Kind::None | Kind::Nil => Ok(default),
            _ => self.check_integer(argument),
        }
    }
}

/// Moving and pushing.
// SAFETY (whole block): pushes stay within the slots the caller has (see the folder's comment); allocation cannot
// raise because Rust code runs unbounded; raw access never calls metamethods.
impl Lua<'_> {
    /// Makes room for `slots` more values; false when Lua's limit for one function is reached.
    pub(crate) fn reserve(self, slots: i32) -> bool {
        unsafe { ffi::lua_checkstack(self.state, slots) != 0 }
    }

    pub(crate) fn set_top(self, index: i32) {
        self.keep_up_to(self.slot(index));
        unsafe { ffi::lua_settop(self.state, index) }
    }

    pub(crate) fn pop(self, count: i32) {
        self.give_up(count);
        unsafe { ffi::lua_settop(self.state, -count - 1) }
    }

    pub(crate) fn push_value(self, index: i32) {
        unsafe { ffi::lua_pushvalue(self.state, index) }
    }

    pub(crate) fn insert(self, index: i32) {
        self.keep_up_to(self.slot(index) - 1);
        unsafe { ffi::lua_insert(self.state, index) }
    }

    pub(crate) fn replace(self, index: i32) {
        self.keep_up_to(self.slot(index) - 1);
        unsafe { ffi::lua_replace(self.state, index) }
    }

    pub(crate) fn remove(self, index: i32) {
        self.keep_up_to(self.slot(index) - 1);
        unsafe { ffi::lua_remove(self.state, index) }
    }

    pub(crate) fn push_nil(self) {
        unsafe { ffi::lua_pushnil(self.state) }
    }

    pub(crate) fn push_boolean(self, value: bool) {
        unsafe { ffi::lua_pushboolean(self.state, c_int::from(value)) }
    }

    pub(crate) fn push_number(self, value: f64) {
        unsafe { ffi::lua_pushnumber(self.state, value) }
    }

    pub(crate) fn push_bytes(self, bytes: &[u8]) {
        unsafe { ffi::lua_pushlstring_(self.state, bytes.as_ptr().cast::<c_char>(), bytes.len()) }
    }

    /// The value scripts know as `cjson.null`.
    pub(crate) fn push_null(self) {
        unsafe { ffi::lua_pushlightuserdata(self.state, std::ptr::null_mut()) }
    }

    /// Pushes a function that keeps the top `upvalues` values, which are popped.
    pub(crate) fn push_function(self, function: CFunction, upvalues: i32) {
        self.give_up(upvalues);
        unsafe { ffi::lua_pushcclosure(self.state, function, upvalues) }
    }

    /// Pushes a plain value for use as an upvalue; see [`Lua::block`].
    pub(crate) fn push_block<T: Copy>(self, value: T) {
        // SAFETY: the block has room for `T` and is aligned for any plain type.
        unsafe {
            ffi::lua_newuserdata(self.state, size_of::<T>())
                .cast::<T>()
                .write(value)
        }
    }

    pub(crate) fn push_upvalue(self, upvalue: i32) {
        unsafe { ffi::lua_pushvalue(self.state, ffi::lua_upvalueindex(upvalue)) }
    }

    pub(crate) fn replace_upvalue(self, upvalue: i32) {
        self.give_up(1);
        unsafe { ffi::lua_replace(self.state, ffi::lua_upvalueindex(upvalue)) }
    }
}

/// Tables. All access is raw.
// SAFETY (whole block): as above; `table` must index a table, which callers check or know.
impl Lua<'_> {
    pub(crate) fn new_table(self, array: usize, hash: usize) {
        let bounded = |size: usize| c_int::try_from(size.min(1 << 20)).unwrap_or(0);
        unsafe { ffi::lua_createtable(self.state, bounded(array), bounded(hash)) }
    }

    /// Pops a key and pushes its value.
    pub(crate) fn raw_get(self, table: i32) {
        self.give_up(1);
        unsafe { ffi::lua_rawget_(self.state, table) }
    }

    pub(crate) fn raw_get_index(self, table: i32, key: i32) {
        unsafe { ffi::lua_rawgeti_(self.state, table, key) }
    }

    /// Pushes `table[key]`; `table` counts as it did before the call.
    pub(crate) fn raw_field(self, table: i32, key: &str) {
        let table = if table < 0 { table - 1 } else { table };
        self.push_bytes(key.as_bytes());
        self.raw_get(table);
    }

    /// Pops a value, then a key. The key must be neither nil nor NaN.
    pub(crate) fn raw_set(self, table: i32) {
        self.give_up(2);
        unsafe { ffi::lua_rawset(self.state, table) }
    }

    pub(crate) fn raw_set_index(self, table: i32, key: i32) {
        self.give_up(1);
        unsafe { ffi::lua_rawseti_(self.state, table, key) }
    }

    /// Pops a value into `table[key]`; `table` is an index as before the call, value included.
    pub(crate) fn set_field(self, table: i32, key: &str) {
        let table = if table < 0 { table - 1 } else { table };
        self.push_bytes(key.as_bytes());
        self.insert(-2);
        self.raw_set(table);
    }

    /// Puts a function into the table at `table`, an index as before the call.
    pub(crate) fn set_function(self, table: i32, key: &str, function: CFunction) {
        self.push_function(function, 0);
        self.set_field(if table < 0 { table - 1 } else { table }, key);
    }

    /// Pops a key and pushes the next key and value, if any. The key must come from this table.
    pub(crate) fn next(self, table: i32) -> bool {
        self.give_up(1);
        unsafe { ffi::lua_next(self.state, table) != 0 }
    }

    /// Pops a table and makes it the metatable of the value at `index`.
    pub(crate) fn set_metatable(self, index: i32) {
        self.give_up(1);
        unsafe { ffi::lua_setmetatable(self.state, index) };
    }

    pub(crate) fn push_metatable(self, index: i32) -> bool {
        unsafe { ffi::lua_getmetatable(self.state, index) != 0 }
    }
}

/// The registry and the environment.
// SAFETY (whole block): as above.
impl Lua<'_> {
    /// Pops a value and keeps it alive until [`Lua::forget`].
    pub(crate) fn keep(self) -> StateRef {
        self.give_up(1);
        unsafe { ffi::luaL_ref(self.state, ffi::LUA_REGISTRYINDEX) }
    }

    pub(crate) fn push_kept(self, kept: StateRef) {
        unsafe { ffi::lua_rawgeti_(self.state, ffi::LUA_REGISTRYINDEX, kept) }
    }

    pub(crate) fn forget(self, kept: StateRef) {
        unsafe { ffi::luaL_unref(self.state, ffi::LUA_REGISTRYINDEX, kept) }
    }

    pub(crate) fn push_globals(self) {
        unsafe { ffi::lua_pushvalue(self.state, ffi::LUA_GLOBALSINDEX) }
    }

    /// Pops a table and makes it the globals of this thread and of what it compiles from now on.
    pub(crate) fn set_globals(self) {
        self.give_up(1);
        unsafe { ffi::lua_replace(self.state, ffi::LUA_GLOBALSINDEX) }
    }
}

#[cfg(test)]
mod tests {
    use std::panic::{AssertUnwindSafe, catch_unwind};

    use super::super::Owner;
    use super::*;
    use crate::Limits;

    /// Returns whether the body panics, on a stack with the strings "one", "two", "three".
    fn panics(body: impl FnOnce(Lua<'_>)) -> bool {
        let owner = Owner::open(&Limits::default()).unwrap();
        let lua = owner.lua();
        for text in ["one", "two", "three"] {
            lua.push_bytes(text.as_bytes());
        }
        catch_unwind(AssertUnwindSafe(|| body(lua))).is_err()
    }

    #[test]
    fn a_lent_string_cannot_leave_the_stack() {
        let removals: [fn(Lua<'_>); 9] = [
            |lua| lua.pop(2),
            |lua| lua.set_top(1),
            |lua| lua.set_top(-3),
            |lua| lua.replace(2),
            |lua| lua.remove(1),
            |lua| lua.insert(1),
            |lua| lua.raw_set(1),
            |lua| {
                lua.pop(1);
                lua.keep();
            },
            |lua| {
                lua.call(1, 0, 0);
            },
        ];
        for (at, remove) in removals.into_iter().enumerate() {
            let is_refused = panics(|lua| {
                lua.lend(|lua| {
                    let text = lua.bytes(2).unwrap();
                    remove(lua);
                    assert_eq!(text, b"two");
                });
            });
            assert!(is_refused, "removal {at}");
        }
    }

    #[test]
    fn what_is_above_or_no_longer_lent_may_go() {
        let is_refused = panics(|lua| {
            lua.lend(|lua| {
                let text = lua.bytes(-2).unwrap();
                lua.pop(1);
                lua.push_nil();
                lua.lend(|lua| assert_eq!(lua.bytes(1), Some(&b"one"[..])));
                lua.insert(-1);
                assert_eq!(text, b"two");
            });
            lua.set_top(0);
            assert_eq!(lua.top(), 0);
        });
        assert!(!is_refused);
    }

    #[test]
    fn an_outer_handle_does_not_lend_inside_of_a_scope() {
        assert!(panics(|lua| assert!(lua.lend(|_| lua.bytes(1).is_some()))));
    }

    #[test]
    fn a_panic_ends_its_scope() {
        let owner = Owner::open(&Limits::default()).unwrap();
        let lua = owner.lua();
        lua.push_bytes(b"one");
        let panic = || {
            lua.lend(|lua| {
                lua.bytes(1);
                lua.pop(1);
            })
        };
        assert!(catch_unwind(AssertUnwindSafe(panic)).is_err());
        lua.pop(1);
    }
}
