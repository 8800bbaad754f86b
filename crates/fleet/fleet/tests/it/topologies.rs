//! The same protocol on a cluster and behind sentinels.

use nagaya_testkit::{RedisSentinel, SENTINEL_SERVICE, shared};

use crate::ledger::Ledger;
use crate::support::{TestAgent, TestManager, block_on, eventually, installs, store_at};

async fn a_fleet_works(store: &nagaya_fleet::store::Store, ledger: &Ledger) -> (TestManager, TestAgent) {
    let manager = TestManager::start(store, "m");
    let first = TestAgent::start(store, "a", ledger);
    let second = TestAgent::start(store, "b", ledger);
    store.put(&installs(6)).await.unwrap();
    eventually("three run on each", || async {
        ledger.running_on("a") == 3 && ledger.running_on("b") == 3
    })
    .await;
    second.leave().await.unwrap();
    eventually("all run on one", || async { ledger.running_on("a") == 6 }).await;
    ledger.check();
    (manager, first)
}

#[test]
fn a_cluster_serves() {
    let seeds: Vec<String> = shared::cluster()
        .addresses()
        .iter()
        .map(ToString::to_string)
        .collect();
    let store = store_at(&format!("redis+cluster://{}", seeds.join(",")));
    block_on(async {
        a_fleet_works(&store, &Ledger::default()).await;
    });
}

#[test]
fn a_failover_by_sentinels_makes_no_second_copy_and_all_run_on() {
    let servers = RedisSentinel::start();
    let sentinels: Vec<String> = servers
        .sentinels()
        .iter()
        .map(|sentinel| sentinel.address().to_string())
        .collect();
    let store = store_at(&format!(
        "redis+sentinel://{}/{SENTINEL_SERVICE}",
        sentinels.join(",")
    ));
    let ledger = Ledger::default();
    block_on(async {
        let fleet = a_fleet_works(&store, &ledger).await;
        let before = servers.primary_address();
        servers.primary().kill9();
        servers.wait_for_new_primary(before);
        let _late = TestAgent::start(&store, "c", &ledger);
        eventually("the new one has its share", || async {
            ledger.running_on("c") == 3 && ledger.running().len() == 6
        })
        .await;
        ledger.check();
        drop(fleet);
    });
}
