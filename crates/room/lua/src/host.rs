//! What a script may ask of the engine that runs it.

use nagaya_resp::Proto;

/// The engine, seen from inside a script.
pub trait Host {
    /// Runs one command and appends its RESP reply, in protocol `proto`, to `reply`.
    ///
    /// Failures are error replies ("-ERR ...") with the texts Redis uses inside scripts.
    fn call(&mut self, args: &[&[u8]], proto: Proto, reply: &mut Vec<u8>);

    /// Writes a line of `redis.log`. The host compares the level with its own.
    fn log(&mut self, level: LogLevel, message: &[u8]);

    /// Answers `redis.acl_check_cmd`: may the caller run this command? The error is the text for the script.
    fn acl_check(&mut self, args: &[&[u8]]) -> Result<bool, String>;

    /// Called at an interval of instructions (see [`crate::Limits`]) and from long pattern matches; must be cheap.
    fn tick(&mut self) -> Tick;

    /// Takes the flags of `redis.set_repl`, already checked: 1 is the append-only file, 2 the replicas.
    fn set_repl(&mut self, flags: i64) {
        let _ = flags;
    }

    /// Returns the version scripts see, as text and as `0x00MMmmpp`. Read when a state is made.
    fn redis_version(&self) -> (&str, u32) {
        ("7.0.15", 0x0007_000f)
    }
}

/// Whether a script may go on.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Tick {
    /// Go on.
    Continue,
    /// End the script with this error, for example "Script killed by user with SCRIPT KILL...".
    /// A text without a leading '-' and code gets the code `ERR`.
    Kill(String),
}

/// The levels of `redis.log`, numbered as scripts number them.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum LogLevel {
    /// `redis.LOG_DEBUG`.
    Debug = 0,
    /// `redis.LOG_VERBOSE`.
    Verbose = 1,
    /// `redis.LOG_NOTICE`.
    Notice = 2,
    /// `redis.LOG_WARNING`.
    Warning = 3,
}
