//! A Redis that is slow, gone, refusing or emptied.

use std::time::Duration;

use nagaya_ids::lease::{End, Holder, HolderOptions, Status};
use nagaya_ids::permit::Permit;
use nagaya_ids::pool::Error;
use nagaya_redis_client::Need;
use nagaya_testkit::{
    Direction, Redis, RedisCluster, RedisSentinel, Reply, SENTINEL_SERVICE, TcpProxy, wait,
};

use crate::stage::{PATIENCE, Stage, Watchman, is_usable, opened, options, reaches, start};
use crate::support::{block_on, call, grant, holder, make, pool_at, pool_of, quick_timing};

fn trouble(status: &Status) -> Option<&str> {
    match status {
        Status::Seeking { trouble } => trouble.as_deref(),
        _ => None,
    }
}

async fn seeks_because(holder: &Holder, text: &str) {
    let found = |status: &Status| trouble(status).is_some_and(|trouble| trouble.contains(text));
    reaches(holder, text, found).await;
}

fn one_replica() -> Need {
    Need {
        replicas: 1,
        limit: Duration::from_millis(300),
    }
}

#[test]
fn a_grant_that_too_few_replicas_have_is_given_back() {
    let stage = Stage::start(1);
    block_on(async {
        stage.replica.stop();
        let pool = stage.pool();
        let error = pool
            .get(&holder("a", "a"), &call(60_000), one_replica())
            .await
            .unwrap_err();
        assert!(matches!(error, Error::GivenBack { number: 1, .. }), "{error}");
        assert!(error.to_string().contains("0 of 1 required replicas"), "{error}");
        assert!(error.is_retryable());
        assert_eq!(stage.primary.cmd(&["HLEN", "t:clients"]), Reply::Int(0));
        stage.replica.cont();
        wait::until("the replica is heard again", PATIENCE, || {
            stage.primary.info("connected_slaves").as_deref() == Some("1")
        });
        let options = HolderOptions {
            min_replicas: 1,
            ..options("a")
        };
        opened(&Holder::start(pool, options).unwrap()).await;
    });
}

#[test]
fn no_replica_at_all_is_a_failure_and_not_a_success() {
    let redis = Redis::start();
    let pool = pool_of(&redis);
    block_on(async {
        make(&pool, 1, 1).await.unwrap();
        let error = pool
            .get(&holder("a", "a"), &call(60_000), one_replica())
            .await
            .unwrap_err();
        assert!(matches!(error, Error::GivenBack { .. }), "{error}");
    });
}

#[test]
fn a_holder_whose_replicas_freeze_stops_in_time() {
    let stage = Stage::start(1);
    block_on(async {
        let options = HolderOptions {
            min_replicas: 1,
            ..options("a")
        };
        let holder = Holder::start(stage.pool(), options).unwrap();
        let window = opened(&holder).await;
        stage.replica.stop();
        let ends = async {
            while is_usable(&window) {
                tokio::time::sleep(Duration::from_millis(20)).await;
            }
        };
        // One renewal may have been confirmed just before.
        let limit = quick_timing().use_for * 2 + Duration::from_secs(5);
        tokio::time::timeout(limit, ends).await.unwrap();
        stage.replica.cont();
        let again = async {
            while !is_usable(&window) {
                tokio::time::sleep(Duration::from_millis(20)).await;
            }
        };
        tokio::time::timeout(PATIENCE, again)
            .await
            .expect("the same window opens again");
    });
}

#[test]
fn a_connection_lost_between_script_and_wait_confirms_nothing() {
    let redis = Redis::start();
    let proxy = TcpProxy::start(redis.address());
    let pool = pool_at(&format!("redis://{}?ns=t", proxy.address()));
    block_on(async {
        make(&pool, 1, 2).await.unwrap();
        grant(&pool, &holder("z", "z"), &call(60_000)).await;
        let id = holder("a", "a");
        // The script arrives and runs; no answer comes back, and then the connection dies.
        proxy.cut(Direction::ToClient);
        let asking = {
            let (pool, id) = (pool.clone(), id.clone());
            tokio::spawn(async move { pool.get(&id, &call(60_000), Need::PRIMARY_ONLY).await })
        };
        wait::until("the script ran", PATIENCE, || {
            redis.cmd(&["HLEN", "t:clients"]) == Reply::Int(2)
        });
        proxy.reset();
        let error = asking.await.unwrap().unwrap_err();
        assert!(
            matches!(&error, Error::Redis(error) if error.may_have_run()),
            "{error}"
        );
        proxy.restore();
        let found = grant(&pool, &id, &call(60_000)).await;
        assert_eq!(found.number, 2, "the lost answer's number is found again");
        assert!(!found.at_once);
        pool.abandon(&id).await.unwrap();
        assert_eq!(redis.cmd(&["HLEN", "t:clients"]), Reply::Int(1));
    });
}

#[test]
fn flushall_under_holders_ends_their_use_and_they_recover_after_init() {
    let redis = Redis::start();
    let pool = pool_of(&redis);
    block_on(async {
        make(&pool, 1, 2).await.unwrap();
        let (a, b) = (start(pool.clone(), "a"), start(pool.clone(), "b"));
        let (first, second) = (opened(&a).await, opened(&b).await);
        assert_ne!(first.worker(), second.worker());
        let watch = Watchman::begin(&[&a, &b]);
        redis.cmd(&["FLUSHALL"]);
        seeks_because(&a, "not initialized").await;
        seeks_because(&b, "not initialized").await;
        assert!(first.is_ended() && second.is_ended());
        make(&pool, 1, 2).await.unwrap();
        let again = opened(&a).await;
        assert!(again.fence() > first.fence().max(second.fence()));
        opened(&b).await;
        watch.end().await;
    });
}

#[test]
fn a_holder_waits_for_a_number_to_come_free() {
    let redis = Redis::start();
    let pool = pool_of(&redis);
    block_on(async {
        make(&pool, 1, 1).await.unwrap();
        let a = start(pool.clone(), "a");
        opened(&a).await;
        let b = start(pool.clone(), "b");
        seeks_because(&b, "all numbers are reserved").await;
        assert_eq!(a.stop().await, End::Released);
        // Cleanly released under the same run: nothing to wait for.
        let window = opened(&b).await;
        assert_eq!(window.worker(), 1);
    });
}

#[test]
fn a_pool_that_is_not_there_fails_at_once() {
    let redis = Redis::start();
    block_on(async {
        let holder = start(pool_of(&redis), "a");
        let end = holder.window().await.unwrap_err();
        assert!(
            matches!(&end, End::Failed(reason) if reason.contains("ids init")),
            "{end:?}"
        );
    });
}

#[test]
fn a_wrong_password_fails_at_once() {
    let redis = Redis::with_config(&["requirepass secret"]);
    let url = |login: &str| format!("redis://{login}{}?ns=t", redis.address());
    block_on(async {
        for login in ["", ":wrong@"] {
            let end = start(pool_at(&url(login)), "a").window().await.unwrap_err();
            let End::Failed(reason) = &end else {
                panic!("{end:?}")
            };
            assert!(
                reason.contains("NOAUTH") || reason.contains("WRONGPASS"),
                "{reason}"
            );
            assert!(!reason.contains("wrong@"), "{reason}");
        }
        let pool = pool_at(&url("default:secret@"));
        make(&pool, 1, 1).await.unwrap();
        opened(&start(pool, "a")).await;
    });
}

#[test]
fn a_full_redis_is_waited_for() {
    let redis = Redis::start();
    let pool = pool_of(&redis);
    block_on(async {
        make(&pool, 1, 1).await.unwrap();
        redis.cmd(&["CONFIG", "SET", "maxmemory", "1"]);
        let holder = start(pool, "a");
        seeks_because(&holder, "OOM").await;
        redis.cmd(&["CONFIG", "SET", "maxmemory", "0"]);
        opened(&holder).await;
    });
}

#[test]
fn a_replica_is_not_written_to() {
    let stage = Stage::start(1);
    block_on(async {
        stage.signpost.point_to(stage.replica.address());
        let holder = start(stage.pool(), "a");
        seeks_because(&holder, "is a slave, not the primary").await;
        stage.signpost.point_to(stage.primary.address());
        opened(&holder).await;
    });
}

#[test]
fn a_primary_that_is_demoted_refuses_and_the_holder_moves_on() {
    let stage = Stage::start(1);
    block_on(async {
        let holder = start(stage.pool(), "a");
        let window = opened(&holder).await;
        stage.wait_replicated();
        stage.replica.cmd(&["REPLICAOF", "NO", "ONE"]);
        let port = stage.replica.address().port().to_string();
        // The holder's connection stays open and gets READONLY.
        stage.primary.cmd(&["REPLICAOF", "127.0.0.1", &port]);
        stage.signpost.point_to(stage.replica.address());
        let demoted_at = window.until();
        let goes_on = async {
            while window.until() <= demoted_at + quick_timing().use_for && !window.is_ended() {
                tokio::time::sleep(Duration::from_millis(50)).await;
            }
        };
        tokio::time::timeout(PATIENCE, goes_on).await.unwrap();
        // On a slow machine the window may have been broken in between; then it is a new grant.
        opened(&holder).await;
    });
}

#[test]
fn a_loading_redis_is_waited_for() {
    let redis = Redis::with_config(&[
        "key-load-delay 1000",
        "loading-process-events-interval-bytes 1024",
    ]);
    let pool = pool_of(&redis);
    block_on(async {
        make(&pool, 1, 1).await.unwrap();
        redis.cmd(&["DEBUG", "POPULATE", "2000"]);
        assert_eq!(redis.cmd(&["SAVE"]), Reply::ok());
        redis.kill9();
        redis.process().start_again().unwrap();
        let holder = start(pool, "a");
        seeks_because(&holder, "LOADING").await;
        opened(&holder).await;
    });
}

#[test]
fn a_sentinels_failover_is_followed() {
    let sentinel = RedisSentinel::start();
    let addresses: Vec<String> = sentinel
        .sentinels()
        .iter()
        .map(|node| node.address().to_string())
        .collect();
    let pool = pool_at(&format!(
        "redis+sentinel://{}/{SENTINEL_SERVICE}?ns=t",
        addresses.join(",")
    ));
    block_on(async {
        make(&pool, 1, 3).await.unwrap();
        let holder = start(pool, "a");
        let before = opened(&holder).await;
        tokio::task::block_in_place(|| sentinel.failover());
        let renewed = async {
            loop {
                let window = opened(&holder).await;
                let now = window.until();
                tokio::time::sleep(quick_timing().interval).await;
                if is_usable(&window) && window.until() > now {
                    return window;
                }
            }
        };
        let after = tokio::time::timeout(PATIENCE, renewed).await.unwrap();
        assert!(after.fence() >= before.fence());
        assert_eq!(holder.stop().await, End::Released);
    });
}

#[test]
fn a_cluster_needs_braces_and_survives_a_failover() {
    let cluster = RedisCluster::start();
    let seed = cluster.addresses()[0];
    let options = nagaya_redis_client::Options::default();
    let url = format!("redis+cluster://{seed}?ns=plain").parse().unwrap();
    let client = std::sync::Arc::new(nagaya_redis_client::Client::new(url, options).unwrap());
    let refused = nagaya_ids::pool::Pool::new(client);
    assert!(matches!(refused, Err(Error::NamespaceWithoutTag { .. })));
    let pool = pool_at(&format!("redis+cluster://{seed}?ns={{pool}}"));
    block_on(async {
        make(&pool, 1, 3).await.unwrap();
        let holder = start(pool.clone(), "a");
        opened(&holder).await;
        let primary = cluster.owner_of(cluster.slot_of("{pool}:ids"));
        let replica = cluster.replica_of(primary);
        tokio::task::block_in_place(|| {
            cluster.failover(replica, nagaya_testkit::Failover::Graceful);
            cluster.wait_until_primary(replica);
        });
        let renewed = async {
            loop {
                let window = opened(&holder).await;
                let now = window.until();
                tokio::time::sleep(quick_timing().interval).await;
                if is_usable(&window) && window.until() > now {
                    return;
                }
            }
        };
        tokio::time::timeout(PATIENCE, renewed).await.unwrap();
        assert_eq!(pool.report().await.unwrap().stats().using_ids, 1);
        assert_eq!(holder.stop().await, End::Released);
    });
}
