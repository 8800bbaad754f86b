use std::net::SocketAddr;
use std::time::Duration;

use crate::resp_client::Reply;
use crate::{Redis, wait};

const PRIMARIES: usize = 3;
const SLOTS: usize = 16_384;
const SETTLE_LIMIT: Duration = Duration::from_secs(60);
/// Redis gives up a requested failover after 5 s.
const FAILOVER_PATIENCE: Duration = Duration::from_secs(6);
/// A dead primary is replaced a little after 2 s.
const CONFIG: &[&str] = &[
    "cluster-enabled yes",
    "cluster-config-file nodes.conf",
    "cluster-node-timeout 2000",
    "cluster-replica-validity-factor 0",
];
const MIGRATE_KEYS_MAX: &str = "100";

/// A Redis Cluster of three primaries (nodes 0 to 2 at the start) with one
/// replica each (nodes 3 to 5).
#[derive(Debug)]
pub struct RedisCluster {
    nodes: Vec<Redis>,
    ids: Vec<String>,
}

/// How a replica takes over, as in `CLUSTER FAILOVER`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Failover {
    /// With the old primary's help; no write is lost.
    Graceful,
    /// Without the old primary, by a vote of the others.
    Force,
    /// Without a vote.
    Takeover,
}

/// A slot on its way from one primary to another: its keys are asked for with
/// `ASK` redirects until [`finish`](SlotMove::finish).
#[derive(Debug)]
pub struct SlotMove<'a> {
    cluster: &'a RedisCluster,
    slot: String,
    from: usize,
    to: usize,
}

/// What one node says of another in `CLUSTER NODES`.
struct Peer {
    id: String,
    flags: Vec<String>,
    slots: Vec<(usize, usize)>,
}

impl RedisCluster {
    /// Starts all six nodes and waits until they agree.
    #[track_caller]
    pub fn start() -> RedisCluster {
        RedisCluster::with_config(&[])
    }

    /// As [`start`](RedisCluster::start), with more lines for each config file.
    #[track_caller]
    pub fn with_config(lines: &[&str]) -> RedisCluster {
        let config = [CONFIG, lines].concat();
        let nodes: Vec<Redis> = (0..PRIMARIES * 2).map(|_| Redis::with_config(&config)).collect();
        let ids = nodes
            .iter()
            .map(|node| node.must(&["CLUSTER", "MYID"]).text())
            .collect();
        let cluster = RedisCluster { nodes, ids };
        cluster.join();
        cluster
    }

    /// What `redis-cli --cluster create` does, without its pauses.
    #[track_caller]
    fn join(&self) {
        for (index, node) in self.nodes.iter().enumerate() {
            node.must(&["CLUSTER", "SET-CONFIG-EPOCH", &(index + 1).to_string()]);
        }
        for (index, primary) in self.nodes[..PRIMARIES].iter().enumerate() {
            let first = SLOTS * index / PRIMARIES;
            let last = SLOTS * (index + 1) / PRIMARIES - 1;
            primary.must(&["CLUSTER", "ADDSLOTSRANGE", &first.to_string(), &last.to_string()]);
        }
        for node in &self.nodes[1..] {
            self.nodes[0].must(&["CLUSTER", "MEET", "127.0.0.1", &node.port().to_string()]);
        }
        for (index, replica) in self.nodes[PRIMARIES..].iter().enumerate() {
            wait::until("a node knows the primary it is to follow", SETTLE_LIMIT, || {
                replica.cmd(&["CLUSTER", "REPLICATE", &self.ids[index]]) == Reply::ok()
            });
        }
        self.wait_settled();
        for replica in &self.nodes[PRIMARIES..] {
            replica.wait_synced();
        }
    }

    pub fn nodes(&self) -> &[Redis] {
        &self.nodes
    }

    /// The cluster's own id of a node.
    pub fn id(&self, node: usize) -> &str {
        &self.ids[node]
    }

    pub fn addresses(&self) -> Vec<SocketAddr> {
        self.nodes.iter().map(Redis::address).collect()
    }

    /// The slot of a key.
    #[track_caller]
    pub fn slot_of(&self, key: &str) -> u16 {
        let slot = self.any_node().must(&["CLUSTER", "KEYSLOT", key]).int();
        u16::try_from(slot).expect("slots end at 16383")
    }

    /// The primary that owns a slot, in the eyes of the first running node.
    #[track_caller]
    pub fn owner_of(&self, slot: u16) -> usize {
        match self.owner_seen_by(self.any_node(), slot) {
            Some(owner) => owner,
            None => panic!("nobody owns slot {slot}"),
        }
    }

    /// A running replica of a primary.
    #[track_caller]
    pub fn replica_of(&self, primary: usize) -> usize {
        let follows = |node: &Redis| {
            let reply = node.cmd(&["CLUSTER", "NODES"]).text();
            reply
                .lines()
                .any(|line| line.contains("myself,slave") && line.contains(&self.ids[primary]))
        };
        match self
            .nodes
            .iter()
            .position(|node| node.is_running() && follows(node))
        {
            Some(replica) => replica,
            None => panic!("node {primary} has no running replica"),
        }
    }

    /// Makes a replica the primary of its slots and waits until all running nodes
    /// know it.
    #[track_caller]
    pub fn failover(&self, replica: usize, how: Failover) {
        let mut command = vec!["CLUSTER", "FAILOVER"];
        match how {
            Failover::Graceful => (),
            Failover::Force => command.push("FORCE"),
            Failover::Takeover => command.push("TAKEOVER"),
        }
        self.nodes[replica].must(&command);
        // A node that won an election a moment ago may count those votes once more, under the old
        // epoch, and be overruled. So the command is sent again until it lasts; a refusal only says
        // that the node is a primary by now.
        wait::until("the replica is the primary for all nodes", SETTLE_LIMIT, || {
            let lasts = wait::poll(FAILOVER_PATIENCE, || {
                self.is_primary_for_all(replica).then_some(())
            });
            if lasts.is_none() {
                self.nodes[replica].cmd(&command);
            }
            lasts.is_some()
        });
    }

    /// Waits until all running nodes call this node a primary with slots.
    #[track_caller]
    pub fn wait_until_primary(&self, node: usize) {
        wait::until("all nodes know the new primary", SETTLE_LIMIT, || {
            self.is_primary_for_all(node)
        });
    }

    fn is_primary_for_all(&self, node: usize) -> bool {
        let is_primary =
            |peer: &Peer| peer.id == self.ids[node] && peer.has("master") && !peer.slots.is_empty();
        self.running()
            .all(|witness| peers_seen_by(witness).iter().any(is_primary))
    }

    /// Moves a slot with all its keys to another primary and waits until all
    /// running nodes know the new owner.
    #[track_caller]
    pub fn move_slot(&self, slot: u16, to: usize) {
        let slot_move = self.begin_slot_move(slot, to);
        slot_move.migrate_keys();
        slot_move.finish();
    }

    /// Opens a slot for its move to another primary; no key moves yet.
    #[track_caller]
    pub fn begin_slot_move(&self, slot: u16, to: usize) -> SlotMove<'_> {
        let from = self.owner_of(slot);
        assert_ne!(from, to, "slot {slot} is already on node {to}");
        let slot = slot.to_string();
        self.nodes[to].must(&["CLUSTER", "SETSLOT", &slot, "IMPORTING", &self.ids[from]]);
        self.nodes[from].must(&["CLUSTER", "SETSLOT", &slot, "MIGRATING", &self.ids[to]]);
        SlotMove {
            cluster: self,
            slot,
            from,
            to,
        }
    }

    /// Waits until every running node sees all slots served and all nodes.
    #[track_caller]
    pub fn wait_settled(&self) {
        for node in self.running() {
            wait::until("the cluster is settled", SETTLE_LIMIT, || {
                let info = node.cmd(&["CLUSTER", "INFO"]).text();
                let peers = peers_seen_by(node);
                let bad = |peer: &Peer| ["fail", "fail?", "handshake"].iter().any(|flag| peer.has(flag));
                info.contains("cluster_state:ok")
                    && peers.len() == self.nodes.len()
                    && !peers.iter().any(bad)
                    && peers
                        .iter()
                        .filter(|peer| peer.flags.iter().any(|f| f == "slave"))
                        .count()
                        == PRIMARIES
            });
        }
    }

    fn owner_seen_by(&self, witness: &Redis, slot: u16) -> Option<usize> {
        let holds = |peer: &Peer| {
            peer.slots
                .iter()
                .any(|&(a, b)| (a..=b).contains(&usize::from(slot)))
        };
        let owner = peers_seen_by(witness).into_iter().find(holds)?;
        self.ids.iter().position(|id| *id == owner.id)
    }

    fn running(&self) -> impl Iterator<Item = &Redis> {
        self.nodes.iter().filter(|node| node.is_running())
    }

    #[track_caller]
    fn any_node(&self) -> &Redis {
        match self.running().next() {
            Some(node) => node,
            None => panic!("no node of the cluster runs"),
        }
    }
}

impl SlotMove<'_> {
    /// The node that gives the slot away.
    pub fn from(&self) -> usize {
        self.from
    }

    /// Moves the keys that are in the slot now.
    #[track_caller]
    pub fn migrate_keys(&self) {
        let source = &self.cluster.nodes[self.from];
        let port = self.cluster.nodes[self.to].port().to_string();
        loop {
            let keys = source.must(&["CLUSTER", "GETKEYSINSLOT", &self.slot, MIGRATE_KEYS_MAX]);
            if keys.items().is_empty() {
                return;
            }
            let mut command: Vec<Vec<u8>> = ["MIGRATE", "127.0.0.1", &port, "", "0", "5000", "KEYS"]
                .iter()
                .map(|arg| arg.as_bytes().to_owned())
                .collect();
            for key in keys.items() {
                let Reply::Bulk(key) = key else {
                    panic!("not a key: {key:?}")
                };
                command.push(key.clone());
            }
            source.must(&command);
        }
    }

    /// Gives the slot to its new owner and waits until all running nodes know.
    /// Keys must have been migrated: a primary refuses to give away a full slot.
    #[track_caller]
    pub fn finish(self) {
        let new_owner = self.cluster.id(self.to);
        // The new owner first: should the rest fail, the slot is still served.
        for node in [self.to, self.from] {
            self.cluster.nodes[node].must(&["CLUSTER", "SETSLOT", &self.slot, "NODE", new_owner]);
        }
        let slot = self.slot.parse().expect("made from a number");
        for node in self.cluster.running() {
            wait::until("all nodes know the slot's new owner", SETTLE_LIMIT, || {
                self.cluster.owner_seen_by(node, slot) == Some(self.to)
            });
        }
    }
}

impl Peer {
    fn has(&self, flag: &str) -> bool {
        self.flags.iter().any(|its| its == flag)
    }
}

fn peers_seen_by(witness: &Redis) -> Vec<Peer> {
    witness
        .cmd(&["CLUSTER", "NODES"])
        .text()
        .lines()
        .filter_map(parse_peer)
        .collect()
}

/// Reads `ID ADDRESS FLAGS PRIMARY PING PONG EPOCH LINK SLOT...`; slots on the
/// move stand in brackets and are not owned ones.
fn parse_peer(line: &str) -> Option<Peer> {
    let fields: Vec<&str> = line.split_whitespace().collect();
    let slots = fields.get(8..)?.iter().filter(|field| !field.starts_with('['));
    Some(Peer {
        id: fields[0].to_owned(),
        flags: fields[2].split(',').map(str::to_owned).collect(),
        slots: slots.filter_map(|range| parse_range(range)).collect(),
    })
}

fn parse_range(text: &str) -> Option<(usize, usize)> {
    let (first, last) = text.split_once('-').unwrap_or((text, text));
    Some((first.parse().ok()?, last.parse().ok()?))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_line_of_cluster_nodes_gives_owned_slots_only() {
        let line = "abc 127.0.0.1:1@2 myself,master - 0 0 1 connected 0-5 7 [93-<-def]";
        let peer = parse_peer(line).unwrap();
        assert_eq!((peer.id.as_str(), peer.slots), ("abc", vec![(0, 5), (7, 7)]));
        assert_eq!(peer.flags, ["myself", "master"]);
    }
}
