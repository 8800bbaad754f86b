//! What the threads share about scripts.

use std::collections::HashMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use nagaya_command_spec::error::CommandError;
use nagaya_command_spec::table::Command;
use nagaya_keyspace::shard::LongScript;
use nagaya_lua::LibraryId;
use nagaya_resp::{ArgVec, Args};
use parking_lot::{Mutex, RwLock};

use crate::scripts::library::Libraries;
use crate::scripts::traits::{Traits, busy_error, traits_of};

/// A script's digest: forty lower-case hexadecimal digits.
pub type Digest = [u8; 40];

/// A script that EVALSHA finds.
#[derive(Clone)]
pub struct Source {
    pub body: Arc<[u8]>,
    pub traits: Traits,
}

/// Sources, libraries and the slow script of the moment.
///
/// As in Redis 7.0, scripts stay until SCRIPT FLUSH.
#[derive(Default)]
pub struct Scripts {
    sources: RwLock<HashMap<Digest, Source, ahash::RandomState>>,
    sources_version: AtomicU64,
    libraries: RwLock<Arc<Libraries>>,
    libraries_version: AtomicU64,
    next_library: AtomicU64,
    slow: Mutex<Option<SlowRun>>,
    limits_lifted: AtomicBool,
}

/// A script that takes too long.
pub struct SlowRun {
    pub kind: LongScript,
    /// The script's digest or the function's name.
    pub name: Vec<u8>,
    /// The request that started it.
    pub command: ArgVec,
    /// When it started, on the steady clock.
    pub started_us: u64,
    /// It has changed data, or is just about to: it cannot be killed any more.
    pub wrote: bool,
    pub killed: bool,
}

impl Scripts {
    /// Finds a script by its digest.
    pub fn source(&self, digest: &Digest) -> Option<Source> {
        self.sources.read().get(digest).cloned()
    }

    /// Keeps a script that has been compiled once.
    pub fn add_source(&self, digest: Digest, body: &[u8], traits: Traits) {
        let body = body.into();
        self.sources
            .write()
            .entry(digest)
            .or_insert(Source { body, traits });
    }

    /// Forgets all scripts; the threads' environments do when they next run one.
    pub fn flush_sources(&self) {
        let old = std::mem::take(&mut *self.sources.write());
        self.sources_version.fetch_add(1, Ordering::Release);
        drop(old);
    }

    /// Returns how many scripts EVALSHA knows, and the bytes of their texts.
    pub fn sources_size(&self) -> (usize, usize) {
        let sources = self.sources.read();
        let bytes = sources.values().map(|source| source.body.len()).sum();
        (sources.len(), bytes)
    }

    pub(crate) fn sources_version(&self) -> u64 {
        self.sources_version.load(Ordering::Acquire)
    }

    /// Returns the libraries of the moment.
    pub fn libraries(&self) -> Arc<Libraries> {
        Arc::clone(&self.libraries.read())
    }

    /// Returns all functions as FUNCTION DUMP does.
    pub fn dump_functions(&self) -> Vec<u8> {
        let libraries = self.libraries();
        nagaya_store::rdb::dump_functions(libraries.iter().map(|library| library.code.as_slice()))
    }

    /// Replaces the libraries. The caller holds every shard, so nobody else does.
    pub fn set_libraries(&self, libraries: Libraries) {
        *self.libraries.write() = Arc::new(libraries);
        self.libraries_version.fetch_add(1, Ordering::Release);
    }

    pub(crate) fn libraries_version(&self) -> u64 {
        self.libraries_version.load(Ordering::Acquire)
    }

    /// Numbers a library; never the same number twice.
    pub fn new_library_id(&self) -> LibraryId {
        LibraryId(self.next_library.fetch_add(1, Ordering::Relaxed))
    }

    /// Lets scripts call commands that they otherwise may not, for tests (DEBUG).
    pub fn lift_limits(&self, lifted: bool) {
        self.limits_lifted.store(lifted, Ordering::Relaxed);
    }

    pub(crate) fn are_limits_lifted(&self) -> bool {
        self.limits_lifted.load(Ordering::Relaxed)
    }

    /// Says which script takes too long, or that none does any more.
    pub(crate) fn set_slow(&self, run: Option<SlowRun>) {
        *self.slow.lock() = run;
    }

    /// Shows the slow script.
    pub fn with_slow<R>(&self, look: impl FnOnce(Option<&SlowRun>) -> R) -> R {
        look(self.slow.lock().as_ref())
    }

    pub(crate) fn is_killed(&self) -> bool {
        self.slow.lock().as_ref().is_some_and(|run| run.killed)
    }

    /// Notes that the slow script is about to write; false when it was killed first.
    pub(crate) fn note_write(&self) -> bool {
        match self.slow.lock().as_mut() {
            Some(run) if run.killed => false,
            Some(run) => {
                run.wrote = true;
                true
            }
            None => true,
        }
    }

    /// Ends the slow script (SCRIPT KILL, FUNCTION KILL), which it notices soon.
    pub fn kill(&self, kind: LongScript) -> Result<(), CommandError> {
        let mut slow = self.slow.lock();
        let Some(run) = slow.as_mut() else {
            return Err(CommandError::coded("NOTBUSY No scripts in execution right now."));
        };
        if run.wrote {
            return Err(CommandError::coded(
                "UNKILLABLE Sorry the script already executed write commands against the dataset. You can \
                 either wait the script termination or kill the server in a hard way using the SHUTDOWN \
                 NOSAVE command.",
            ));
        }
        if run.kind != kind {
            return Err(busy_error(run.kind));
        }
        run.killed = true;
        Ok(())
    }
}

/// Reads a digest, letter case ignored; nothing when it is not forty bytes long.
pub fn digest(text: &[u8]) -> Option<Digest> {
    let mut digest: Digest = text.try_into().ok()?;
    digest.make_ascii_lowercase();
    Some(digest)
}

/// Tells whether a request runs a script or function that has declared that it does not write.
pub fn only_reads(scripts: &Scripts, command: &Command, args: &Args<'_>) -> bool {
    let Some(name) = args.get(1) else { return false };
    match command.spec.name {
        "EVAL" => traits_of(name).is_ok_and(|traits| traits.no_writes),
        "EVALSHA" => digest(name)
            .and_then(|digest| scripts.source(&digest))
            .is_some_and(|source| source.traits.no_writes),
        "FCALL" => {
            let libraries = scripts.libraries();
            let function = libraries.function(name);
            function.is_some_and(|(_, function)| Traits::declared(&function.flags).no_writes)
        }
        _ => false,
    }
}
