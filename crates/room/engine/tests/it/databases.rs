//! Databases that outlive the engine: power cuts, restarts, other settings, folders from before there were several.

use std::path::Path;

use nagaya_engine::{Error, RecoveryError};
use nagaya_keyspace::effects::EffectBuf;
use nagaya_testkit::{Reply, RespClient};
use nagaya_tiering::cold::{Change, ColdTier, Kind, Snapshot, StoredValue, Version};
use nagaya_wal::{Log, Options};

use crate::harness::{ask, client};
use crate::storage::Place;

fn say(client: &mut RespClient, request: &str) -> Reply {
    let words: Vec<&str> = request.split(' ').collect();
    ask(client, &words)
}

#[track_caller]
fn check(client: &mut RespClient, database: usize, request: &str, expected: Reply) {
    assert_eq!(say(client, &format!("SELECT {database}")), Reply::ok());
    assert_eq!(say(client, request), expected, "{request} in database {database}");
}

#[test]
fn databases_survive_power_cuts_wherever_their_keys_are() {
    for is_saved in [false, true] {
        let place = Place::new(7);
        let mut engine = place.start();
        for round in 0..4 {
            let mut client = client(&engine);
            for database in [0, 1, 15] {
                let value = format!("{database}:{round}");
                check(&mut client, database, &format!("SET k {value}"), Reply::ok());
                check(
                    &mut client,
                    database,
                    &format!("SET {{t}}{round} {value}"),
                    Reply::ok(),
                );
            }
            assert_eq!(say(&mut client, "SWAPDB 1 15"), Reply::ok());
            check(&mut client, 1, "GET k", Reply::bulk(format!("15:{round}")));
            if is_saved {
                assert_eq!(say(&mut client, "ROOM.WAITCOLD 0 ALL"), Reply::Int(1));
                check(&mut client, 1, "ROOM.EVICT k", Reply::Int(1));
            }
            engine = place.crash(engine);
            let mut after = crate::harness::client(&engine);
            check(&mut after, 0, "GET k", Reply::bulk(format!("0:{round}")));
            check(&mut after, 1, "GET k", Reply::bulk(format!("15:{round}")));
            check(&mut after, 15, "GET k", Reply::bulk(format!("1:{round}")));
            assert_eq!(say(&mut after, "SWAPDB 15 1"), Reply::ok());
            for database in [0, 1, 15] {
                check(&mut after, database, "DBSIZE", Reply::Int(2 + round));
            }
        }
        engine.stop();
    }
}

#[test]
fn a_flushed_database_stays_empty_and_the_others_stay_whole_after_a_power_cut() {
    let place = Place::new(11);
    let engine = place.start();
    let mut before = client(&engine);
    for database in 0..3 {
        for key in ["a", "b"] {
            check(
                &mut before,
                database,
                &format!("SET {key} {database}"),
                Reply::ok(),
            );
        }
    }
    assert_eq!(say(&mut before, "ROOM.WAITCOLD 0 ALL"), Reply::Int(1));
    check(&mut before, 1, "FLUSHDB", Reply::ok());
    check(&mut before, 1, "SET b new", Reply::ok());
    check(&mut before, 0, "FLUSHDB", Reply::ok());
    let engine = place.crash(engine);
    let mut after = client(&engine);
    check(&mut after, 0, "DBSIZE", Reply::Int(0));
    check(&mut after, 0, "EXISTS a b", Reply::Int(0));
    check(&mut after, 1, "DBSIZE", Reply::Int(1));
    check(&mut after, 1, "GET b", Reply::bulk("new"));
    check(&mut after, 2, "DBSIZE", Reply::Int(2));
    check(&mut after, 2, "GET a", Reply::bulk("2"));
    engine.stop();
    let engine = place.start();
    let mut again = client(&engine);
    check(&mut again, 0, "DBSIZE", Reply::Int(0));
    check(&mut again, 1, "DBSIZE", Reply::Int(1));
    check(
        &mut again,
        2,
        "MGET a b",
        Reply::Array(vec![Reply::bulk("2"), Reply::bulk("2")]),
    );
    engine.stop();
}

#[test]
fn fewer_databases_than_have_keys_are_refused_and_more_are_welcome() {
    let place = Place::new(3);
    let engine = place.start();
    let mut before = client(&engine);
    check(&mut before, 9, "SET k nine", Reply::ok());
    check(&mut before, 0, "SET k zero", Reply::ok());
    engine.stop();
    let error = place.try_start(|config| config.databases = 4).err().unwrap();
    let Error::Recovery(RecoveryError::TooFewDatabases { database, count }) = &error else {
        panic!("{error:?}");
    };
    assert_eq!((*database, *count), (9, 4));
    let engine = place.start_with(|config| config.databases = 40);
    let mut after = client(&engine);
    check(&mut after, 9, "GET k", Reply::bulk("nine"));
    check(&mut after, 39, "SET k last", Reply::ok());
    check(&mut after, 39, "FLUSHDB", Reply::ok());
    assert_eq!(say(&mut after, "SWAPDB 9 0"), Reply::ok());
    check(&mut after, 9, "FLUSHDB", Reply::ok());
    assert_eq!(say(&mut after, "SWAPDB 9 0"), Reply::ok());
    check(&mut after, 9, "MOVE k 2", Reply::Int(1));
    engine.stop();
    let engine = place.start_with(|config| config.databases = 4);
    let mut last = client(&engine);
    check(&mut last, 2, "GET k", Reply::bulk("nine"));
    assert!(say(&mut last, "SELECT 4").error().is_some());
    engine.stop();
}

/// Folders as versions with one database left them: tags under their own names, records that select nothing.
#[test]
fn a_folder_from_before_there_were_several_databases_is_database_0() {
    let place = Place::new(5);
    let saved = |tag: &[u8], key: &[u8]| Snapshot {
        tag: tag.to_vec(),
        version: Version {
            generation: 1,
            snap: 1,
        },
        changes: vec![Change {
            key: key.to_vec(),
            value: Some(StoredValue {
                kind: Kind::String,
                payload: nagaya_store::rdb::dump_value(nagaya_store::value::ValueRef::Str(
                    nagaya_store::value::StrRef::Bytes(b"old"),
                )),
                expires_at_ms: None,
            }),
        }],
        read_at_ms: None,
        written_at_ms: None,
    };
    // Names that look like those of other databases as far as a tag can.
    let tags: [(&[u8], &[u8]); 4] = [
        (b"u", b"{u}a"),
        (b"{1", b"{1"),
        (b"{}1}x", b"{}1}x"),
        (b"1", b"{1}x"),
    ];
    let names: Vec<&[u8]> = tags.iter().map(|(tag, _)| *tag).collect();
    place.cold.ensure(&names).unwrap();
    let snapshots: Vec<Snapshot> = tags.iter().map(|(tag, key)| saved(tag, key)).collect();
    place.cold.commit(&snapshots, 1).unwrap();
    {
        let options = Options {
            start_at_least: nagaya_wal::Position(1),
            ..Options::default()
        };
        let (log, _) = Log::open(Path::new("/log"), &options, place.disk.process()).unwrap();
        let mut record = EffectBuf::default();
        record.push(&[b"SET", b"logged", b"1"]);
        record.push(&[b"APPEND", b"{u}a", b"+"]);
        log.append(record.as_bytes()).unwrap();
        log.close().unwrap();
    }
    let engine = place.start();
    let mut client = client(&engine);
    check(&mut client, 0, "DBSIZE", Reply::Int(5));
    check(&mut client, 0, "GET {u}a", Reply::bulk("old+"));
    check(&mut client, 0, "GET logged", Reply::bulk("1"));
    for key in ["{1", "{}1}x", "{1}x"] {
        check(&mut client, 0, &format!("GET {key}"), Reply::bulk("old"));
    }
    check(&mut client, 1, "DBSIZE", Reply::Int(0));
    check(&mut client, 1, "EXISTS x", Reply::Int(0));
    check(&mut client, 1, "SET x new", Reply::ok());
    let engine = place.crash(engine);
    let mut after = crate::harness::client(&engine);
    check(&mut after, 1, "GET x", Reply::bulk("new"));
    check(&mut after, 0, "GET {1}x", Reply::bulk("old"));
    check(&mut after, 0, "DBSIZE", Reply::Int(5));
    engine.stop();
}
