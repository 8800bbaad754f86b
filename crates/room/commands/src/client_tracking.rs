//! Client-side caching, as far as it concerns the connection that caches.

use std::collections::BTreeSet;
use std::sync::Arc;

use nagaya_resp::Args;

use crate::client::Client;
use crate::command_table::Command;
use crate::executor::Core;
use crate::keyfind::each_key;
use crate::spec::{Category, READONLY};
use crate::tracking::{Changes, Tracker, Tracking};

/// Most keys forgotten after one command while there are more than the limit allows.
const EVICTIONS_PER_COMMAND: usize = 100;

/// How a client tracks, kept by its own thread. A client that does not track has none.
pub(crate) struct ClientTracking {
    pub(crate) tracker: Arc<Tracker>,
    pub(crate) mode: Mode,
    /// CLIENT CACHING was called for the next command.
    pub(crate) caching: bool,
    /// What the client hears of in broadcast mode.
    pub(crate) prefixes: BTreeSet<Vec<u8>>,
    /// While a script runs: whether it has read anything.
    pub(crate) script_reads: Option<bool>,
}

/// Which reads of a client are remembered.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Mode {
    Every,
    /// Those that CLIENT CACHING YES announces.
    OptIn,
    /// All but those that CLIENT CACHING NO announces.
    OptOut,
    /// None: changes are broadcast by prefix.
    Broadcast,
}

impl Core<'_> {
    /// Takes over the invalidations that wait for the end of the current command.
    #[inline]
    pub(crate) fn keep_changes(&mut self, changes: Option<Box<Changes>>) {
        if let Some(changes) = changes {
            Changes::join(&mut self.after.invalidations, changes);
        }
    }

    /// Sends the invalidations that waited for the end of a command. No shard is held.
    #[inline]
    pub(crate) fn send_changes(&mut self) {
        if let Some(changes) = self.after.invalidations.take() {
            self.server
                .subscribers
                .tracking
                .send(&self.server.subscribers.clients, &changes);
        }
    }

    /// Remembers the keys that a tracking client has just read. The keys' shards are still held, so no
    /// change can slip in between.
    pub(crate) fn track_reads(&mut self, client: &mut Client, command: &Command, args: &Args<'_>) {
        let Some(tracking) = &mut client.tracking else {
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
    pub(crate) fn trim_tracking(&self) {
        let keys_max = self.turn.config.tracking_table_max_keys;
        self.server
            .subscribers
            .tracking
            .trim(&self.server.subscribers.clients, keys_max, usize::MAX);
    }
}

/// Notes that a tracking client's script begins.
pub(crate) fn begin_call(client: &mut Client, command: &Command) {
    if let Some(tracking) = &mut client.tracking
        && is_script(command)
    {
        tracking.script_reads = Some(false);
    }
}

/// Ends what CLIENT CACHING announced: it holds for one command, or one transaction.
pub(crate) fn end_request(client: &mut Client, command: Option<&Command>) {
    let in_transaction = client.transaction.is_some();
    let Some(tracking) = &mut client.tracking else {
        return;
    };
    let is_client = command.is_some_and(|command| command.full_name.starts_with("client|"));
    if !in_transaction && !is_client {
        tracking.caching = false;
    }
}

/// Stops a client's tracking (CLIENT TRACKING OFF, RESET, disconnect).
pub(crate) fn disable(shared: &Tracking, client: &mut Client) {
    if let Some(tracking) = client.tracking.take() {
        shared.dismiss(&tracking.tracker, &tracking.prefixes);
    }
}

fn is_script(command: &Command) -> bool {
    command.spec.acl.has(Category::SCRIPTING)
}
