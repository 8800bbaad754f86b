//! Settings that the protocol cannot live with.

use nagaya_testkit::{Redis, RedisCluster, RedisReplicas};

use super::bench::Bench;

fn findings(url: &str) -> Vec<String> {
    let bench = Bench::open(url);
    let findings = bench.tier.examine().unwrap();
    assert!(findings.iter().all(|finding| !finding.remedy.is_empty()));
    findings.into_iter().map(|finding| finding.what).collect()
}

#[test]
fn a_server_as_it_comes_has_three_things_to_change() {
    let redis = Redis::with_config(&["maxmemory-policy allkeys-lru"]);
    let found = findings(&redis.url());
    assert_eq!(found.len(), 3, "{found:?}");
    assert!(found[0].contains("maxmemory-policy allkeys-lru"), "{found:?}");
    assert!(found[1].contains("has no replica"), "{found:?}");
    assert!(found[2].contains("lets default run FLUSHALL"), "{found:?}");
}

#[test]
fn a_server_that_is_set_up_well_has_none() {
    let servers = RedisReplicas::start(1);
    let primary = servers.primary();
    let url = primary.url();
    assert!(
        findings(&url)[0].contains("goes on taking writes"),
        "{:?}",
        findings(&url)
    );
    primary.cmd(&["CONFIG", "SET", "min-replicas-to-write", "1"]);
    primary.cmd(&["ACL", "SETUSER", "admin", "off", "+@all"]);
    primary.cmd(&["ACL", "SETUSER", "default", "-flushall", "-flushdb"]);
    assert_eq!(findings(&url).len(), 1, "swapdb is left");
    primary.cmd(&["ACL", "SETUSER", "default", "-swapdb"]);
    assert_eq!(findings(&url), Vec::<String>::new());
}

#[test]
fn a_user_who_may_not_ask_about_others_is_told_about_itself() {
    let redis = Redis::start();
    redis.cmd(&[
        "ACL",
        "SETUSER",
        "room",
        "on",
        ">pw",
        "~*",
        "+@all",
        "-acl",
        "+acl|whoami",
        "+acl|dryrun",
    ]);
    let url = redis.url().replace("redis://", "redis://room:pw@");
    let found = findings(&url);
    assert!(
        found.iter().any(|what| what.contains("lets room run")),
        "{found:?}"
    );
    redis.cmd(&["ACL", "SETUSER", "room", "-@dangerous", "+info", "+role"]);
    let found = findings(&url);
    assert!(!found.iter().any(|what| what.contains("lets")), "{found:?}");
}

#[test]
fn every_node_of_a_cluster_is_looked_at() {
    let cluster = RedisCluster::start();
    let found = findings(&format!("redis+cluster://{}", cluster.addresses()[0]));
    let flushers = found.iter().filter(|what| what.contains("FLUSHALL"));
    assert_eq!(flushers.count(), 3, "{found:?}");
}
