//! Third-party readers find what serinin would have stored. The scripts are beside this file.
//!
//! The clients live in `target/clients`, where `scripts/clients` puts them.

use std::path::Path;
use std::time::Duration;

use nagaya_config::Secret;
use nagaya_fanout::{FanoutConfig, StoreKind};
use nagaya_testkit::{Folder, Launch, Memcached, Process, Redis};

use crate::fan::{Fan, config};
use crate::scripted::Scripted;

/// Longer than a script takes on a loaded machine.
const SCRIPT_LIMIT: Duration = Duration::from_secs(60);

/// Fans out one request and lets a script check what is stored.
async fn check(script: &str, change: impl FnOnce(&mut FanoutConfig), place: &str) {
    let [one, two] = [Scripted::saying("answer one").await, Scripted::saying("").await];
    let mut config = config(&[("dst1", one.url()), ("端.点", two.url())]);
    change(&mut config);
    let fan = Fan::start(config).await;
    let id = fan.get("/p?a=1&b=2").await.json()["request_id"]
        .as_str()
        .unwrap()
        .to_owned();
    fan.finished(&id).await;
    let here = Path::new(env!("CARGO_MANIFEST_DIR"));
    let installed = here.join("../../target/clients/py");
    assert!(
        installed.is_dir(),
        "{} is missing; run scripts/clients",
        installed.display()
    );
    let launch = Launch::new("python3", "python3")
        .args([here.join("tests/it").join(script)])
        .args([place, &id])
        .env("PYTHONPATH", installed)
        .env("PYTHONDONTWRITEBYTECODE", "1");
    let folder = Folder::new("reader");
    let process = Process::start(launch, folder.path()).unwrap();
    let status = process.wait(SCRIPT_LIMIT).unwrap();
    assert!(status.success(), "{status}:\n{}", process.output());
}

#[tokio::test(flavor = "multi_thread")]
async fn redis_py_reads_serinins_hash() {
    let redis = Redis::start();
    let set = |config: &mut FanoutConfig| {
        config.store = StoreKind::Redis;
        config.redis = Some(Secret::new(redis.url()));
    };
    check("read_redis.py", set, &redis.port().to_string()).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn pymemcache_reads_serinins_keys() {
    let servers = [Memcached::start(), Memcached::start()];
    let addresses = servers.each_ref().map(|server| server.address().to_string());
    let set = |config: &mut FanoutConfig| {
        config.store = StoreKind::Memcached;
        config.memcached = addresses.to_vec();
    };
    check("read_memcached.py", set, &addresses.join(",")).await;
}
