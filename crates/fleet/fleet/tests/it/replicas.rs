//! Heartbeats that only count once replicas have them, and a split brain without that rule.

use std::sync::Arc;
use std::time::Duration;

use nagaya_fleet::agent::{AgentOptions, CodeRunner};
use nagaya_fleet::store::{Pass, Store, pass_gate};
use nagaya_redis_client::Need;
use nagaya_testkit::RedisReplicas;

use crate::ledger::Ledger;
use crate::support::{TestAgent, TestManager, block_on, eventually, installs, options, quick, store_of};

fn agent(store: &Store, name: &str, ledger: &Ledger, replicas: u32) -> TestAgent {
    let need = Need {
        replicas,
        limit: quick().heartbeat,
    };
    let options = AgentOptions {
        need,
        ..options(name)
    };
    TestAgent::with_options(store, options, Arc::new(CodeRunner::new(ledger.maker())))
}

/// A primary that continues on its own, and a promoted replica that leads the other one.
struct Split {
    servers: RedisReplicas,
    old: Store,
    new: Store,
    ledger: Ledger,
}

impl Split {
    fn start() -> Split {
        let servers = RedisReplicas::start(2);
        let side = |at: usize| store_of(&servers.nodes()[at].url(), "app");
        Split {
            old: side(0),
            new: side(1),
            servers,
            ledger: Ledger::default(),
        }
    }

    fn happen(&self) {
        let [_, leader, follower] = self.servers.nodes() else {
            panic!("there are three servers");
        };
        leader.promote();
        follower.follow(leader);
    }
}

#[test]
fn heartbeats_that_no_replica_has_stop_the_workers_until_one_has_them() {
    let servers = RedisReplicas::start(1);
    let (store, ledger) = (store_of(&servers.primary().url(), "app"), Ledger::default());
    block_on(async {
        let _manager = TestManager::start(&store, "m");
        let _agent = agent(&store, "a", &ledger, 1);
        store.put(&installs(3)).await.unwrap();
        eventually("all run", || async { ledger.running().len() == 3 }).await;
        servers.nodes()[1].stop();
        eventually("all are stopped", || async { ledger.running().is_empty() }).await;
        servers.nodes()[1].cont();
        eventually("all run again", || async { ledger.running().len() == 3 }).await;
        ledger.check();
    });
}

#[test]
fn in_a_split_brain_only_the_side_with_the_replicas_runs_workers() {
    let split = Split::start();
    block_on(async {
        let _old_manager = TestManager::start(&split.old, "m1");
        let _old_agent = agent(&split.old, "a", &split.ledger, 1);
        split.old.put(&installs(3)).await.unwrap();
        eventually("all run on the old side", || async {
            split.ledger.running_on("a") == 3
        })
        .await;
        split.happen();
        let _new_manager = TestManager::start(&split.new, "m2");
        let _new_agent = agent(&split.new, "b", &split.ledger, 1);
        eventually("all run on the new side", || async {
            split.ledger.running_on("b") == 3
        })
        .await;
        assert_eq!(split.ledger.running_on("a"), 0);
        split.ledger.check();
    });
}

/// Not guaranteed in this setup, but the gate still protects.
#[test]
fn without_required_replicas_a_split_brain_runs_two_copies_and_the_gate_tells_them_apart() {
    let split = Split::start();
    block_on(async {
        let _old_manager = TestManager::start(&split.old, "m1");
        let _old_agent = agent(&split.old, "a", &split.ledger, 0);
        split.old.put(&installs(1)).await.unwrap();
        eventually("it runs on the old side", || async {
            split.ledger.running_on("a") == 1
        })
        .await;
        split.happen();
        let _new_manager = TestManager::start(&split.new, "m2");
        let _new_agent = agent(&split.new, "b", &split.ledger, 0);
        eventually("it runs on the new side too", || async {
            let copies = split.ledger.copies();
            copies.iter().filter(|copy| copy.until.is_none()).count() == 2
        })
        .await;
        let copies = split.ledger.copies();
        let epoch = |name: &str| copies.iter().find(|copy| copy.instance == name).unwrap().epoch;
        let gate = split.new.gate_key("w0000");
        let pass = |epoch| pass_gate(split.new.client(), &gate, epoch);
        assert_eq!(pass(epoch("a")).await.unwrap(), Pass::Granted);
        assert_eq!(pass(epoch("b")).await.unwrap(), Pass::Granted);
        let refused = pass(epoch("a")).await.unwrap();
        assert_eq!(
            refused,
            Pass::Refused {
                newer_epoch: epoch("b")
            }
        );
    });
}

#[test]
fn b1_an_agent_that_cannot_confirm_stops_within_its_lease() {
    let servers = RedisReplicas::start(1);
    let (store, ledger) = (store_of(&servers.primary().url(), "app"), Ledger::default());
    block_on(async {
        let _manager = TestManager::start(&store, "m");
        let _agent = agent(&store, "a", &ledger, 1);
        store.put(&installs(1)).await.unwrap();
        eventually("it runs", || async { ledger.running().len() == 1 }).await;
        let begun = nagaya_clock::boot_now();
        servers.nodes()[1].stop();
        eventually("it is stopped", || async { ledger.running().is_empty() }).await;
        let took = nagaya_clock::boot_now().since(begun);
        assert!(took < quick().lease + Duration::from_millis(500), "{took:?}");
        servers.nodes()[1].cont();
    });
}
