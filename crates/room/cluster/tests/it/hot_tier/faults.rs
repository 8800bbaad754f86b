//! Losses in Redis are normal events.

use std::time::Duration;

use nagaya_redis_client::slot;
use nagaya_testkit::{
    Failover, Redis, RedisCluster, RedisReplicas, RedisSentinel, Reply, SENTINEL_SERVICE, wait,
};
use nagaya_tiering::cold::{ColdTier, Committed};
use nagaya_tiering::hot::HotTier;
use nagaya_tiering::protocol::Touched;
use nagaya_tiering::saver::SaveReport;

use super::setup::Setup;

const PATIENCE: Duration = Duration::from_secs(30);

#[test]
fn defect_05_an_empty_redis_never_overwrites_a_row() {
    let redis = Redis::start();
    let setup = Setup::open(&redis.url());
    setup.set(b"{u}x", b"saved");
    setup.set(b"{u}y", b"saved");
    setup.save();
    setup.set(b"{u}x", b"lost with redis");
    let mut saver = setup.saver();
    redis.restart();
    assert_eq!(saver.flush().unwrap(), SaveReport::default(), "nothing is dirty");
    assert_eq!(setup.bench.tier.touch(&[b"u"]).unwrap(), [Touched::Cold]);
    assert_eq!(setup.get(b"{u}x"), Some(b"saved".to_vec()));
    assert_eq!(setup.get(b"{u}y"), Some(b"saved".to_vec()));
}

#[test]
fn defect_05_a_flush_by_an_operator_never_overwrites_a_row() {
    let redis = Redis::start();
    let setup = Setup::open(&redis.url());
    setup.set(b"{u}x", b"saved");
    setup.save();
    redis.cmd(&["FLUSHALL"]);
    // A server that still has its lease goes on for up to L: registered, on an empty tag.
    setup.bench.register(b"{u}y");
    setup.bench.call(b"{u}y", &["SET", "{u}y", "shadow"]);
    setup.bench.register(b"{u}x");
    let report = setup.saver().flush().unwrap();
    assert_eq!(
        (report.saved, report.skipped),
        (0, 1),
        "not resident: no snapshot"
    );
    assert!(setup.row(b"{u}x").is_some(), "dirty and absent is no delete here");
    assert_eq!(setup.get(b"{u}x"), Some(b"saved".to_vec()));
    setup.save();
    assert!(setup.row(b"{u}x").is_some());
}

#[test]
fn defect_08_a_snapshot_of_a_lost_history_is_refused() {
    let redis = Redis::start();
    let setup = Setup::open(&redis.url());
    setup.set(b"{u}x", b"1");
    setup.save();
    setup.set(b"{u}x", b"2");
    let late = setup.bench.tier.snapshot(&[b"u"]).unwrap().remove(0).unwrap();
    redis.restart();
    setup.loader.load(b"u").unwrap();
    assert_eq!(
        setup.cold.commit(&[late.snapshot], 0).unwrap(),
        [Committed::Refused]
    );
    assert_eq!(setup.get(b"{u}x"), Some(b"1".to_vec()));
}

#[test]
fn defect_10_a_stale_replica_gives_way_to_the_newer_cold_copy() {
    let servers = RedisReplicas::start(1);
    let setup = Setup::open(&servers.primary().url());
    setup.set(b"{u}x", b"old");
    setup.set(b"{u}kept", b"1");
    setup.save();
    let replica = &servers.nodes()[1];
    wait::until("the replica has it", PATIENCE, || {
        replica.cmd(&["GET", "{u}x"]) == Reply::Bulk(b"old".to_vec())
    });
    // The replica stays behind: what comes now reaches the cold tier but not the replica.
    replica.cmd(&["REPLICAOF", "127.0.0.1", "1"]);
    setup.set(b"{u}x", b"new");
    setup.write(b"{u}kept", &[b"DEL", b"{u}kept"]);
    setup.save();
    setup.set(b"{u}x", b"newest, lost");
    servers.primary().kill9();
    replica.promote();

    let after = Setup::over(&replica.url(), setup.cold.clone());
    assert_eq!(after.bench.tier.touch(&[b"u"]).unwrap(), [Touched::Suspect]);
    // The suspect tag is not saved, though its index may say that it is dirty.
    after.saver().flush().unwrap();
    assert_eq!(
        after.get(b"{u}x"),
        Some(b"new".to_vec()),
        "redis was behind its backup"
    );
    assert_eq!(after.get(b"{u}kept"), None, "deleted keys stay deleted");
    after.save();
    after.evict(b"u");
    assert_eq!(after.get(b"{u}x"), Some(b"new".to_vec()));
}

#[test]
fn defect_10_a_replica_that_is_ahead_of_the_cold_copy_keeps_its_keys() {
    let servers = RedisReplicas::start(1);
    let setup = Setup::open(&servers.primary().url());
    setup.set(b"{u}x", b"saved");
    setup.save();
    setup.set(b"{u}x", b"not saved yet");
    let replica = &servers.nodes()[1];
    wait::until("the replica has it", PATIENCE, || {
        replica.cmd(&["GET", "{u}x"]) == Reply::Bulk(b"not saved yet".to_vec())
    });
    servers.primary().kill9();
    replica.promote();

    let after = Setup::over(&replica.url(), setup.cold.clone());
    assert_eq!(after.get(b"{u}x"), Some(b"not saved yet".to_vec()));
    after.evict(b"u");
    assert_eq!(
        after.get(b"{u}x"),
        Some(b"not saved yet".to_vec()),
        "it was saved, too"
    );
}

#[test]
fn a_node_demoted_and_promoted_again_makes_its_tags_suspect() {
    let servers = RedisReplicas::start(1);
    let setup = Setup::open(&servers.primary().url());
    setup.set(b"{u}x", b"1");
    let old = servers.primary();
    let replica = &servers.nodes()[1];
    // Demoted, a node takes what its new primary has, so that has to be all of it first.
    wait::until("the replica has it", PATIENCE, || {
        replica.cmd(&["GET", "{u}x"]) == Reply::Bulk(b"1".to_vec())
    });
    // The connection of the tier lives through both.
    old.follow(replica);
    old.promote();
    assert_eq!(setup.bench.tier.touch(&[b"u"]).unwrap(), [Touched::Suspect]);
    setup.loader.load(b"u").unwrap();
    assert_eq!(setup.bench.tier.touch(&[b"u"]).unwrap(), [Touched::Granted]);
}

#[test]
fn sentinels_lead_to_the_new_primary_and_its_tags_are_suspect() {
    let trio = RedisSentinel::start();
    let url = format!(
        "redis+sentinel://{}/{SENTINEL_SERVICE}",
        trio.sentinels()[0].address()
    );
    let setup = Setup::open(&url);
    setup.set(b"{u}x", b"1");
    setup.save();
    let before = trio.primary_address();
    trio.primary().kill9();
    trio.wait_for_new_primary(before);
    let touched = wait::value("the tier finds the new primary", PATIENCE, || {
        setup.bench.tier.touch(&[b"u"]).ok()
    });
    assert!(
        matches!(touched[..], [Touched::Suspect | Touched::Cold]),
        "{touched:?}"
    );
    assert_eq!(setup.get(b"{u}x"), Some(b"1".to_vec()));
}

#[test]
fn a_killed_primary_of_a_cluster_stops_only_its_own_slots() {
    let cluster = RedisCluster::start();
    let setup = Setup::open(&format!("redis+cluster://{}", cluster.addresses()[0]));
    let keys: Vec<Vec<u8>> = (0..24).map(|number| format!("k{number}").into_bytes()).collect();
    for key in &keys {
        setup.set(key, b"1");
    }
    setup.save();
    let victim = cluster.owner_of(slot::of_key(&keys[0]));
    let heir = cluster.replica_of(victim);
    let (dead, alive): (Vec<_>, Vec<_>) = keys
        .iter()
        .partition(|key| cluster.owner_of(slot::of_key(key)) == victim);
    cluster.nodes()[victim].kill9();
    for key in alive {
        assert_eq!(setup.bench.tier.touch(&[key]).unwrap(), [Touched::Granted]);
    }
    assert!(setup.bench.tier.probe().is_err());
    cluster.failover(heir, Failover::Takeover);
    for key in dead {
        let touched = wait::value("the heir answers", PATIENCE, || {
            setup.bench.tier.touch(&[key]).ok()
        });
        assert_eq!(touched, [Touched::Suspect]);
        assert_eq!(setup.get(key), Some(b"1".to_vec()));
    }
    setup.bench.tier.probe().unwrap();
}

#[test]
fn a_dead_redis_is_an_error_in_time_and_comes_back_without_a_restart() {
    let redis = Redis::start();
    let setup = Setup::open(&redis.url());
    setup.set(b"{u}x", b"1");
    setup.save();
    redis.kill9();
    let error = setup.loader.load(b"u").unwrap_err();
    assert!(error.is_retryable(), "{error:?}");
    assert!(setup.saver().flush().is_err_and(|error| error.is_retryable()));
    redis.restart();
    wait::until("it is found again", PATIENCE, || setup.loader.load(b"u").is_ok());
    assert_eq!(setup.get(b"{u}x"), Some(b"1".to_vec()));
}
