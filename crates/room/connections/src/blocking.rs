//! Clients that wait for a key.
//!
//! A command that finds nothing and may wait leaves a [`Wait`] with every
//! shard of its keys. A thread that changes such a key runs, after its own command,
//! the commands of the waiters in the order in which they began to wait, on
//! their behalf, under the locks of their keys; a waiter whose command now has
//! a reply is taken out and the reply sent to its connection. A waiter can end
//! in several ways at once (served, timed out, disconnected, unblocked): the
//! one that claims it first decides.

use std::sync::atomic::{AtomicBool, Ordering};

use nagaya_command_spec::table::Command;
use nagaya_resp::{ArgVec, Out, Proto};
use nagaya_store::value::ValueKind;

/// What a client gets when its time is up.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TimeoutReply {
    NilArray,
}

impl TimeoutReply {
    pub fn write(self, out: &mut Out) {
        match self {
            TimeoutReply::NilArray => out.nil_array(),
        }
    }
}

/// A blocked command.
pub struct Wait {
    pub proto: Proto,
    pub command: &'static Command,
    pub args: ArgVec,
    pub keys: Vec<Vec<u8>>,
    /// The database of the keys.
    pub database: usize,
    /// Only a key that holds this type wakes the waiter.
    pub wake_on: ValueKind,
    /// Also woken when its key is gone or holds another type (XREADGROUP).
    pub wake_on_loss: bool,
    pub on_timeout: TimeoutReply,
    pub deadline_ms: Option<i64>,
    claimed: AtomicBool,
}

/// What a handler asks for when it wants to wait.
pub struct BlockingWait {
    pub keys: Vec<Vec<u8>>,
    pub database: usize,
    pub wake_on: ValueKind,
    pub wake_on_loss: bool,
    pub deadline_ms: Option<i64>,
    pub on_timeout: TimeoutReply,
    /// The command to run when woken, when it is not the one that was sent.
    pub args: Option<ArgVec>,
}

impl Wait {
    pub fn new(proto: Proto, command: &'static Command, args: ArgVec, request: BlockingWait) -> Wait {
        Wait {
            proto,
            command,
            args: request.args.unwrap_or(args),
            keys: request.keys,
            database: request.database,
            wake_on: request.wake_on,
            wake_on_loss: request.wake_on_loss,
            on_timeout: request.on_timeout,
            deadline_ms: request.deadline_ms,
            claimed: AtomicBool::new(false),
        }
    }

    /// Claims the right to end this wait; false when another thread has it already.
    pub fn claim(&self) -> bool {
        !self.claimed.swap(true, Ordering::SeqCst)
    }

    /// Gives the claim back: the wait goes on.
    pub fn unclaim(&self) {
        self.claimed.store(false, Ordering::SeqCst);
    }

    #[inline]
    pub fn is_claimed(&self) -> bool {
        self.claimed.load(Ordering::SeqCst)
    }
}
