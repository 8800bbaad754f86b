//! `nagaya ids serve`: the id server alone.

use super::*;
use crate::ids_house::fetch;
use nagaya_testkit::{Redis, free_port, http, wait};
use serde_json::Value;
use std::collections::HashSet;

struct Served {
    process: Process,
    memcached: SocketAddr,
    http: SocketAddr,
    _folder: Folder,
}

impl Served {
    fn start(args: &[&str]) -> Served {
        let folder = Folder::new("serve");
        let address = || SocketAddr::from(([127, 0, 0, 1], free_port()));
        let (memcached, http) = (address(), address());
        let launch = Launch::new("nagaya", BINARY)
            .args(["ids", "serve", "--listen", &memcached.to_string()])
            .args(["--http-listen", &http.to_string()])
            .args(args);
        let process = Process::start(launch, folder.path()).unwrap();
        Served {
            process,
            memcached,
            http,
            _folder: folder,
        }
    }

    fn wait_ready(&self) {
        wait::until("the id server is ready", LIMIT, || {
            http::get(self.http, "/readyz").is_ok_and(|answer| answer.status == 200)
        });
    }
}

#[test]
fn a_fixed_number_needs_no_pool() {
    let served = Served::start(&["--worker-id", "5"]);
    served.wait_ready();
    let id = fetch(served.memcached);
    let decoded = run(["ids", "decode", "--json", &id.to_string()]);
    let decoded: Value = serde_json::from_str(&decoded.stdout).unwrap();
    assert_eq!(decoded[0]["worker"], 5);
    let answer = http::get(served.http, "/v1/ids?n=1000").unwrap();
    let answer: Value = serde_json::from_str(&answer.body).unwrap();
    let ids: HashSet<_> = answer["ids"].as_array().unwrap().iter().collect();
    assert_eq!(ids.len(), 1000);
    served.process.terminate();
    assert_eq!(served.process.wait(LIMIT).unwrap().code(), Some(0));
}

#[test]
fn a_leased_number_is_used_and_given_back() {
    let redis = Redis::start();
    let url = redis.url();
    run([
        "ids", "init", "--redis", &url, "--min", "7", "--max", "7", "--unused",
    ]);
    let served = Served::start(&["--redis", &url, "--name", "a", "--interval", "100ms"]);
    served.wait_ready();
    assert!(fetch(served.memcached) > 0);
    let table = run(["ids", "list", "--redis", &url]);
    assert!(
        table
            .stdout
            .lines()
            .any(|line| line.starts_with("7") || line.starts_with(" 7")),
        "{}",
        table.stdout
    );
    served.process.terminate();
    assert_eq!(
        served.process.wait(LIMIT).unwrap().code(),
        Some(0),
        "{}",
        served.process.output()
    );
    let table = run(["ids", "list", "--redis", &url]);
    assert_eq!(table.stdout.lines().count(), 1, "{}", table.stdout);
}

#[test]
fn what_cannot_work_is_refused_at_once() {
    let check = |args: &[&str], code: i32, told: &str| {
        let ran = run(["ids", "serve"].iter().chain(args));
        assert_eq!(ran.code, Some(code), "{args:?}: {}", ran.stderr);
        assert!(ran.stderr.contains(told), "{args:?}: {}", ran.stderr);
    };
    check(&["--worker-id", "1024"], 1, "greatest is 1023");
    check(
        &["--worker-id", "1", "--listen", "0.0.0.0:1"],
        1,
        "pass --insecure",
    );
    check(
        &["--worker-id", "1", "--redis", "redis://x"],
        2,
        "cannot be used with",
    );
    let redis = Redis::start();
    check(&["--redis", &redis.url()], 1, "nagaya ids init");
}
