use nagaya_migrate::{Existing, Selection, Verdict, survey};
use nagaya_rdb::Limits;
use nagaya_testkit::RedisCluster;

use super::*;

fn seeds() -> std::ops::Range<u64> {
    match std::env::var_os("NAGAYA_TEST_LONG") {
        Some(_) => 0..500,
        None => 0..3,
    }
}

#[test]
fn a_file_comes_in_with_everything_that_it_has() {
    for seed in seeds() {
        let source = filled(seed);
        let path = saved(&source);
        let target = Redis::start();
        let imported = import_file(&path, &target.url(), ImportOptions::default());
        assert!(imported.is_complete(), "seed {seed}: {imported:?}");
        assert_eq!((imported.keys, imported.functions), (300, 2), "seed {seed}");
        assert_eq!(digest(&target), digest(&source), "seed {seed}");
        let comparison = compare(path.to_str().unwrap(), &target.url());
        assert_eq!(comparison.verdict, Verdict::Equal, "seed {seed}: {comparison:?}");
    }
}

#[test]
fn values_too_large_for_one_command_come_in_whole() {
    let source = filled(77);
    let elements: Vec<String> = (0..2000).map(|number| format!("element-{number}")).collect();
    for name in ["{tag}:big", "odd}name", "{}empty"] {
        let mut request = vec!["RPUSH", name];
        request.extend(elements.iter().map(String::as_str));
        assert_eq!(source.cmd(&request).int(), 2000);
    }
    send_all(&source, &["PEXPIREAT {tag}:big 4102444800000"]);
    let path = saved(&source);
    let target = Redis::start();
    let options = ImportOptions {
        limits: Limits {
            part_bytes: 300,
            ..Limits::default()
        },
        ..ImportOptions::default()
    };
    let imported = import_file(&path, &target.url(), options);
    assert!(imported.is_complete(), "{imported:?}");
    assert_eq!(imported.keys, 303);
    assert_eq!(target.cmd(&["DBSIZE"]).int(), 303);
    assert_eq!(digest(&target), digest(&source));
    let comparison = compare(&source.url(), &target.url());
    assert_eq!(comparison.verdict, Verdict::Equal, "{comparison:?}");
}

#[test]
fn keys_in_the_way_are_kept_replaced_or_reported() {
    let source = Redis::start();
    send_all(&source, &["SET a new", "SET b new", "RPUSH big 1 2 3 4 5"]);
    source.cmd(&[
        "FUNCTION",
        "LOAD",
        "#!lua name=lib\nredis.register_function('f', function() return 1 end)",
    ]);
    let path = saved(&source);
    let limits = Limits {
        part_bytes: 1,
        ..Limits::default()
    };
    for (existing, value, in_the_way, kept) in [
        (Existing::Refuse, "old", 3, 0),
        (Existing::Keep, "old", 0, 3),
        (Existing::Replace, "new", 0, 0),
    ] {
        let target = Redis::start();
        send_all(&target, &["SET a old", "SET big old"]);
        target.cmd(&[
            "FUNCTION",
            "LOAD",
            "#!lua name=lib\nredis.register_function('g', function() return 1 end)",
        ]);
        let options = ImportOptions {
            existing,
            limits,
            ..ImportOptions::default()
        };
        let imported = import_file(&path, &target.url(), options);
        assert_eq!(
            (imported.in_the_way, imported.kept),
            (in_the_way, kept),
            "{existing:?}: {imported:?}"
        );
        assert_eq!(target.cmd(&["GET", "a"]).text(), value);
        assert_eq!(target.cmd(&["GET", "b"]).text(), "new");
        assert_eq!(target.cmd(&["DBSIZE"]).int(), 3);
        let kind = if existing == Existing::Replace {
            "list"
        } else {
            "string"
        };
        assert_eq!(target.cmd(&["TYPE", "big"]).text(), kind);
    }
}

#[test]
fn what_is_past_its_time_empty_or_not_chosen_stays_out() {
    let source = Redis::start();
    send_all(
        &source,
        &[
            "DEBUG SET-ACTIVE-EXPIRE 0",
            "SET user:1 x",
            "SET user:2 x",
            "PEXPIRE user:2 1",
            "SET other x",
            "SELECT 3",
            "SET user:3 x",
        ],
    );
    let path = saved(&source);
    let target = Redis::start();
    let options = ImportOptions {
        selection: Selection {
            pattern: Some(b"user:*".to_vec()),
            db: Some(0),
        },
        ..ImportOptions::default()
    };
    let imported = import_file(&path, &target.url(), options);
    assert_eq!(
        (imported.keys, imported.expired, imported.left_out),
        (1, 1, 2),
        "{imported:?}"
    );
    assert!(imported.is_complete());
    assert_eq!(target.cmd(&["KEYS", "*"]).items(), [Reply::bulk("user:1")]);
}

#[test]
fn several_databases_need_a_choice() {
    let source = Redis::start();
    send_all(&source, &["SET a x", "SELECT 3", "SET b y", "SET c z"]);
    let path = saved(&source);
    let found = survey(
        File::open(&path).unwrap(),
        &Selection::default(),
        now_ms(),
        &Progress::default(),
    );
    assert_eq!(found.databases.into_iter().collect::<Vec<_>>(), [(0, 1), (3, 2)]);
    let target = Redis::start();
    let imported = import_file(&path, &target.url(), ImportOptions::default());
    assert!(imported.stopped.unwrap().contains("only one can be taken"));
    let target = Redis::start();
    let mut options = ImportOptions::default();
    options.selection.db = Some(3);
    let imported = import_file(&path, &target.url(), options);
    assert_eq!((imported.keys, imported.left_out), (2, 1));
    assert_eq!(target.cmd(&["GET", "b"]).text(), "y");
}

#[test]
fn databases_keep_their_numbers_through_files_and_back() {
    let source = Redis::start();
    send_all(
        &source,
        &[
            "SET a zero",
            "SELECT 3",
            "SET a three",
            "SET big x",
            "SELECT 15",
            "RPUSH l 1 2 3",
        ],
    );
    let target = Redis::start();
    let options = || ImportOptions {
        keeps_databases: true,
        ..ImportOptions::default()
    };
    let imported = import_file(&saved(&source), &target.url(), options());
    assert_eq!((imported.keys, imported.is_complete()), (4, true), "{imported:?}");
    assert_eq!(digest(&source), digest(&target));
    let folder = Folder::new("databases");
    let path = folder.path().join("all.rdb");
    let url: nagaya_redis_client::RedisUrl = target.url().parse().unwrap();
    let exported = block_on(async {
        let first = nagaya_migrate::client(url.clone()).unwrap();
        let numbers = nagaya_migrate::databases(&first).await.unwrap();
        assert_eq!(numbers, [0, 3, 15]);
        let client = |db| {
            let url = nagaya_redis_client::RedisUrl { db, ..url.clone() };
            (db, nagaya_migrate::client(url).unwrap())
        };
        let from = numbers.into_iter().map(client).collect();
        let (file, progress) = (File::create(&path).unwrap(), Progress::default());
        nagaya_migrate::export(from, file, Default::default(), &SystemClock, &progress, |_| ()).await
    });
    assert_eq!(exported.unwrap().0.keys, 4);
    let again = Redis::start();
    let imported = import_file(&path, &again.url(), options());
    assert!(imported.is_complete(), "{imported:?}");
    assert_eq!(digest(&source), digest(&again));
    // A server that lacks a database says so, and the keys of the others are whole.
    let small = Redis::with_config(&["databases 4"]);
    let imported = import_file(&path, &small.url(), options());
    let stopped = imported.stopped.unwrap();
    assert!(stopped.contains("DB index is out of range"), "{stopped}");
}

#[test]
fn a_damaged_file_brings_whole_keys_up_to_the_damage() {
    let source = filled(5);
    let bytes = fs::read(saved(&source)).unwrap();
    let folder = Folder::new("damaged");
    let path = folder.path().join("cut.rdb");
    let target = Redis::start();
    for part in [1, 5, 8, 11] {
        target.cmd(&["FLUSHALL"]);
        target.cmd(&["FUNCTION", "FLUSH"]);
        let cut = bytes.len() * part / 12;
        fs::write(&path, &bytes[..cut]).unwrap();
        let options = ImportOptions {
            limits: Limits {
                part_bytes: 300,
                ..Limits::default()
            },
            ..ImportOptions::default()
        };
        let imported = import_file(&path, &target.url(), options);
        assert_eq!(imported.stopped_at, Some(cut as u64), "{imported:?}");
        assert!(imported.stopped.as_ref().unwrap().contains("ends at byte"));
        assert!(!imported.is_complete());
        assert_eq!(
            target.cmd(&["DBSIZE"]).int() as u64,
            imported.keys,
            "cut at {cut}"
        );
        let comparison = compare(&target.url(), &source.url());
        let wrong = comparison.values + comparison.expiries + comparison.only_in_a;
        assert_eq!(wrong, 0, "cut at {cut}: {comparison:?}");
        assert_eq!(comparison.only_in_b, 300 - imported.keys);
    }
}

#[test]
fn an_import_whose_server_dies_is_completed_by_another_run() {
    let source = filled(6);
    send_all(&source, &["DEBUG POPULATE 20000 many 100"]);
    let path = saved(&source);
    let target = Redis::with_config(&["appendonly yes", "appendfsync always"]);
    let url = target.url();
    let progress = Arc::new(Progress::default());
    let stopped = block_on(async {
        let running = tokio::spawn(nagaya_migrate::import(
            File::open(&path).unwrap(),
            url.parse().unwrap(),
            ImportOptions::default(),
            Arc::new(SystemClock),
            Arc::clone(&progress),
        ));
        while progress.keys() < 2000 && !running.is_finished() {
            tokio::task::yield_now().await;
        }
        target.kill9();
        running.await.unwrap().unwrap()
    });
    assert!(stopped.stopped.is_some(), "{stopped:?}");
    assert!(stopped.keys < 20300);
    target.restart();
    let there = target.cmd(&["DBSIZE"]).int() as u64;
    assert!(there >= stopped.keys, "{there} of {}", stopped.keys);
    let options = ImportOptions {
        existing: Existing::Keep,
        ..ImportOptions::default()
    };
    let imported = import_file(&path, &url, options);
    assert!(imported.is_complete(), "{imported:?}");
    assert_eq!(imported.keys, 20300 - there);
    assert_eq!(digest(&target), digest(&source));
}

#[test]
fn a_server_that_takes_no_more_stops_the_import_with_its_words() {
    let source = Redis::start();
    send_all(&source, &["DEBUG POPULATE 20000 many 1000"]);
    let path = saved(&source);
    let target = Redis::with_config(&["maxmemory 5mb", "maxmemory-policy noeviction"]);
    let imported = import_file(&path, &target.url(), ImportOptions::default());
    assert!(imported.stopped.as_ref().unwrap().contains("OOM"), "{imported:?}");
    assert!(imported.keys > 0 && imported.keys < 20000, "{imported:?}");
}

#[test]
fn a_value_that_the_server_does_not_take_is_named_and_the_rest_comes_in() {
    let folder = Folder::new("bad-value");
    let path = folder.path().join("bad.rdb");
    let mut writer = nagaya_rdb::Writer::new(Vec::new(), 10).unwrap();
    for (name, body) in [
        ("good", b"\x00\x01x".as_slice()),
        ("bad", b"\x10\x03zzz"),
        ("fine", b"\x00\x01y"),
    ] {
        let mut payload = body.to_vec();
        nagaya_rdb::payload::seal(&mut payload, 10);
        writer.key(name.as_bytes(), None, &payload).unwrap();
    }
    fs::write(&path, writer.finish().unwrap()).unwrap();
    let target = Redis::start();
    let imported = import_file(&path, &target.url(), ImportOptions::default());
    assert_eq!((imported.keys, imported.refused), (2, 1), "{imported:?}");
    assert_eq!(imported.refused_keys[0].key, "bad");
    assert_eq!(imported.refused_keys[0].offset, 17);
    assert!(!imported.is_complete());
}

#[test]
fn a_cluster_takes_a_file_and_gives_it_back() {
    let source = filled(8);
    let path = saved(&source);
    let cluster = RedisCluster::start();
    let addresses = cluster.addresses();
    let seeds: Vec<String> = addresses.iter().map(ToString::to_string).collect();
    let url = format!("redis+cluster://{}", seeds.join(","));
    let imported = import_file(&path, &url, ImportOptions::default());
    assert!(imported.is_complete(), "{imported:?}");
    assert_eq!(imported.keys, 300);
    let comparison = compare(&source.url(), &url);
    assert_eq!(comparison.verdict, Verdict::Equal, "{comparison:?}");
    let folder = Folder::new("from-cluster");
    let back = folder.path().join("dump.rdb");
    let exported = export_to(&url, &back, None);
    assert_eq!((exported.keys, exported.functions), (300, 2));
    let dir = format!("dir {}", folder.path().display());
    assert_eq!(digest(&Redis::with_config(&[&dir])), digest(&source));
}
