//! Takes a request through its checks to its handler.
//!
//! A [`Executor`] is one thread's way into the engine. It has no socket: the I/O
//! loop, the tests and the benches all call [`Executor::execute`] with a client, a
//! request and a buffer for the reply. Once per batch they call
//! [`Executor::begin_batch`], which reads the clock and the settings.

use std::sync::atomic::Ordering;

use nagaya_command_spec::error::CommandError;
use nagaya_command_spec::key_positions::each_key;
use nagaya_command_spec::spec::{ALL_SHARDS, ALLOW_BUSY, DENYOOM, OWN_LOCKS, PROTECTED};
use nagaya_command_spec::table::{Command, CommandTable};
use nagaya_connections::blocking::Wait;
use nagaya_connections::client::ClientFlag;
use nagaya_keyspace::db::{Db, DbTurn, ReadyKey};
use nagaya_keyspace::effects::Effects;
use nagaya_keyspace::shard::{Busy, KeyLocation, LockScope, LongScript};
use nagaya_resp::{ArgVec, Args, Out};

use crate::ctx::Ctx;
use crate::executor::Executor;
use crate::paused::holds_up;
use crate::residency_check::{check_hash_tags, load_in_place, waits_for_load};
use crate::scripts::shared::{Scripts, only_reads};
use crate::scripts::traits::busy_error;
use crate::session::{Caller, Replies, Session};
use crate::tracking;

/// What became of a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[must_use]
pub enum Executed {
    /// It ran, was refused, or left its client blocked.
    Done,
    /// Clients are paused: nothing happened; hand the same request in again later.
    Postponed,
    /// What it needs is on its way: nothing happened; hand the same request in again when
    /// [`Message::Resume`](nagaya_connections::client::Message::GoOn) comes.
    Waiting,
}

impl<'s> Executor<'s> {
    /// Runs one request of a client that is not blocked. Afterwards the client may be blocked (no reply
    /// was written), or want to be closed.
    pub fn execute(&mut self, session: &mut Session, args: Args<'_>, out: &mut Out) -> Executed {
        let start = out.buf.len();
        self.count_request();
        if self.turn.short_of_memory && self.free_memory() && session.tracking.is_some() {
            // The client is to hear of the keys it may have cached before it gets its reply: they are on
            // their way, and the request comes again after them.
            return Executed::Postponed;
        }
        if let Some(refusal) = session.refusal.take() {
            session.ends_asking();
            self.refuse(session, &args, &CommandError::coded(refusal.to_string()), out);
            return Executed::Done;
        }
        if self.turn.out_of_memory && self.waits_for_memory(session, &args) {
            session.waiting_since_ms.get_or_insert(self.now_ms());
            return Executed::Waiting;
        }
        self.timer.begin(session.id());
        let executed = match self.admit(session, &args) {
            Ok(command) => {
                if (self.server.keyspace.pause.is_on() || session.postponed)
                    && self.postpones(session, command, &args)
                {
                    return Executed::Postponed;
                }
                session.shared.active_s.store(self.turn.now_s, Ordering::Relaxed);
                session
                    .shared
                    .last_command
                    .store(command.number as u32 + 1, Ordering::Relaxed);
                let executed = if self.queue(session, command, &args, out) {
                    self.count_refusal(&out.buf[start..]);
                    Executed::Done
                } else {
                    let known = command
                        .only_key
                        .map(|at| (at, self.server.keyspace.shards.locate(&args[at])));
                    let scope = match known {
                        Some((_, location)) => LockScope::One(location.shard),
                        None => self.scope(command, &args, session),
                    };
                    self.run(session, command, args, scope, known, out)
                };
                if session.tracking.is_some() && executed == Executed::Done {
                    tracking::end_request(session, Some(command));
                }
                executed
            }
            Err(error) => {
                self.refuse(session, &args, &error, out);
                Executed::Done
            }
        };
        if executed == Executed::Waiting {
            session.waiting_since_ms.get_or_insert(self.now_ms());
            return executed;
        }
        session.waiting_since_ms = None;
        session.show_transaction();
        if session.replies != Replies::On {
            session.mute(resolve(&self.server.registry.table, &args).ok(), out, start);
        }
        Executed::Done
    }

    /// Replies to a request that may not run. One that belongs to a transaction ends that, too.
    #[cold]
    fn refuse(&mut self, session: &mut Session, args: &Args<'_>, error: &CommandError, out: &mut Out) {
        tracking::end_request(session, None);
        let name = args.get(0).unwrap_or_default();
        if name.eq_ignore_ascii_case(b"post") || name.eq_ignore_ascii_case(b"host:") {
            // A web page makes a browser send this; what follows may look like commands.
            session.close_after_reply = true;
            return;
        }
        let is_exec = name.eq_ignore_ascii_case(b"exec");
        if is_exec && session.transaction.take().is_some() {
            crate::transaction::unwatch(self.server, session);
            out.error(&format!("EXECABORT Transaction discarded because of: {error}"));
            return;
        }
        if let Some(transaction) = &mut session.transaction {
            transaction.broken = true;
        }
        let start = out.buf.len();
        out.error(&error.to_string());
        self.count_refusal(&out.buf[start..]);
    }

    /// Counts a reply to a command that did not run, if it is an error.
    fn count_refusal(&self, reply: &[u8]) {
        if reply.first() == Some(&b'-') {
            self.stats.count_error(reply);
        }
    }

    /// Returns whether a request has to wait for the end of a pause.
    #[cold]
    fn postpones(&mut self, session: &mut Session, command: &'static Command, args: &Args<'_>) -> bool {
        let postponed = holds_up(
            &self.server.keyspace.pause,
            &self.server.scripts,
            session,
            command,
            args,
            self.now_ms(),
        );
        if postponed != session.postponed {
            session.postponed = postponed;
            session.shared.set_flag(ClientFlag::POSTPONED, postponed);
        }
        postponed
    }

    /// Finds the command and checks that this client may run it with these arguments.
    pub fn admit(
        &mut self,
        session: &mut Session,
        args: &Args<'_>,
    ) -> Result<&'static Command, CommandError> {
        let command = self.find_command(args)?;
        if !command.spec.accepts(args.len()) {
            self.stats.commands[command.number].rejected.add(1);
            return Err(CommandError::wrong_arity(&command.full_name));
        }
        self.check_rights(session, command, args)?;
        if command.spec.flags.has(PROTECTED) {
            self.check_protected(session, command)?;
        }
        if self.turn.out_of_memory && needs_memory(session, command) {
            self.stats.commands[command.number].rejected.add(1);
            return Err(CommandError::coded(OUT_OF_MEMORY));
        }
        self.check_writable(session, command)?;
        session.check_subscribed_mode(command)?;
        if let Some(slow) = self.server.keyspace.shards.long_script()
            && !command.spec.flags.has(ALLOW_BUSY)
        {
            self.stats.commands[command.number].rejected.add(1);
            return Err(busy_error(slow));
        }
        Ok(command)
    }

    /// Finds the command of a request. Clients mostly send the same one again, spelt the same.
    #[inline]
    fn find_command(&mut self, args: &Args<'_>) -> Result<&'static Command, CommandError> {
        let name = args.get(0).unwrap_or_default();
        if let Some(command) = self.last_command.find(name) {
            return Ok(command);
        }
        let table = &self.server.registry.table;
        let command = resolve(table, args)?;
        let is_whole = table
            .find(name)
            .is_some_and(|found| std::ptr::eq(found, command) && found.subcommands.is_empty());
        if is_whole {
            self.last_command.remember(name, command);
        }
        Ok(command)
    }

    /// Runs a command under the locks of `scope`, then the commands of blocked clients that its changes
    /// have made possible. When it needs tags that are not in memory, it is left waiting for them instead.
    fn run(
        &mut self,
        session: &mut Session,
        command: &'static Command,
        args: Args<'_>,
        scope: LockScope,
        known: Option<(usize, KeyLocation)>,
        out: &mut Out,
    ) -> Executed {
        let mut executed = Executed::Done;
        let (start, position) = (out.buf.len(), self.journal.position);
        let done = self.with_db(scope, session.caller(), |executor, db| {
            if let Some((at, location)) = known {
                db.cache_location(&args[at], location);
            }
            db.no_touch = session.shared.has_flag(ClientFlag::NO_TOUCH) && command.spec.name != "TOUCH";
            if db.is_any_cold() && waits_for_load(session, command, &args, db) {
                executed = Executed::Waiting;
                return;
            }
            executor.call(session, command, args, db, out);
            if let Some(query) = session.query.take()
                && let Some(tiering) = db.tiering
            {
                tiering.pass_on(query, &session.shared);
                session.asks = true;
                executed = Executed::Waiting;
            } else {
                session.ends_asking();
            }
            if let Some(request) = session.blocking_wait.take() {
                let owned = ArgVec::from(&args);
                let wait = Wait::new(session.proto(), command, owned, request);
                executor.block(session, wait, db);
            }
        });
        if self.journal.position != position {
            session.journal_position = self.journal.position;
        }
        if self.journal.refused {
            self.refuse_unrecorded(command, out, start);
        }
        match done {
            Ok(ready) => self.serve(ready),
            Err(Busy) => {
                self.stats.commands[command.number].rejected.add(1);
                let slow = self
                    .server
                    .keyspace
                    .shards
                    .long_script()
                    .unwrap_or(LongScript::Script);
                self.refuse(session, &args, &busy_error(slow), out);
            }
        }
        if !self.after.ended_waits.is_empty() {
            for wait in std::mem::take(&mut self.after.ended_waits) {
                self.forget(&wait);
            }
        }
        executed
    }

    /// Calls a handler on keys that are locked already and writes its reply or its error.
    ///
    /// Transactions and scripts run their commands through this too.
    pub fn call(
        &mut self,
        session: &mut Session,
        command: &'static Command,
        args: Args<'_>,
        db: &mut Db<'s>,
        out: &mut Out,
    ) {
        let start = out.buf.len();
        let stats = &self.stats.commands[command.number];
        if let Err(error) = check_hash_tags(command, &args, db) {
            out.error(&error.to_string());
            return;
        }
        // A nested command, or one run for a blocked client, must not wait for a load.
        if (session.nesting > 0 || session.woken_by.is_some())
            && db.is_any_cold()
            && let Err(error) = load_in_place(command, &args, db)
        {
            out.error(&format!("TRYAGAIN {error}"));
            return;
        }
        if session.tracking.is_some() {
            tracking::begin_call(session, command);
        }
        let started = self.timer.started();
        let result = (self.server.registry.handler(command))(&mut Ctx {
            args,
            out,
            db,
            session,
            executor: self,
            command,
        });
        db.purge_expired();
        db.end_effects(&args);
        if session.tracking.is_some() {
            self.track_reads(session, command, &args);
        }
        if let Err(error) = result {
            out.buf.truncate(start);
            out.error(&error.to_string());
        }
        let spent_ns = self.timer.end(started);
        stats.spent_ns.add(spent_ns);
        if out.buf.get(start) == Some(&b'-') {
            stats.failed.add(1);
            if !std::mem::take(&mut self.scripts.error_counted) {
                self.stats.count_error(&out.buf[start..]);
            }
        }
        // A command that waits is counted now and measured when it goes on.
        stats
            .calls
            .add(u64::from(session.woken_by.is_none() && session.query.is_none()));
        if session.blocking_wait.is_none() {
            if self.turn.config.latency_tracking {
                stats.histogram.get_or_init(Default::default).record(spent_ns);
            }
            if spent_ns >= self.turn.slow_ns {
                self.note_slow(session, command, &args, spent_ns);
            }
        }
        if self.server.monitors.any() && session.woken_by.is_none() {
            self.server
                .monitors
                .feed_command(self.turn.now_us, session, command, &args);
        }
    }

    /// Logs a command that took long, where the settings ask for it.
    #[cold]
    fn note_slow(&self, session: &Session, command: &Command, args: &Args<'_>, spent_ns: u64) {
        self.server
            .latency
            .note_command(&self.turn.config, command, spent_ns, self.turn.now_s);
        self.server.slowlog.note_command(
            &self.turn.config,
            session,
            command,
            args,
            spent_ns,
            self.turn.now_s,
        );
    }

    /// Locks a scope, runs `work` on it and returns the changed keys that clients wait for. When a slow script
    /// holds a part of it, nothing happens.
    pub fn with_db(
        &mut self,
        scope: LockScope,
        caller: Caller,
        work: impl FnOnce(&mut Executor<'s>, &mut Db<'s>),
    ) -> Result<Vec<ReadyKey>, Busy> {
        let locked = self.server.keyspace.shards.lock(scope)?;
        let turn = DbTurn {
            now_ms: self.now_ms(),
            notify: self.turn.config.notify,
            counts_uses: self.turn.counts_uses,
            client_id: caller.client_id,
            database: caller.database,
        };
        let mut db = Db::new(
            &self.server.keyspace,
            &self.server.subscribers,
            locked,
            &self.stats.keyspace,
            &turn,
        );
        let recorded = self.server.journal().is_some();
        if recorded {
            db.effects = Effects::recording(std::mem::take(&mut self.journal.buffer));
        }
        work(self, &mut db);
        if recorded {
            self.append_effects(&mut db);
        }
        self.stats.keyspace.changes.add(db.dirty);
        self.keep_invalidations(db.changes.take());
        Ok(db.ready)
    }

    /// Returns which shards a request needs.
    pub fn scope(&self, command: &'static Command, args: &Args<'_>, session: &Session) -> LockScope {
        if let Some(at) = command.only_key {
            return LockScope::One(self.server.keyspace.shards.locate(&args[at]).shard);
        }
        if command.spec.flags.has(ALL_SHARDS) {
            return LockScope::All;
        }
        if command.spec.flags.has(OWN_LOCKS) {
            return crate::transaction::scope(session);
        }
        if command.spec.keys.is_empty() && command.spec.more_keys.is_none() {
            return LockScope::None;
        }
        let mut scope = LockScope::None;
        let found = each_key(command.spec, args, |at, _| {
            scope = scope.join(LockScope::One(
                self.server.keyspace.shards.locate(&args[at]).shard,
            ));
        });
        // The handler will say what is wrong with the arguments; it may look at some keys first.
        if found.is_ok() { scope } else { LockScope::All }
    }
}

/// The refusal of a command that could need more memory than there may be.
pub const OUT_OF_MEMORY: &str = "OOM command not allowed when used memory > 'maxmemory'.";

/// Returns whether a command, or one that EXEC would run, could need more memory.
pub fn needs_memory(session: &Session, command: &Command) -> bool {
    if command.spec.name != "EXEC" {
        return command.spec.flags.has(DENYOOM);
    }
    let queued = session
        .transaction
        .iter()
        .flat_map(|transaction| &transaction.commands);
    queued
        .into_iter()
        .any(|(queued, _)| queued.spec.flags.has(DENYOOM))
}

/// Returns whether a command could need more memory itself, or runs a script that could. A script is not refused
/// for lack of memory before it has begun, but it waits like others while memory can be freed.
pub(crate) fn may_need_memory(
    scripts: &Scripts,
    session: &Session,
    command: &Command,
    args: &Args<'_>,
) -> bool {
    let script_needs = |command: &Command, args: &Args<'_>| {
        matches!(command.spec.name, "EVAL" | "EVALSHA" | "FCALL") && !only_reads(scripts, command, args)
    };
    let queued = session
        .transaction
        .as_ref()
        .filter(|_| command.spec.name == "EXEC");
    needs_memory(session, command)
        || script_needs(command, args)
        || queued.is_some_and(|transaction| {
            let mut commands = transaction.commands.iter();
            commands.any(|(command, args)| script_needs(command, &args.as_args()))
        })
}

/// Finds the command, or the subcommand of a container, that a request names.
pub fn resolve(table: &'static CommandTable, args: &Args<'_>) -> Result<&'static Command, CommandError> {
    let name = args.get(0).unwrap_or_default();
    let Some(command) = table.find(name) else {
        return Err(unknown_command(args));
    };
    if command.subcommands.is_empty() {
        return Ok(command);
    }
    let Some(sub) = args.get(1) else {
        return Ok(command);
    };
    command.subcommand(sub).ok_or_else(|| {
        let container = command.full_name.to_ascii_uppercase();
        let sub = String::from_utf8_lossy(&sub[..sub.len().min(128)]).into_owned();
        CommandError::err(format!("unknown subcommand '{sub}'. Try {container} HELP."))
    })
}

fn unknown_command(args: &Args<'_>) -> CommandError {
    let clip = |arg: &[u8]| String::from_utf8_lossy(&arg[..arg.len().min(128)]).into_owned();
    let mut shown = String::new();
    for arg in args.iter().skip(1) {
        if shown.len() >= 128 {
            break;
        }
        let room = 128 - shown.len();
        shown.push_str(&format!(
            "'{}' ",
            String::from_utf8_lossy(&arg[..arg.len().min(room)])
        ));
    }
    let name = clip(args.get(0).unwrap_or_default());
    CommandError::err(format!(
        "unknown command '{name}', with args beginning with: {shown}"
    ))
}
