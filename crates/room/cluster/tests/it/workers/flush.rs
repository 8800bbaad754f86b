//! FLUSHALL and FLUSHDB through proxies, with keys in both tiers.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use nagaya_testkit::{Redis, RedisCluster, Reply, shared, wait};

use super::whole::{Town, client, cluster_url, open_postgres};
use crate::flaky::Flaky;

const PATIENCE: Duration = Duration::from_secs(60);

fn flushes_both_tiers(town: &Town) {
    let (proxy, other) = (town.serve(), town.serve());
    let tasks = town.tasks("one");
    let (mut client, mut second) = (client(proxy.address()), client(other.address()));
    for number in 0..300 {
        let keys = [
            format!("{{f{number}}}a"),
            format!("{{f{number}}}b"),
            format!("g{number}"),
        ];
        for key in &keys {
            assert_eq!(client.cmd(&["SET", key, "x"]).unwrap(), Reply::ok());
        }
    }
    wait::until("most tags are cold", PATIENCE, || tasks.stats().evicted >= 500);
    // Some are in memory again, some changed, some new, in reach of the other server only.
    for number in 0..50 {
        second.cmd(&["APPEND", &format!("{{f{number}}}a"), "y"]).unwrap();
        second.cmd(&["SET", &format!("{{new{number}}}k"), "y"]).unwrap();
    }
    // Tags go cold meanwhile, and are counted in both tiers or in none for an instant.
    wait::until("all are counted", PATIENCE, || {
        client.cmd(&["DBSIZE"]).unwrap().int() == 950
    });
    assert_eq!(client.cmd(&["FLUSHALL", "ASYNC"]).unwrap(), Reply::ok());
    for server in [&mut client, &mut second] {
        assert!(server.cmd(&["KEYS", "*"]).unwrap().items().is_empty());
        for key in ["{f1}a", "{f299}b", "g150", "{new7}k"] {
            assert_eq!(server.cmd(&["GET", key]).unwrap(), Reply::Nil, "{key}");
        }
    }
    assert_eq!(client.cmd(&["SET", "{f1}a", "after"]).unwrap(), Reply::ok());
    // Nothing comes back from the cold tier, and what was written since stays.
    wait::until("everything is saved and cold again", PATIENCE, || {
        town.tier("look").residents().unwrap() == 0
    });
    for number in 0..300 {
        let key = format!("{{f{number}}}a");
        let expected = if number == 1 {
            Reply::bulk("after")
        } else {
            Reply::Nil
        };
        assert_eq!(second.cmd(&["GET", &key]).unwrap(), expected, "{key}");
    }
    wait::until("one key is counted", PATIENCE, || {
        second.cmd(&["DBSIZE"]).unwrap().int() == 1
    });
    assert_eq!(second.cmd(&["FLUSHDB"]).unwrap(), Reply::ok());
    wait::until("no key is counted", PATIENCE, || {
        second.cmd(&["DBSIZE"]).unwrap().int() == 0
    });
    assert_eq!(
        client.cmd(&["FLUSHDB"]).unwrap(),
        Reply::ok(),
        "an empty one is flushed, too"
    );
    tasks.stop();
}

#[test]
fn a_flush_empties_both_tiers_on_one_server() {
    let redis = Redis::start();
    flushes_both_tiers(&Town::over(redis.url(), Arc::new(Flaky::default())));
}

#[test]
fn a_flush_empties_both_tiers_on_a_cluster_and_postgresql() {
    let cluster = RedisCluster::start();
    let database = shared::postgres().create_database();
    flushes_both_tiers(&Town::over(cluster_url(&cluster), open_postgres(&database)));
}

#[test]
fn what_was_written_before_a_flush_is_gone_and_what_was_written_after_it_stays() {
    let redis = Redis::start();
    let town = Town::over(redis.url(), Arc::new(Flaky::default()));
    let (proxy, other) = (town.serve(), town.serve());
    let tasks = town.tasks("one");
    let is_over = AtomicBool::new(false);
    std::thread::scope(|scope| {
        for writer in 0..2 {
            let (address, is_over) = ([proxy.address(), other.address()][writer], &is_over);
            scope.spawn(move || {
                let mut client = client(address);
                let mut number = 0;
                while !is_over.load(Ordering::SeqCst) {
                    number += 1;
                    let key = format!("{{w{writer}:{}}}k", number % 100);
                    client.cmd(&["SET", &key, "noise"]).unwrap();
                }
            });
        }
        let (mut one, mut two) = (client(proxy.address()), client(other.address()));
        for round in 0..10 {
            for number in 0..20 {
                let key = format!("{{r{number}}}{round}");
                one.cmd(&["SET", &key, "before"]).unwrap();
            }
            assert_eq!(two.cmd(&["FLUSHALL"]).unwrap(), Reply::ok());
            for number in 0..20 {
                let key = format!("{{r{number}}}{round}");
                assert_eq!(one.cmd(&["GET", &key]).unwrap(), Reply::Nil, "{key}");
                one.cmd(&["SET", &format!("{{kept}}{round}:{number}"), "after"])
                    .unwrap();
                assert_eq!(
                    two.cmd(&["GET", &format!("{{kept}}{round}:{number}")]).unwrap(),
                    Reply::bulk("after")
                );
            }
        }
        is_over.store(true, Ordering::SeqCst);
    });
    tasks.stop();
}

#[test]
fn a_flush_that_cannot_reach_the_cold_tier_says_so_and_can_be_repeated() {
    let redis = Redis::start();
    let cold = Arc::new(Flaky::default());
    let town = Town::over(redis.url(), cold.clone());
    let proxy = town.serve();
    let tasks = town.tasks("one");
    let mut client = client(proxy.address());
    for number in 0..20 {
        client.cmd(&["SET", &format!("{{c{number}}}k"), "x"]).unwrap();
    }
    wait::until("all is cold", PATIENCE, || tasks.stats().evicted >= 20);
    cold.set_down(true);
    let refused = client.cmd(&["FLUSHALL"]).unwrap();
    assert!(
        refused.error().is_some_and(|text| text.starts_with("TRYAGAIN")),
        "{refused:?}"
    );
    cold.set_down(false);
    assert_eq!(client.cmd(&["FLUSHALL"]).unwrap(), Reply::ok());
    assert_eq!(client.cmd(&["GET", "{c3}k"]).unwrap(), Reply::Nil);
    for wrong in [&["FLUSHALL", "NOW"][..], &["FLUSHDB", "SYNC", "ASYNC"]] {
        assert_eq!(
            client.cmd(wrong).unwrap(),
            Reply::Error("ERR syntax error".into())
        );
    }
    client.cmd(&["MULTI"]).unwrap();
    assert!(client.cmd(&["FLUSHALL"]).unwrap().error().is_some());
    tasks.stop();
}
