//! redis-benchmark with all its tests.

use super::*;

#[track_caller]
fn check(flags: &str) -> String {
    let scenario = Scenario::new();
    let port = scenario.port();
    let launch = Launch::new("redis-benchmark", "redis-benchmark")
        .args(["-p", &port])
        .args(flags.split(' '));
    scenario.run(launch)
}

#[test]
fn every_test_runs_to_its_end() {
    let printed = check("-q -n 2000 -c 20 -r 1000");
    let names = [
        "PING_INLINE",
        "PING_MBULK",
        "SET",
        "GET",
        "INCR",
        "LPUSH",
        "RPUSH",
        "LPOP",
        "RPOP",
        "SADD",
        "HSET",
        "SPOP",
        "ZADD",
        "ZPOPMIN",
        "LRANGE_600 (first 600 elements)",
        "MSET (10 keys)",
    ];
    for name in names {
        assert!(
            printed.contains(&format!("{name}: ")),
            "{name} is not in {printed}"
        );
    }
}

#[test]
fn deep_pipelines_and_resp3_run_to_their_end() {
    let printed = check("-q -3 -n 20000 -c 20 -P 100 -d 1000 -t set,get");
    assert!(printed.contains("requests per second"), "{printed}");
}
