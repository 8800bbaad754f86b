//! What one Lua state carries beside its own memory: accounting, the running script, reusable buffers.

use std::any::Any;
use std::cell::{Cell, RefCell};

use mlua::ffi::{self, lua_State};
use nagaya_resp::Proto;

use crate::host::{Host, Tick};
use crate::random::Random;
use crate::register::Loading;

use super::Raise;
use super::handle::Lent;

/// What the state is busy with, which decides what `redis.*` allows.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Mode {
    Idle,
    Running,
    LoadingLibrary,
}

/// Everything Rust keeps about one Lua state. Reached from any Lua thread through the allocator's user pointer.
pub(crate) struct Context {
    pub(super) used_bytes: Cell<usize>,
    pub(crate) limit_bytes: usize,
    /// While above zero the allocator does not fail; see rule 1 of the folder.
    pub(super) unbounded: Cell<bool>,
    pub(super) lent: Cell<Lent>,
    /// Bytes in use after the last full collection that the hook asked for.
    pub(super) collected_bytes: Cell<usize>,
    pub(super) host: Cell<Option<*mut (dyn Host + 'static)>>,
    pub(super) main: Cell<*mut lua_State>,
    pub(super) killed: RefCell<Option<String>>,
    pub(super) panic: RefCell<Option<Box<dyn Any + Send>>>,
    /// Read-only stand-ins by address, and the registry slot of the table each one hides.
    pub(super) proxies: RefCell<Vec<Proxy>>,
    pub(super) collector_touched: Cell<bool>,
    pub(crate) instructions_per_tick: i32,
    pub(crate) source_bytes_max: usize,
    pub(crate) mode: Cell<Mode>,
    /// Protocol the script asked for with `redis.setresp`.
    pub(crate) proto: Cell<Proto>,
    pub(crate) random: Cell<Random>,
    pub(crate) loading: RefCell<Loading>,
    /// Reply of the host, kept to reuse its capacity.
    pub(crate) reply: Cell<Vec<u8>>,
    /// Output of encoders and of `gsub`, kept to reuse its capacity.
    pub(crate) text: Cell<Vec<u8>>,
}

#[derive(Clone, Copy)]
pub(super) struct Proxy {
    pub(super) address: usize,
    pub(super) hidden: i32,
    /// Registry slot of what `getmetatable` shows, if it shows anything.
    pub(super) metatable: Option<i32>,
}

impl Context {
    pub(crate) fn new(limits: &crate::Limits) -> Context {
        Context {
            used_bytes: Cell::new(0),
            limit_bytes: limits.memory_bytes,
            unbounded: Cell::new(true),
            lent: Cell::default(),
            collected_bytes: Cell::new(0),
            host: Cell::new(None),
            main: Cell::new(std::ptr::null_mut()),
            killed: RefCell::new(None),
            panic: RefCell::new(None),
            proxies: RefCell::new(Vec::new()),
            collector_touched: Cell::new(false),
            instructions_per_tick: limits.instructions_per_tick,
            source_bytes_max: limits.source_bytes_max,
            mode: Cell::new(Mode::Idle),
            proto: Cell::new(Proto::Resp2),
            random: Cell::new(Random::default()),
            loading: RefCell::new(Loading::default()),
            reply: Cell::new(Vec::new()),
            text: Cell::new(Vec::new()),
        }
    }

    pub(crate) fn used_bytes(&self) -> usize {
        self.used_bytes.get()
    }

    pub(crate) fn over_limit(&self) -> bool {
        self.used_bytes.get() > self.limit_bytes
    }

    /// Fails when `more` bytes would not fit, so that big results are refused before they are built.
    pub(crate) fn check_room(&self, more: usize) -> Result<(), Raise> {
        if self.used_bytes.get().saturating_add(more) > self.limit_bytes {
            Err(Raise::Memory)
        } else {
            Ok(())
        }
    }

    /// Lends the host of the running script, if one is running.
    pub(crate) fn with_host<R>(&self, body: impl FnOnce(&mut dyn Host) -> R) -> Option<R> {
        // Taken for the time of the call, so that two borrows can never exist.
        let host = self.host.take()?;
        // SAFETY: `call::with_host` put the pointer here and removes it before its borrow ends.
        let result = body(unsafe { &mut *host });
        self.host.set(Some(host));
        Some(result)
    }

    /// Asks the host whether to continue; remembers a refusal for the rest of the run.
    pub(crate) fn tick(&self) -> Result<(), Raise> {
        if !self.is_killed() {
            match self.with_host(|host| host.tick()) {
                Some(Tick::Kill(message)) => *self.killed.borrow_mut() = Some(message),
                Some(Tick::Continue) | None => return Ok(()),
            }
            self.arm_hook(self.main.get(), true);
        }
        Err(Raise::Killed)
    }

    pub(super) fn is_killed(&self) -> bool {
        self.killed.borrow().is_some()
    }

    /// Sets the instruction hook of one Lua thread: every so often, or on every instruction once killed.
    pub(super) fn arm_hook(&self, state: *mut lua_State, killed: bool) {
        let (mask, count) = if killed {
            (ffi::LUA_MASKCOUNT | ffi::LUA_MASKLINE, 1)
        } else {
            (ffi::LUA_MASKCOUNT, self.instructions_per_tick)
        };
        // SAFETY: `state` is a live thread of this context's state.
        unsafe { ffi::lua_sethook(state, Some(super::call::hook), mask, count) };
    }

    pub(super) fn proxy(&self, address: usize) -> Option<Proxy> {
        self.proxies
            .borrow()
            .iter()
            .find(|proxy| proxy.address == address)
            .copied()
    }
}
