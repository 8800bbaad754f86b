//! The engine as the top level of a function library sees it.

use nagaya_clock::Clock;
use nagaya_lua::{Host, LogLevel, Tick};
use nagaya_resp::{Out, Proto};

use crate::redis_version::RedisVersion;
use crate::server::Server;

/// The host of a library's top level, which may only log and take its time.
pub struct LoadHost<'c> {
    clock: &'c dyn Clock,
    deadline_us: u64,
    version: RedisVersion,
}

impl<'c> LoadHost<'c> {
    /// For a library that ran before: it may take as long as it takes.
    pub fn unlimited(server: &'c Server) -> LoadHost<'c> {
        LoadHost {
            clock: &*server.clock,
            version: server.config().redis_version.clone(),
            deadline_us: u64::MAX,
        }
    }

    /// For a new library: half a second is enough to register functions.
    pub fn timed(server: &'c Server) -> LoadHost<'c> {
        const LOAD_MAX_US: u64 = 500_000;
        LoadHost {
            deadline_us: server.clock.steady_us() + LOAD_MAX_US,
            ..LoadHost::unlimited(server)
        }
    }
}

impl Host for LoadHost<'_> {
    fn redis_version(&self) -> (&str, u32) {
        (self.version.as_str(), self.version.number())
    }

    fn call(&mut self, _: &[&[u8]], proto: Proto, reply: &mut Vec<u8>) {
        let mut out = Out::new(proto);
        out.error("ERR redis.call/pcall can only be called inside a script invocation");
        reply.extend_from_slice(&out.buf);
    }

    fn log(&mut self, level: LogLevel, message: &[u8]) {
        log(level, message);
    }

    fn acl_check(&mut self, _: &[&[u8]]) -> Result<bool, String> {
        Err("redis.acl_check_cmd can only be called inside a script invocation".to_owned())
    }

    fn tick(&mut self) -> Tick {
        if self.clock.steady_us() > self.deadline_us {
            Tick::Kill("FUNCTION LOAD timeout".to_owned())
        } else {
            Tick::Continue
        }
    }
}

/// Logs what a script has to say.
pub(crate) fn log(level: LogLevel, message: &[u8]) {
    let message = message.escape_ascii();
    match level {
        LogLevel::Debug | LogLevel::Verbose => tracing::debug!(%message, "script log"),
        LogLevel::Notice => tracing::info!(%message, "script log"),
        LogLevel::Warning => tracing::warn!(%message, "script log"),
    }
}
