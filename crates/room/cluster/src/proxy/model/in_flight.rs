//! A request on its way to a node and who is to get the reply.

use nagaya_reactor::Key;

/// Who gets a reply.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Origin {
    /// A client, in its place among the replies it is owed.
    Client {
        client: Key,
        place: u32,
    },
    /// One of several requests that a client's one was split into.
    Part {
        gather: Key,
        part: u32,
    },
    /// A transaction; its replies come one after the other.
    Transaction {
        transaction: Key,
    },
    /// A client's command on a connection of its own.
    Blocked {
        client: Key,
    },
    /// A client's request about tags.
    TagCommand {
        client: Key,
    },
    /// The end of a client's WATCH.
    Watched {
        client: Key,
    },
    /// A tag that asked for a lease.
    Touch {
        batch: Key,
    },
    /// The node's run, read behind a batch of touches: first half, second half.
    RunId {
        batch: Key,
    },
    ReplicationId {
        batch: Key,
    },
    /// The announcement of writes to a tag.
    Register {
        tag: Key,
    },
    /// A retried registration; the parked reply is sent once it succeeds.
    RegisterAgain {
        parked: Key,
    },
    Nobody,
}

/// What stays the same however often a request is sent.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Delivery {
    pub(crate) origin: Origin,
    /// The client speaks RESP3, so the connection must.
    pub(crate) resp3: bool,
    pub(crate) attempts: u8,
    /// Until when it is tried again.
    pub(crate) give_up_us: u64,
}

impl Delivery {
    /// Returns the delivery of a request that is sent once more.
    pub(crate) fn next_attempt(self) -> Delivery {
        Delivery {
            attempts: self.attempts.saturating_add(1),
            ..self
        }
    }
}

/// A request that waits somewhere.
#[derive(Clone, Debug)]
pub(crate) struct QueuedRequest {
    pub(crate) bytes: Vec<u8>,
    pub(crate) delivery: Delivery,
}

/// Something that waits to be sent.
#[derive(Clone, Debug)]
pub(crate) enum Pending {
    Request(QueuedRequest),
    /// A transaction.
    Transaction(Key),
    /// The blocking command of a client.
    Blocked(Key),
    /// The WATCH of a client.
    Watch(Key),
}

/// A request that was handed to a connection and not answered yet.
#[derive(Clone, Copy, Debug)]
pub(crate) struct InFlight {
    pub(crate) delivery: Delivery,
    /// Where its bytes are in all that was ever handed to the connection.
    pub(crate) start: u64,
    pub(crate) len: u32,
    /// The slot that it waits for if it has to be sent again; none if any order will do.
    pub(crate) slot: Option<u16>,
    pub(crate) writes: bool,
    pub(crate) queued_us: u64,
    /// The tag under whose lease it is sent, and until when; for ever without a lease.
    pub(crate) tag: Option<Key>,
    pub(crate) lease_end_us: u64,
}

/// The end of the lease of a request that needs none.
pub(crate) const NO_LEASE: u64 = u64::MAX;
