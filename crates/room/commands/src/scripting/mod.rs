//! EVAL and its kin, and the SCRIPT container.
//!
//! A script runs on the thread of its client, under the locks of every shard,
//! in that thread's own Lua environment ([`vm`]). Its commands come back
//! through [`host`], which checks them and runs them on the same [`Db`]. What
//! threads share is in [`shared`]: the sources of scripts by digest, the
//! function libraries, and, once a script takes too long, which one it is.
//! [`run`] is common to EVAL and FCALL.
//!
//! [`Db`]: crate::db::Db

mod commands;
mod eval;
mod host;
mod run;
mod shared;
mod vm;

use nagaya_lua::ScriptFlag;
use nagaya_resp::Args;

use crate::command_table::Command;
use crate::error::CommandError;
use crate::shard::Slow;

pub(crate) use commands::{COMMANDS, READ_KEYS, RUNS, WRITTEN_KEYS};
pub(crate) use host::LoadHost;
pub(crate) use run::{Call, run, with_vm};
pub use shared::Scripts;
pub(crate) use vm::{Target, ThreadVm, refused};

/// What a script or function said about itself.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Traits {
    /// It has a `#!lua` line, or is a function: the flags it does not set count as refused.
    pub(crate) declared: bool,
    pub(crate) no_writes: bool,
    pub(crate) allow_oom: bool,
}

impl Traits {
    /// Reads the flags of a script with a `#!lua` line, or of a function.
    pub(crate) fn declared(flags: &[ScriptFlag]) -> Traits {
        Traits {
            declared: true,
            no_writes: flags.contains(&ScriptFlag::NoWrites),
            allow_oom: flags.contains(&ScriptFlag::AllowOom),
        }
    }

    /// Tells whether a run may only read; an error when it was asked to and does not promise it.
    pub(crate) fn read_only(self, asked: bool) -> Result<bool, CommandError> {
        if self.declared && !self.no_writes && asked {
            return Err(CommandError::err(
                "Can not execute a script with write flag using *_ro command.",
            ));
        }
        Ok(asked || self.no_writes)
    }

    /// Refuses a run for want of memory, where the script has said which memory it needs.
    pub(crate) fn check_memory(self, out_of_memory: bool) -> Result<(), CommandError> {
        if out_of_memory && self.declared && !self.allow_oom && !self.no_writes {
            return Err(CommandError::coded(
                "OOM allow-oom flag is not set on the script, can not run it when used memory > 'maxmemory'",
            ));
        }
        Ok(())
    }
}

/// Tells whether a request runs a script or function that has declared that it does not write.
pub(crate) fn only_reads(scripts: &Scripts, command: &Command, args: &Args<'_>) -> bool {
    let Some(name) = args.get(1) else { return false };
    match command.spec.name {
        "EVAL" => vm::traits_of(name).is_ok_and(|traits| traits.no_writes),
        "EVALSHA" => shared::digest(name)
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

/// The refusal while a script takes too long.
pub(crate) fn busy_error(slow: Slow) -> CommandError {
    CommandError::coded(match slow {
        Slow::Script => {
            "BUSY Redis is busy running a script. You can only call SCRIPT KILL or SHUTDOWN NOSAVE."
        }
        Slow::Function => {
            "BUSY Redis is busy running a script. You can only call FUNCTION KILL or SHUTDOWN NOSAVE."
        }
    })
}

#[cfg(test)]
mod tests;
