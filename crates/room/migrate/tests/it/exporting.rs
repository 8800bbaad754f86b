use std::process::Command;
use std::sync::atomic::{AtomicBool, Ordering};

use nagaya_migrate::Verdict;

use super::*;

#[track_caller]
fn check(path: &Path) {
    let checked = Command::new("redis-check-rdb").arg(path).output().unwrap();
    assert!(
        checked.status.success(),
        "{}",
        String::from_utf8_lossy(&checked.stdout)
    );
}

#[test]
fn an_exported_file_is_loaded_by_redis_with_everything() {
    let source = filled(21);
    let folder = Folder::new("exported");
    let path = folder.path().join("dump.rdb");
    let exported = export_to(&source.url(), &path, None);
    assert_eq!(
        (exported.version, exported.keys, exported.functions),
        (10, 300, 2)
    );
    check(&path);
    let dir = format!("dir {}", folder.path().display());
    let target = Redis::with_config(&[&dir]);
    assert_eq!(digest(&target), digest(&source));
    let comparison = compare(&source.url(), &target.url());
    assert_eq!(comparison.verdict, Verdict::Equal, "{comparison:?}");
    assert_eq!(target.cmd(&["FUNCTION", "LIST"]).items().len(), 2);
}

#[test]
fn a_pattern_exports_its_keys_alone_and_nothing_makes_a_sound_file() {
    let source = Redis::start();
    send_all(&source, &["SET user:1 x", "SET user:2 y", "SET other z"]);
    let folder = Folder::new("exported");
    let path = folder.path().join("some.rdb");
    assert_eq!(export_to(&source.url(), &path, Some("user:*")).keys, 2);
    check(&path);
    let none = folder.path().join("none.rdb");
    assert_eq!(export_to(&source.url(), &none, Some("nothing")).keys, 0);
    check(&none);
}

/// While keys come, go and change their expiry, and tables grow so that SCAN repeats itself.
#[test]
fn a_file_made_under_writes_loads_and_has_every_key_that_stayed() {
    let source = Redis::start();
    send_all(&source, &["DEBUG POPULATE 30000 stays 20"]);
    let folder = Folder::new("exported");
    let path = folder.path().join("dump.rdb");
    let done = AtomicBool::new(false);
    std::thread::scope(|scope| {
        scope.spawn(|| {
            let mut client = source.client();
            let mut round = 0;
            while !done.load(Ordering::Relaxed) {
                let key = format!("comes:{}", round % 40_000);
                client.cmd(&["SET", &key, "x", "PX", "100000"]).unwrap();
                client.cmd(&["SET", &key, "y"]).unwrap();
                client.cmd(&["DEL", &format!("comes:{}", round / 2)]).unwrap();
                round += 1;
            }
        });
        export_to(&source.url(), &path, None);
        done.store(true, Ordering::Relaxed);
    });
    check(&path);
    let dir = format!("dir {}", folder.path().display());
    let target = Redis::with_config(&[&dir]);
    let mut stayed = 0;
    let mut client = target.client();
    for key in client.cmd(&["KEYS", "*"]).unwrap().items() {
        let key = key.text();
        stayed += usize::from(key.starts_with("stays:"));
        if key.starts_with("comes:") {
            let value = client.cmd(&["GET", &key]).unwrap().text();
            let ttl = client.cmd(&["PTTL", &key]).unwrap().int();
            assert_eq!(value == "x", ttl >= 0, "{key} is {value} with {ttl}");
        }
    }
    assert_eq!(stayed, 30_000);
}
