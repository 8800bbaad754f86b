//! Client-side caching, as far as it concerns the connection that caches.

use nagaya_command_spec::key_positions::each_key;
use nagaya_command_spec::spec::{Category, READONLY};
use nagaya_command_spec::table::Command;
use nagaya_connections::tracking::{PendingInvalidations, Tracking};
use nagaya_resp::Args;

use crate::executor::Executor;
use crate::session::Session;
use crate::session::tracking::Mode;

/// Most keys forgotten after one command while there are more than the limit allows.
const EVICTIONS_PER_COMMAND: usize = 100;

impl Executor<'_> {
    /// Takes over the invalidations that wait for the end of the current command.
    #[inline]
    pub fn keep_invalidations(&mut self, changes: Option<Box<PendingInvalidations>>) {
        if let Some(changes) = changes {
            PendingInvalidations::join(&mut self.after.invalidations, changes);
        }
    }

    /// Sends the invalidations that waited for the end of a command. No shard is held.
    #[inline]
    pub fn send_invalidations(&mut self) {
        if let Some(changes) = self.after.invalidations.take() {
            self.server
                .subscribers
                .tracking
                .send(&self.server.subscribers.clients, &changes);
        }
    }

    /// Remembers the keys that a tracking client has just read. The keys' shards are still held, so no
    /// change can slip in between.
    pub fn track_reads(&mut self, session: &mut Session, command: &Command, args: &Args<'_>) {
        let Some(tracking) = &mut session.tracking else {
            return;
        };
        if is_script(command) {
            // All declared keys of a script count as read, once it has read anything.
            if tracking.script_reads.take() != Some(true) {
                return;
            }
        } else if !command.spec.flags.has(READONLY) {
            return;
        } else if let Some(reads) = &mut tracking.script_reads {
            *reads = true;
            return;
        }
        let wanted = match tracking.mode {
            Mode::Every => true,
            Mode::OptIn => tracking.caching,
            Mode::OptOut => !tracking.caching,
            Mode::Broadcast => false,
        };
        if !wanted {
            return;
        }
        let shared = &self.server.subscribers.tracking;
        // Arguments whose keys cannot be told made the command fail: it read nothing.
        let found = each_key(command.spec, args, |at, _| {
            shared.remember(&args[at], &tracking.tracker)
        });
        if found.is_ok() {
            let keys_max = self.turn.config.tracking_table_max_keys;
            shared.trim(&self.server.subscribers.clients, keys_max, EVICTIONS_PER_COMMAND);
        }
    }

    /// Forgets tracked keys until the table fits a limit that was lowered.
    pub fn trim_tracking(&self) {
        let keys_max = self.turn.config.tracking_table_max_keys;
        self.server
            .subscribers
            .tracking
            .trim(&self.server.subscribers.clients, keys_max, usize::MAX);
    }
}

/// Notes that a tracking client's script begins.
pub fn begin_call(session: &mut Session, command: &Command) {
    if let Some(tracking) = &mut session.tracking
        && is_script(command)
    {
        tracking.script_reads = Some(false);
    }
}

/// Ends what CLIENT CACHING announced: it holds for one command, or one transaction.
pub fn end_request(session: &mut Session, command: Option<&Command>) {
    let in_transaction = session.transaction.is_some();
    let Some(tracking) = &mut session.tracking else {
        return;
    };
    let is_client = command.is_some_and(|command| command.full_name.starts_with("client|"));
    if !in_transaction && !is_client {
        tracking.caching = false;
    }
}

/// Stops a client's tracking (CLIENT TRACKING OFF, RESET, disconnect).
pub fn disable(shared: &Tracking, session: &mut Session) {
    if let Some(tracking) = session.tracking.take() {
        shared.dismiss(&tracking.tracker, &tracking.prefixes);
    }
}

fn is_script(command: &Command) -> bool {
    command.spec.acl.has(Category::SCRIPTING)
}
