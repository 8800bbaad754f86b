//! The schema: how it is made, what people see of it, and what it costs to find a row.

use std::thread;

use nagaya_cold::PostgresCold;
use nagaya_cold::postgres::{OpenError, Options};
use nagaya_store::hash::Hash;
use nagaya_store::limits::EncodingLimits;
use nagaya_store::rdb;
use nagaya_store::value::ValueRef;
use nagaya_testkit::shared;
use nagaya_tiering::cold::{Change, ColdTier, Kind, StoredValue};

use super::{load, open, open_at, save, unfiltered};
use crate::support::{child_path, gone, put, start_child};

const TEST: &str = "postgres::schema::processes_that_make_the_schema_at_once_take_turns";

#[test]
fn processes_that_make_the_schema_at_once_take_turns() {
    if let Some(url) = child_path() {
        let cold = open_at(url.to_str().unwrap(), unfiltered());
        return save(&cold, &std::process::id().to_be_bytes(), 1, vec![put(b"k", b"v")]);
    }
    let url = shared::postgres().create_database();
    let children: Vec<_> = (0..4).map(|_| start_child(TEST, url.as_ref())).collect();
    for child in children {
        let output = child.wait_with_output().unwrap();
        assert!(
            output.status.success(),
            "{}",
            String::from_utf8_lossy(&output.stdout)
        );
    }
    assert_eq!(open_at(&url, unfiltered()).totals().unwrap().tags, 4);
}

#[test]
fn threads_that_make_the_schema_at_once_take_turns() {
    let url = shared::postgres().create_database();
    thread::scope(|scope| {
        for number in 0..6u8 {
            let url = &url;
            scope.spawn(move || save(&open_at(url, unfiltered()), &[number], 1, vec![put(b"k", b"v")]));
        }
    });
    assert_eq!(open_at(&url, unfiltered()).totals().unwrap().tags, 6);
}

#[test]
fn the_schema_can_be_taken_back() {
    let url = shared::postgres().create_database();
    save(&open_at(&url, unfiltered()), b"a", 1, vec![put(b"a", b"v")]);
    PostgresCold::migrate_to(&url, 0).unwrap();
    let left = "SELECT string_agg(relname, ',') FROM pg_class WHERE relname LIKE 'room%'";
    assert_eq!(shared::postgres().psql(&url, left), "");
    assert_eq!(open_at(&url, unfiltered()).totals().unwrap().tags, 0);
}

#[test]
fn a_newer_schema_and_a_bad_url_are_refused_by_name() {
    let url = shared::postgres().create_database();
    drop(open_at(&url, unfiltered()));
    shared::postgres().psql(
        &url,
        "INSERT INTO nagaya_migrations VALUES ('cold', 2, 'later', 'x', now())",
    );
    let error = PostgresCold::open(&url, unfiltered()).err().unwrap();
    let source = std::error::Error::source(&error).unwrap().to_string();
    assert!(source.contains("use a newer program"), "{source}");
    let error = PostgresCold::open("postgres://h?sslmode=on", unfiltered())
        .err()
        .unwrap();
    assert!(matches!(error, OpenError::Url(_)), "{error}");
}

#[test]
fn people_see_strings_and_hashes_and_can_join_them() {
    let url = shared::postgres().create_database();
    let options = Options {
        decode: true,
        ..unfiltered()
    };
    let cold = open_at(&url, options);
    let mut hash = Hash::new();
    hash.set(b"name", b"Aiko", &EncodingLimits::default());
    hash.set(b"city", "\u{4eac}\u{90fd}".as_bytes(), &EncodingLimits::default());
    let profile = Change {
        key: b"{u:1}profile".to_vec(),
        value: Some(StoredValue {
            kind: Kind::Hash,
            payload: rdb::dump_value(ValueRef::Hash(&hash)),
            expires_at_ms: Some(1_500),
        }),
    };
    let odd = vec![
        put(b"{u:1}zero", b"a\0b"),
        put(b"{u:1}\xff", b"\xfe"),
        gone(b"{u:1}gone"),
    ];
    let plain = vec![profile, put(b"{u:1}visits", b"12")];
    save(&cold, b"u:1", 1, [plain, odd].concat());
    save(
        &cold,
        "\u{3042}".as_bytes(),
        1,
        vec![put("\u{3042}".as_bytes(), b"text")],
    );

    let psql = |sql| shared::postgres().psql(&url, sql);
    assert_eq!(
        psql("SELECT tag, key, field, value, extract(epoch FROM expires_at) FROM room_hashes ORDER BY field"),
        "u:1|{u:1}profile|city|\u{4eac}\u{90fd}|1.500000\nu:1|{u:1}profile|name|Aiko|1.500000"
    );
    assert_eq!(
        psql("SELECT tag, key, value FROM room_strings ORDER BY key_bytes"),
        "u:1|{u:1}visits|12\nu:1|{u:1}zero|{\"base64\": \"YQBi\"}\nu:1|{u:1}\\377|{\"base64\": \"/g==\"}\n\u{3042}|\u{3042}|text"
    );
    assert_eq!(
        psql(
            "SELECT h.value, s.value FROM room_hashes h JOIN room_strings s USING (tag_bytes)
             WHERE h.field = 'name' AND s.key = '{u:1}visits'"
        ),
        "Aiko|12"
    );
    assert_eq!(
        psql("SELECT type, status, count(*) FROM room_decoded_keys GROUP BY 1, 2 ORDER BY 1"),
        "hash|synced|1\nstring|synced|4"
    );
}

/// Payloads are kept as they are and out of line, and rows of one tag are in one part.
#[test]
fn rows_are_stored_as_the_schema_says() {
    let url = shared::postgres().create_database();
    let cold = open_at(&url, unfiltered());
    let psql = |sql| shared::postgres().psql(&url, sql);
    let storage = "SELECT DISTINCT attstorage FROM pg_attribute
                   WHERE attname = 'payload' AND attrelid::regclass::text LIKE 'room_keys_%'";
    assert_eq!(psql(storage), "e");
    for number in 0..64u8 {
        save(&cold, &[number], 1, vec![put(&[1], b"v"), put(&[2], b"v")]);
    }
    let parts = "SELECT count(DISTINCT part) > 8, count(*) FROM
                 (SELECT DISTINCT tag, tableoid AS part FROM room_keys) AS parts";
    assert_eq!(psql(parts), "t|64");
}

#[test]
fn wrong_sums_are_found_and_counted_anew() {
    let url = shared::postgres().create_database();
    let cold = open_at(&url, unfiltered());
    save(&cold, b"a", 1, vec![put(b"a", b"v"), gone(b"b")]);
    assert_eq!(cold.check().unwrap(), []);
    shared::postgres().psql(
        &url,
        "UPDATE room_tags SET keys = 7; INSERT INTO room_keys SELECT 'orphan', key, expires_at_ms,
         generation, snap, buried_at_ms, kind, payload, decoded FROM room_keys WHERE kind = 0",
    );
    assert_eq!(cold.check().unwrap().len(), 3);
    cold.recount().unwrap();
    assert_eq!(cold.check().unwrap(), []);
    assert_eq!(load(&cold, b"a").rows.len(), 1);
}

#[test]
fn a_number_that_does_not_fit_fails_and_changes_nothing() {
    use crate::support::{snapshot, version};
    let cold = open(unfiltered());
    save(&cold, b"a", 1, vec![put(b"a", b"v")]);
    let broken = [
        snapshot(b"a", version(1, 2), vec![put(b"a", b"w")]),
        snapshot(b"a", version(1, u64::MAX), vec![put(b"a", b"w")]),
    ];
    assert!(!cold.commit(&broken, 1).unwrap_err().is_retryable());
    assert_eq!(load(&cold, b"a").saved, version(1, 1));
}
