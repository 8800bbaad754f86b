//! Defects of the original, one test each, as far as the hot tier decides them. Those about losses are in
//! `faults`, those about timing in `races`, those about herds, memory and stuck runs in `workers`.

use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;

use nagaya_redis_client::reply;
use nagaya_testkit::{Direction, Redis, TcpProxy};
use nagaya_tiering::cold::{ColdTier, Committed};
use nagaya_tiering::hot::{Chunk, HotTier, Installed};
use nagaya_tiering::protocol::{Part, Touched};

use super::setup::Setup;

#[test]
fn defect_04_no_news_of_a_write_is_needed_to_save_it() {
    let redis = Redis::start();
    let setup = Setup::open(&redis.url());
    setup.set(b"{u}x", b"1");
    // The cold tier does not know that the tag was written, or that it exists.
    setup.evict(b"u");
    assert_eq!(setup.get(b"{u}x"), Some(b"1".to_vec()));
}

#[test]
fn defect_08_an_older_snapshot_never_overwrites_a_newer_one() {
    let redis = Redis::start();
    let setup = Setup::open(&redis.url());
    let tier = &setup.bench.tier;
    setup.set(b"{u}x", b"1");
    setup.cold.ensure(&[b"u"]).unwrap();
    let old = tier.snapshot(&[b"u"]).unwrap().remove(0).unwrap();
    setup.bench.write(b"{u}x", &["SET", "{u}x", "2"]);
    let new = tier.snapshot(&[b"u"]).unwrap().remove(0).unwrap();
    assert_eq!(setup.cold.commit(&[new.snapshot], 0).unwrap(), [Committed::Saved]);
    assert_eq!(
        setup.cold.commit(&[old.snapshot], 0).unwrap(),
        [Committed::Refused]
    );
    setup.evict(b"u");
    assert_eq!(setup.get(b"{u}x"), Some(b"2".to_vec()));
}

#[test]
fn defect_09_an_eviction_whose_questions_get_no_answer_takes_nothing() {
    let redis = Redis::start();
    let direct = Setup::open(&redis.url());
    direct.set(b"{u}x", b"1");
    direct.save();
    let proxy = TcpProxy::start(redis.address());
    let cut_off = Setup::over(&format!("redis://{}", proxy.address()), direct.cold.clone());
    let evictor = cut_off.evictor();
    cut_off.bench.tier.probe().unwrap();
    // Questions arrive; answers do not.
    proxy.cut(Direction::ToClient);
    assert!(evictor.evict(&[b"u"]).is_err());
    assert_eq!(direct.bench.get(b"{u}x"), Some(b"1".to_vec()));
    assert_eq!(direct.bench.tier.touch(&[b"u"]).unwrap(), [Touched::Granted]);
}

#[test]
fn defect_11_a_loader_that_was_replaced_installs_nothing() {
    let redis = Redis::start();
    let setup = Setup::open(&redis.url());
    setup.set(b"{u}x", b"old");
    setup.evict(b"u");
    let rows = setup.cold.read(&[b"u"]).unwrap().remove(0).unwrap().rows;
    let (tier, slow) = (&setup.bench.tier, setup.bench.draw());
    tier.begin(b"u", slow).unwrap();
    // Another one finishes the load, and a client writes.
    tier.begin(b"u", setup.bench.draw()).unwrap();
    setup.write(b"{u}x", &[b"SET", b"{u}x", b"new"]);
    let part = Part {
        generation: 2,
        saved: nagaya_tiering::cold::Version::default(),
        is_last: true,
    };
    let chunk = Chunk {
        part,
        rows,
        tombstones: Vec::new(),
    };
    assert_eq!(tier.install(b"u", slow, &chunk).unwrap(), Installed::Lost);
    assert_eq!(setup.get(b"{u}x"), Some(b"new".to_vec()));
}

#[test]
fn defect_14_names_and_values_that_are_not_text_survive() {
    let redis = Redis::start();
    let setup = Setup::open(&redis.url());
    let key = b"{\xff\0\r\n}\xfe\0".as_slice();
    let every_byte: Vec<u8> = (0..=255).collect();
    setup.set(key, &every_byte);
    setup.evict(b"\xff\0\r\n");
    assert_eq!(setup.get(key), Some(every_byte));
}

#[test]
fn defect_15_a_transaction_is_saved_whole_or_not_at_all() {
    let redis = Redis::start();
    let setup = Setup::open(&redis.url());
    setup.set(b"{u}a", b"0");
    setup.set(b"{u}b", b"0");
    let is_over = AtomicBool::new(false);
    let torn = thread::scope(|scope| {
        let saver = scope.spawn(|| {
            let mut saver = setup.saver();
            let mut torn = 0;
            while !is_over.load(Ordering::Relaxed) {
                saver.flush().unwrap();
                let (a, b) = (setup.row(b"{u}a"), setup.row(b"{u}b"));
                torn += u32::from(a.map(|rest| rest.payload) != b.map(|rest| rest.payload));
            }
            torn
        });
        let mut client = redis.client();
        for number in 1..2000 {
            if number % 50 == 1 {
                // A new lease.
                setup.bench.register(b"{u}a");
                setup.bench.register(b"{u}b");
            }
            let number = number.to_string();
            for command in [
                &["MULTI"][..],
                &["SET", "{u}a", &number],
                &["SET", "{u}b", &number],
                &["EXEC"],
            ] {
                client.cmd(command).unwrap();
            }
        }
        is_over.store(true, Ordering::Relaxed);
        saver.join().unwrap()
    });
    assert_eq!(torn, 0);
}

#[test]
fn defect_21_tags_that_never_existed_leave_nothing_behind() {
    let redis = Redis::start();
    let setup = Setup::open(&redis.url());
    let tags: Vec<Vec<u8>> = (0..200)
        .map(|number| format!("nobody{number}").into_bytes())
        .collect();
    for tag in &tags {
        assert_eq!(setup.get(tag), None);
    }
    let names: Vec<&[u8]> = tags.iter().map(Vec::as_slice).collect();
    assert_eq!(setup.evictor().evict(&names).unwrap().evicted, 200);
    assert_eq!(redis.cmd(&["DBSIZE"]).int(), 0);
    assert_eq!(setup.cold.totals().unwrap().tags, 0);
}

#[test]
fn defect_21_deleted_keys_are_forgotten_once_nothing_older_can_return() {
    let redis = Redis::start();
    let setup = Setup::open(&redis.url());
    for number in 0..20 {
        setup.set(format!("{{u}}{number}").as_bytes(), b"1");
    }
    setup.save();
    for number in 1..20 {
        let key = format!("{{u}}{number}").into_bytes();
        setup.write(&key, &[b"UNLINK", &key]);
    }
    setup.evict(b"u");
    let totals = setup.cold.totals().unwrap();
    assert_eq!((totals.keys, totals.tombstones), (1, 19));
    assert_eq!(setup.cold.purge(0, i64::MAX, 100).unwrap(), 19);
    assert_eq!(setup.get(b"{u}7"), None);
    assert_eq!(setup.get(b"{u}0"), Some(b"1".to_vec()));
}

#[test]
fn defect_23_an_eviction_leaves_no_key_behind_that_came_late() {
    let redis = Redis::start();
    let setup = Setup::open(&redis.url());
    setup.set(b"{u}x", b"1");
    setup.save();
    let (tier, token) = (&setup.bench.tier, setup.bench.draw());
    assert_eq!(tier.mark(&[b"u"], token).unwrap(), [true]);
    // Made after the evictor read its list, by a server whose lease is from before the mark.
    setup.bench.register(b"{u}late");
    setup.bench.call(b"{u}late", &["SET", "{u}late", "1"]);
    setup.save();
    assert!(!tier.confirm(b"u", token, &[b"{u}x".to_vec()]).unwrap());
    setup.evict(b"u");
    assert_eq!(redis.cmd(&["DBSIZE"]).int(), 0);
    assert_eq!(setup.get(b"{u}late"), Some(b"1".to_vec()));
}

#[test]
fn repeated_touches_and_reads_of_a_resident_tag_change_nothing() {
    let redis = Redis::start();
    let setup = Setup::open(&redis.url());
    setup.set(b"{u}x", b"1");
    setup.save();
    let meta = |setup: &Setup| {
        let all = setup.bench.call(b"u", &["HGETALL", "_room:{u}:meta"]);
        let mut fields: Vec<String> = reply::items(&all).iter().filter_map(reply::text).collect();
        fields.sort();
        fields
    };
    let before = meta(&setup);
    for _ in 0..10 {
        assert_eq!(setup.bench.tier.touch(&[b"u"]).unwrap(), [Touched::Granted]);
    }
    assert_eq!(meta(&setup), before);
    let encoding = setup.bench.call(b"u", &["OBJECT", "ENCODING", "_room:{u}:meta"]);
    assert_eq!(
        reply::text(&encoding).unwrap(),
        "listpack",
        "a tag costs little memory"
    );
}
