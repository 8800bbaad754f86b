//! Ownership of a Lua state and the allocator that counts its bytes.

use std::ffi::c_void;
use std::ptr::NonNull;

use mlua::ffi::{self, lua_State};

use super::{Context, Lua};
use crate::{Error, Limits};

/// A Lua state and its context, freed together.
pub(crate) struct Owner {
    state: NonNull<lua_State>,
    context: NonNull<Context>,
}

/// A registry slot: how Rust keeps a Lua value alive.
pub(crate) type StateRef = i32;

impl Owner {
    /// Opens an empty state. It starts unbounded, as rule 1 asks of Rust code.
    pub(crate) fn open(limits: &Limits) -> Result<Owner, Error> {
        let context = NonNull::from(Box::leak(Box::new(Context::new(limits))));
        // SAFETY: the context outlives the state: `Drop` closes the state first.
        let state = unsafe { ffi::lua_newstate(allocate, context.as_ptr().cast::<c_void>()) };
        let Some(state) = NonNull::new(state) else {
            // SAFETY: leaked from a box just above and not shared.
            drop(unsafe { Box::from_raw(context.as_ptr()) });
            return Err(Error::OutOfMemory);
        };
        let owner = Owner { state, context };
        owner.context().main.set(state.as_ptr());
        Ok(owner)
    }

    pub(crate) fn context(&self) -> &Context {
        // SAFETY: valid until `Drop`, and only ever shared.
        unsafe { self.context.as_ref() }
    }

    pub(crate) fn lua(&self) -> Lua<'_> {
        Lua::outermost(self.state.as_ptr(), self.context())
    }
}

impl Drop for Owner {
    fn drop(&mut self) {
        // SAFETY: both were made in `open`; the state is closed first because it frees through the context.
        unsafe {
            ffi::lua_close(self.state.as_ptr());
            drop(Box::from_raw(self.context.as_ptr()));
        }
    }
}

/// Lua's allocator: the system one, counted, refusing growth past the limit unless Rust code is running.
unsafe extern "C" fn allocate(user: *mut c_void, block: *mut c_void, old: usize, new: usize) -> *mut c_void {
    // SAFETY: `user` is the context given to `lua_newstate`.
    let context = unsafe { &*user.cast::<Context>() };
    let used = context.used_bytes.get();
    if new == 0 {
        // SAFETY: `block` came from `realloc` below, or is null.
        unsafe { libc::free(block) };
        context.used_bytes.set(used.saturating_sub(old));
        return std::ptr::null_mut();
    }
    let after = used.saturating_sub(old).saturating_add(new);
    if new > old && after > context.limit_bytes && !context.unbounded.get() {
        return std::ptr::null_mut();
    }
    // SAFETY: as above.
    let grown = unsafe { libc::realloc(block, new) };
    if grown.is_null() {
        if new <= old {
            return block; // Lua relies on shrinking never failing.
        }
        if context.unbounded.get() {
            std::alloc::handle_alloc_error(std::alloc::Layout::new::<u8>());
        }
    } else {
        context.used_bytes.set(after);
    }
    grown
}
