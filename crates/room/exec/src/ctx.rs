//! What a handler gets: its arguments, its keys, its reply and its session.

use std::sync::Arc;

use nagaya_command_spec::error::CommandError;
use nagaya_command_spec::table::{Command, CommandTable};
use nagaya_connections::blocking::{BlockingWait, TimeoutReply, Wait};
use nagaya_keyspace::db::Db;
use nagaya_resp::{ArgVec, Args, Out, parse_f64, parse_i64};
use nagaya_store::limits::EncodingLimits;
use nagaya_store::value::ValueKind;

use crate::config::Config;
use crate::executor::Executor;
use crate::server::Server;
use crate::session::Session;
use crate::stats::ThreadStats;

/// The surroundings of one command.
pub struct Ctx<'c, 's> {
    /// The request; `args[0]` is the command's name.
    pub args: Args<'c>,
    /// Where the reply goes. When the handler fails, what it wrote is taken back and the error sent.
    pub out: &'c mut Out,
    /// The keys named by the request, locked.
    pub db: &'c mut Db<'s>,
    pub session: &'c mut Session,
    /// The thread that runs the command. Handlers use it through the methods below.
    pub(crate) executor: &'c mut Executor<'s>,
    pub command: &'static Command,
}

/// How a handler wants to wait for its keys.
pub struct KeyWait<'k> {
    pub keys: Vec<&'k [u8]>,
    /// The type that a key must hold to end the wait.
    pub wake_on: ValueKind,
    /// The wait also ends when the key is removed or changes its type.
    pub wake_on_loss: bool,
    /// 0 means without end.
    pub timeout_ms: i64,
    pub on_timeout: TimeoutReply,
    /// The command to run when woken, when it is not the one that was sent (XREAD with `$`).
    pub run_instead: Option<ArgVec>,
}

impl<'s> Ctx<'_, 's> {
    /// Checks that the client may use keys that its request about a tag has found there.
    pub fn check_keys_of_tag(&mut self, keys: &[Vec<u8>]) -> Result<(), CommandError> {
        let (session, args) = (&mut *self.session, &self.args);
        self.executor.check_keys_of_tag(session, self.command, args, keys)
    }

    /// Returns the table of all commands.
    #[inline]
    pub fn table(&self) -> &'static CommandTable {
        &self.executor.server.registry.table
    }

    /// Returns the settings that this batch of commands sees.
    #[inline]
    pub fn config(&self) -> &Config {
        self.executor.config()
    }

    /// Returns how large values may grow before they change their encoding.
    #[inline]
    pub fn limits(&self) -> EncodingLimits {
        self.config().limits
    }

    /// Returns the time of this batch in Unix microseconds.
    #[inline]
    pub fn now_us(&self) -> i64 {
        self.executor.now_us()
    }

    /// Returns whether the client may read keys that the arguments of this command do not name.
    pub fn may_read_all_keys(&mut self) -> bool {
        self.executor
            .may_read_all_keys(self.session, self.command, &self.args)
    }

    /// Returns whether more memory is used than `maxmemory` allows.
    #[inline]
    pub fn is_out_of_memory(&self) -> bool {
        self.executor.turn.out_of_memory
    }

    /// Returns the state that all threads share. For commands about the server itself.
    #[inline]
    pub fn server(&self) -> &'s Server {
        self.executor.server
    }

    /// Returns the counters of this thread.
    #[inline]
    pub fn stats(&self) -> &'s ThreadStats {
        self.executor.stats
    }

    /// Returns the thread that runs the command. For commands about the server itself.
    #[inline]
    pub fn executor(&mut self) -> &mut Executor<'s> {
        self.executor
    }

    /// Runs another command on the same keys and writes its reply.
    pub fn call(&mut self, command: &'static Command, args: Args<'_>) {
        self.executor.call(self.session, command, args, self.db, self.out);
    }

    /// Checks a queued command once more before EXEC runs it.
    pub fn check_rights_at_exec(
        &mut self,
        command: &'static Command,
        args: &Args<'_>,
    ) -> Result<(), CommandError> {
        self.executor.check_rights_at_exec(self.session, command, args)
    }

    /// Logs the client in as a user, given its name and password.
    pub fn log_in(&mut self, pair: (&[u8], &[u8])) -> Result<(), CommandError> {
        self.executor.log_in(self.session, &self.args, self.command, pair)
    }

    /// Returns whether the client has authenticated, or did not have to when it came.
    pub fn is_authenticated(&mut self) -> bool {
        self.executor.is_authenticated(self.session)
    }

    /// Takes a wait that this command has ended out of its keys' queues once no shard is held.
    pub fn forget_wait(&mut self, wait: Arc<Wait>) {
        self.executor.after.ended_waits.push(wait);
    }
}

impl<'c> Ctx<'c, '_> {
    /// Returns an argument. The table's arity guarantees the first ones; beyond those, see [`Ctx::arg`].
    #[inline]
    pub fn key(&self, at: usize) -> &'c [u8] {
        self.args.get(at).unwrap_or_default()
    }

    /// Returns an argument, or a syntax error when there are fewer.
    #[inline]
    pub fn arg(&self, at: usize) -> Result<&'c [u8], CommandError> {
        self.args.get(at).ok_or(CommandError::Syntax)
    }

    /// Reads an argument as an integer.
    #[inline]
    pub fn int(&self, at: usize) -> Result<i64, CommandError> {
        parse_i64(self.arg(at)?).ok_or(CommandError::NotInteger)
    }

    /// Reads an argument as the number of a database.
    pub fn database(&self, at: usize) -> Result<usize, CommandError> {
        let number = self.int(at)?;
        if i32::try_from(number).is_err() {
            return Err(CommandError::err(format!(
                "value is out of range, value must between {} and {}",
                i32::MIN,
                i32::MAX
            )));
        }
        self.is_database(number)
    }

    /// Checks that there is a database of a number.
    pub fn is_database(&self, number: i64) -> Result<usize, CommandError> {
        let count = self.db.data().databases.count();
        let number = usize::try_from(number).ok().filter(|number| *number < count);
        number.ok_or(CommandError::err("DB index is out of range"))
    }

    /// Reads an argument as a float.
    #[inline]
    pub fn float(&self, at: usize) -> Result<f64, CommandError> {
        parse_f64(self.arg(at)?).ok_or(CommandError::NotFloat)
    }

    /// Returns whether an argument is a word, letter case ignored.
    #[inline]
    pub fn is(&self, at: usize, word: &str) -> bool {
        self.args
            .get(at)
            .is_some_and(|arg| arg.eq_ignore_ascii_case(word.as_bytes()))
    }

    /// Returns how long a string may grow. What was written before is written again, whatever is set now.
    #[inline]
    pub fn string_bytes_max(&self) -> usize {
        if self.db.replaying {
            usize::MAX
        } else {
            self.config().proto_max_bulk_len
        }
    }

    /// Reads a blocking command's timeout in seconds; returns milliseconds, 0 for "without end".
    pub fn timeout(&self, at: usize) -> Result<i64, CommandError> {
        let seconds =
            parse_f64(self.arg(at)?).ok_or(CommandError::err("timeout is not a float or out of range"))?;
        let ms = (seconds * 1000.0).ceil();
        // Redis 7.0 lets a time past 64 bits wrap below zero and then says this of it, too.
        if ms < 0.0 || ms >= (i64::MAX - self.db.now_ms()) as f64 {
            return Err(CommandError::err("timeout is negative"));
        }
        Ok(ms as i64)
    }

    /// Returns whether this command may wait: not inside a transaction or script.
    #[inline]
    pub fn may_wait(&self) -> bool {
        self.session.nesting == 0
    }

    /// Leaves the client waiting for its keys; where waiting is not possible, replies as if the time
    /// were up at once. The handler returns right after, having written nothing.
    ///
    /// When a key changes, the handler runs again from the start, perhaps on another thread.
    pub fn wait(&mut self, wait: KeyWait<'_>) {
        if !self.may_wait() {
            wait.on_timeout.write(self.out);
            return;
        }
        let deadline_ms = (wait.timeout_ms > 0).then(|| self.db.now_ms() + wait.timeout_ms);
        self.session.blocking_wait = Some(BlockingWait {
            keys: wait.keys.into_iter().map(<[u8]>::to_vec).collect(),
            database: self.db.database(),
            wake_on: wait.wake_on,
            wake_on_loss: wait.wake_on_loss,
            deadline_ms,
            on_timeout: wait.on_timeout,
            args: wait.run_instead,
        });
    }
}

impl Ctx<'_, '_> {
    /// Records the request as its own effect, although it counts as no change.
    pub fn effect_verbatim(&mut self) {
        self.db.effect_iter(self.args.len(), self.args.iter());
    }

    /// Records the request as its own effect with the time it ran.
    pub fn effect_verbatim_now(&mut self) {
        self.db.effect_now(self.args.len(), self.args.iter());
    }
}
