//! Fields with an expiry on their way to the cold tier and back.

use super::tests::House;

#[test]
fn field_expiry_goes_cold_and_comes_back() {
    let mut house = House::new();
    house.check("HSET {u}h a 1 b 2 c 3", ":3\r\n");
    house.check("HEXPIRE {u}h 100 FIELDS 1 a", "*1\r\n:1\r\n");
    house.check("HPEXPIRE {u}h 50 FIELDS 1 b", "*1\r\n:1\r\n");
    house.save();
    assert_eq!(house.evict("u"), Ok(1));
    house.check("HTTL {u}h FIELDS 3 a b c", "*3\r\n:100\r\n:1\r\n:-1\r\n");
    assert_eq!(house.save(), 0, "loading changes nothing");
    assert_eq!(house.evict("u"), Ok(1));
    house.session.advance_ms(51);
    house.check(
        "HGETALL {u}h",
        "*4\r\n$1\r\na\r\n$1\r\n1\r\n$1\r\nc\r\n$1\r\n3\r\n",
    );
    assert_eq!(house.save(), 1, "what has expired goes from the cold tier too");
    assert_eq!(house.evict("u"), Ok(1));
    house.session.advance_ms(100_000);
    house.check("HLEN {u}h", ":1\r\n");
}

#[test]
fn fields_of_a_loaded_hash_expire_without_being_asked_for() {
    let mut house = House::new();
    house.check("HSETEX {u}h PX 50 FIELDS 1 a 1", ":1\r\n");
    house.check("SET {u}other v", "+OK\r\n");
    house.save();
    assert_eq!(house.evict("u"), Ok(2));
    house.check("GET {u}other", "$1\r\nv\r\n");
    house.session.advance_ms(51);
    house.session.expire();
    house.check("EXISTS {u}h", ":0\r\n");
    assert_eq!(house.save(), 1, "the removal reaches the cold tier");
    assert_eq!(house.evict("u"), Ok(1));
    house.check("EXISTS {u}h", ":0\r\n");
}
