//! Defects of the program that document 000 describes, each shown to be absent here. B1 to B3, B5, B6, B9
//! and B10 are with the subjects they belong to.

use std::time::Duration;

use nagaya_fleet::manager::{ManagerOptions, Source};
use nagaya_fleet::store::PlaceState;
use nagaya_testkit::{Direction, Redis, TcpProxy};

use crate::ledger::Ledger;
use crate::support::{
    TestAgent, TestManager, block_on, eventually, install, installs, manager_options, place_of, shared_store,
    store_of, whole, worker,
};

/// In that program, the old and the new owner act on the same broadcast.
#[test]
fn b4_p4_a_moved_worker_starts_only_after_its_acknowledged_stop() {
    let (store, ledger) = (shared_store(), Ledger::default());
    block_on(async {
        let _manager = TestManager::start(&store, "m");
        let a = TestAgent::start(&store, "a", &ledger);
        // A worker that takes a while to end.
        let mut slow = install("slow");
        slow.config = b"slow end".to_vec();
        store.put(&[slow]).await.unwrap();
        eventually("it runs", || async { ledger.running_on("a") == 1 }).await;
        let _b = TestAgent::start(&store, "b", &ledger);
        eventually("the other has joined", || async {
            whole(&store).await.instances.len() == 2
        })
        .await;
        store.relocate(&worker("slow"), true).await.unwrap();
        let place = place_of(&store, "slow").await.unwrap();
        assert_eq!(place.state, PlaceState::Revoking, "nobody else has it yet");
        eventually("it runs there", || async { ledger.running_on("b") == 1 }).await;
        ledger.check();
        let told = store.history(None, 100).await.unwrap();
        let of_worker: Vec<&str> = told
            .iter()
            .filter(|event| event.worker.as_deref() == Some("slow"))
            .map(|event| event.what.as_str())
            .collect();
        assert_eq!(of_worker, ["assigned", "revoked", "stopped", "assigned"]);
        drop(a);
    });
}

/// In that program, each instance's list is broadcast without an addressee, and every instance follows all of
/// them.
#[test]
fn b7_messages_carry_no_orders_so_nobody_follows_anothers_list() {
    let (store, ledger) = (shared_store(), Ledger::default());
    block_on(async {
        let _manager = TestManager::start(&store, "m");
        let mut agents = Vec::new();
        for name in ["a", "b", "c"] {
            agents.push(TestAgent::start(&store, name, &ledger));
        }
        store.put(&installs(12)).await.unwrap();
        eventually("all run", || async { ledger.running().len() == 12 }).await;
        eventually("four run on each", || async {
            ["a", "b", "c"].iter().all(|name| ledger.running_on(name) == 4)
        })
        .await;
        let before = ledger.copies().len();
        let connection = store.client().connection(b"x").await.unwrap();
        let channel = store.wakeup_channel();
        for payload in ["[\"w0000\"]", "{\"installs\":[]}", "stop", ""] {
            for _ in 0..20 {
                connection.call(&["PUBLISH", &channel, payload]).await.unwrap();
            }
        }
        let beats = |snapshot: &nagaya_fleet::store::FleetSnapshot| {
            snapshot
                .instances
                .values()
                .map(|record| record.beat)
                .collect::<Vec<_>>()
        };
        let then = beats(&whole(&store).await);
        eventually("everybody has looked again", || async {
            let now = beats(&whole(&store).await);
            now.iter().zip(&then).all(|(now, then)| *now > then + 1)
        })
        .await;
        assert_eq!(ledger.copies().len(), before, "nobody was started or stopped");
        ledger.check();
    });
}

/// In that program, a webhook without news resets the cursor, so that the next one replays the whole history.
#[test]
fn b8_webhooks_without_news_change_nothing_and_none_is_swallowed() {
    let store = shared_store();
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("list.json");
    let write = |ids: &[&str]| {
        let objects: Vec<String> = ids.iter().map(|id| format!("{{\"id\":\"{id}\"}}")).collect();
        std::fs::write(path.with_extension("part"), format!("[{}]", objects.join(","))).unwrap();
        std::fs::rename(path.with_extension("part"), &path).unwrap();
    };
    write(&["a", "b", "gone"]);
    // A slow read, so that triggers arrive in the middle of one.
    let source = format!("exec:sh -c 'sleep 0.1; cat {}'", path.display());
    let options = ManagerOptions {
        source: Some(source.parse::<Source>().unwrap()),
        source_interval: Duration::from_secs(3600),
        ..manager_options("m")
    };
    block_on(async {
        let manager = TestManager::with_options(&store, options);
        let syncs = || manager.handle.status().borrow().syncs;
        let installed = || async { whole(&store).await.places.unwrap().len() };
        eventually("the first list", || async { installed().await == 3 }).await;
        write(&["a", "b"]);
        manager.handle.trigger();
        eventually("one is gone", || async { installed().await == 2 }).await;
        let (version, before) = (whole(&store).await.version, syncs());
        for _ in 0..3 {
            let seen = syncs();
            manager.handle.trigger();
            eventually("one more reading", || async { syncs() > seen }).await;
        }
        assert!(syncs() >= before + 3);
        assert_eq!(whole(&store).await.version, version, "nothing was replayed");
        // Triggered during a read: the last state is read for sure.
        manager.handle.trigger();
        tokio::task::yield_now().await;
        write(&["a", "b", "late"]);
        manager.handle.trigger();
        eventually("the last list", || async { installed().await == 3 }).await;
        assert!(place_of(&store, "gone").await.is_none());
    });
}

/// In that program, an error ends the process, and the dead instance's workers stay where they were.
#[test]
fn b11_a_death_that_could_not_be_declared_is_declared_later() {
    let redis = Redis::start();
    let proxy = TcpProxy::start(redis.address());
    let (store, ledger) = (store_of(&redis.url(), "app"), Ledger::default());
    let behind = store_of(&format!("redis://{}", proxy.address()), "app");
    block_on(async {
        let manager = TestManager::start(&behind, "m");
        let dying = TestAgent::start(&store, "dying", &ledger);
        let _other = TestAgent::start(&store, "other", &ledger);
        store.put(&installs(4)).await.unwrap();
        store.announce().await;
        eventually("two run on each", || async {
            ledger.running_on("dying") == 2 && ledger.running_on("other") == 2
        })
        .await;
        dying.crash().await;
        // The manager is cut off for longer than a death takes.
        proxy.cut(Direction::Both);
        tokio::time::sleep(crate::support::quick().death + Duration::from_millis(500)).await;
        assert_eq!(manager.handle.status().borrow().deaths_total, 0);
        proxy.restore();
        eventually("all run on the other", || async {
            ledger.running_on("other") == 4
        })
        .await;
        assert_eq!(manager.handle.status().borrow().deaths_total, 1);
        ledger.check();
    });
}
