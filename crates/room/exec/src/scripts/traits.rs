//! What a script or function said about itself, and refusals that all scripts share.

use nagaya_command_spec::error::CommandError;
use nagaya_keyspace::shard::LongScript;
use nagaya_lua::{ScriptFlag, parse_shebang};

/// What a script or function said about itself.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Traits {
    /// It has a `#!lua` line, or is a function: the flags it does not set count as refused.
    pub declared: bool,
    pub no_writes: bool,
    pub allow_oom: bool,
}

impl Traits {
    /// Reads the flags of a script with a `#!lua` line, or of a function.
    pub fn declared(flags: &[ScriptFlag]) -> Traits {
        Traits {
            declared: true,
            no_writes: flags.contains(&ScriptFlag::NoWrites),
            allow_oom: flags.contains(&ScriptFlag::AllowOom),
        }
    }

    /// Tells whether a run may only read; an error when it was asked to and does not promise it.
    pub fn read_only(self, asked: bool) -> Result<bool, CommandError> {
        if self.declared && !self.no_writes && asked {
            return Err(CommandError::err(
                "Can not execute a script with write flag using *_ro command.",
            ));
        }
        Ok(asked || self.no_writes)
    }

    /// Refuses a run for want of memory, where the script has said which memory it needs.
    pub fn check_memory(self, out_of_memory: bool) -> Result<(), CommandError> {
        if out_of_memory && self.declared && !self.allow_oom && !self.no_writes {
            return Err(CommandError::coded(
                "OOM allow-oom flag is not set on the script, can not run it when used memory > 'maxmemory'",
            ));
        }
        Ok(())
    }
}

/// The refusal while a script takes too long.
pub fn busy_error(slow: LongScript) -> CommandError {
    CommandError::coded(match slow {
        LongScript::Script => {
            "BUSY Redis is busy running a script. You can only call SCRIPT KILL or SHUTDOWN NOSAVE."
        }
        LongScript::Function => {
            "BUSY Redis is busy running a script. You can only call FUNCTION KILL or SHUTDOWN NOSAVE."
        }
    })
}

/// Reads what the first line of a script says.
pub(crate) fn traits_of(body: &[u8]) -> Result<Traits, CommandError> {
    let shebang = parse_shebang(body).map_err(refused)?;
    Ok(if shebang.engine.is_empty() {
        Traits::default()
    } else {
        Traits::declared(&shebang.flags)
    })
}

/// Turns an error of Lua into a reply.
pub fn refused(error: nagaya_lua::Error) -> CommandError {
    CommandError::err(error.to_string())
}
