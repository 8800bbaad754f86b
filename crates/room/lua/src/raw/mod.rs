//! The only door to the C library, and the rules that keep it shut.
//!
//! Lua raises errors by jumping over the frames in between, so a Rust frame that still owns something must never
//! be jumped over. Two rules make that hold for the whole crate:
//!
//! 1. **Library functions written in Rust** (everything behind [`function!`]) never call a part of the Lua API
//!    that raises. They report failure as a [`Raise`] value, and [`enter`] raises it when nothing is left to drop.
//!    While they run, the allocator ([`memory`]) hands out memory beyond the limit instead of failing, because a
//!    failed allocation raises too; the excess is noticed and raised in [`enter`].
//! 2. **Thin guards** ([`guards`]) may raise anywhere, and therefore own nothing at all: plain numbers and
//!    pointers only. They exist so that Lua's own C functions can be called under a check.
//!
//! `unsafe` stays inside this folder. The methods of [`Lua`] are safe to call under one condition that the type
//! cannot express: a function has 20 stack slots, and must [`Lua::reserve`] before it uses more. Debug builds of
//! the C library assert this on every push.
//!
//! A string that is lent out as a slice stays on the stack: a method that would remove it panics, and the slice
//! cannot leave the library function or the [`Lua::lend`] that it was lent in. `handle.rs` has the rules.
#![allow(unsafe_code, reason = "this folder is the boundary to the Lua C library")]

mod call;
mod context;
pub(crate) mod guards;
mod handle;
mod memory;
mod raise;

pub(crate) use call::{RunStatus, enter, push_error_table};
pub(crate) use context::{Context, Mode};
pub(crate) use handle::{Kind, Lua, Slice};
pub(crate) use memory::{Owner, StateRef};
pub(crate) use mlua::ffi::lua_CFunction as CFunction;
pub(crate) use raise::Raise;

/// Turns `fn(Lua<'_>) -> Result<i32, Raise>` into a function pointer Lua can call.
macro_rules! function {
    ($body:path) => {{
        #[allow(
            unsafe_code,
            reason = "the signature is fixed by the C library; the body is safe code"
        )]
        unsafe extern "C-unwind" fn entry(state: *mut mlua::ffi::lua_State) -> std::ffi::c_int {
            // SAFETY: Lua calls this with the running state, which belongs to one of our `Owner`s.
            unsafe { $crate::raw::enter(state, $body) }
        }
        entry as $crate::raw::CFunction
    }};
}
pub(crate) use function;
