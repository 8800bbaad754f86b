//! Broken networks and broken Redis servers: never two copies, and all workers run again in the end.

use std::cell::RefCell;
use std::collections::BTreeMap;
use std::time::Duration;

use nagaya_clock::boot_now;
use nagaya_fleet::store::Store;
use nagaya_testkit::{Direction, Redis, TcpProxy};

use crate::ledger::Ledger;
use crate::support::{TestAgent, TestManager, block_on, eventually, installs, quick, store_of};

fn behind(proxy: &TcpProxy, app: &str) -> Store {
    store_of(&format!("redis://{}", proxy.address()), app)
}

/// An agent behind a proxy, a second agent and a manager without one, all workers running.
struct Stage {
    redis: Redis,
    proxy: TcpProxy,
    store: Store,
    ledger: Ledger,
}

impl Stage {
    fn start() -> Stage {
        let redis = Redis::start();
        let proxy = TcpProxy::start(redis.address());
        let store = store_of(&redis.url(), "app");
        Stage {
            redis,
            proxy,
            store,
            ledger: Ledger::default(),
        }
    }

    async fn fill(&self) -> (TestManager, TestAgent, TestAgent) {
        let manager = TestManager::start(&self.store, "m");
        let cut = TestAgent::start(&behind(&self.proxy, "app"), "cut", &self.ledger);
        let whole = TestAgent::start(&self.store, "whole", &self.ledger);
        self.store.put(&installs(6)).await.unwrap();
        eventually("three run on each", || async {
            self.ledger.running_on("cut") == 3 && self.ledger.running_on("whole") == 3
        })
        .await;
        (manager, cut, whole)
    }

    /// Waits until both instances have sent heartbeats for at least this long.
    ///
    /// Counts changes of incarnation and heartbeat number: a store that went back in time repeats numbers.
    async fn heartbeats_for(&self, length: Duration) {
        let wanted = length.as_millis() / quick().heartbeat.as_millis() + 1;
        let seen = RefCell::new(BTreeMap::new());
        eventually("heartbeats go on", || async {
            let Ok(snapshot) = self.store.snapshot(None).await else {
                return false;
            };
            let mut seen = seen.borrow_mut();
            for (name, record) in snapshot.instances {
                let (last, changes) = seen.entry(name).or_insert(((0, 0), 0));
                if *last != (record.inc, record.beat) {
                    (*last, *changes) = ((record.inc, record.beat), *changes + 1);
                }
            }
            // The first sight of an instance is no heartbeat of it.
            seen.len() == 2 && seen.values().all(|(_, changes)| *changes > wanted)
        })
        .await;
    }

    async fn all_run(&self) {
        eventually("all run", || async { self.ledger.running().len() == 6 }).await;
        self.ledger.check();
    }
}

#[test]
fn b1_a_cut_off_agent_stops_its_workers_before_another_starts_them() {
    let stage = Stage::start();
    block_on(async {
        let agents = stage.fill().await;
        stage.proxy.cut(Direction::Both);
        let cut_at = boot_now();
        eventually("all run on the other", || async {
            stage.ledger.running_on("whole") == 6
        })
        .await;
        let dark = boot_now().since(cut_at);
        assert!(dark > quick().lease / 2, "{dark:?}");
        assert_eq!(stage.ledger.running_on("cut"), 0);
        stage.ledger.check();
        // After the link is restored, it comes back as a new incarnation and gets its share.
        stage.proxy.restore();
        eventually("it has its share again", || async {
            stage.ledger.running_on("cut") == 3
        })
        .await;
        stage.all_run().await;
        drop(agents);
    });
}

#[test]
fn a_one_way_cut_is_as_good_as_a_whole_one() {
    for direction in [Direction::ToServer, Direction::ToClient] {
        let stage = Stage::start();
        block_on(async {
            let agents = stage.fill().await;
            stage.proxy.cut(direction);
            eventually("all run on the other", || async {
                stage.ledger.running_on("whole") == 6
            })
            .await;
            stage.ledger.check();
            drop(agents);
        });
    }
}

#[test]
fn a_short_cut_is_not_noticed_by_any_worker() {
    let stage = Stage::start();
    block_on(async {
        let agents = stage.fill().await;
        let before = stage.ledger.copies().len();
        stage.proxy.reset();
        stage.heartbeats_for(quick().lease).await;
        assert_eq!(stage.ledger.copies().len(), before);
        stage.all_run().await;
        drop(agents);
    });
}

#[test]
fn a_crashed_agents_workers_run_elsewhere_within_the_printed_bound() {
    let stage = Stage::start();
    block_on(async {
        let (_manager, cut, _whole) = stage.fill().await;
        let crashed_at = boot_now();
        cut.crash().await;
        stage.all_run().await;
        let dark = boot_now().since(crashed_at);
        let bound = quick().bounds().after_crash;
        assert!(dark < bound + Duration::from_secs(2), "{dark:?}, bound {bound:?}");
    });
}

#[test]
fn a_lost_store_costs_time_and_nothing_else() {
    let stage = Stage::start();
    block_on(async {
        let agents = stage.fill().await;
        stage.redis.cmd(&["FLUSHALL"]);
        eventually("all are stopped", || async { stage.ledger.running().is_empty() }).await;
        // The external list brings them back.
        stage.store.put(&installs(6)).await.unwrap();
        stage.all_run().await;
        drop(agents);
    });
}

#[test]
fn a_restarted_redis_stops_nobody_who_can_go_on() {
    let stage = Stage::start();
    block_on(async {
        let agents = stage.fill().await;
        stage.redis.cmd(&["SAVE"]);
        stage.redis.kill9();
        stage.redis.restart();
        stage.all_run().await;
        stage.heartbeats_for(quick().lease).await;
        stage.all_run().await;
        drop(agents);
    });
}

#[test]
fn a_store_that_goes_back_in_time_never_makes_two_copies() {
    let stage = Stage::start();
    block_on(async {
        let (_manager, cut, _whole) = stage.fill().await;
        stage.redis.cmd(&["SAVE"]);
        stage.redis.cmd(&["CONFIG", "SET", "save", ""]);
        // This move is lost in the failover.
        cut.leave().await.unwrap();
        eventually("all run on the other", || async {
            stage.ledger.running_on("whole") == 6
        })
        .await;
        let _again = TestAgent::start(&behind(&stage.proxy, "app"), "cut", &stage.ledger);
        stage.redis.kill9();
        stage.redis.restart();
        stage.all_run().await;
        stage.heartbeats_for(quick().lease * 2).await;
        stage.all_run().await;
    });
}
