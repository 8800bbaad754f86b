//! The public face: compiled scripts and libraries, and running them.

use std::collections::HashMap;

use nagaya_resp::{Out, Proto};

use crate::handler;
use crate::raw::{Kind, Lua, Mode, Owner, RunStatus, StateRef};
use crate::register::FunctionDef;
use crate::reply_out::{self, Written};
use crate::sandbox::{self, Purpose};
use crate::{Error, Host, shebang};

/// Bounds on what scripts may use.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Limits {
    /// Bytes of Lua memory, for scripts and for functions each.
    pub memory_bytes: usize,
    /// Bytes of one script or library, also for what scripts compile themselves.
    pub source_bytes_max: usize,
    /// Instructions between two calls of [`Host::tick`].
    pub instructions_per_tick: i32,
}

impl Default for Limits {
    fn default() -> Limits {
        Limits {
            memory_bytes: 512 << 20,
            source_bytes_max: 16 << 20,
            instructions_per_tick: 10_000,
        }
    }
}

/// Name of a loaded library, chosen by the caller.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct LibraryId(pub u64);

/// How a run ended. The reply is written in either case.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum RunOutcome {
    /// The script returned a value.
    Replied,
    /// The reply is an error.
    Error {
        /// It came from a command the script called, which counted it already in the error statistics.
        already_counted: bool,
    },
    /// No such script or function is loaded; nothing was written.
    Missing,
}

/// A Lua environment. Belongs to one thread; make it where it is used.
///
/// Scripts and functions live in states of their own, as in Redis: they see different globals.
pub struct Vm {
    limits: Limits,
    eval: State,
    /// Made when the first library is loaded.
    functions: Option<State>,
    scripts: HashMap<[u8; 40], StateRef>,
    libraries: HashMap<LibraryId, Library>,
}

/// A loaded library.
struct Library {
    name: String,
    functions: HashMap<String, StateRef>,
}

/// One furnished Lua state.
struct State {
    owner: Owner,
    /// The version fields of `redis` come from the host, which is first seen at the first run.
    has_version: bool,
}

/// What to call and what to give it.
struct Call<'a> {
    function: StateRef,
    /// The script's digest or the function's name, for error texts.
    name: &'a [u8],
    keys: &'a [&'a [u8]],
    argv: &'a [&'a [u8]],
    purpose: Purpose,
}

impl Vm {
    /// Makes an environment without scripts.
    pub fn new(limits: Limits) -> Result<Vm, Error> {
        let eval = State::open(&limits, Purpose::Eval)?;
        Ok(Vm {
            limits,
            eval,
            functions: None,
            scripts: HashMap::new(),
            libraries: HashMap::new(),
        })
    }

    /// Compiles a script and keeps it under its digest. The body may start with a `#!lua` line.
    pub fn load_script(&mut self, sha: &[u8; 40], body: &[u8]) -> Result<(), Error> {
        if self.scripts.contains_key(sha) {
            return Ok(());
        }
        let offset = shebang::parse_shebang(body)?.body_offset;
        let lua = self.eval.owner.lua();
        match lua.compile(&body[offset..], c"@user_script") {
            RunStatus::Done => {
                self.scripts.insert(*sha, lua.keep());
                Ok(())
            }
            RunStatus::Failed => Err(Error::CompileScript(take_message(lua))),
        }
    }

    /// Returns whether a script is loaded.
    pub fn has_script(&self, sha: &[u8; 40]) -> bool {
        self.scripts.contains_key(sha)
    }

    /// Drops every script, and gives their memory back.
    pub fn forget_scripts(&mut self) {
        let lua = self.eval.owner.lua();
        for (_, script) in self.scripts.drain() {
            lua.forget(script);
        }
        lua.collect();
    }

    /// Runs a loaded script and appends its reply to `out`.
    pub fn run_script(
        &mut self,
        sha: &[u8; 40],
        keys: &[&[u8]],
        argv: &[&[u8]],
        host: &mut dyn Host,
        out: &mut Out,
    ) -> RunOutcome {
        let Some(script) = self.scripts.get(sha) else {
            return RunOutcome::Missing;
        };
        let call = Call {
            function: *script,
            name: sha,
            keys,
            argv,
            purpose: Purpose::Eval,
        };
        self.eval.run(&call, host, out)
    }

    /// Runs a library's top level, which may only register functions and log. `code` starts at the line feed that
    /// ends its first line, so that line numbers are those of the whole text.
    ///
    /// A library already loaded under `id` is replaced when this succeeds.
    pub fn load_library(
        &mut self,
        id: LibraryId,
        name: &str,
        code: &[u8],
        host: &mut dyn Host,
    ) -> Result<Vec<FunctionDef>, Error> {
        let state = match &mut self.functions {
            Some(state) => state,
            empty => empty.insert(State::open(&self.limits, Purpose::Functions)?),
        };
        let functions = state.load(code, host)?;
        let lua = state.owner.lua();
        if functions.is_empty() {
            return Err(Error::NoFunctions);
        }
        let (defs, references): (Vec<_>, Vec<_>) = functions.into_iter().unzip();
        let functions = defs
            .iter()
            .map(|function| function.name.clone())
            .zip(references)
            .collect();
        if let Some(old) = self.libraries.insert(
            id,
            Library {
                name: name.to_owned(),
                functions,
            },
        ) {
            old.functions
                .into_values()
                .for_each(|function| lua.forget(function));
        }
        Ok(defs)
    }

    /// Drops a library and its functions.
    pub fn drop_library(&mut self, id: LibraryId) {
        if let (Some(library), Some(state)) = (self.libraries.remove(&id), &self.functions) {
            library
                .functions
                .into_values()
                .for_each(|function| state.owner.lua().forget(function));
        }
    }

    /// Returns whether a library is loaded.
    pub fn has_library(&self, id: LibraryId) -> bool {
        self.libraries.contains_key(&id)
    }

    /// Returns the name a loaded library was given.
    pub fn library_name(&self, id: LibraryId) -> Option<&str> {
        self.libraries.get(&id).map(|library| library.name.as_str())
    }

    /// Runs a function of a loaded library and appends its reply to `out`.
    pub fn call_function(
        &mut self,
        id: LibraryId,
        function: &str,
        keys: &[&[u8]],
        argv: &[&[u8]],
        host: &mut dyn Host,
        out: &mut Out,
    ) -> RunOutcome {
        let found = self
            .libraries
            .get(&id)
            .and_then(|library| library.functions.get(function));
        let (Some(reference), Some(state)) = (found, &mut self.functions) else {
            return RunOutcome::Missing;
        };
        let name = function.as_bytes();
        let call = Call {
            function: *reference,
            name,
            keys,
            argv,
            purpose: Purpose::Functions,
        };
        state.run(&call, host, out)
    }

    /// Returns the bytes of Lua memory in use.
    pub fn used_memory(&self) -> usize {
        let functions = self.functions.as_ref().map_or(0, State::used_bytes);
        self.eval.used_bytes() + functions
    }

    /// Returns how many scripts are loaded.
    pub fn script_count(&self) -> usize {
        self.scripts.len()
    }
}

impl State {
    fn open(limits: &Limits, purpose: Purpose) -> Result<State, Error> {
        let owner = Owner::open(limits)?;
        sandbox::furnish(owner.lua(), purpose);
        Ok(State {
            owner,
            has_version: false,
        })
    }

    fn used_bytes(&self) -> usize {
        self.owner.context().used_bytes()
    }

    fn run(&mut self, call: &Call<'_>, host: &mut dyn Host, out: &mut Out) -> RunOutcome {
        self.tell_version(host);
        let lua = self.owner.lua();
        lua.context().proto.set(Proto::Resp2);
        let outcome = lua.with_host(host, Mode::Running, |lua| run_prepared(lua, call, out));
        lua.set_top(sandbox::REDIS);
        lua.collect_if_half_full(); // What a script leaves behind must not refuse the next one.
        outcome
    }

    /// Runs a library's top level with its own view of the globals.
    fn load(&mut self, code: &[u8], host: &mut dyn Host) -> Result<Vec<(FunctionDef, StateRef)>, Error> {
        self.tell_version(host);
        let lua = self.owner.lua();
        if lua.compile(code, c"@user_function") == RunStatus::Failed {
            return Err(Error::CompileLibrary(take_message(lua)));
        }
        show_globals(lua, sandbox::LIBRARY_API);
        let status = lua.with_host(host, Mode::LoadingLibrary, |lua| lua.call(0, 0, 0));
        show_globals(lua, sandbox::REAL);
        lua.collect_if_half_full();
        let functions = std::mem::take(&mut lua.context().loading.borrow_mut().functions);
        if status == RunStatus::Done {
            return Ok(functions);
        }
        functions
            .into_iter()
            .for_each(|(_, function)| lua.forget(function));
        Err(Error::Register(take_error(lua)))
    }

    fn tell_version(&mut self, host: &dyn Host) {
        if std::mem::replace(&mut self.has_version, true) {
            return;
        }
        let lua = self.owner.lua();
        let (text, number) = host.redis_version();
        lua.push_value(sandbox::REDIS);
        set_version(lua, text, number);
        lua.pop(1);
        if lua.kind(sandbox::LIBRARY_API) == Kind::Table {
            lua.raw_field(sandbox::LIBRARY_API, "redis");
            lua.push_hidden();
            set_version(lua, text, number);
            lua.pop(1);
        }
    }
}

fn set_version(lua: Lua<'_>, text: &str, number: u32) {
    lua.push_bytes(text.as_bytes());
    lua.set_field(-2, "REDIS_VERSION");
    lua.push_number(f64::from(number));
    lua.set_field(-2, "REDIS_VERSION_NUM");
}

/// Runs and writes the reply, or the error.
fn run_prepared(lua: Lua<'_>, call: &Call<'_>, out: &mut Out) -> RunOutcome {
    lua.push_kept(call.function);
    let arguments = match call.purpose {
        Purpose::Eval => {
            lua.push_value(sandbox::KEYS_NAME);
            push_list(lua, call.keys);
            lua.raw_set(sandbox::REAL);
            lua.push_value(sandbox::ARGV_NAME);
            push_list(lua, call.argv);
            lua.raw_set(sandbox::REAL);
            0
        }
        Purpose::Functions => {
            push_list(lua, call.keys);
            push_list(lua, call.argv);
            2
        }
    };
    let status = lua.call(arguments, 1, sandbox::HANDLER);
    if status == RunStatus::Failed {
        return handler::write_failure(lua, call.name, out);
    }
    match reply_out::write_reply(lua, out) {
        Written::Value => RunOutcome::Replied,
        Written::Error { already_counted } => RunOutcome::Error { already_counted },
    }
}

/// Makes the table in a fixed slot the one behind the visible globals.
fn show_globals(lua: Lua<'_>, slot: i32) {
    lua.push_value(slot);
    lua.set_field(sandbox::VISIBLE_METATABLE, "__index");
}

fn push_list(lua: Lua<'_>, items: &[&[u8]]) {
    lua.new_table(items.len(), 0);
    for (item, index) in items.iter().zip(1..) {
        lua.push_bytes(item);
        lua.raw_set_index(-2, index);
    }
}

/// Pops a message.
fn take_message(lua: Lua<'_>) -> String {
    let text = lua.lend(|lua| {
        let bytes = lua.bytes(-1).unwrap_or(b"unknown error");
        String::from_utf8_lossy(bytes).into_owned()
    });
    lua.pop(1);
    text
}

/// Pops an error value of a library's top level: text gets the code `ERR`, a table has it.
fn take_error(lua: Lua<'_>) -> String {
    if lua.kind(-1) != Kind::Table {
        return format!("ERR {}", take_message(lua));
    }
    lua.raw_field(-1, "err");
    let text = take_message(lua);
    lua.pop(1);
    text
}
