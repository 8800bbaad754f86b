//! One thread's way into the engine: what it keeps between commands.
//!
//! A [`Executor`] has no socket. The I/O loop, the tests and the benches all call
//! [`Executor::execute`] with a client, a request and a buffer for the reply. Once
//! per batch they call [`Executor::begin_batch`], which reads the clock and the
//! settings.

use std::rc::Rc;
use std::sync::Arc;

use nagaya_clock::{TickRate, ticks};
use nagaya_command_spec::table::Command;
use nagaya_connections::blocking::Wait;
use nagaya_connections::tracking::PendingInvalidations;
use nagaya_keyspace::effects::EffectBuf;

use crate::config::Config;
use crate::scripts::vm::ThreadVm;
use crate::server::Server;
use crate::stats::ThreadStats;

/// One thread's way into the engine.
pub struct Executor<'s> {
    pub server: &'s Server,
    pub(crate) stats: &'s ThreadStats,
    pub(crate) turn: Turn,
    pub(crate) timer: Timer,
    pub(crate) last_command: LastCommand,
    pub scripts: ScriptState<'s>,
    pub(crate) journal: JournalState,
    pub(crate) after: AfterCommand,
}

/// What the commands of a batch see of the clock, the settings and the users.
#[derive(Clone)]
pub(crate) struct Turn {
    pub config: Arc<Config>,
    pub config_version: u64,
    /// The version of the users that this batch sees.
    pub acl_version: u64,
    pub now_us: i64,
    pub now_s: i64,
    /// The eviction policy counts how often keys are used, not when.
    pub counts_uses: bool,
    /// More memory is used than `maxmemory` allows, as of the latest look: some is to be freed before the next
    /// request.
    pub short_of_memory: bool,
    /// None could be freed: requests that need memory are refused.
    pub out_of_memory: bool,
    /// Requests until memory is looked at again.
    pub requests_to_look: u32,
    /// Commands that take at least this long may belong into a log, in nanoseconds.
    pub slow_ns: u64,
}

impl Turn {
    fn new(config: Arc<Config>, version: u64) -> Turn {
        let mut turn = Turn {
            config: Arc::clone(&config),
            config_version: 0,
            acl_version: 0,
            now_us: 0,
            now_s: 0,
            counts_uses: false,
            short_of_memory: false,
            out_of_memory: false,
            requests_to_look: 0,
            slow_ns: 0,
        };
        turn.take_config(config, version);
        turn
    }

    /// Takes the settings in force.
    pub(crate) fn take_config(&mut self, config: Arc<Config>, version: u64) {
        self.config_version = version;
        self.slow_ns = config.slow_ns();
        self.counts_uses = config.maxmemory_policy.ends_with("lfu");
        self.config = config;
    }

    pub(crate) fn set_now(&mut self, now_us: i64) {
        self.now_us = now_us;
        self.now_s = now_us / 1_000_000;
    }
}

/// Measures how long commands take.
#[derive(Clone, Copy)]
pub(crate) struct Timer {
    rate: TickRate,
    /// When the latest command ended, and whose it was: a pipeline's next command begins there, which
    /// saves reading the counter. 0 when something else has happened since.
    ended_ticks: u64,
    ended_client: u64,
}

impl Timer {
    fn new(rate: TickRate) -> Timer {
        Timer {
            rate,
            ended_ticks: 0,
            ended_client: 0,
        }
    }

    /// Begins a request: the end of another client's request is not its start.
    #[inline]
    pub(crate) fn begin(&mut self, client: u64) {
        if client != self.ended_client {
            self.ended_client = client;
            self.ended_ticks = 0;
        }
    }

    /// Returns when the command that begins now started.
    #[inline]
    pub(crate) fn started(&self) -> u64 {
        match self.ended_ticks {
            0 => ticks(),
            earlier => earlier,
        }
    }

    /// Ends a command and returns how long it took, in nanoseconds.
    #[inline]
    pub(crate) fn end(&mut self, started: u64) -> u64 {
        self.ended_ticks = ticks();
        self.rate.ns_between(started, self.ended_ticks)
    }

    /// Forgets when the last command ended: time has passed that is not part of the next one.
    pub(crate) fn forget_end(&mut self) {
        self.ended_ticks = 0;
    }
}

/// Longest command name that is remembered from one request to the next.
const LAST_NAME_MAX: usize = 16;

/// The command found last, and how it was spelt. Clients mostly send the same one again.
#[derive(Default)]
pub(crate) struct LastCommand(Option<(usize, [u8; LAST_NAME_MAX], &'static Command)>);

impl LastCommand {
    /// Returns the command if it was spelt the same.
    #[inline]
    pub(crate) fn find(&self, name: &[u8]) -> Option<&'static Command> {
        match &self.0 {
            Some((length, spelt, command)) if name.len() == *length && spelt[..*length] == *name => {
                Some(command)
            }
            _ => None,
        }
    }

    pub(crate) fn remember(&mut self, name: &[u8], command: &'static Command) {
        if name.len() <= LAST_NAME_MAX {
            let mut spelt = [0; LAST_NAME_MAX];
            spelt[..name.len()].copy_from_slice(name);
            self.0 = Some((name.len(), spelt, command));
        }
    }
}

/// What this thread's scripts need.
#[derive(Default)]
pub struct ScriptState<'s> {
    /// Where this thread's scripts run; made by the first one, away while one runs.
    pub vm: Option<Box<ThreadVm>>,
    /// Serves this thread's other connections while a script holds it up.
    pub pump: Option<Rc<dyn Pump<'s> + 's>>,
    /// The error that the current command replies with was counted where it arose, inside a script.
    pub error_counted: bool,
}

/// Serves a thread's other connections while a script holds it up.
pub trait Pump<'s> {
    /// Serves what there is to serve, without waiting. The way in given is another than the script's.
    fn pump(&self, executor: &mut Executor<'s>);

    /// Returns whether the thread is to end, and the script with it.
    fn is_stopping(&self) -> bool;
}

/// What this thread has given to the journal.
#[derive(Default)]
pub(crate) struct JournalState {
    /// Room for the effects of the next commands.
    pub buffer: EffectBuf,
    /// Where in the journal this thread's latest record is; 0 before the first.
    pub position: u64,
    /// What the current command did could not be recorded.
    pub refused: bool,
}

/// What is left to do once the current command's shards are free.
#[derive(Default)]
pub(crate) struct AfterCommand {
    /// Messages about changed keys that wait for the end of the command.
    pub invalidations: Option<Box<PendingInvalidations>>,
    /// Waits that the command has ended; the queues of their keys still name them.
    pub ended_waits: Vec<Arc<Wait>>,
}

impl<'s> Executor<'s> {
    /// Joins an engine. `stats` are this thread's own, made with [`Executor::new_stats`].
    pub fn new(server: &'s Server, stats: &'s Arc<ThreadStats>) -> Executor<'s> {
        server.register_thread(Arc::clone(stats));
        let turn = Turn::new(server.config(), server.config_version());
        let mut executor = Executor::with(server, stats, turn, TickRate::get());
        executor.trim_tracking();
        executor.begin_batch();
        executor
    }

    /// Makes a second way in for the same thread, to be used while a command of the first is under way.
    pub fn beside(&self) -> Executor<'s> {
        Executor::with(self.server, self.stats, self.turn.clone(), self.timer.rate)
    }

    fn with(server: &'s Server, stats: &'s ThreadStats, turn: Turn, rate: TickRate) -> Executor<'s> {
        Executor {
            server,
            stats,
            turn,
            timer: Timer::new(rate),
            last_command: LastCommand::default(),
            scripts: ScriptState::default(),
            journal: JournalState::default(),
            after: AfterCommand::default(),
        }
    }

    /// Makes the counters for one thread.
    pub fn new_stats(server: &Server) -> Arc<ThreadStats> {
        Arc::new(ThreadStats::new(server.registry.table.count()))
    }

    /// Returns the settings that this batch sees.
    #[inline]
    pub fn config(&self) -> &Config {
        &self.turn.config
    }

    /// Counts a read from a socket.
    #[inline]
    pub fn count_read(&self, bytes: usize) {
        self.stats.reads.add(1);
        self.stats.net_input_bytes.add(bytes as u64);
    }

    /// Counts writes to a socket.
    #[inline]
    pub fn count_written(&self, bytes: usize) {
        self.stats.writes.add(1);
        self.stats.net_output_bytes.add(bytes as u64);
    }

    /// Returns the time of this batch in Unix milliseconds.
    #[inline]
    pub fn now_ms(&self) -> i64 {
        self.turn.now_us / 1000
    }

    /// Returns the time of this batch in Unix microseconds.
    #[inline]
    pub fn now_us(&self) -> i64 {
        self.turn.now_us
    }
}
