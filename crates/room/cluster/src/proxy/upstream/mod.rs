//! The nodes behind the proxy: which slots they have, the connections to them, and the requests that
//! have to wait for a slot.
//!
//! Suggested reading order: [`nodes`] is the map of slots, [`node_connection`] one connection,
//! [`connections`] opens and loses them, beginning with [`handshake`], [`deadlines`] gives up slow ones, [`transfer`] sends requests and reads replies, [`slot_queue`]
//! keeps the order of what has to wait. What concerns the parts above is reported as [`UpstreamEvent`]s:
//! nothing here calls them.

mod connections;
mod deadlines;
mod handshake;
mod node_connection;
mod nodes;
mod slot_queue;
mod transfer;

use std::collections::VecDeque;
use std::rc::Rc;

pub(crate) use node_connection::Purpose;
pub(crate) use nodes::Nodes;
pub(crate) use transfer::{NodeRead, NodeReply};

use super::model::in_flight::Origin;
use nagaya_reactor::{Key, Poller, Slab};
use node_connection::NodeConnection;
use slot_queue::Waiting;

/// Something that concerns the parts above.
#[derive(Debug)]
pub(crate) enum UpstreamEvent {
    /// A request was given up; its receiver gets this error.
    Failed { origin: Origin, text: String },
    /// A connection can be used.
    Ready { purpose: Purpose },
    /// The layout was read.
    LayoutChanged,
    /// Slots have other owners than before.
    SlotsMoved,
    /// A connection is gone, and with it what was attached to it.
    Lost {
        connection: Key,
        node: usize,
        purpose: Purpose,
    },
    /// The EXEC of a transaction was not written, and it cannot be sent on another connection.
    Unsent { transaction: Key },
    /// A transaction's connection was closed on purpose: its client is gone.
    Dropped { transaction: Key },
}

/// The nodes, the connections to them and the requests that wait.
pub(crate) struct Upstream {
    pub(crate) nodes: Nodes,
    connections: Slab<Box<NodeConnection>>,
    waiting: Waiting,
    /// Connections with something to write.
    dirty: Vec<Key>,
    events: VecDeque<UpstreamEvent>,
    poller: Rc<Poller>,
}

impl Upstream {
    pub(crate) fn new(poller: Rc<Poller>) -> Upstream {
        Upstream {
            nodes: Nodes::default(),
            connections: Slab::default(),
            waiting: Waiting::default(),
            dirty: Vec::new(),
            events: VecDeque::new(),
            poller,
        }
    }

    /// Returns the oldest event that was not taken yet.
    pub(crate) fn next_event(&mut self) -> Option<UpstreamEvent> {
        self.events.pop_front()
    }

    /// Returns whether there are events to take or bytes to write.
    pub(crate) fn has_work(&self) -> bool {
        !self.events.is_empty() || !self.dirty.is_empty()
    }

    fn fail(&mut self, origin: Origin, text: String) {
        self.events.push_back(UpstreamEvent::Failed { origin, text });
    }
}
