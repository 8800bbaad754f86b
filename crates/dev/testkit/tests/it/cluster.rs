use std::collections::hash_map::{Entry, HashMap};
use std::io;
use std::net::SocketAddr;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::thread;

use nagaya_testkit::{Failover, RedisCluster, Reply, RespClient, shared, wait};

use crate::LIMIT;

/// A client that follows redirects, and tries again while a node is away.
struct Writer {
    seeds: Vec<SocketAddr>,
    connections: HashMap<SocketAddr, RespClient>,
    asked: usize,
    moved: usize,
}

impl Writer {
    fn new(cluster: &RedisCluster) -> Writer {
        Writer {
            seeds: cluster.addresses(),
            connections: HashMap::new(),
            asked: 0,
            moved: 0,
        }
    }

    fn cmd(&mut self, args: &[&str]) -> Reply {
        let mut seeds = self.seeds.clone().into_iter().cycle();
        let mut node = seeds.next().unwrap();
        let mut asking = false;
        wait::value("a cluster node takes the command", LIMIT, || {
            let reply = self.try_cmd(node, args, asking);
            asking = false;
            let Ok(reply) = reply else {
                self.connections.remove(&node);
                node = seeds.next().unwrap();
                return None;
            };
            let Some(error) = reply.error() else {
                return Some(reply);
            };
            let words: Vec<&str> = error.split(' ').collect();
            match words[0] {
                "MOVED" => self.moved += 1,
                "ASK" => (self.asked, asking) = (self.asked + 1, true),
                "CLUSTERDOWN" | "LOADING" | "TRYAGAIN" => return None,
                _ => return Some(reply),
            }
            node = words[2].parse().unwrap();
            None
        })
    }

    fn try_cmd(&mut self, node: SocketAddr, args: &[&str], asking: bool) -> io::Result<Reply> {
        let client = match self.connections.entry(node) {
            Entry::Occupied(open) => open.into_mut(),
            Entry::Vacant(new) => new.insert(RespClient::connect(node)?),
        };
        if asking {
            client.cmd(&["ASKING"])?;
        }
        client.cmd(args)
    }
}

#[test]
fn a_new_cluster_serves_every_slot_and_each_primary_has_a_replica() {
    let cluster = shared::cluster();
    for (key, owner) in [("foo", 2), ("bar", 0), ("hello", 0)] {
        assert_eq!(cluster.owner_of(cluster.slot_of(key)), owner, "{key}");
    }
    let mut replicas: Vec<usize> = (0..3).map(|primary| cluster.replica_of(primary)).collect();
    replicas.sort();
    assert_eq!(replicas, [3, 4, 5]);
    assert_eq!(Writer::new(cluster).cmd(&["SET", "foo", "1"]), Reply::ok());
}

#[test]
fn the_cluster_takes_writes_through_a_slot_move_and_a_failover() {
    let cluster = RedisCluster::start();
    let slot = cluster.slot_of("{tag}");
    let from = cluster.owner_of(slot);
    let to = (from + 1) % 3;
    let (written, enough) = (AtomicUsize::new(0), AtomicBool::new(false));
    let wait_for_writes = || {
        let target = written.load(Ordering::SeqCst) + 50;
        wait::until("writes go on", LIMIT, || written.load(Ordering::SeqCst) >= target);
    };
    thread::scope(|scope| {
        let writer = scope.spawn(|| {
            let mut writer = Writer::new(&cluster);
            while !enough.load(Ordering::SeqCst) {
                let number = written.load(Ordering::SeqCst).to_string();
                assert_eq!(
                    writer.cmd(&["SET", &format!("{{tag}}:{number}"), &number]),
                    Reply::ok()
                );
                written.fetch_add(1, Ordering::SeqCst);
            }
            writer
        });
        wait_for_writes();
        let slot_move = cluster.begin_slot_move(slot, to);
        wait_for_writes();
        slot_move.migrate_keys();
        slot_move.finish();
        assert_eq!(cluster.owner_of(slot), to);
        wait_for_writes();
        let replica = cluster.replica_of(to);
        cluster.failover(replica, Failover::Graceful);
        assert_eq!(cluster.owner_of(slot), replica);
        wait_for_writes();
        enough.store(true, Ordering::SeqCst);
        let mut writer = writer.join().unwrap();
        assert!(
            writer.asked > 0 && writer.moved > 0,
            "{} asked, {} moved",
            writer.asked,
            writer.moved
        );
        for number in 0..written.load(Ordering::SeqCst) {
            let value = writer.cmd(&["GET", &format!("{{tag}}:{number}")]);
            assert_eq!(value, Reply::bulk(number.to_string()));
        }
    });
}

#[test]
fn a_replica_takes_over_from_a_dead_or_frozen_primary() {
    let cluster = RedisCluster::start();
    let mut writer = Writer::new(&cluster);
    assert_eq!(writer.cmd(&["SET", "foo", "1"]), Reply::ok());
    let owner = cluster.owner_of(cluster.slot_of("foo"));
    let replica = cluster.replica_of(owner);
    wait::until("the write has reached the replica", LIMIT, || {
        cluster.nodes()[replica].info("db0").is_some()
    });

    // Elected by the other nodes, without a command.
    cluster.nodes()[owner].kill9();
    cluster.wait_until_primary(replica);
    assert_eq!(writer.cmd(&["GET", "foo"]), Reply::bulk("1"));

    cluster.nodes()[owner].restart();
    cluster.wait_settled();
    assert_eq!(cluster.replica_of(replica), owner);

    // By one command to the replica, before the others have noticed anything.
    cluster.nodes()[owner].wait_synced();
    cluster.nodes()[replica].stop();
    cluster.failover(owner, Failover::Takeover);
    assert_eq!(writer_after_takeover(&cluster, owner), Reply::bulk("1"));
    cluster.nodes()[replica].cont();
    cluster.wait_settled();

    // By one command to the replica, with the vote of the others.
    let owner = cluster.owner_of(cluster.slot_of("bar"));
    let replica = cluster.replica_of(owner);
    cluster.failover(replica, Failover::Force);
    assert_eq!(cluster.owner_of(cluster.slot_of("bar")), replica);
}

/// Asks the new primary itself: the frozen one would let a client wait.
fn writer_after_takeover(cluster: &RedisCluster, primary: usize) -> Reply {
    wait::value("the new primary serves", LIMIT, || {
        Some(cluster.nodes()[primary].cmd(&["GET", "foo"])).filter(|reply| reply.error().is_none())
    })
}

#[test]
fn a_moved_slot_takes_all_its_keys_along() {
    let cluster = shared::cluster();
    let mut writer = Writer::new(cluster);
    for number in 0..250 {
        writer.cmd(&["SET", &format!("{{moved}}:{number}"), "x"]);
    }
    let slot = cluster.slot_of("{moved}");
    let from = cluster.owner_of(slot);
    let to = (from + 1) % 3;
    cluster.move_slot(slot, to);
    let count = |node: usize| cluster.nodes()[node].cmd(&["CLUSTER", "COUNTKEYSINSLOT", &slot.to_string()]);
    assert_eq!((count(from), count(to)), (Reply::Int(0), Reply::Int(250)));
}
