//! One connection's state, split by who may touch it.
//!
//! [`Client`] belongs to the thread that serves the connection. What other
//! threads need (to publish to it, unblock it, list it, end it) is in
//! [`ClientShared`].

use std::sync::Arc;
use std::sync::atomic::{
    AtomicBool, AtomicI32, AtomicI64, AtomicU8, AtomicU32, AtomicU64, AtomicUsize, Ordering,
};

use nagaya_resp::{ArgVec, Out, Proto};
use parking_lot::Mutex;

use crate::acl::{Account, Identity};
use crate::blocking::{BlockRequest, Waiter};
use crate::command_table::Command;
use crate::error::CommandError;
use crate::pubsub::{SharedCounts, SubscriptionCounts, Subscriptions};
use crate::shard::Scope;
use crate::tiering::{Answers, Question};
use crate::tracking::ClientTracking;

/// Something another thread has for a connection.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Message {
    /// Bytes to send as they are, between replies.
    Push(Arc<[u8]>),
    /// The reply of the command that the client is blocked in.
    Unblocked(Vec<u8>),
    /// What the latest request waited for is there, or this is why it is to be refused: hand it in again.
    GoOn(Option<Arc<str>>),
    /// Close the connection once what it is owed has been written.
    Close,
}

/// Takes messages to the thread that serves a connection. Never blocks.
pub trait Mailbox: Send + Sync {
    /// Queues a message; one for a connection that is gone is dropped.
    fn deliver(&self, client: u64, message: Message);
}

/// What every thread may see of a connection.
///
/// The numbers are written by the thread that owns the connection, without any order among them: they
/// are for people who look at CLIENT LIST.
pub struct ClientShared {
    pub id: u64,
    /// The other end's address, and ours: `127.0.0.1:6380`, or a path and `:0` for a unix socket.
    pub peer: Box<str>,
    pub local: Box<str>,
    mailbox: Arc<dyn Mailbox>,
    proto: AtomicU8,
    /// Set when the connection has ended; nothing is taken from a key for it any more.
    gone: AtomicBool,
    pub(crate) blocked: Mutex<Option<Arc<Waiter>>>,
    /// What the cold tier said to the question of the request at hand.
    pub(crate) answers: Mutex<Answers>,
    /// Where in the journal the latest change is that another thread made for it.
    pub(crate) served_position: AtomicU64,
    /// Whom the connection acts for; none for the user `default`.
    pub(crate) account: Mutex<Option<Arc<Account>>>,
    pub(crate) subscriptions: SharedCounts,
    name: Mutex<Option<Box<[u8]>>>,
    user: Mutex<Arc<str>>,
    marks: AtomicU32,
    /// When the connection was made and last used, in Unix seconds.
    pub(crate) connected_s: AtomicI64,
    pub(crate) active_s: AtomicI64,
    /// The number of the latest command, plus one.
    pub(crate) last_command: AtomicU32,
    /// Commands queued since MULTI and the bytes of their arguments; -1 outside of a transaction.
    pub(crate) queued: AtomicI32,
    pub(crate) queued_bytes: AtomicUsize,
    /// The socket's number and the bytes in its buffers, told by the I/O loop.
    pub fd: AtomicI32,
    pub input_bytes: AtomicUsize,
    pub input_free_bytes: AtomicUsize,
    pub output_bytes: AtomicUsize,
}

/// Something that is or is not so with a connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Mark(u32);

impl Mark {
    /// It gets every command that runs (MONITOR).
    pub(crate) const MONITOR: Mark = Mark(1);
    /// Its request waits for the end of a pause.
    pub(crate) const POSTPONED: Mark = Mark(1 << 1);
    /// It is about to be closed.
    pub(crate) const CLOSING: Mark = Mark(1 << 2);
    /// It asked not to be closed for want of memory.
    pub(crate) const NO_EVICT: Mark = Mark(1 << 3);
    /// Its request waits on another server.
    pub(crate) const WAITS_ELSEWHERE: Mark = Mark(1 << 4);
}

impl ClientShared {
    /// Sends a message to the connection.
    pub fn deliver(&self, message: Message) {
        self.mailbox.deliver(self.id, message);
    }

    /// Returns how many channels and patterns the connection listens to.
    pub fn subscription_counts(&self) -> SubscriptionCounts {
        self.subscriptions.get()
    }

    /// Returns the name that CLIENT SETNAME gave it.
    pub fn name(&self) -> Option<Box<[u8]>> {
        self.name.lock().clone()
    }

    /// Names the connection; an empty name takes the old one away.
    pub fn set_name(&self, name: &[u8]) -> Result<(), CommandError> {
        if !name.iter().all(|byte| (b'!'..=b'~').contains(byte)) {
            return Err(CommandError::err(
                "Client names cannot contain spaces, newlines or special characters.",
            ));
        }
        *self.name.lock() = (!name.is_empty()).then(|| name.into());
        Ok(())
    }

    /// Returns the name of the user it runs commands as.
    pub fn user(&self) -> Arc<str> {
        Arc::clone(&self.user.lock())
    }

    /// Notes whom it runs commands as from now on.
    pub fn set_user(&self, user: Arc<str>) {
        *self.user.lock() = user;
    }

    pub(crate) fn set_mark(&self, mark: Mark, on: bool) {
        if on {
            self.marks.fetch_or(mark.0, Ordering::Relaxed);
        } else {
            self.marks.fetch_and(!mark.0, Ordering::Relaxed);
        }
    }

    pub(crate) fn has_mark(&self, mark: Mark) -> bool {
        self.marks.load(Ordering::Relaxed) & mark.0 != 0
    }

    /// Tells whether the connection came through a unix socket.
    pub fn is_unix(&self) -> bool {
        self.peer.starts_with('/')
    }

    /// Tells whether it waits, for a key or for the end of a pause.
    pub fn is_waiting(&self) -> bool {
        self.has_mark(Mark::POSTPONED)
            || self.has_mark(Mark::WAITS_ELSEWHERE)
            || self.blocked.lock().is_some()
    }

    /// Notes whether its request waits for a key on another server.
    pub fn set_waits_elsewhere(&self, waits: bool) {
        self.set_mark(Mark::WAITS_ELSEWHERE, waits);
    }

    pub(crate) fn mark_gone(&self) {
        self.gone.store(true, Ordering::SeqCst);
    }

    pub(crate) fn is_gone(&self) -> bool {
        self.gone.load(Ordering::SeqCst)
    }

    /// Returns the protocol the connection speaks.
    pub fn proto(&self) -> Proto {
        if self.proto.load(Ordering::Relaxed) == 3 {
            Proto::Resp3
        } else {
            Proto::Resp2
        }
    }
}

/// The state of a connection between requests.
pub struct Client {
    pub shared: Arc<ClientShared>,
    proto: Proto,
    pub(crate) identity: Identity,
    /// Commands queued since MULTI.
    pub(crate) transaction: Option<Box<Transaction>>,
    pub(crate) watch: Option<Box<crate::transaction::Watch>>,
    /// Set by a handler that wants to wait; taken by the dispatcher.
    pub(crate) block_request: Option<BlockRequest>,
    /// The key whose change made this command run again after a wait.
    pub(crate) woken_by: Option<Vec<u8>>,
    /// Set while the connection waits.
    pub(crate) blocked: Option<Arc<Waiter>>,
    /// Set while the connection listens to a channel or pattern.
    pub(crate) subscriptions: Option<Box<Subscriptions>>,
    /// Set while the connection is told of changes of the keys it caches.
    pub(crate) tracking: Option<Box<ClientTracking>>,
    /// The connection is to be closed after its replies.
    pub close_after_reply: bool,
    /// Which replies are sent (CLIENT REPLY).
    pub(crate) replies: Replies,
    /// The request at hand was postponed before.
    pub(crate) postponed: bool,
    /// What `shared.queued` says.
    queued_shown: i32,
    /// Since when the request at hand has been waiting, in Unix milliseconds.
    pub(crate) waiting_since_ms: Option<i64>,
    /// The log's position that SAVE waits for.
    pub(crate) save_up_to: Option<u64>,
    /// How often the request at hand has waited for tags.
    pub(crate) load_waits: usize,
    /// What its handler wants to know of the cold tier before it can reply.
    pub(crate) question: Option<Question>,
    /// Why the request at hand is to be refused: what it waited for did not come.
    pub refusal: Option<Arc<str>>,
    /// Whether the request at hand has asked the cold tier something.
    pub(crate) asks: bool,
    /// How deep inside EXEC or a script the current command runs; no command waits there.
    pub(crate) nesting: u32,
    /// The current command was called by a script.
    pub(crate) in_script: bool,
    /// Where in the journal its latest change is; 0 before the first.
    pub journal_position: u64,
}

/// Which replies a client gets.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum Replies {
    #[default]
    On,
    Off,
    /// Neither this one nor the next.
    SkipNext,
    /// Not this one.
    Skip,
}

/// A transaction being put together.
#[derive(Default)]
pub(crate) struct Transaction {
    pub(crate) commands: Vec<(&'static Command, ArgVec)>,
    pub(crate) scope: Option<Scope>,
    /// A command was refused while queueing: EXEC will abort.
    pub(crate) broken: bool,
}

impl Client {
    /// Makes the state of a new connection.
    pub fn new(
        id: u64,
        mailbox: Arc<dyn Mailbox>,
        peer: impl Into<Box<str>>,
        local: impl Into<Box<str>>,
    ) -> Client {
        Client::with_shared(Arc::new(ClientShared {
            id,
            peer: peer.into(),
            local: local.into(),
            mailbox,
            proto: AtomicU8::new(2),
            gone: AtomicBool::new(false),
            blocked: Mutex::new(None),
            answers: Mutex::default(),
            served_position: AtomicU64::new(0),
            account: Mutex::new(None),
            subscriptions: SharedCounts::default(),
            name: Mutex::new(None),
            user: Mutex::new(Arc::from("default")),
            marks: AtomicU32::new(0),
            connected_s: AtomicI64::new(0),
            active_s: AtomicI64::new(0),
            last_command: AtomicU32::new(0),
            queued: AtomicI32::new(-1),
            queued_bytes: AtomicUsize::new(0),
            fd: AtomicI32::new(-1),
            input_bytes: AtomicUsize::new(0),
            input_free_bytes: AtomicUsize::new(0),
            output_bytes: AtomicUsize::new(0),
        }))
    }

    /// Makes a stand-in that runs a blocked client's command on another thread.
    pub(crate) fn with_shared(shared: Arc<ClientShared>) -> Client {
        Client {
            proto: shared.proto(),
            shared,
            identity: Identity::default(),
            transaction: None,
            watch: None,
            block_request: None,
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
            question: None,
            refusal: None,
            asks: false,
            nesting: 0,
            in_script: false,
            journal_position: 0,
        }
    }

    /// Returns the connection's number.
    pub fn id(&self) -> u64 {
        self.shared.id
    }

    /// Returns the protocol the connection speaks.
    pub fn proto(&self) -> Proto {
        self.proto
    }

    /// Switches the protocol (HELLO, RESET).
    pub fn set_proto(&mut self, proto: Proto) {
        self.proto = proto;
        self.shared
            .proto
            .store(if proto == Proto::Resp3 { 3 } else { 2 }, Ordering::Relaxed);
    }

    /// Tells whether the connection waits for a key; no further request may run until it does not.
    pub fn is_blocked(&self) -> bool {
        self.blocked.is_some()
    }

    /// Returns when the wait ends by itself, in Unix milliseconds.
    pub fn block_deadline_ms(&self) -> Option<i64> {
        self.blocked.as_ref().and_then(|waiter| waiter.deadline_ms)
    }

    /// Takes back a reply, written from `start` on, that the client does not want. What the SUBSCRIBE
    /// family writes are messages, which come all the same.
    #[cold]
    pub(crate) fn mute(&mut self, command: Option<&Command>, out: &mut Out, start: usize) {
        if !command.is_some_and(|command| command.spec.name.ends_with("SUBSCRIBE")) {
            out.buf.truncate(start);
        }
        self.replies = match self.replies {
            Replies::SkipNext => Replies::Skip,
            Replies::Skip => Replies::On,
            other => other,
        };
    }

    /// Tells whether the reply to the request at hand is wanted; for requests that run elsewhere.
    pub fn takes_reply(&mut self) -> bool {
        let wanted = self.replies == Replies::On;
        self.replies = match self.replies {
            Replies::SkipNext => Replies::Skip,
            Replies::Skip => Replies::On,
            other => other,
        };
        wanted
    }

    /// Tells others how far the transaction has come, when that has changed.
    #[inline]
    pub(crate) fn show_transaction(&mut self) {
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

    /// Returns how long the request at hand has been waiting.
    pub(crate) fn waited_ms(&self, now_ms: i64) -> i64 {
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
