//! The nodes and which slots they have.

use std::net::{IpAddr, SocketAddr};

use nagaya_reactor::{Address, Key};

use super::{Upstream, UpstreamEvent};
use crate::hot_tier::run::RunDigest;
use crate::proxy::env::Env;
use crate::proxy::model::Map;
use crate::proxy::model::in_flight::Lane;
use crate::proxy::model::layout::{Layout, NodeInfo, SLOTS};

/// Marks a slot without a known owner.
const NO_OWNER: u16 = u16::MAX;

/// One node.
pub(crate) struct Node {
    pub(crate) info: NodeInfo,
    /// The connections that clients share, by the numbers of their lanes.
    pub(super) shared: [Option<Key>; Lane::COUNT],
    /// The node's name for the connection on which it tells of changed keys, while that is open.
    pub(super) telling_id: Option<i64>,
    /// Connections for single clients that are free, in RESP2 and RESP3.
    pub(super) idle: [Vec<Key>; 2],
    /// Grows when a connection to the node is lost. Leases of earlier epochs are over.
    pub(crate) epoch: u64,
    /// The run of the node that the connection began with, once it is known.
    pub(crate) run: Option<RunDigest>,
    pub(super) run_id: String,
    /// No connection is opened before.
    pub(super) retry_at_us: u64,
    /// Connection attempts that failed in a row.
    pub(super) failures: u32,
}

/// All nodes that were ever known, by number.
pub(crate) struct Nodes {
    pub(crate) list: Vec<Node>,
    by_name: Map<String, usize>,
    owner: Box<[u16]>,
    /// The nodes that have slots.
    pub(crate) primaries: Vec<usize>,
    /// Why the layout could not be read the last time.
    pub(crate) layout_error: Option<String>,
}

impl Default for Nodes {
    fn default() -> Self {
        Nodes {
            list: Vec::new(),
            by_name: Map::default(),
            owner: vec![NO_OWNER; SLOTS].into_boxed_slice(),
            primaries: Vec::new(),
            layout_error: None,
        }
    }
}

impl Nodes {
    /// Returns the node that has a slot.
    #[inline]
    pub(crate) fn owner(&self, slot: u16) -> Option<usize> {
        let owner = self.owner[usize::from(slot)];
        (owner != NO_OWNER).then_some(usize::from(owner))
    }

    pub(super) fn set_owner(&mut self, slot: u16, node: usize) {
        self.owner[usize::from(slot)] = node as u16;
        if !self.primaries.contains(&node) {
            self.primaries.push(node);
        }
    }

    pub(crate) fn name(&self, node: usize) -> &str {
        &self.list[node].info.name
    }

    /// Returns whether the layout was neither read nor refused yet.
    pub(crate) fn are_unknown(&self) -> bool {
        self.primaries.is_empty() && self.layout_error.is_none()
    }

    /// Returns the number of a node, new or known.
    fn number(&mut self, info: &NodeInfo) -> usize {
        if let Some(&known) = self.by_name.get(&info.name) {
            // The same name may lead elsewhere now.
            self.list[known].info = info.clone();
            return known;
        }
        self.list.push(Node {
            info: info.clone(),
            shared: [None; Lane::COUNT],
            telling_id: None,
            idle: [Vec::new(), Vec::new()],
            epoch: 0,
            run: None,
            run_id: String::new(),
            retry_at_us: 0,
            failures: 0,
        });
        self.by_name.insert(info.name.clone(), self.list.len() - 1);
        self.list.len() - 1
    }

    /// Returns the node that a redirect names. A redirect with only a port means the host that sent it.
    pub(crate) fn redirected(&mut self, target: &str, from: usize) -> Option<usize> {
        let (host, port) = target.rsplit_once(':')?;
        let host = if host.is_empty() || host == "?" {
            self.list[from].info.host.clone()
        } else {
            host.to_owned()
        };
        let name = if host.contains(':') {
            format!("[{host}]:{port}")
        } else {
            format!("{host}:{port}")
        };
        if let Some(&known) = self.by_name.get(&name) {
            return Some(known);
        }
        // A host name has to be resolved, which takes a new layout.
        let ip: IpAddr = host.parse().ok()?;
        let address = Address::Tcp(SocketAddr::new(ip, port.parse().ok()?));
        Some(self.number(&NodeInfo { name, host, address }))
    }

    /// Returns the node for requests that any node can answer. It is always the same one while it can be
    /// reached, so that messages are published where they are subscribed to, and keep their order.
    pub(crate) fn any(&self, now_us: u64) -> Option<usize> {
        let mut primaries = self.primaries.iter();
        let reachable = primaries.find(|node| self.list[**node].retry_at_us <= now_us);
        reachable.or(self.primaries.first()).copied()
    }

    /// Sets the primaries in the order of their first slots.
    fn set_primaries(&mut self, layout: &Layout, numbers: &[usize]) {
        let ranges = layout.ranges.iter();
        let mut primaries: Vec<(u16, usize)> =
            ranges.map(|&(first, _, node)| (first, numbers[node])).collect();
        primaries.sort_unstable();
        self.primaries.clear();
        for (_, node) in primaries {
            if !self.primaries.contains(&node) {
                self.primaries.push(node);
            }
        }
    }
}

impl Upstream {
    /// Takes over a layout. The requests of a slot that goes to another node wait until the former node has
    /// answered all that was sent to it for the slot, so that later requests do not overtake earlier ones.
    pub(crate) fn take_layout(&mut self, env: &Env<'_>, layout: &Layout) {
        env.shared.metrics.layouts.add(1);
        self.nodes.layout_error = None;
        let numbers: Vec<usize> = layout.nodes.iter().map(|info| self.nodes.number(info)).collect();
        let mut owner = vec![NO_OWNER; SLOTS];
        let mut has_moved = false;
        for &(first, last, node) in &layout.ranges {
            owner[usize::from(first)..=usize::from(last)].fill(numbers[node] as u16);
        }
        for (slot, &new) in owner.iter().enumerate() {
            let old = self.nodes.owner[slot];
            if old != new && old != NO_OWNER {
                self.hold_slot(slot as u16, usize::from(old));
                has_moved = true;
            }
        }
        if has_moved {
            self.events.push_back(UpstreamEvent::SlotsMoved);
        }
        self.nodes.owner = owner.into_boxed_slice();
        self.nodes.set_primaries(layout, &numbers);
        self.end_pauses(env);
        self.events.push_back(UpstreamEvent::LayoutChanged);
        self.close_unused();
    }

    /// Notes that the layout could not be read.
    pub(crate) fn layout_failed(&mut self, reason: &str) {
        if self.nodes.layout_error.as_deref() != Some(reason) {
            tracing::warn!(reason, "the layout of the servers could not be read");
        }
        self.nodes.layout_error = Some(reason.to_owned());
    }
}
