//! Databases whose tags go cold and come back.

use nagaya_keyspace::databases::tag_name;

use super::tests::House;

#[test]
fn the_same_tag_goes_cold_in_each_database_by_itself() {
    let mut house = House::new();
    house.check("SET {u}k zero", "+OK\r\n");
    house.check("SELECT 3", "+OK\r\n");
    house.check("SET {u}k three", "+OK\r\n");
    house.check("SET plain three", "+OK\r\n");
    house.save();
    assert_eq!(house.evict("{3}u"), Ok(1));
    assert_eq!(house.evict("{3}plain"), Ok(1));
    house.check("DBSIZE", ":2\r\n");
    assert_eq!(house.text("KEYS {u}*"), "*1\r\n$4\r\n{u}k\r\n");
    house.check("SELECT 0", "+OK\r\n");
    house.check("DBSIZE", ":1\r\n");
    assert_eq!(house.text("KEYS *"), "*1\r\n$4\r\n{u}k\r\n");
    house.check("EXISTS plain", ":0\r\n");
    assert_eq!(house.evict("u"), Ok(1));
    assert_eq!(house.tiering().cold_keys(), 3);
    house.check("GET {u}k", "$4\r\nzero\r\n");
    house.check("SELECT 3", "+OK\r\n");
    house.check("MGET {u}k plain", "*2\r\n$5\r\nthree\r\n$5\r\nthree\r\n");
    house.check("SELECT 4", "+OK\r\n");
    house.check("EXISTS {u}k plain", ":0\r\n");
}

#[test]
fn exchanged_databases_find_their_cold_tags_also_after_a_restart() {
    let mut house = House::new();
    house.check("SET k zero", "+OK\r\n");
    house.check("SELECT 1", "+OK\r\n");
    house.check("SET k one", "+OK\r\n");
    house.save();
    assert_eq!((house.evict("k"), house.evict("{1}k")), (Ok(1), Ok(1)));
    house.check("SWAPDB 0 1", "+OK\r\n");
    house.check("GET k", "$4\r\nzero\r\n");
    house.check("SET k changed", "+OK\r\n");
    house.save();
    house.check("SELECT 0", "+OK\r\n");
    house.check("GET k", "$3\r\none\r\n");
    let spaces = house.session.engine.server.keyspace.databases.in_order();
    let mut again = House::on(house.cold.clone());
    again.session.engine.server.keyspace.databases.restore(&spaces);
    again.check("GET k", "$3\r\none\r\n");
    again.check("SELECT 1", "+OK\r\n");
    again.check("GET k", "$7\r\nchanged\r\n");
}

#[test]
fn moves_and_copies_load_what_they_need_on_both_sides() {
    let mut house = House::new();
    for (database, value) in [("1", "one"), ("2", "two")] {
        house.check(&format!("SELECT {database}"), "+OK\r\n");
        house.check(&format!("SET k {value}"), "+OK\r\n");
        house.check(&format!("SET only{database} x"), "+OK\r\n");
    }
    house.save();
    for tag in ["{1}k", "{2}k", "{1}only1", "{2}only2"] {
        assert_eq!(house.evict(tag), Ok(1));
    }
    house.check("MOVE k 1", ":0\r\n");
    house.check("MOVE only2 1", ":1\r\n");
    house.check("COPY k k DB 1 REPLACE", ":1\r\n");
    assert!(
        house
            .text("EVAL return(redis.call('move','k',5)) 0")
            .starts_with(":1")
    );
    house.check("SELECT 1", "+OK\r\n");
    house.check("MGET k only1 only2", "*3\r\n$3\r\ntwo\r\n$1\r\nx\r\n$1\r\nx\r\n");
}

#[test]
fn a_transaction_loads_the_tags_of_the_databases_that_it_selects() {
    let mut house = House::new();
    house.check("SELECT 7", "+OK\r\n");
    house.check("SET k seven", "+OK\r\n");
    house.save();
    assert_eq!(house.evict("{7}k"), Ok(1));
    house.check("SELECT 0", "+OK\r\n");
    house.check("MULTI", "+OK\r\n");
    house.check("SELECT 7", "+QUEUED\r\n");
    house.check("APPEND k !", "+QUEUED\r\n");
    house.check("EXEC", "*2\r\n+OK\r\n:6\r\n");
}

#[test]
fn flushdb_leaves_the_cold_tags_of_other_databases() {
    for flushed in [0, 1] {
        let mut house = House::new();
        for database in [0, 1] {
            house.check(&format!("SELECT {database}"), "+OK\r\n");
            for key in ["a", "b"] {
                house.check(&format!("SET {key} {database}"), "+OK\r\n");
            }
        }
        house.save();
        for space in [0, 1] {
            house
                .evict(&String::from_utf8_lossy(&tag_name(space, b"a")))
                .unwrap();
        }
        house.check(&format!("SELECT {flushed}"), "+OK\r\n");
        house.check("FLUSHDB", "+OK\r\n");
        house.check("DBSIZE", ":0\r\n");
        house.check("EXISTS a b", ":0\r\n");
        // The cold tier still has them.
        house.check("KEYS *", "*0\r\n");
        house.check("SCAN 0", "*2\r\n$1\r\n0\r\n*0\r\n");
        house.check("RANDOMKEY", "$-1\r\n");
        house.check("SET b new", "+OK\r\n");
        while let Some(flush) = house.tiering().flush_pending() {
            house.tiering().wipe(&flush).unwrap();
        }
        house.save();
        house.check(&format!("SELECT {}", 1 - flushed), "+OK\r\n");
        house.check("DBSIZE", ":2\r\n");
        let other = 1 - flushed;
        house.check("MGET a b", &format!("*2\r\n$1\r\n{other}\r\n$1\r\n{other}\r\n"));
        let mut again = House::on(house.cold.clone());
        again.check(&format!("SELECT {flushed}"), "+OK\r\n");
        again.check("EXISTS a", ":0\r\n");
        again.check("GET b", "$3\r\nnew\r\n");
    }
}

#[test]
fn a_scan_pages_through_the_cold_keys_of_its_database_alone() {
    let mut house = House::new();
    for database in [0, 1, 11] {
        house.check(&format!("SELECT {database}"), "+OK\r\n");
        for number in 0..25 {
            house.check(&format!("SET key:{number}:of:{database} v"), "+OK\r\n");
        }
        house.check("SET {1 v", "+OK\r\n");
        house.check("SET {} v", "+OK\r\n");
    }
    house.save();
    for database in [0, 1, 11] {
        for number in 0..25 {
            let tag = format!("key:{number}:of:{database}");
            let name = tag_name(database, tag.as_bytes());
            assert_eq!(house.evict(&String::from_utf8_lossy(&name)), Ok(1));
        }
    }
    for database in [0, 1, 11] {
        house.check(&format!("SELECT {database}"), "+OK\r\n");
        let (mut cursor, mut found) = ("0".to_owned(), std::collections::BTreeSet::new());
        loop {
            let reply = house.text(&format!("SCAN {cursor} COUNT 7"));
            let words: Vec<&str> = reply.split("\r\n").collect();
            cursor = words[2].to_owned();
            found.extend(words[4..].iter().skip(1).step_by(2).map(|key| (*key).to_owned()));
            if cursor == "0" {
                break;
            }
        }
        found.remove("");
        assert_eq!(found.len(), 27, "{database}: {found:?}");
        assert_eq!(
            found
                .iter()
                .filter(|key| key.ends_with(&format!(":of:{database}")))
                .count(),
            25
        );
        assert!(
            house
                .text("ROOM.TAGS PREFIX key:1 LIMIT 100")
                .contains(&format!("key:1:of:{database}"))
        );
        assert_eq!(
            house
                .text("ROOM.TAGS PREFIX key: LIMIT 100")
                .matches("key:")
                .count(),
            25
        );
        assert!(
            house
                .text(&format!("ROOM.STATUS key:2:of:{database}"))
                .contains("cleaned")
        );
    }
}

#[test]
fn a_blocked_client_gets_what_an_exchange_brings_from_the_cold_tier() {
    let mut house = House::new();
    house.check("SELECT 1", "+OK\r\n");
    house.check("RPUSH l a", ":1\r\n");
    house.save();
    assert_eq!(house.evict("{1}l"), Ok(1));
    let mut waiter = house.session.another();
    assert!(waiter.run(&[b"BLPOP", b"l", b"0"]).is_empty());
    house.check("SWAPDB 0 1", "+OK\r\n");
    let told = waiter.messages();
    let served = nagaya_connections::client::Message::Unblocked(b"*2\r\n$1\r\nl\r\n$1\r\na\r\n".to_vec());
    assert_eq!(told, [served]);
}
