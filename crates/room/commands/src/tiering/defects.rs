//! The 25 defects of the original room, each as a test or with the reason why it has none here.
//!
//! | no. | defect | test, or why it cannot happen on one machine |
//! | --- | --- | --- |
//! | 1 | double load overwrites a write | `defect_01_a_second_load_does_not_overwrite_a_write` |
//! | 2 | clean deletes what a command just wrote | `defect_02_clean_spares_a_tag_that_a_command_has_just_written` |
//! | 3 | a command on a tag being cleaned makes a partial tag | `defect_03_a_command_after_clean_sees_the_whole_tag` |
//! | 4 | a lost write event lets clean drop unsaved data | `defect_04_clean_needs_no_event_to_know_of_a_write` |
//! | 5 | sync of an empty hot tier destroys the copy | `defect_05_saving_an_emptied_engine_keeps_the_copy` |
//! | 6 | a late event on a cleaned tag writes `{}` over it | `defect_06_saving_a_cleaned_tag_again_keeps_the_copy` |
//! | 7 | clean deletes before its version check | `defect_07_clean_during_a_write_loses_nothing` |
//! | 8 | overlapping syncs: older over newer | `defect_08_an_older_snapshot_does_not_replace_a_newer_one` |
//! | 9 | clean ignores the error of its guard | `defect_09_clean_goes_ahead_only_on_a_confirmed_save` |
//! | 10 | a cache says "loaded" when the hot tier lost it | `defect_10_after_a_restart_nothing_counts_as_loaded` |
//! | 11 | a lock without owner is freed by another | `defect_11_a_load_that_was_overtaken_installs_nothing` |
//! | 12 | retries apply a command twice | `defect_12_a_request_that_waited_for_a_load_runs_once` |
//! | 13 | a client can delete the tag's meta key | `defect_13_no_key_of_a_client_is_meta_data` |
//! | 14 | bytes that are not UTF-8 are changed or block saving | `defect_14_any_bytes_are_saved_and_come_back` |
//! | 15 | snapshots are torn, times cut to seconds | `defect_15_a_snapshot_has_all_of_a_transaction`, `defect_15_times_come_back_to_the_millisecond` |
//! | 16 | a bad command in MULTI makes the rest run at once | `defect_16_a_bad_command_in_multi_runs_nothing` |
//! | 17 | one nil or error swallows the whole EXEC reply | `defect_17_exec_replies_every_result` |
//! | 18 | WATCH over several slots is dropped | `defect_18_watches_of_several_tags_hold_while_they_are_cold` |
//! | 19 | a herd on a cold tag gets errors | `defect_19_a_herd_on_a_cold_tag_shares_one_load` |
//! | 20 | one bad tag ends the whole run | `defect_20_one_damaged_tag_does_not_keep_others_out` |
//! | 21 | keys and empty rows pile up, absent tags cost reads | `defect_21_absent_tags_cost_nothing_and_leave_no_rows` |
//! | 22 | the collector loses events in files | none: there is no collector, changes are noted in the shard under its lock |
//! | 23 | keys without events are never cleaned, come back stale | `defect_23_a_deleted_key_does_not_come_back_with_its_tag` |
//! | 24 | no memory limit | `crates/nagaya/tests/it/room_defects.rs`: `defect_24_memory_stays_under_the_limit` |
//! | 25 | no AUTH, open ports, secrets and values in logs | `crates/nagaya/tests/it/room_defects.rs`: `defect_25_secrets_and_values_stay_out_of_the_log` |

use nagaya_connections::client::Message;
use nagaya_keyspace::residency::{ColdRequest, EvictionBlocker, LoadOrder};
use nagaya_tiering::cold::{ColdError, ColdTier};

use super::tests::House;
use crate::testing::TestSession;

/// A house with a saved and evicted tag `u` of two keys.
fn cold_house() -> House {
    let mut house = House::new();
    house.check("MSET {u}a 1 {u}b 2", "+OK\r\n");
    house.save();
    assert_eq!(house.evict("u"), Ok(2));
    house
}

fn next_load(house: &House) -> LoadOrder {
    match house.orders.try_recv() {
        Ok(ColdRequest::Load(order)) => order,
        _ => panic!("no load was ordered"),
    }
}

#[test]
fn defect_01_a_second_load_does_not_overwrite_a_write() {
    let mut house = cold_house();
    let mut other = house.session.another();
    assert!(house.session.try_run(&[b"GET", b"{u}a"]).is_none());
    assert!(other.try_run(&[b"SET", b"{u}a", b"new"]).is_none());
    let order = next_load(&house);
    assert!(house.orders.try_recv().is_err(), "two requests share a load");
    let read = || house.cold.read(&[b"u"]).map(|mut rows| rows.pop().flatten());
    let (first, late) = (read(), read());
    house.session.engine.server.keyspace.install(&order, first);
    other.check("SET {u}a new", "+OK\r\n");
    house.session.engine.server.keyspace.install(&order, late);
    house.check("GET {u}a", "$3\r\nnew\r\n");
}

#[test]
fn defect_02_clean_spares_a_tag_that_a_command_has_just_written() {
    let mut house = House::new();
    house.check("SET {u}a 1", "+OK\r\n");
    house.save();
    // Chosen to be cleaned, then written to before it is.
    assert!(house.session.engine.server.keyspace.residency(b"u").saved);
    house.check("SET {u}a 2", "+OK\r\n");
    assert_eq!(house.evict("u"), Err(EvictionBlocker::Unsaved));
    house.check("GET {u}a", "$1\r\n2\r\n");
}

#[test]
fn defect_03_a_command_after_clean_sees_the_whole_tag() {
    let mut house = cold_house();
    house.check("SET {u}c 3", "+OK\r\n");
    house.check("MGET {u}a {u}b {u}c", "*3\r\n$1\r\n1\r\n$1\r\n2\r\n$1\r\n3\r\n");
    house.save();
    assert_eq!(house.evict("u"), Ok(3));
    house.check("MGET {u}a {u}b {u}c", "*3\r\n$1\r\n1\r\n$1\r\n2\r\n$1\r\n3\r\n");
}

#[test]
fn defect_04_clean_needs_no_event_to_know_of_a_write() {
    let mut house = House::new();
    house.check("SET {u}a 1", "+OK\r\n");
    house.save();
    house.check("SET {u}a 2", "+OK\r\n");
    // The saver has lost its queue; a read makes the tag look fresh.
    house
        .session
        .engine
        .server
        .keyspace
        .take_changed(house.shard("u"), 0);
    house.check("GET {u}a", "$1\r\n2\r\n");
    assert_eq!(house.evict("u"), Err(EvictionBlocker::Unsaved));
    house.check("GET {u}a", "$1\r\n2\r\n");
}

#[test]
fn defect_05_saving_an_emptied_engine_keeps_the_copy() {
    let house = cold_house();
    let mut empty = House::on(house.cold.clone());
    assert_eq!(empty.save(), 0);
    empty.check("MGET {u}a {u}b", "*2\r\n$1\r\n1\r\n$1\r\n2\r\n");
}

#[test]
fn defect_06_saving_a_cleaned_tag_again_keeps_the_copy() {
    let mut house = cold_house();
    let server = &house.session.engine.server;
    // A change is told late, of a tag that has left memory.
    server
        .keyspace
        .shards
        .lock_patiently(house.shard("u"), 0)
        .tiers
        .enqueue(b"u", 0);
    assert_eq!(house.save(), 0);
    house.check("MGET {u}a {u}b", "*2\r\n$1\r\n1\r\n$1\r\n2\r\n");
}

#[test]
fn defect_07_clean_during_a_write_loses_nothing() {
    let mut house = House::new();
    house.check("SET {u}a 1", "+OK\r\n");
    let shard = house.shard("u");
    let taken = house.take(shard);
    house.check("SET {u}a 2", "+OK\r\n");
    assert_eq!(house.evict("u"), Err(EvictionBlocker::Unsaved));
    house.cold.ensure(&[b"u"]).unwrap();
    house.cold.commit(&taken.snapshots, 0).unwrap();
    assert_eq!(house.evict("u"), Err(EvictionBlocker::Unsaved));
    house
        .session
        .engine
        .server
        .keyspace
        .saved(shard, &taken.snapshots);
    assert_eq!(
        house.evict("u"),
        Err(EvictionBlocker::Unsaved),
        "the write came after the snapshot"
    );
    house.save();
    assert_eq!(house.evict("u"), Ok(1));
    house.check("GET {u}a", "$1\r\n2\r\n");
}

#[test]
fn defect_08_an_older_snapshot_does_not_replace_a_newer_one() {
    let mut house = House::new();
    house.check("SET {u}a old", "+OK\r\n");
    let shard = house.shard("u");
    let slow = house.take(shard);
    house.check("SET {u}a new", "+OK\r\n");
    assert_eq!(house.save(), 1);
    house.cold.commit(&slow.snapshots, 0).unwrap();
    house.session.engine.server.keyspace.saved(shard, &slow.snapshots);
    assert_eq!(house.evict("u"), Ok(1));
    house.check("GET {u}a", "$3\r\nnew\r\n");
}

#[test]
fn defect_09_clean_goes_ahead_only_on_a_confirmed_save() {
    let mut house = House::new();
    house.check("SET {u}a 1", "+OK\r\n");
    let shard = house.shard("u");
    let taken = house.take(shard);
    // The commit failed or timed out: nobody knows.
    house
        .session
        .engine
        .server
        .keyspace
        .not_saved(shard, &taken.snapshots);
    assert_eq!(house.evict("u"), Err(EvictionBlocker::Unsaved));
    assert_eq!(house.save(), 1);
    assert_eq!(house.evict("u"), Ok(1));
    house.check("GET {u}a", "$1\r\n1\r\n");
}

#[test]
fn defect_10_after_a_restart_nothing_counts_as_loaded() {
    let mut house = cold_house();
    house.check("GET {u}a", "$1\r\n1\r\n");
    let mut again = House::on(house.cold.clone());
    assert!(
        again.session.try_run(&[b"GET", b"{u}a"]).is_none(),
        "it waits for a load"
    );
    again.check("GET {u}a", "$1\r\n1\r\n");
}

#[test]
fn defect_11_a_load_that_was_overtaken_installs_nothing() {
    let mut house = cold_house();
    assert!(house.session.try_run(&[b"GET", b"{u}a"]).is_none());
    let slow = next_load(&house);
    let read = house.cold.read(&[b"u"]).map(|mut rows| rows.pop().flatten());
    // A script loads the tag in place, changes it, and it goes cold again and is asked for again.
    let script = b"return redis.call('SET', '{u}a', 'new')";
    house.session.another().run(&[b"EVAL", script, b"0"]);
    house.save();
    assert_eq!(house.evict("u"), Ok(2));
    house.session.messages();
    assert!(house.session.try_run(&[b"GET", b"{u}a"]).is_none());
    house.session.engine.server.keyspace.install(&slow, read);
    assert!(
        house.session.messages().is_empty(),
        "the slow load answers nobody"
    );
    house.check("GET {u}a", "$3\r\nnew\r\n");
}

#[test]
fn defect_12_a_request_that_waited_for_a_load_runs_once() {
    let mut house = cold_house();
    for tag in ["u", "v", "w"] {
        house.check(&format!("SET {{{tag}}}n 0"), "+OK\r\n");
    }
    house.save();
    for tag in ["u", "v", "w"] {
        house.evict(tag).unwrap();
    }
    house.check("MULTI", "+OK\r\n");
    for tag in ["u", "v", "w"] {
        house.check(&format!("INCR {{{tag}}}n"), "+QUEUED\r\n");
        house.check(&format!("RPUSH {{{tag}}}l x"), "+QUEUED\r\n");
    }
    house.check("EXEC", "*6\r\n:1\r\n:1\r\n:1\r\n:1\r\n:1\r\n:1\r\n");
    house.check("MGET {u}n {v}n {w}n", "*3\r\n$1\r\n1\r\n$1\r\n1\r\n$1\r\n1\r\n");
}

#[test]
fn defect_13_no_key_of_a_client_is_meta_data() {
    let mut house = cold_house();
    house.check("SET {u}a new", "+OK\r\n");
    house.check("DEL {u}:_m {u}:_l", ":0\r\n");
    house.check("SET {u}:_m x", "+OK\r\n");
    house.check("SET {u}:_l x", "+OK\r\n");
    house.check("DEL {u}:_m", ":1\r\n");
    house.save();
    assert_eq!(house.evict("u"), Ok(3));
    house.check("MGET {u}a {u}:_m {u}:_l", "*3\r\n$3\r\nnew\r\n$-1\r\n$1\r\nx\r\n");
}

#[test]
fn defect_14_any_bytes_are_saved_and_come_back() {
    let mut house = House::new();
    let value: Vec<u8> = (0..=255).collect();
    let key = [b"{\xff\0}", value.as_slice()].concat();
    house.session.run(&[b"SET", &key, &value]);
    house.session.run(&[b"SET", b"other", b"v"]);
    assert_eq!(house.save(), 2, "nothing keeps the run from going on");
    let server = &house.session.engine.server;
    assert_eq!(
        server
            .keyspace
            .evict(server.keyspace.shards.shard_of_tag(b"\xff\0"), b"\xff\0"),
        Ok(1)
    );
    assert!(house.session.try_run(&[b"GET", &key]).is_none());
    house.serve();
    let reply = house.session.run(&[b"GET", &key]);
    assert_eq!(reply, [b"$256\r\n", value.as_slice(), b"\r\n"].concat());
}

#[test]
fn defect_15_a_snapshot_has_all_of_a_transaction() {
    let mut house = House::new();
    for number in 1..=50 {
        for request in [
            "MULTI".to_owned(),
            format!("SET {{u}}a {number}"),
            format!("SET {{u}}b {number}"),
            "EXEC".to_owned(),
        ] {
            house.text(&request);
        }
        house.save();
        let rows = house.cold.read(&[b"u"]).unwrap().pop().flatten().unwrap().rows;
        assert_eq!(rows[0].value, rows[1].value, "both or none");
    }
}

#[test]
fn defect_15_times_come_back_to_the_millisecond() {
    let mut house = House::new();
    house.check("RPUSH {u}l x", ":1\r\n");
    house.check("PEXPIREAT {u}l 1700000123457", ":1\r\n");
    house.save();
    assert_eq!(house.evict("u"), Ok(1));
    house.check("PEXPIRETIME {u}l", ":1700000123457\r\n");
}

#[test]
fn defect_16_a_bad_command_in_multi_runs_nothing() {
    let mut house = cold_house();
    house.check("MULTI", "+OK\r\n");
    assert!(house.text("NONSENSE {u}a").starts_with("-ERR unknown command"));
    house.check("SET {u}a new", "+QUEUED\r\n");
    house.check(
        "EXEC",
        "-EXECABORT Transaction discarded because of previous errors.\r\n",
    );
    house.check("GET {u}a", "$1\r\n1\r\n");
}

#[test]
fn defect_17_exec_replies_every_result() {
    let mut house = cold_house();
    house.check("MULTI", "+OK\r\n");
    for request in ["GET {u}missing", "LPUSH {u}a x", "INCR {u}a"] {
        house.check(request, "+QUEUED\r\n");
    }
    let wrong = "-WRONGTYPE Operation against a key holding the wrong kind of value\r\n";
    house.check("EXEC", &format!("*3\r\n$-1\r\n{wrong}:2\r\n"));
}

#[test]
fn defect_18_watches_of_several_tags_hold_while_they_are_cold() {
    let mut house = cold_house();
    house.check("WATCH {u}a {v}x", "+OK\r\n");
    house.check("WATCH {w}y", "+OK\r\n");
    house.save();
    house.evict("u").unwrap();
    let mut other = house.session.another();
    assert!(other.try_run(&[b"SET", b"{u}a", b"changed"]).is_none());
    house.serve();
    other.check("SET {u}a changed", "+OK\r\n");
    house.check("MULTI", "+OK\r\n");
    house.check("SET {v}x 1", "+QUEUED\r\n");
    house.check("EXEC", "*-1\r\n");
    house.check("GET {v}x", "$-1\r\n");
}

#[test]
fn defect_19_a_herd_on_a_cold_tag_shares_one_load() {
    let mut house = cold_house();
    let mut herd: Vec<TestSession> = (0..200).map(|_| house.session.another()).collect();
    for client in &mut herd {
        assert!(client.try_run(&[b"INCR", b"{u}a"]).is_none());
    }
    assert_eq!(house.serve(), 1);
    for (number, client) in herd.iter_mut().enumerate() {
        assert_eq!(client.messages(), [Message::Resume(None)]);
        client.check("INCR {u}a", &format!(":{}\r\n", number + 2));
    }
    house.check("GET {u}a", "$3\r\n201\r\n");
}

#[test]
fn defect_20_one_damaged_tag_does_not_keep_others_out() {
    let mut house = cold_house();
    house.check("SET {v}a 1", "+OK\r\n");
    house.save();
    house.evict("v").unwrap();
    assert!(house.session.try_run(&[b"GET", b"{u}a"]).is_none());
    let order = next_load(&house);
    let damage = ColdError::Damaged { what: "a row".into() };
    house.session.engine.server.keyspace.install(&order, Err(damage));
    house.session.messages();
    house.check("GET {v}a", "$1\r\n1\r\n");
    house.check("SET {w}a 1", "+OK\r\n");
    assert_eq!(house.save(), 1, "and saving goes on");
}

#[test]
fn defect_21_absent_tags_cost_nothing_and_leave_no_rows() {
    let mut house = cold_house();
    for number in 0..5000 {
        house
            .session
            .check(&format!("GET {{absent{number}}}k"), "$-1\r\n");
    }
    assert_eq!(house.save(), 0);
    house.check("DEL {u}a {u}b", ":2\r\n");
    house.save();
    house.evict("u").unwrap();
    let totals = house.cold.totals().unwrap();
    assert_eq!(
        (totals.keys, house.tiering().cold_keys()),
        (0, 0),
        "lists of keys shrink"
    );
    let server = &house.session.engine.server;
    let records: usize = (0..server.keyspace.shards.count())
        .map(|shard| {
            server
                .keyspace
                .shards
                .lock_patiently(shard, 0)
                .tiers
                .record_count()
        })
        .sum();
    assert!(records < 50, "{records} records for tags that do not exist");
}

#[test]
fn defect_23_a_deleted_key_does_not_come_back_with_its_tag() {
    let mut house = cold_house();
    house.check("DEL {u}a", ":1\r\n");
    house.save();
    assert_eq!(house.evict("u"), Ok(1));
    house.check("EXISTS {u}a {u}b", ":1\r\n");
    // Nor after it was lost and made anew between two saves.
    house.check("DEL {u}b", ":1\r\n");
    house.check("SET {u}b 3", "+OK\r\n");
    house.save();
    house.evict("u").unwrap();
    house.check("MGET {u}a {u}b", "*2\r\n$-1\r\n$1\r\n3\r\n");
}

#[test]
fn exec_without_multi_is_refused_while_cold_keys_are_watched() {
    let mut house = House::new();
    house.check("SET k v", "+OK\r\n");
    house.check("SET other v", "+OK\r\n");
    house.save();
    house.evict("other").unwrap();
    house.check("WATCH k other", "+OK\r\n");
    house.evict("other").unwrap();
    house.check("EXEC", "-ERR EXEC without MULTI\r\n");
}
