//! A connection's state that belongs to the thread that serves it.
//!
//! What other threads need (to publish to it, unblock it, list it, end it) is
//! in [`Client`].

pub mod identity;
pub mod subscriptions;
pub mod tracking;

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use nagaya_command_spec::table::Command;
use nagaya_connections::blocking::{BlockingWait, Wait};
pub use nagaya_connections::client::{Client, Mailbox, Message};
use nagaya_connections::cold_query::ColdQuery;
use nagaya_keyspace::shard::LockScope;
use nagaya_resp::{ArgVec, Out, Proto};

use self::identity::Identity;
use self::subscriptions::Subscriptions;
use self::tracking::ClientTracking;

/// The state of a connection between requests.
pub struct Session {
    pub shared: Arc<Client>,
    proto: Proto,
    pub identity: Identity,
    /// Commands queued since MULTI.
    pub transaction: Option<Box<Transaction>>,
    pub watch: Option<Box<Watch>>,
    /// Set by a handler that wants to wait; taken by the dispatcher.
    pub blocking_wait: Option<BlockingWait>,
    /// The key whose change made this command run again after a wait.
    pub woken_by: Option<Vec<u8>>,
    /// Set while the connection waits.
    pub blocked: Option<Arc<Wait>>,
    /// Set while the connection listens to a channel or pattern.
    pub subscriptions: Option<Box<Subscriptions>>,
    /// Set while the connection is told of changes of the keys it caches.
    pub tracking: Option<Box<ClientTracking>>,
    /// The connection is to be closed after its replies.
    pub close_after_reply: bool,
    /// Which replies are sent (CLIENT REPLY).
    pub replies: Replies,
    /// The current request was postponed before.
    pub postponed: bool,
    /// What `shared.queued` says.
    queued_shown: i32,
    /// Since when the current request has been waiting, in Unix milliseconds.
    pub waiting_since_ms: Option<i64>,
    /// The log's position that SAVE waits for.
    pub save_up_to: Option<u64>,
    /// How often the current request has waited for tags.
    pub load_waits: usize,
    /// What its handler asks the cold tier before it can reply.
    pub query: Option<ColdQuery>,
    /// Why the current request must be refused: what it waited for failed.
    pub refusal: Option<Arc<str>>,
    /// Whether the current request has queried the cold tier.
    pub asks: bool,
    /// How deep inside EXEC or a script the current command runs; no command waits there.
    pub nesting: u32,
    /// The current command was called by a script.
    pub in_script: bool,
    /// Where in the journal its latest change is; 0 before the first.
    pub journal_position: u64,
}

/// On whose behalf keys are worked on.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Caller {
    /// The client; 0 for none.
    pub client_id: u64,
    /// The database that it has selected.
    pub database: usize,
}

/// Which replies a client gets.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Replies {
    #[default]
    On,
    Off,
    /// Neither this one nor the next.
    SkipNext,
    /// Not this one.
    Skip,
}

/// The keys a client watches.
pub struct Watch {
    /// Raised when one of the keys changes.
    pub changed: Arc<AtomicBool>,
    /// The keys with their databases.
    pub keys: Vec<(usize, Vec<u8>)>,
    /// The shards of the keys.
    pub scope: LockScope,
}

/// A transaction being put together.
#[derive(Default)]
pub struct Transaction {
    pub commands: Vec<(&'static Command, ArgVec)>,
    pub scope: Option<LockScope>,
    /// A command was refused while queueing: EXEC will abort.
    pub broken: bool,
}

impl Session {
    /// Makes the state of a new connection.
    pub fn new(
        id: u64,
        mailbox: Arc<dyn Mailbox>,
        peer: impl Into<Box<str>>,
        local: impl Into<Box<str>>,
    ) -> Session {
        Session::with_shared(Arc::new(Client::new(id, mailbox, peer, local)))
    }

    /// Makes a stand-in that runs a blocked client's command on another thread.
    pub fn with_shared(shared: Arc<Client>) -> Session {
        Session {
            proto: shared.proto(),
            shared,
            identity: Identity::default(),
            transaction: None,
            watch: None,
            blocking_wait: None,
            woken_by: None,
            blocked: None,
            subscriptions: None,
            tracking: None,
            close_after_reply: false,
            replies: Replies::On,
            postponed: false,
            queued_shown: -1,
            waiting_since_ms: None,
            save_up_to: None,
            load_waits: 0,
            query: None,
            refusal: None,
            asks: false,
            nesting: 0,
            in_script: false,
            journal_position: 0,
        }
    }

    /// Returns the keys that the client watches, with their databases.
    pub fn watched_keys(&self) -> impl Iterator<Item = (usize, &[u8])> {
        let keys = self.watch.as_ref().map(|watch| watch.keys.iter());
        let keys = keys.into_iter().flatten();
        keys.map(|(database, key)| (*database, key.as_slice()))
    }

    /// Returns the number of the selected database.
    #[inline]
    pub fn database(&self) -> usize {
        self.shared.database.load(Ordering::Relaxed)
    }

    /// Selects another database for the commands to come.
    pub fn set_database(&self, database: usize) {
        self.shared.database.store(database, Ordering::Relaxed);
    }

    /// Returns on whose behalf the connection's commands work on keys.
    #[inline]
    pub fn caller(&self) -> Caller {
        Caller {
            client_id: self.id(),
            database: self.database(),
        }
    }

    /// Returns the connection's number.
    #[inline]
    pub fn id(&self) -> u64 {
        self.shared.id
    }

    /// Returns the protocol the connection speaks.
    #[inline]
    pub fn proto(&self) -> Proto {
        self.proto
    }

    /// Switches the protocol (HELLO, RESET).
    pub fn set_proto(&mut self, proto: Proto) {
        self.proto = proto;
        self.shared.set_proto(proto);
    }

    /// Returns whether the connection waits for a key; no further request may run until it does not.
    #[inline]
    pub fn is_blocked(&self) -> bool {
        self.blocked.is_some()
    }

    /// Returns when the wait ends by itself, in Unix milliseconds.
    #[inline]
    pub fn block_deadline_ms(&self) -> Option<i64> {
        self.blocked.as_ref().and_then(|wait| wait.deadline_ms)
    }

    /// Takes back a reply, written from `start` on, that the client does not want. What the SUBSCRIBE
    /// family writes are messages, which come all the same.
    #[cold]
    pub fn mute(&mut self, command: Option<&Command>, out: &mut Out, start: usize) {
        if !command.is_some_and(|command| command.spec.name.ends_with("SUBSCRIBE")) {
            out.buf.truncate(start);
        }
        self.replies = match self.replies {
            Replies::SkipNext => Replies::Skip,
            Replies::Skip => Replies::On,
            other => other,
        };
    }

    /// Returns whether the client wants this reply. Used for requests that a node executes.
    #[inline]
    pub fn takes_reply(&mut self) -> bool {
        let wanted = self.replies == Replies::On;
        self.replies = match self.replies {
            Replies::SkipNext => Replies::Skip,
            Replies::Skip => Replies::On,
            other => other,
        };
        wanted
    }

    /// Shows the progress of the transaction to other threads, when it has changed.
    #[inline]
    pub fn show_transaction(&mut self) {
        let queued = self
            .transaction
            .as_ref()
            .map_or(-1, |transaction| transaction.commands.len() as i32);
        if queued != self.queued_shown {
            self.queued_shown = queued;
            self.shared.queued.store(queued, Ordering::Relaxed);
            let commands = self
                .transaction
                .iter()
                .flat_map(|transaction| &transaction.commands);
            let bytes = commands.map(|(_, args)| args.bytes_len()).sum();
            self.shared.queued_bytes.store(bytes, Ordering::Relaxed);
        }
    }

    /// Returns how long the current request has been waiting.
    pub fn waited_ms(&self, now_ms: i64) -> i64 {
        self.waiting_since_ms.map_or(0, |since_ms| now_ms - since_ms)
    }

    /// Notes that the wait is over, because its reply arrived as [`Message::Unblocked`].
    pub fn unblocked(&mut self) {
        let served = self.shared.served_position.load(Ordering::Relaxed);
        self.journal_position = self.journal_position.max(served);
        self.blocked = None;
        *self.shared.blocked.lock() = None;
    }
}
