use std::sync::atomic::{AtomicBool, Ordering};

use nagaya_migrate::{Difference, Selection, Verdict};

use super::*;

fn found(comparison: &Comparison) -> Vec<(&str, Difference)> {
    let mut found: Vec<_> = comparison
        .differences
        .iter()
        .map(|(key, difference)| (key.as_str(), *difference))
        .collect();
    found.sort_by_key(|(key, _)| *key);
    found
}

const DIFFERING: [(&str, Difference); 6] = [
    ("expiry", Difference::Expiry),
    ("in-a", Difference::OnlyInA),
    ("in-b", Difference::OnlyInB),
    ("list", Difference::Value),
    ("text", Difference::Value),
    ("type", Difference::Value),
];

fn differing() -> (Redis, Redis) {
    let (a, b) = (Redis::start(), Redis::start());
    send_all(
        &a,
        &[
            "SET same x",
            "SET text x",
            "RPUSH list 1 2",
            "SADD set 1 2 3",
            "RPUSH type 1",
            "SET in-a x",
            "SET expiry x",
            "SET near x PXAT 4102444800000",
        ],
    );
    send_all(
        &b,
        &[
            "SET same x",
            "SET text y",
            "RPUSH list 2 1",
            "CONFIG SET set-max-intset-entries 0",
            "SADD set 3 2 1",
            "SADD type 1",
            "SET in-b x",
            "SET expiry x PXAT 4102444800000",
            "SET near x PXAT 4102444800900",
        ],
    );
    (a, b)
}

#[test]
fn every_kind_of_difference_is_found_between_servers_and_files() {
    let (a, b) = differing();
    let (file_a, file_b) = (saved(&a), saved(&b));
    let (file_a, file_b) = (file_a.to_str().unwrap(), file_b.to_str().unwrap());
    let (url_a, url_b) = (a.url(), b.url());
    for (a, b) in [
        (url_a.as_str(), url_b.as_str()),
        (file_a, &url_b),
        (&url_a, file_b),
        (file_a, file_b),
    ] {
        let comparison = compare(a, b);
        assert_eq!(comparison.verdict, Verdict::Different);
        assert_eq!(found(&comparison), DIFFERING, "{a} and {b}");
        assert_eq!(comparison.keys, 9);
        assert_eq!((comparison.values, comparison.expiries), (3, 1));
        let same = compare(a, a);
        assert_eq!((same.verdict, same.keys), (Verdict::Equal, 8), "{a} with itself");
    }
}

#[test]
fn a_part_of_the_keys_is_the_same_part_on_both_sides() {
    let (a, b) = (Redis::start(), Redis::start());
    send_all(&a, &["DEBUG POPULATE 4000 key 10"]);
    send_all(&b, &["DEBUG POPULATE 4000 key 10"]);
    let options = CompareOptions {
        share: 0.1,
        ..CompareOptions::default()
    };
    let comparison = compare_with(&a.url(), &b.url(), &options);
    assert_eq!(comparison.verdict, Verdict::Equal, "{comparison:?}");
    assert!((200..600).contains(&comparison.keys), "{}", comparison.keys);
    let options = CompareOptions {
        selection: Selection {
            pattern: Some(b"key:1?".to_vec()),
            db: None,
        },
        ..CompareOptions::default()
    };
    assert_eq!(compare_with(&a.url(), &b.url(), &options).keys, 10);
}

#[test]
fn keys_that_change_all_the_time_are_told_apart_from_keys_that_differ() {
    let (a, b) = (Redis::start(), Redis::start());
    send_all(&a, &["SET still x", "SET busy 0"]);
    send_all(&b, &["SET still x", "SET busy 0"]);
    let done = AtomicBool::new(false);
    let comparison = std::thread::scope(|scope| {
        scope.spawn(|| {
            let mut clients = (a.client(), b.client());
            let mut round = 0_u64;
            while !done.load(Ordering::Relaxed) {
                round += 1;
                clients.0.cmd(&["SET", "busy", &format!("a{round}")]).unwrap();
                clients.1.cmd(&["SET", "busy", &format!("b{round}")]).unwrap();
            }
        });
        let comparison = compare(&a.url(), &b.url());
        done.store(true, Ordering::Relaxed);
        comparison
    });
    assert_eq!(comparison.verdict, Verdict::Unsettled, "{comparison:?}");
    assert_eq!(found(&comparison), [("busy", Difference::Changing)]);
}

#[test]
fn a_write_that_was_on_its_way_is_no_difference() {
    let (a, b) = (Redis::start(), Redis::start());
    send_all(&a, &["SET late new"]);
    send_all(&b, &["SET late old"]);
    let comparison = std::thread::scope(|scope| {
        scope.spawn(|| {
            // The comparison reads B after A: once B was asked for the key, the write arrives.
            nagaya_testkit::wait::until("B was asked", std::time::Duration::from_secs(20), || {
                b.info("cmdstat_dump").is_some()
                    || b.cmd(&["INFO", "commandstats"]).text().contains("cmdstat_dump")
            });
            send_all(&b, &["SET late new"]);
        });
        compare(&a.url(), &b.url())
    });
    assert_eq!(comparison.verdict, Verdict::Equal, "{comparison:?}");
    assert_eq!(comparison.equal_later, 1);
}

#[test]
fn a_damaged_file_gets_no_verdict() {
    let source = filled(3);
    let path = saved(&source);
    let mut bytes = fs::read(&path).unwrap();
    let at = bytes.len() / 2;
    bytes[at] ^= 1;
    let folder = Folder::new("damaged");
    let damaged = folder.path().join("damaged.rdb");
    fs::write(&damaged, bytes).unwrap();
    let (a, b) = (Side::File(damaged), Side::File(path));
    let (options, progress) = (CompareOptions::default(), Progress::default());
    for (a, b) in [(&a, &b), (&b, &a)] {
        let compared = block_on(nagaya_migrate::compare(a, b, &options, &SystemClock, &progress));
        assert!(compared.is_err(), "{compared:?}");
    }
}
