//! One thread's Lua environment and what it has compiled.

use std::collections::HashMap;
use std::sync::Arc;

use nagaya_command_spec::error::CommandError;
use nagaya_lua::{Host, Limits, RunOutcome, Vm, parse_library_shebang};
use nagaya_resp::Out;

use crate::scripts::library::{Libraries, Library};
use crate::scripts::load_host::LoadHost;
use crate::scripts::shared::{Digest, Scripts};
use crate::scripts::traits::{Traits, refused, traits_of};
use crate::server::Server;

/// Compiled scripts kept; beyond it, all are compiled again as they are needed.
const COMPILED_MAX: usize = 10_000;

/// One thread's Lua environment. Catches up lazily with what other threads loaded or flushed.
pub struct ThreadVm {
    vm: Vm,
    scripts: HashMap<Digest, Traits, ahash::RandomState>,
    sources_version: u64,
    libraries: Arc<Libraries>,
    libraries_version: u64,
}

/// What runs: a script by its digest, or a function.
#[derive(Clone, Copy)]
pub enum Target<'a> {
    Script(&'a Digest),
    Function(&'a Library, &'a str),
}

impl ThreadVm {
    pub fn new(scripts: &Scripts) -> Result<ThreadVm, CommandError> {
        Ok(ThreadVm {
            vm: Vm::new(Limits::default()).map_err(refused)?,
            scripts: HashMap::default(),
            sources_version: scripts.sources_version(),
            libraries_version: scripts.libraries_version(),
            libraries: scripts.libraries(),
        })
    }

    /// Makes a script ready to run: compiled here before, known from another thread, or new with a body.
    pub fn prepare_script(
        &mut self,
        scripts: &Scripts,
        digest: &Digest,
        body: Option<&[u8]>,
    ) -> Result<Traits, CommandError> {
        let version = scripts.sources_version();
        if version != self.sources_version || self.scripts.len() >= COMPILED_MAX {
            self.vm.forget_scripts();
            self.scripts.clear();
            self.sources_version = version;
        }
        if let Some(traits) = self.scripts.get(digest) {
            return Ok(*traits);
        }
        let traits = match (scripts.source(digest), body) {
            (Some(source), _) => {
                self.vm.load_script(digest, &source.body).map_err(refused)?;
                source.traits
            }
            (None, Some(body)) => {
                let traits = traits_of(body)?;
                self.vm.load_script(digest, body).map_err(refused)?;
                scripts.add_source(*digest, body, traits);
                traits
            }
            (None, None) => {
                return Err(CommandError::coded(
                    "NOSCRIPT No matching script. Please use EVAL.",
                ));
            }
        };
        self.scripts.insert(*digest, traits);
        Ok(traits)
    }

    /// Returns the libraries of the moment, having dropped those that are gone.
    pub fn libraries(&mut self, scripts: &Scripts) -> Arc<Libraries> {
        let version = scripts.libraries_version();
        if version != self.libraries_version {
            let current = scripts.libraries();
            for old in self.libraries.iter() {
                if !current.iter().any(|library| library.id == old.id) {
                    self.vm.drop_library(old.id);
                }
            }
            self.libraries = current;
            self.libraries_version = version;
        }
        Arc::clone(&self.libraries)
    }

    /// Loads a library here if it is not yet.
    pub fn prepare_library(&mut self, library: &Library, server: &Server) -> Result<(), CommandError> {
        if self.vm.has_library(library.id) {
            return Ok(());
        }
        let offset = parse_library_shebang(&library.code).map_err(refused)?.body_offset;
        let mut host = LoadHost::unlimited(server);
        let code = &library.code[offset..];
        self.vm
            .load_library(library.id, &library.name, code, &mut host)
            .map_err(refused)?;
        Ok(())
    }

    /// Runs the code of a new library and returns it with the functions it registered.
    pub fn try_library(
        &mut self,
        scripts: &Scripts,
        name: String,
        code: &[u8],
        offset: usize,
        host: &mut LoadHost<'_>,
    ) -> Result<Library, CommandError> {
        let id = scripts.new_library_id();
        let functions = self.vm.load_library(id, &name, &code[offset..], host);
        Ok(Library {
            id,
            name,
            code: code.to_vec(),
            functions: functions.map_err(refused)?,
        })
    }

    /// Forgets a library that did not become part of the engine's.
    pub fn drop_library(&mut self, library: &Library) {
        self.vm.drop_library(library.id);
    }

    /// Runs something that was made ready.
    pub fn run(
        &mut self,
        target: Target<'_>,
        keys: &[&[u8]],
        argv: &[&[u8]],
        host: &mut dyn Host,
        out: &mut Out,
    ) -> RunOutcome {
        match target {
            Target::Script(digest) => self.vm.run_script(digest, keys, argv, host, out),
            Target::Function(library, name) => self.vm.call_function(library.id, name, keys, argv, host, out),
        }
    }
}
