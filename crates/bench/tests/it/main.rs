//! `nagaya-bench`, with loads so small that the figures mean nothing.
//!
//! It measures the `nagaya` of the same build: `cargo test --workspace` builds both.

#![allow(clippy::unwrap_used, reason = "helpers of tests may fail as tests do")]

use nagaya_testkit::{Folder, Launch, Process};
use serde_json::Value;
use std::ffi::OsStr;
use std::time::Duration;

const BINARY: &str = env!("CARGO_BIN_EXE_nagaya-bench");

/// Long enough for programs that are not optimised, on a loaded machine; nothing waits this long when all is well.
const LIMIT: Duration = Duration::from_secs(120);

/// What a command printed and how it ended.
struct Ran {
    code: Option<i32>,
    stdout: String,
    stderr: String,
}

/// Runs the binary to its end, in an empty folder and with these variables added.
fn run_with<A: AsRef<OsStr>>(args: impl IntoIterator<Item = A>, variables: &[(&str, &str)]) -> Ran {
    let folder = Folder::new("run");
    let mut launch = Launch::new("nagaya-bench", BINARY).args(args);
    for (name, value) in variables {
        launch = launch.env(name, value);
    }
    finish(Process::start(launch, folder.path()).unwrap())
}

fn run<A: AsRef<OsStr>>(args: impl IntoIterator<Item = A>) -> Ran {
    run_with(args, &[])
}

fn finish(process: Process) -> Ran {
    let status = process.wait(LIMIT).unwrap();
    Ran {
        code: status.code(),
        stdout: process.stdout(),
        stderr: process.stderr(),
    }
}

fn small(more: &[&str]) -> Vec<String> {
    let common = [
        "redis",
        "--quick",
        // Fewer can be over within the millisecond that redis-benchmark measures in.
        "--requests",
        "5000",
        "--clients",
        "5",
        "--keyspace",
        "1000",
    ];
    common.iter().chain(more).map(|&word| word.to_owned()).collect()
}

#[test]
fn both_servers_are_measured_with_every_command_at_both_depths() {
    let ran = run(small(&["--rounds", "2", "--json"]));
    assert_eq!(ran.code, Some(0), "{}", ran.stderr);
    let report: Value = serde_json::from_str(&ran.stdout).unwrap();
    let rows = report["throughput"].as_array().unwrap();
    let names: Vec<&str> = rows.iter().map(|row| row["test"].as_str().unwrap()).collect();
    let commands = [
        "GET", "SET", "INCR", "HSET", "LPUSH", "RPOP", "SADD", "ZADD", "MSET",
    ];
    assert_eq!(names, [commands, commands].concat());
    for row in rows {
        assert!(row["throughput_ratio"].as_f64().unwrap() > 0.0, "{row}");
        assert!(row["redis"]["p99_ms"].as_f64().unwrap() > 0.0, "{row}");
    }
    assert_eq!(report["raw"].as_array().unwrap().len(), 9 * 2 * 2 * 2);
    assert!(ran.stderr.contains("depth 16, round 2 of 2"), "{}", ran.stderr);
}

#[test]
fn a_run_is_recorded_with_its_machine_and_commands() {
    let folder = Folder::new("bench");
    let out = folder.path().join("record");
    let out = out.to_str().unwrap();
    let ran = run(small(&[
        "--all",
        "--tests",
        "get,lpush",
        "--depth",
        "1",
        "--keys",
        "1000",
        "--large-keys",
        "20000",
        "--out",
        out,
    ]));
    assert_eq!(ran.code, Some(0), "{}", ran.stderr);
    assert!(ran.stdout.contains("LPUSH"), "{}", ran.stdout);
    let read = |name: &str| std::fs::read_to_string(format!("{out}/{name}")).unwrap();
    let summary = read("summary.md");
    let expected = [
        "| LPUSH |",
        "- kernel: Linux ",
        "- redis-server: Redis server v=",
        "1000 hashes of 5 fields",
        "redis-benchmark -h 127.0.0.1 -p PORT -c 5 -P 1 -r 1000 -d 16 -n 5000 -t get --csv",
        "## CPU with 10000 keys and with 20000",
    ];
    for part in expected {
        assert!(summary.contains(part), "{part} is not in:\n{summary}");
    }
    assert!(read("raw.csv").contains("nagaya,1,1,1000,5000,"));
    assert!(read("report.json").starts_with('{'));
}

#[test]
fn the_room_is_measured_in_all_its_parts_and_recorded() {
    let folder = Folder::new("bench");
    let out = folder.path().join("record");
    let out = out.to_str().unwrap();
    let sizes = "--requests 1000 --keys 2000 --memory 64mb --times 1 --seconds 3 --connections 4";
    let words = ["room", "--quick", "--out", out];
    let launch = Launch::new("nagaya-bench", BINARY).args(words.into_iter().chain(sizes.split(' ')));
    let bench = Process::start(launch, folder.path()).unwrap();
    // A hundred thousand keys go in twice, which an unoptimised build takes its time for.
    bench.wait(4 * LIMIT).unwrap();
    let ran = finish(bench);
    assert_eq!(ran.code, Some(0), "{}", ran.stderr);
    let read = |name: &str| std::fs::read_to_string(format!("{out}/{name}")).unwrap();
    let report: Value = serde_json::from_str(&read("report.json")).unwrap();
    assert_eq!(report["persisted"][0]["rows"].as_array().unwrap().len(), 8);
    assert_eq!(report["persisted"][1]["rows"].as_array().unwrap().len(), 4);
    assert!(
        report["larger"]["limited"]["requests_per_second"]
            .as_f64()
            .unwrap()
            > 0.0
    );
    assert!(report["larger"]["limited"]["memory"]["looks"].as_u64().unwrap() > 0);
    for row in report["restart"].as_array().unwrap() {
        assert_eq!((&row["keys"], &row["lost"]), (&2000.into(), &0.into()), "{row}");
    }
    let summary = read("summary.md");
    for part in [
        "fsync always",
        "| all in memory",
        "Start after kill -9",
        "--appendfsync everysec",
    ] {
        assert!(summary.contains(part), "{part} is not in:\n{summary}");
    }
}

/// Runs `nagaya-bench proxy` and returns its report. Its servers take their time to start.
#[track_caller]
fn proxy(words: &str) -> Value {
    let folder = Folder::new("bench");
    let out = folder.path().join("record");
    let common = ["proxy", "--quick", "--json", "--out"];
    let launch = Launch::new("nagaya-bench", BINARY).args(common).args([&out]);
    let bench = Process::start(launch.args(words.split(' ')), folder.path()).unwrap();
    bench.wait(6 * LIMIT).unwrap();
    let ran = finish(bench);
    assert_eq!(ran.code, Some(0), "{}", ran.stderr);
    let summary = std::fs::read_to_string(out.join("summary.md")).unwrap();
    assert!(summary.contains("nagaya room serve"), "{summary}");
    serde_json::from_str(&ran.stdout).unwrap()
}

#[test]
fn the_proxy_is_measured_beside_twemproxy_and_directly() {
    let report = proxy("--nodes 1,2 --depth 16 --requests 1000 --clients 5 --keyspace 100");
    let rows = report["rows"].as_array().unwrap();
    assert_eq!(rows.len(), 4, "{report}");
    for row in rows {
        assert!(row["throughput_ratio"].as_f64().unwrap() > 0.0, "{row}");
        assert!(row["direct_rps"].as_f64().unwrap() > 0.0, "{row}");
    }
    assert_eq!(report["raw"].as_array().unwrap().len(), 12);
}

#[test]
fn saves_and_loads_are_measured_on_postgresql() {
    let report = proxy("--saves --seconds 1");
    let saves = &report["saves"];
    assert_eq!(saves["loads_of_one_tag"], 1, "{saves}");
    assert!(
        saves["wal_bytes_per_change"].as_f64().unwrap() < 5120.0,
        "{saves}"
    );
    assert_eq!(saves["loads"].as_array().unwrap().len(), 3, "{saves}");
}

#[test]
fn the_fleet_is_measured_in_all_its_scenarios_and_recorded() {
    let folder = Folder::new("bench");
    let out = folder.path().join("record");
    let words = ["fleet", "--quick", "--partition", "7", "--json", "--out"];
    let launch = Launch::new("nagaya-bench", BINARY).args(words).args([&out]);
    let bench = Process::start(launch, folder.path()).unwrap();
    // Leases have to run out twice.
    bench.wait(4 * LIMIT).unwrap();
    let ran = finish(bench);
    assert_eq!(ran.code, Some(0), "{}", ran.stderr);
    let report: Value = serde_json::from_str(&ran.stdout).unwrap();
    let rows = report["rows"].as_array().unwrap();
    assert_eq!(rows.len(), 8, "{report}");
    let double = rows.last().unwrap();
    assert_eq!(double["ours_seconds"], 0.0, "{double}");
    let summary = std::fs::read_to_string(out.join("summary.md")).unwrap();
    assert!(summary.contains("| kill -9 until all run elsewhere"), "{summary}");
}

#[test]
fn a_missing_redis_is_named_with_its_package() {
    let ran = run_with(["redis", "--quick"], &[("PATH", "/nonexistent")]);
    assert_eq!(ran.code, Some(1));
    assert!(
        ran.stderr
            .contains("`redis-server` was not found; install it with: apt-get install redis-server"),
        "{}",
        ran.stderr
    );
}

#[test]
fn servers_end_with_a_bench_that_is_told_to_stop() {
    let folder = Folder::new("bench");
    let launch = Launch::new("nagaya-bench", BINARY).args(["redis", "--requests", "100000000"]);
    let bench = Process::start(launch, folder.path()).unwrap();
    nagaya_testkit::wait::until("both servers run", LIMIT, || bench.pids().len() >= 4);
    let pids = bench.pids();
    bench.terminate();
    bench.wait(LIMIT).unwrap();
    nagaya_testkit::wait::until("all of them have ended", LIMIT, || {
        pids.iter().all(|&pid| !nagaya_testkit::is_alive(pid))
    });
}

/// Runs parts of `nagaya-bench fanout` and returns the report.
fn fan_out(parts: &str) -> Value {
    let small = [
        "--quick",
        "--rate",
        "20",
        "--clients",
        "4",
        "--memory-seconds",
        "2",
        "--json",
    ];
    let ran = run(["fanout", "--parts", parts].iter().chain(&small));
    assert_eq!(ran.code, Some(0), "{}", ran.stderr);
    let report: Value = serde_json::from_str(&ran.stdout).unwrap();
    let found: Vec<&str> = rows(&report)
        .iter()
        .map(|row| row["part"].as_str().unwrap())
        .collect();
    let each = parts.split(',').filter(|part| *part != "memory");
    assert!(each.into_iter().all(|part| found.contains(&part)), "{found:?}");
    for row in rows(&report) {
        assert!(row["share"].as_f64().unwrap() > 0.0, "{row}");
    }
    report
}

fn rows(report: &Value) -> &Vec<Value> {
    report["raw"].as_array().unwrap()
}

#[test]
fn the_fan_out_is_offered_more_than_it_can_do_and_every_arrival_is_accounted_for() {
    let folder = Folder::new("overload");
    let out = folder.path().to_str().unwrap();
    let ran = run([
        "fanout", "--parts", "overload", "--quick", "--rate", "20", "--json", "--out", out,
    ]
    .iter());
    assert_eq!(ran.code, Some(0), "{}", ran.stderr);
    let report: Value = serde_json::from_str(&ran.stdout).unwrap();
    let samples = report["overload"].as_array().unwrap();
    assert_eq!(samples.len(), 5);
    for sample in samples {
        let count = |name: &str| sample[name].as_u64().unwrap();
        assert_eq!(
            count("offered"),
            count("taken") + count("refused") + count("lost"),
            "{sample}"
        );
        assert!(count("offered") > 0, "{sample}");
    }
    let picture = std::fs::read_to_string(folder.path().join("goodput.svg")).unwrap();
    assert!(picture.contains("<polyline"), "{picture}");
}

#[test]
fn the_fan_out_is_measured_with_joined_and_with_plain_writes() {
    let report = fan_out("capacity,latency");
    let kinds: Vec<&str> = rows(&report)
        .iter()
        .map(|row| row["kind"].as_str().unwrap())
        .collect();
    assert_eq!(kinds, ["ours", "plain", "ours", "plain"]);
}

#[test]
fn the_fan_out_is_measured_with_a_dead_endpoint_and_under_overload() {
    let report = fan_out("dead,memory");
    assert_eq!(rows(&report).len(), 2);
    assert!(report["memory"]["last_mb"].as_f64().unwrap() > 0.0);
}

#[test]
fn the_fan_out_is_measured_with_few_and_many_endpoints() {
    let report = fan_out("endpoints");
    let counts: Vec<u64> = rows(&report)
        .iter()
        .map(|row| row["endpoints"].as_u64().unwrap())
        .collect();
    assert_eq!(counts, [1, 6, 50, 1000]);
}

#[test]
fn a_missing_nagaya_is_named_with_the_command_that_builds_it() {
    let ran = run_with(["redis", "--quick"], &[("NAGAYA_BIN", "/nonexistent/nagaya")]);
    assert_eq!(ran.code, Some(1));
    let expected = "error: there is no nagaya at /nonexistent/nagaya; build it with `cargo build -p nagaya`";
    assert!(ran.stderr.contains(expected), "{}", ran.stderr);
}
