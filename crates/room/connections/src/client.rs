//! What every thread may see of a connection, and how to reach it.

use std::sync::Arc;
use std::sync::atomic::{
    AtomicBool, AtomicI32, AtomicI64, AtomicU8, AtomicU32, AtomicU64, AtomicUsize, Ordering,
};

use nagaya_command_spec::error::CommandError;
use nagaya_resp::Proto;
use parking_lot::Mutex;

use crate::acl::Account;
use crate::blocking::Wait;
use crate::cold_query::Answers;
use crate::pubsub::{SharedCounts, SubscriptionCounts};

/// Something another thread has for a connection.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Message {
    /// Bytes to send as they are, between replies.
    Push(Arc<[u8]>),
    /// The reply of the command that the client is blocked in.
    Unblocked(Vec<u8>),
    /// What the latest request waited for is there, or this is why it is to be refused: hand it in again.
    Resume(Option<Arc<str>>),
    /// Close the connection once what it is owed has been written.
    Close,
    /// Close the connection at once: what it is owed takes too much memory.
    Cut,
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
pub struct Client {
    pub id: u64,
    /// The other end's address, and ours: `127.0.0.1:6380`, or a path and `:0` for a unix socket.
    pub peer: Box<str>,
    pub local: Box<str>,
    mailbox: Arc<dyn Mailbox>,
    proto: AtomicU8,
    /// Set when the connection has ended; nothing is taken from a key for it any more.
    gone: AtomicBool,
    pub blocked: Mutex<Option<Arc<Wait>>>,
    /// The cold tier's answer to the query of the current request.
    pub answers: Mutex<Answers>,
    /// Where in the journal the latest change is that another thread made for it.
    pub served_position: AtomicU64,
    /// Whom the connection acts for; none for the user `default`.
    pub account: Mutex<Option<Arc<Account>>>,
    pub subscriptions: SharedCounts,
    name: Mutex<Option<Box<[u8]>>>,
    /// What library the other end uses, and its version (CLIENT SETINFO).
    library: Mutex<[Box<[u8]>; 2]>,
    user: Mutex<Arc<str>>,
    flags: AtomicU32,
    /// When the connection was made and last used, in Unix seconds.
    pub connected_s: AtomicI64,
    pub active_s: AtomicI64,
    /// The number of the selected database.
    pub database: AtomicUsize,
    /// The number of the latest command, plus one.
    pub last_command: AtomicU32,
    /// Commands queued since MULTI and the bytes of their arguments; -1 outside of a transaction.
    pub queued: AtomicI32,
    pub queued_bytes: AtomicUsize,
    /// The socket's number and the bytes in its buffers, told by the I/O loop.
    pub fd: AtomicI32,
    pub input_bytes: AtomicUsize,
    pub input_free_bytes: AtomicUsize,
    pub output_bytes: AtomicUsize,
    /// The memory that it takes, as of the latest look; 0 as long as nobody wants to know.
    pub(crate) memory_bytes: AtomicUsize,
}

/// A boolean attribute of a connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ClientFlag(u32);

impl ClientFlag {
    /// It gets every command that runs (MONITOR).
    pub const MONITOR: ClientFlag = ClientFlag(1);
    /// Its request waits for the end of a pause.
    pub const POSTPONED: ClientFlag = ClientFlag(1 << 1);
    /// It is about to be closed.
    pub const CLOSING: ClientFlag = ClientFlag(1 << 2);
    /// It must not be closed when memory runs short (CLIENT NO-EVICT).
    pub const NO_EVICT: ClientFlag = ClientFlag(1 << 3);
    /// Its commands do not count as uses of their keys (CLIENT NO-TOUCH).
    pub const NO_TOUCH: ClientFlag = ClientFlag(1 << 5);
    /// Its request waits on another server.
    pub const WAITS_ELSEWHERE: ClientFlag = ClientFlag(1 << 4);
    /// It is being closed to save memory.
    pub const EVICTED: ClientFlag = ClientFlag(1 << 6);
}

impl Client {
    /// Makes what other threads see of a new connection.
    pub fn new(
        id: u64,
        mailbox: Arc<dyn Mailbox>,
        peer: impl Into<Box<str>>,
        local: impl Into<Box<str>>,
    ) -> Client {
        Client {
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
            library: Mutex::default(),
            user: Mutex::new(Arc::from("default")),
            flags: AtomicU32::new(0),
            connected_s: AtomicI64::new(0),
            active_s: AtomicI64::new(0),
            database: AtomicUsize::new(0),
            last_command: AtomicU32::new(0),
            queued: AtomicI32::new(-1),
            queued_bytes: AtomicUsize::new(0),
            fd: AtomicI32::new(-1),
            input_bytes: AtomicUsize::new(0),
            input_free_bytes: AtomicUsize::new(0),
            output_bytes: AtomicUsize::new(0),
            memory_bytes: AtomicUsize::new(0),
        }
    }

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
        check_printable("Client names", name)?;
        *self.name.lock() = (!name.is_empty()).then(|| name.into());
        Ok(())
    }

    /// Returns the name and the version of the library that the other end uses, as it told them.
    pub fn library(&self) -> [Box<[u8]>; 2] {
        self.library.lock().clone()
    }

    /// Notes the name or the version of the library, as the attribute says; an empty one is forgotten.
    pub fn set_library(&self, attribute: &[u8], value: &[u8]) -> Result<(), CommandError> {
        let shown = String::from_utf8_lossy(attribute);
        let names: [&[u8]; 2] = [b"lib-name", b"lib-ver"];
        let at = names.iter().position(|name| attribute.eq_ignore_ascii_case(name));
        let at = at.ok_or_else(|| CommandError::err(format!("Unrecognized option '{shown}'")))?;
        check_printable(&shown, value)?;
        self.library.lock()[at] = value.into();
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

    #[inline]
    pub fn set_flag(&self, flag: ClientFlag, on: bool) {
        if on {
            self.flags.fetch_or(flag.0, Ordering::Relaxed);
        } else {
            self.flags.fetch_and(!flag.0, Ordering::Relaxed);
        }
    }

    #[inline]
    pub fn has_flag(&self, flag: ClientFlag) -> bool {
        self.flags.load(Ordering::Relaxed) & flag.0 != 0
    }

    /// Returns whether the connection came through a unix socket.
    pub fn is_unix(&self) -> bool {
        self.peer.starts_with('/')
    }

    /// Returns whether the other end is on this machine.
    pub fn is_local(&self) -> bool {
        let address = self.peer.parse::<std::net::SocketAddr>();
        self.is_unix() || address.is_ok_and(|address| address.ip().to_canonical().is_loopback())
    }

    /// Returns whether it waits, for a key or for the end of a pause.
    pub fn is_waiting(&self) -> bool {
        self.has_flag(ClientFlag::POSTPONED)
            || self.has_flag(ClientFlag::WAITS_ELSEWHERE)
            || self.blocked.lock().is_some()
    }

    /// Notes whether its request waits for a key on another server.
    pub fn set_waits_elsewhere(&self, waits: bool) {
        self.set_flag(ClientFlag::WAITS_ELSEWHERE, waits);
    }

    pub fn mark_gone(&self) {
        self.gone.store(true, Ordering::SeqCst);
    }

    #[inline]
    pub fn is_gone(&self) -> bool {
        self.gone.load(Ordering::SeqCst)
    }

    /// Returns the protocol the connection speaks.
    #[inline]
    pub fn proto(&self) -> Proto {
        if self.proto.load(Ordering::Relaxed) == 3 {
            Proto::Resp3
        } else {
            Proto::Resp2
        }
    }

    /// Notes the protocol the connection speaks from now on.
    pub fn set_proto(&self, proto: Proto) {
        self.proto
            .store(if proto == Proto::Resp3 { 3 } else { 2 }, Ordering::Relaxed);
    }
}

/// Checks that a text can stand in a line of CLIENT LIST.
fn check_printable(what: &str, text: &[u8]) -> Result<(), CommandError> {
    if text.iter().all(|byte| (b'!'..=b'~').contains(byte)) {
        return Ok(());
    }
    Err(CommandError::err(format!(
        "{what} cannot contain spaces, newlines or special characters."
    )))
}

#[cfg(test)]
mod tests {
    use super::*;

    struct Nowhere;

    impl Mailbox for Nowhere {
        fn deliver(&self, _: u64, _: Message) {}
    }

    #[test]
    fn no_attribute_of_a_connection_is_another() {
        let all = [
            ClientFlag::MONITOR,
            ClientFlag::POSTPONED,
            ClientFlag::CLOSING,
            ClientFlag::NO_EVICT,
            ClientFlag::NO_TOUCH,
            ClientFlag::WAITS_ELSEWHERE,
            ClientFlag::EVICTED,
        ];
        let client = Client::new(1, Arc::new(Nowhere), "", "");
        for flag in all {
            client.set_flag(flag, true);
            let set = all.iter().filter(|other| client.has_flag(**other)).count();
            assert_eq!(set, 1, "{flag:?}");
            client.set_flag(flag, false);
        }
    }

    #[test]
    fn clients_of_this_machine_are_known_by_their_addresses() {
        for (peer, is_local) in [
            ("10.0.0.7:4000", false),
            ("127.0.0.1:4000", true),
            ("[::1]:4000", true),
            ("[::ffff:127.0.0.1]:4000", true),
            ("[::ffff:10.0.0.7]:4000", false),
            ("/run/redis.sock:0", true),
            ("", false),
        ] {
            let client = Client::new(1, Arc::new(Nowhere), peer, "");
            assert_eq!(client.is_local(), is_local, "{peer}");
        }
    }
}
