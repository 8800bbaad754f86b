//! A request on its way to a node, and the receiver of its reply.

use nagaya_reactor::Key;

/// The receiver of a reply.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Origin {
    /// A client; `place` is that of the reply among those it is owed.
    Client { client: Key, place: u32 },
    /// One part of a request that was split.
    Part { gather: Key, part: u32 },
    /// A transaction; its replies arrive one by one.
    Transaction { transaction: Key },
    /// A client's command on a connection of its own.
    Blocked { client: Key },
    /// A client's command about tags.
    TagCommand { client: Key },
    /// A client's WATCH.
    Watched { client: Key },
    /// The touch of a tag.
    Touch { batch: Key },
    /// The first half of the node's run, read behind a batch of touches.
    RunId { batch: Key },
    /// The second half of the node's run.
    ReplicationId { batch: Key },
    /// The registration of writes to a tag.
    Register { tag: Key },
    /// A retried registration; the parked reply is sent once it succeeds.
    RegisterAgain { parked: Key },
    /// The reply is dropped.
    Discard,
}

/// Which of the connections to a node that clients share carries a request.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Lane {
    pub(crate) resp3: bool,
    /// The node remembers what is read on it, and tells when it changes.
    pub(crate) is_tracked: bool,
}

impl Lane {
    /// How many there are.
    pub(crate) const COUNT: usize = 4;
    /// The connection on which nodes tell of changed keys, of reads on either tracked one.
    pub(crate) const TELLING: Lane = Lane {
        resp3: true,
        is_tracked: true,
    };

    pub(crate) fn number(self) -> usize {
        usize::from(self.resp3) + 2 * usize::from(self.is_tracked)
    }
}

/// What stays the same when a request is sent again.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Delivery {
    pub(crate) origin: Origin,
    /// The client uses RESP3, so the connection must.
    pub(crate) resp3: bool,
    /// The client wants to be told when what it reads changes.
    pub(crate) is_tracked: bool,
    pub(crate) attempts: u8,
    /// Until when it is retried.
    pub(crate) give_up_us: u64,
}

impl Delivery {
    /// Returns which shared connection carries the request.
    #[inline]
    pub(crate) fn lane(self) -> Lane {
        Lane {
            resp3: self.resp3,
            is_tracked: self.is_tracked,
        }
    }

    /// Returns the delivery of a request that is sent once more.
    pub(crate) fn next_attempt(self) -> Delivery {
        Delivery {
            attempts: self.attempts.saturating_add(1),
            ..self
        }
    }
}

/// A request that waits.
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

/// A request that was queued on a connection and is not answered yet.
#[derive(Clone, Copy, Debug)]
pub(crate) struct InFlight {
    pub(crate) delivery: Delivery,
    /// The position of its bytes among all that were ever queued on the connection.
    pub(crate) start: u64,
    pub(crate) len: u32,
    /// The slot whose queue it joins if it has to be sent again; none if its order does not matter.
    pub(crate) slot: Option<u16>,
    pub(crate) writes: bool,
    pub(crate) queued_us: u64,
    /// The tag under whose lease it is sent, and the end of the lease.
    pub(crate) tag: Option<Key>,
    pub(crate) lease_end_us: u64,
}

/// The end of the lease of a request that needs none.
pub(crate) const NO_LEASE: u64 = u64::MAX;
