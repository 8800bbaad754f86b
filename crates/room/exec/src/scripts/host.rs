//! The engine as a running script sees it.

use std::borrow::Cow;

use nagaya_command_spec::spec::{
    ALLOW_BUSY, DENYOOM, MAY_REPLICATE, NOSCRIPT, OWN_LOCKS, SKIP_MONITOR, WRITE,
};
use nagaya_command_spec::table::Command;
use nagaya_keyspace::db::Db;
use nagaya_keyspace::shard::LongScript;
use nagaya_lua::{Host, LogLevel, Tick};
use nagaya_resp::{ArgVec, Args, Out, Proto};

use crate::dispatch::{OUT_OF_MEMORY, resolve};
use crate::executor::Executor;
use crate::scripts::load_host::log;
use crate::scripts::shared::SlowRun;
use crate::session::Session;

/// How often a slow script lets the other connections of its thread be served.
const PUMP_EVERY_US: u64 = 1_000;
const KILLED: &str = "Script killed by user with SCRIPT KILL...";
const STOPPED: &str = "Script stopped because the server shuts down";

/// What a script's commands run on.
pub(crate) struct ScriptHost<'h, 's> {
    executor: &'h mut Executor<'s>,
    db: &'h mut Db<'s>,
    session: &'h mut Session,
    run: RunInfo<'h>,
    started_us: u64,
    wrote: bool,
    /// The database of the caller, which the script leaves as it was.
    database: usize,
    /// The second way into the engine, once the script is slow.
    beside: Option<Box<Executor<'s>>>,
    pumped_us: u64,
}

/// Which script this is and what it may do.
#[derive(Clone, Copy)]
pub(crate) struct RunInfo<'h> {
    pub(crate) kind: LongScript,
    /// The script's digest or the function's name.
    pub(crate) name: &'h [u8],
    /// The request that started it.
    pub(crate) command: Args<'h>,
    pub(crate) read_only: bool,
    /// It may write even when memory is short.
    pub(crate) allow_oom: bool,
}

impl<'h, 's> ScriptHost<'h, 's> {
    pub(crate) fn new(
        executor: &'h mut Executor<'s>,
        db: &'h mut Db<'s>,
        session: &'h mut Session,
        run: RunInfo<'h>,
    ) -> ScriptHost<'h, 's> {
        session.nesting += 1;
        session.in_script = true;
        ScriptHost {
            started_us: executor.server.clock.steady_us(),
            database: db.database(),
            executor,
            db,
            session,
            run,
            wrote: false,
            beside: None,
            pumped_us: 0,
        }
    }

    /// Runs a command, or says why the script may not.
    fn run_command(&mut self, args: Args<'_>, out: &mut Out) -> Result<(), Cow<'static, str>> {
        let command = resolve(&self.executor.server.registry.table, &args)
            .map_err(|_| "ERR Unknown Redis command called from script")?;
        if let Err(refusal) = self.check(command, &args) {
            self.executor.stats.commands[command.number].rejected.add(1);
            return Err(refusal);
        }
        self.executor.timer.forget_end();
        self.executor.call(self.session, command, args, self.db, out);
        Ok(())
    }

    fn check(&mut self, command: &'static Command, args: &Args<'_>) -> Result<(), Cow<'static, str>> {
        let flags = command.spec.flags;
        if !command.spec.accepts(args.len()) {
            return Err("ERR Wrong number of args calling Redis command from script".into());
        }
        // Some take locks that the script holds, whatever DEBUG says.
        let never = ALLOW_BUSY.and(OWN_LOCKS).and(SKIP_MONITOR);
        if flags.has(NOSCRIPT) && (flags.has(never) || !self.executor.server.scripts.are_limits_lifted()) {
            return Err("ERR This Redis command is not allowed from script".into());
        }
        if let Err(denied) = self.executor.check_rights_in_script(self.session, command, args) {
            return Err(format!("ERR The user executing the script {denied}").into());
        }
        if let Err(failed) = self.executor.check_writable(self.session, command) {
            return Err(failed.to_string().into());
        }
        if self.run.read_only && flags.has(WRITE.and(MAY_REPLICATE)) {
            return Err("ERR Write commands are not allowed from read-only scripts.".into());
        }
        if self.executor.turn.out_of_memory && flags.has(DENYOOM) && !self.wrote && !self.run.allow_oom {
            return Err(OUT_OF_MEMORY.into());
        }
        if flags.has(WRITE) && !self.wrote {
            if self.beside.is_some() && !self.executor.server.scripts.note_write() {
                return Err("ERR Script killed by user with SCRIPT KILL...".into());
            }
            self.wrote = true;
        }
        Ok(())
    }

    /// Reports to all threads that the script takes too long.
    fn become_slow(&mut self, elapsed_ms: i64) {
        let RunInfo {
            kind, name, command, ..
        } = self.run;
        tracing::warn!(
            elapsed_ms,
            script = %name.escape_ascii(),
            "slow script: it can be ended with SCRIPT KILL or FUNCTION KILL until it writes"
        );
        self.executor.server.scripts.set_slow(Some(SlowRun {
            kind,
            name: name.to_vec(),
            command: ArgVec::from(&command),
            started_us: self.started_us,
            wrote: self.wrote,
            killed: false,
        }));
        self.executor.server.keyspace.shards.set_long_script(Some(kind));
        self.beside = Some(Box::new(self.executor.beside()));
    }
}

impl Host for ScriptHost<'_, '_> {
    fn redis_version(&self) -> (&str, u32) {
        let version = &self.executor.config().redis_version;
        (version.as_str(), version.number())
    }

    fn call(&mut self, args: &[&[u8]], proto: Proto, reply: &mut Vec<u8>) {
        let mut out = Out {
            buf: std::mem::take(reply),
            proto,
        };
        let start = out.buf.len();
        if let Err(refusal) = self.run_command(Args::from_slices(args), &mut out) {
            out.error(&refusal);
            self.executor.stats.count_error(&out.buf[start..]);
        }
        *reply = out.buf;
    }

    fn log(&mut self, level: LogLevel, message: &[u8]) {
        log(level, message);
    }

    fn acl_check(&mut self, args: &[&[u8]]) -> Result<bool, String> {
        let args = Args::from_slices(args);
        match resolve(&self.executor.server.registry.table, &args) {
            Ok(command) => Ok(self.executor.may_run(self.session, command, &args)),
            Err(_) => Err("Invalid command passed to redis.acl_check_cmd()".to_owned()),
        }
    }

    fn tick(&mut self) -> Tick {
        let pump = self.executor.scripts.pump.clone();
        if pump.as_ref().is_some_and(|pump| pump.is_stopping()) {
            return Tick::Kill(STOPPED.to_owned());
        }
        let now_us = self.executor.server.clock.steady_us();
        if self.beside.is_none() {
            let elapsed_ms = (now_us.saturating_sub(self.started_us) / 1000) as i64;
            if elapsed_ms < self.executor.turn.config.busy_reply_threshold {
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
        if self.executor.server.scripts.is_killed() {
            tracing::warn!("script killed on request");
            return Tick::Kill(KILLED.to_owned());
        }
        Tick::Continue
    }
}

impl Drop for ScriptHost<'_, '_> {
    fn drop(&mut self) {
        self.session.nesting -= 1;
        self.session.in_script = false;
        self.session.set_database(self.database);
        self.db.select(self.database);
        if self.beside.is_some() {
            self.executor.server.keyspace.shards.set_long_script(None);
            self.executor.server.scripts.set_slow(None);
        }
    }
}
