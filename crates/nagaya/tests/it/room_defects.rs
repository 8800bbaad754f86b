//! Defects of the original room that only a whole server can show. The table of all 25 is in
//! `crates/room/commands/src/tiering/defects.rs`.

use nagaya_testkit::{Nagaya, Reply, RespClient};

use super::room_torture::limit_for;
use super::{LIMIT, house};

fn connect(house: &Nagaya) -> RespClient {
    let client = RespClient::connect(house.address("room")).unwrap();
    client.set_timeout(LIMIT).unwrap();
    client
}

fn used_bytes(client: &mut RespClient) -> u64 {
    let info = client.cmd(&["INFO", "memory"]).unwrap().text();
    let used = info.lines().find_map(|line| line.strip_prefix("used_memory:"));
    used.unwrap().trim().parse().unwrap()
}

/// Data ten times as large as the memory for it: the limit holds all the time, and all of it is there.
#[test]
fn defect_24_memory_stays_under_the_limit() {
    const ROOM_BYTES: u64 = 4 << 20;
    const TAGS: u64 = 1500;
    let limit = limit_for(ROOM_BYTES);
    // What the log keeps until a sync counts as well: a second of it would not fit.
    let house = house()
        .args([
            "--set",
            &format!("room.max_memory={limit}b"),
            "--set",
            "room.fsync=always",
        ])
        .start();
    let mut client = connect(&house);
    let value = |tag: u64| format!("{tag}:").repeat(10 * ROOM_BYTES as usize / TAGS as usize / 5);
    let mut highest = 0;
    for tag in 0..TAGS {
        let reply = client
            .cmd(&["SET", &format!("{{user{tag}}}data"), &value(tag)])
            .unwrap();
        assert_eq!(reply, Reply::ok(), "tags can make room, so nothing is refused");
        if tag % 20 == 0 {
            highest = highest.max(used_bytes(&mut client));
        }
    }
    for tag in (0..TAGS).rev() {
        let reply = client.cmd(&["GET", &format!("{{user{tag}}}data")]).unwrap();
        assert!(reply == Reply::bulk(value(tag)), "user {tag} has lost data");
        if tag % 20 == 0 {
            highest = highest.max(used_bytes(&mut client));
        }
    }
    assert!(highest <= limit, "{highest} bytes were used where {limit} may be");
}

#[test]
fn defect_25_secrets_and_values_stay_out_of_the_log() {
    let house = house()
        .env("NAGAYA_ROOM__PASSWORD", "pass-secret")
        .args(["--log-level", "trace"])
        .start();
    assert!(house.address("room").ip().is_loopback());
    let mut client = connect(&house);
    let refused = client.cmd(&["SET", "{u}key-name", "value-secret"]).unwrap();
    assert_eq!(refused, Reply::Error("NOAUTH Authentication required.".into()));
    let wrong = client.cmd(&["AUTH", "wrong-secret"]).unwrap();
    assert!(wrong.error().unwrap().starts_with("WRONGPASS"), "{wrong:?}");
    assert_eq!(client.cmd(&["AUTH", "pass-secret"]).unwrap(), Reply::ok());
    assert_eq!(
        client.cmd(&["SET", "{u}key-name", "value-secret"]).unwrap(),
        Reply::ok()
    );
    assert_eq!(client.cmd(&["ROOM.EVICT", "u"]).unwrap(), Reply::Int(1));
    assert_eq!(
        client.cmd(&["GET", "{u}key-name"]).unwrap(),
        Reply::bulk("value-secret")
    );
    assert!(client.cmd(&["INCR", "{u}key-name"]).unwrap().error().is_some());
    house.process().kill9();
    house.restart();
    house.shut_down();
    let output = house.process().output();
    for secret in ["pass-secret", "wrong-secret", "value-secret"] {
        assert!(!output.contains(secret), "{secret} is in the log:\n{output}");
    }
}
