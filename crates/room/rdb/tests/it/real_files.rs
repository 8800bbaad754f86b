//! What redis-server writes is read, and what we write is read by redis-server.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::{SystemTime, UNIX_EPOCH};

use nagaya_rdb::{Extent, Item, Limits, Reader, VERSION, Writer, payload};
use nagaya_testkit::{Folder, Keyspace, Redis, Reply, RespClient};

use super::*;

fn now_ms() -> i64 {
    SystemTime::now().duration_since(UNIX_EPOCH).unwrap().as_millis() as i64
}

fn seeds() -> u64 {
    match std::env::var_os("NAGAYA_TEST_LONG") {
        Some(_) => 500,
        None => 4,
    }
}

/// Makes the server write its file and returns it.
pub(super) fn saved(redis: &Redis) -> Vec<u8> {
    assert_eq!(redis.cmd(&["SAVE"]), Reply::ok());
    let folder = redis.cmd(&["CONFIG", "GET", "dir"]).items()[1].text();
    fs::read(Path::new(&folder).join("dump.rdb")).unwrap()
}

fn dumped(client: &mut RespClient, key: &[u8]) -> Vec<u8> {
    match client.cmd(&[b"DUMP", key]).unwrap() {
        Reply::Bulk(payload) => payload,
        other => panic!("DUMP of {} is {other:?}", key.escape_ascii()),
    }
}

fn expiry(client: &mut RespClient, key: &[u8]) -> Option<i64> {
    match client.cmd(&[b"PEXPIRETIME", key]).unwrap().int() {
        -1 => None,
        at_ms => Some(at_ms),
    }
}

#[test]
fn a_file_of_redis_gives_what_dump_gives() {
    let redis = Redis::start();
    let mut client = redis.client();
    for seed in 0..seeds() {
        client.cmd(&["FLUSHALL"]).unwrap();
        client.cmd(&["FUNCTION", "FLUSH"]).unwrap();
        let databases = 1 + seed as usize % 3;
        let keyspace = Keyspace {
            databases,
            ..Keyspace::seeded(seed)
        };
        keyspace.fill(&mut client, now_ms()).unwrap();
        let content = read(&saved(&redis)).unwrap_or_else(|error| panic!("seed {seed}: {error}"));
        assert_eq!(content.keys.len(), keyspace.keys, "seed {seed}");
        assert_eq!(content.functions.len(), keyspace.functions, "seed {seed}");
        assert!(content.aux.contains_key("redis-ver"), "{:?}", content.aux);
        let mut selected = 0;
        for ((db, name), (key, body)) in &content.keys {
            if selected != *db {
                client.cmd(&["SELECT", &db.to_string()]).unwrap();
                selected = *db;
            }
            let dumped = dumped(&mut client, name);
            let shown = format!("seed {seed}, key {}", name.escape_ascii());
            assert!(payload::without_footer(&dumped) == body, "{shown}");
            assert_eq!(key.expires_at_ms, expiry(&mut client, name), "{shown}");
        }
        client.cmd(&["SELECT", "0"]).unwrap();
    }
}

/// Writes everything of database 0 by DUMP.
fn written(redis: &Redis, to: &Path) {
    let mut client = redis.client();
    let mut writer = Writer::new(Vec::new(), VERSION).unwrap();
    writer.aux(b"redis-ver", b"7.0.0").unwrap();
    let libraries = client.cmd(&["FUNCTION", "LIST", "WITHCODE"]).unwrap();
    for library in libraries.items() {
        let Reply::Bulk(code) = library.items().last().unwrap() else {
            panic!("{library:?}");
        };
        writer.function(code).unwrap();
    }
    let keys = client.cmd(&["KEYS", "*"]).unwrap();
    writer.database(0, keys.items().len() as u64, 0).unwrap();
    for key in keys.items() {
        let Reply::Bulk(key) = key else { panic!("{key:?}") };
        let (dumped, expiry) = (dumped(&mut client, key), expiry(&mut client, key));
        writer.key(key, expiry, &dumped).unwrap();
    }
    fs::write(to, writer.finish().unwrap()).unwrap();
}

#[test]
fn redis_loads_what_the_writer_writes() {
    let folder = Folder::new("rdb");
    for seed in 100..100 + seeds().min(50) {
        let redis = Redis::start();
        let keyspace = Keyspace::seeded(seed);
        keyspace.fill(&mut redis.client(), now_ms()).unwrap();
        let file: PathBuf = folder.path().join("dump.rdb");
        written(&redis, &file);
        let checked = Command::new("redis-check-rdb").arg(&file).output().unwrap();
        let shown = String::from_utf8_lossy(&checked.stdout).into_owned();
        assert!(checked.status.success(), "seed {seed}: {shown}");
        let dir = format!("dir {}", folder.path().display());
        let other = Redis::with_config(&[&dir]);
        assert_eq!(
            other.cmd(&["DEBUG", "DIGEST"]),
            redis.cmd(&["DEBUG", "DIGEST"]),
            "seed {seed}"
        );
        assert_eq!(other.cmd(&["FUNCTION", "LIST"]).items().len(), keyspace.functions);
        let mut clients = (redis.client(), other.client());
        for key in redis.cmd(&["KEYS", "*"]).items() {
            let Reply::Bulk(key) = key else { panic!("{key:?}") };
            assert_eq!(
                expiry(&mut clients.0, key),
                expiry(&mut clients.1, key),
                "seed {seed}"
            );
        }
    }
}

#[test]
fn a_large_value_comes_in_parts_that_add_up_to_it() {
    let redis = Redis::start();
    let mut client = redis.client();
    Keyspace::seeded(7).fill(&mut client, now_ms()).unwrap();
    let bytes = saved(&redis);
    let limits = Limits {
        part_bytes: 200,
        ..Limits::default()
    };
    let mut reader = Reader::new(bytes.as_slice(), limits).unwrap();
    let mut in_parts = 0;
    while let Some(item) = reader.next().unwrap() {
        let Item::Key(key) = item else { continue };
        let mut parts = Vec::new();
        loop {
            let mut part = Vec::new();
            let extent = reader.value(&mut part).unwrap();
            parts.push(part);
            if extent != Extent::Part {
                break;
            }
        }
        in_parts += usize::from(parts.len() > 1);
        let whole = dumped(&mut client, &key.name);
        let mut elements = Vec::new();
        for part in &parts {
            elements.extend(elements_of(part));
        }
        let mut expected = elements_of(payload::without_footer(&whole));
        if payload::type_name(key.kind) != "list" {
            elements.sort();
            expected.sort();
        }
        assert_eq!(elements, expected, "{}", key.name.escape_ascii());
    }
    assert!(in_parts > 20, "{in_parts}");
}

/// The elements of a value, in their order; a value without elements as one.
fn elements_of(body: &[u8]) -> Vec<Vec<u8>> {
    let value = restore(&sealed(body), &EncodingLimits::default()).unwrap();
    let text = |item: nagaya_store::listpack::Item<'_>| item.to_vec();
    match &value {
        Value::List(list) => list.iter().map(text).collect(),
        Value::Set(set) => set.iter().map(text).collect(),
        Value::Hash(hash) => hash
            .iter()
            .map(|(field, value)| [text(field), b"=".to_vec(), text(value)].concat())
            .collect(),
        Value::Zset(zset) => zset
            .iter()
            .map(|entry| [text(entry.member), entry.score.to_string().into_bytes()].concat())
            .collect(),
        Value::Int(_) | Value::Str(_) | Value::Stream(_) => vec![body.to_vec()],
    }
}
