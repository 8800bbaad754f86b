//! How workers do, and what follows for their places.

use std::sync::Arc;

use nagaya_fleet::agent::{Attempt, BoxFuture, Ended, Runner};
use nagaya_fleet::store::{InstanceState, Store};

use crate::ledger::Ledger;
use crate::support::{
    TestAgent, TestManager, block_on, eventually, install, installs, instance, options, shared_store, whole,
    worker,
};

/// A host on which nothing can be started.
struct Broken;

impl Runner for Broken {
    fn attempt<'a>(&'a self, _: Attempt<'a>) -> BoxFuture<'a, Ended> {
        Box::pin(async { Ended::Failed("\"/no/such/binary\" not started".into()) })
    }
}

fn broken(store: &Store, name: &str) -> TestAgent {
    TestAgent::with_options(store, options(name), Arc::new(Broken))
}

async fn is_cordoned(store: &Store, name: &str) -> bool {
    let record = whole(store).await.instances.remove(&instance(name));
    record.is_some_and(|record| record.state == InstanceState::Cordoned)
}

#[test]
fn a_broken_host_gets_a_few_workers_and_then_none() {
    let (store, ledger) = (shared_store(), Ledger::default());
    block_on(async {
        let manager = TestManager::start(&store, "m");
        let _good = TestAgent::start(&store, "good", &ledger);
        store.put(&installs(12)).await.unwrap();
        store.announce().await;
        let status = || manager.handle.status().borrow().clone();
        eventually("all are healthy", || async { status().health.healthy == 12 }).await;
        let _broken = broken(&store, "broken");
        eventually("it is cordoned", || async { is_cordoned(&store, "broken").await }).await;
        eventually("all are healthy again", || async {
            ledger.running_on("good") == 12 && status().health.healthy == 12
        })
        .await;
        assert_eq!(status().cordoned, [instance("broken")]);
        let history = store.history(None, 1000).await.unwrap();
        let moved = history
            .iter()
            .filter(|event| event.what == "revoked" && event.why == "balance")
            .count();
        assert!(moved <= 4, "{moved} were taken from the healthy host");
        let told = history.iter().find(|event| event.what == "cordoned").unwrap();
        assert_eq!(told.instance.as_deref(), Some("broken"));
        ledger.check();
        // An operator's word, or another process, is a new chance.
        store.drain(&instance("broken"), false).await.unwrap();
        assert!(!is_cordoned(&store, "broken").await);
    });
}

#[test]
fn workers_leave_a_broken_host_that_joined_together_with_a_healthy_one() {
    let (store, ledger) = (shared_store(), Ledger::default());
    block_on(async {
        let _manager = TestManager::start(&store, "m");
        let (_good, _broken) = (
            TestAgent::start(&store, "good", &ledger),
            broken(&store, "broken"),
        );
        eventually("both are there", || async {
            whole(&store).await.instances.len() == 2
        })
        .await;
        store.put(&installs(12)).await.unwrap();
        store.announce().await;
        eventually("all run on the healthy host", || async {
            ledger.running_on("good") == 12
        })
        .await;
        ledger.check();
    });
}

#[test]
fn a_worker_that_fails_everywhere_stays_and_costs_no_instance_its_place() {
    let (store, ledger) = (shared_store(), Ledger::default());
    block_on(async {
        let manager = TestManager::start(&store, "m");
        let _a = TestAgent::start(&store, "a", &ledger);
        let _b = TestAgent::start(&store, "b", &ledger);
        let mut list = installs(6);
        for install in &mut list[..2] {
            install.config = b"fail".to_vec();
        }
        store.put(&list).await.unwrap();
        store.announce().await;
        eventually("both were tried on both", || async {
            let (_, avoided) = whole(&store).await.health.unwrap();
            let tried = |name: &str| {
                avoided
                    .get(&worker(name))
                    .is_some_and(|where_to| where_to.len() == 2)
            };
            tried("w0000") && tried("w0001")
        })
        .await;
        eventually("the others run, and these are told of", || async {
            let status = manager.handle.status().borrow().clone();
            ledger.running().len() == 4 && status.health.failing + status.health.quarantined == 2
        })
        .await;
        let (health, _) = whole(&store).await.health.unwrap();
        let of = &health[&worker("w0000")];
        assert!(of.failures > 0 && of.reason.contains("told to fail"), "{of:?}");
        let snapshot = whole(&store).await;
        assert!(
            snapshot
                .instances
                .values()
                .all(|one| one.state == InstanceState::Live)
        );
        ledger.check();
    });
}

#[test]
fn a_drain_lasts_over_restarts_of_the_agent() {
    let (store, ledger) = (shared_store(), Ledger::default());
    block_on(async {
        let _manager = TestManager::start(&store, "m");
        let drained = TestAgent::start(&store, "drained", &ledger);
        let _other = TestAgent::start(&store, "other", &ledger);
        store.put(&[install("w"), install("x")]).await.unwrap();
        eventually("both run", || async { ledger.running().len() == 2 }).await;
        store.drain(&instance("drained"), true).await.unwrap();
        eventually("it is empty", || async { ledger.running_on("other") == 2 }).await;
        drained.leave().await.unwrap();
        let again = TestAgent::start(&store, "drained", &ledger);
        let state = || async {
            let record = whole(&store).await.instances.remove(&instance("drained"));
            record.map(|record| record.state)
        };
        eventually("it is back, and drained", || async {
            state().await == Some(InstanceState::Draining)
        })
        .await;
        again.crash().await;
        eventually("it is dead", || async {
            state().await == Some(InstanceState::Dead)
        })
        .await;
        let _again = TestAgent::start(&store, "drained", &ledger);
        eventually("it is back, and still drained", || async {
            state().await == Some(InstanceState::Draining)
        })
        .await;
        store.drain(&instance("drained"), false).await.unwrap();
        eventually("it has its share", || async { ledger.running_on("drained") == 1 }).await;
    });
}
