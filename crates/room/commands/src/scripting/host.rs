//! The engine as a running script sees it.

use std::borrow::Cow;

use nagaya_lua::{Host, LogLevel, Tick};
use nagaya_resp::{ArgVec, Args, Out, Proto};

use super::shared::SlowRun;
use crate::client::Client;
use crate::clock::Clock;
use crate::command_table::Command;
use crate::db::Db;
use crate::dispatch::{OUT_OF_MEMORY, resolve};
use crate::executor::Core;
use crate::shard::Slow;
use crate::spec::{ALLOW_BUSY, DENYOOM, MAY_REPLICATE, NOSCRIPT, OWN_LOCKS, SKIP_MONITOR, WRITE};

/// How often a slow script lets the other connections of its thread be served.
const PUMP_EVERY_US: u64 = 1_000;
const KILLED: &str = "Script killed by user with SCRIPT KILL...";
const STOPPED: &str = "Script stopped because the server shuts down";

/// What a script's commands run on.
pub(super) struct ScriptHost<'h, 's> {
    core: &'h mut Core<'s>,
    db: &'h mut Db<'s>,
    client: &'h mut Client,
    run: RunInfo<'h>,
    started_us: u64,
    wrote: bool,
    /// The second way into the engine, once the script is slow.
    beside: Option<Box<Core<'s>>>,
    pumped_us: u64,
}

/// Which script this is and what it may do.
#[derive(Clone, Copy)]
pub(super) struct RunInfo<'h> {
    pub(super) kind: Slow,
    /// The script's digest or the function's name.
    pub(super) name: &'h [u8],
    /// The request that started it.
    pub(super) command: Args<'h>,
    pub(super) read_only: bool,
    /// It may write even when memory is short.
    pub(super) allow_oom: bool,
}

impl<'h, 's> ScriptHost<'h, 's> {
    pub(super) fn new(
        core: &'h mut Core<'s>,
        db: &'h mut Db<'s>,
        client: &'h mut Client,
        run: RunInfo<'h>,
    ) -> ScriptHost<'h, 's> {
        client.nesting += 1;
        client.in_script = true;
        ScriptHost {
            started_us: core.server.clock.steady_us(),
            core,
            db,
            client,
            run,
            wrote: false,
            beside: None,
            pumped_us: 0,
        }
    }

    /// Runs a command, or says why the script may not.
    fn run_command(&mut self, args: Args<'_>, out: &mut Out) -> Result<(), Cow<'static, str>> {
        let command = resolve(&self.core.server.registry.table, &args)
            .map_err(|_| "ERR Unknown Redis command called from script")?;
        if let Err(refusal) = self.check(command, &args) {
            self.core.stats.commands[command.number].rejected.add(1);
            return Err(refusal);
        }
        self.core.timer.forget_end();
        self.core.call(self.client, command, args, self.db, out);
        Ok(())
    }

    fn check(&mut self, command: &'static Command, args: &Args<'_>) -> Result<(), Cow<'static, str>> {
        let flags = command.spec.flags;
        if !command.spec.accepts(args.len()) {
            return Err("ERR Wrong number of args calling Redis command from script".into());
        }
        // Some take locks that the script holds, whatever DEBUG says.
        let never = ALLOW_BUSY.and(OWN_LOCKS).and(SKIP_MONITOR);
        if flags.has(NOSCRIPT) && (flags.has(never) || !self.core.server.scripts.are_limits_lifted()) {
            return Err("ERR This Redis command is not allowed from script".into());
        }
        if let Err(denied) = self.core.check_rights_in_script(self.client, command, args) {
            return Err(format!("ERR The user executing the script {denied}").into());
        }
        if let Err(failed) = self.core.check_journal(self.client, command) {
            return Err(failed.to_string().into());
        }
        if self.run.read_only && flags.has(WRITE.and(MAY_REPLICATE)) {
            return Err("ERR Write commands are not allowed from read-only scripts.".into());
        }
        if self.core.turn.out_of_memory && flags.has(DENYOOM) && !self.wrote && !self.run.allow_oom {
            return Err(OUT_OF_MEMORY.into());
        }
        if flags.has(WRITE) && !self.wrote {
            if self.beside.is_some() && !self.core.server.scripts.note_write() {
                return Err("ERR Script killed by user with SCRIPT KILL...".into());
            }
            self.wrote = true;
        }
        Ok(())
    }

    /// Tells everybody that the script takes too long.
    fn become_slow(&mut self, elapsed_ms: i64) {
        let RunInfo {
            kind, name, command, ..
        } = self.run;
        tracing::warn!(
            elapsed_ms,
            script = %name.escape_ascii(),
            "slow script: it can be ended with SCRIPT KILL or FUNCTION KILL until it writes"
        );
        self.core.server.scripts.set_slow(Some(SlowRun {
            kind,
            name: name.to_vec(),
            command: ArgVec::from(&command),
            started_us: self.started_us,
            wrote: self.wrote,
            killed: false,
        }));
        self.core.server.keyspace.shards.set_slow(Some(kind));
        self.beside = Some(Box::new(self.core.beside()));
    }
}

impl Host for ScriptHost<'_, '_> {
    fn call(&mut self, args: &[&[u8]], proto: Proto, reply: &mut Vec<u8>) {
        let mut out = Out {
            buf: std::mem::take(reply),
            proto,
        };
        let start = out.buf.len();
        if let Err(refusal) = self.run_command(Args::from_slices(args), &mut out) {
            out.error(&refusal);
            self.core.stats.count_error(&out.buf[start..]);
        }
        *reply = out.buf;
    }

    fn log(&mut self, level: LogLevel, message: &[u8]) {
        log(level, message);
    }

    fn acl_check(&mut self, args: &[&[u8]]) -> Result<bool, String> {
        let args = Args::from_slices(args);
        match resolve(&self.core.server.registry.table, &args) {
            Ok(command) => Ok(self.core.may_run(self.client, command, &args)),
            Err(_) => Err("Invalid command passed to redis.acl_check_cmd()".to_owned()),
        }
    }

    fn tick(&mut self) -> Tick {
        let pump = self.core.scripts.pump.clone();
        if pump.as_ref().is_some_and(|pump| pump.is_stopping()) {
            return Tick::Kill(STOPPED.to_owned());
        }
        let now_us = self.core.server.clock.steady_us();
        if self.beside.is_none() {
            let elapsed_ms = (now_us.saturating_sub(self.started_us) / 1000) as i64;
            if elapsed_ms < self.core.turn.config.busy_reply_threshold {
                return Tick::Continue;
            }
            self.become_slow(elapsed_ms);
        }
        if let (Some(pump), Some(beside)) = (pump, &mut self.beside)
            && now_us.saturating_sub(self.pumped_us) >= PUMP_EVERY_US
        {
            self.pumped_us = now_us;
            pump.pump(beside);
        }
        if self.core.server.scripts.is_killed() {
            tracing::warn!("script killed on request");
            return Tick::Kill(KILLED.to_owned());
        }
        Tick::Continue
    }
}

impl Drop for ScriptHost<'_, '_> {
    fn drop(&mut self) {
        self.client.nesting -= 1;
        self.client.in_script = false;
        if self.beside.is_some() {
            self.core.server.keyspace.shards.set_slow(None);
            self.core.server.scripts.set_slow(None);
        }
    }
}

/// The host of a library's top level, which may only log and take its time.
pub(crate) struct LoadHost<'c> {
    clock: &'c dyn Clock,
    deadline_us: u64,
}

impl<'c> LoadHost<'c> {
    /// For a library that ran before: it may take as long as it takes.
    pub(crate) fn unlimited(clock: &'c dyn Clock) -> LoadHost<'c> {
        LoadHost {
            clock,
            deadline_us: u64::MAX,
        }
    }

    /// For a new library: half a second is enough to register functions.
    pub(crate) fn timed(clock: &'c dyn Clock) -> LoadHost<'c> {
        const LOAD_MAX_US: u64 = 500_000;
        LoadHost {
            deadline_us: clock.steady_us() + LOAD_MAX_US,
            clock,
        }
    }
}

impl Host for LoadHost<'_> {
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

fn log(level: LogLevel, message: &[u8]) {
    let message = message.escape_ascii();
    match level {
        LogLevel::Debug | LogLevel::Verbose => tracing::debug!(%message, "script log"),
        LogLevel::Notice => tracing::info!(%message, "script log"),
        LogLevel::Warning => tracing::warn!(%message, "script log"),
    }
}
