//! Keys on their way between files and real servers.

#![allow(
    clippy::unwrap_used,
    reason = "helpers of tests fail the test that calls them"
)]

mod comparing;
mod exporting;
mod importing;

use std::fs::{self, File};
use std::future::Future;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{SystemTime, UNIX_EPOCH};

use nagaya_clock::SystemClock;
use nagaya_migrate::{
    CompareOptions, Comparison, ExportOptions, Exported, ImportOptions, Imported, Progress, Side,
};
use nagaya_testkit::{Folder, Keyspace, Redis, Reply};

fn block_on<T>(future: impl Future<Output = T>) -> T {
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build();
    runtime.unwrap().block_on(future)
}

fn now_ms() -> i64 {
    SystemTime::now().duration_since(UNIX_EPOCH).unwrap().as_millis() as i64
}

/// Runs commands of plain words, none of which may fail.
fn send_all(redis: &Redis, requests: &[&str]) {
    let mut client = redis.client();
    for request in requests {
        let words: Vec<&str> = request.split(' ').collect();
        assert_eq!(client.cmd(&words).unwrap().error(), None, "{request}");
    }
}

/// Makes the server write its file and returns where that is.
fn saved(redis: &Redis) -> PathBuf {
    assert_eq!(redis.cmd(&["SAVE"]), Reply::ok());
    let folder = redis.cmd(&["CONFIG", "GET", "dir"]).items()[1].text();
    Path::new(&folder).join("dump.rdb")
}

fn filled(seed: u64) -> Redis {
    let redis = Redis::start();
    Keyspace::seeded(seed)
        .fill(&mut redis.client(), now_ms())
        .unwrap();
    redis
}

fn import_file(path: &Path, url: &str, options: ImportOptions) -> Imported {
    block_on(nagaya_migrate::import(
        File::open(path).unwrap(),
        url.parse().unwrap(),
        options,
        Arc::new(SystemClock),
        Arc::new(Progress::default()),
    ))
    .unwrap()
}

fn export_to(url: &str, path: &Path, pattern: Option<&str>) -> Exported {
    let client = nagaya_migrate::client(url.parse().unwrap()).unwrap();
    let options = ExportOptions {
        pattern: pattern.map(|pattern| pattern.as_bytes().to_vec()),
    };
    let progress = Progress::default();
    let file = File::create(path).unwrap();
    let exported = block_on(nagaya_migrate::export(
        vec![(0, client)],
        file,
        options,
        &SystemClock,
        &progress,
        |_| (),
    ));
    exported.unwrap().0
}

fn compare_with(a: &str, b: &str, options: &CompareOptions) -> Comparison {
    let side = |text: &str| text.parse::<Side>().unwrap();
    let (a, b, progress) = (side(a), side(b), Progress::default());
    block_on(nagaya_migrate::compare(&a, &b, options, &SystemClock, &progress)).unwrap()
}

fn compare(a: &str, b: &str) -> Comparison {
    compare_with(a, b, &CompareOptions::default())
}

fn digest(redis: &Redis) -> Reply {
    redis.cmd(&["DEBUG", "DIGEST"])
}
