//! Commands that wait, through the proxy.

use nagaya_testkit::{shared, wait};

use crate::support::{LIMIT, before_cluster, connect};

#[test]
fn a_blocked_client_is_served_and_delays_nobody() {
    let proxy = before_cluster(shared::cluster());
    let (mut waiting, mut other) = (connect(&proxy), connect(&proxy));
    waiting.send("BLPOP {blk}a {blk}b 0");
    waiting.send("PING");
    for number in 0..100 {
        other.expect(&format!("SET {{blk}}k {number}"), "+OK");
    }
    other.expect("RPUSH {blk}b x", "1");
    assert_eq!(format!("{:?}", waiting.receive()), r#"["{blk}b", "x"]"#);
    assert_eq!(format!("{:?}", waiting.receive()), "+PONG");
}

#[test]
fn a_wait_ends_with_its_own_timeout() {
    let proxy = before_cluster(shared::cluster());
    let mut client = connect(&proxy);
    client.expect("BLPOP {bto}none 0.05", "nil");
    client.expect("BLMOVE {bto}a {bto}b LEFT RIGHT 0.05", "nil");
    client.expect("BZMPOP 0.05 1 {bto}z MIN", "nil");
    client.expect("XREAD BLOCK 50 STREAMS {bto}s $", "nil");
    client.expect(
        "BLPOP {bto}a {other}b 1",
        "-CROSSSLOT Keys in request don't hash to the same slot",
    );
    client.expect("BLPOP {bto}a x", "-ERR timeout is not a float or out of range");
    client.expect("XADD {bto}s 1-1 f v", "\"1-1\"");
    client.expect("XREAD STREAMS {bto}s 0", r#"[["{bto}s", [["1-1", ["f", "v"]]]]]"#);
}

#[test]
fn a_blocked_client_that_leaves_takes_nothing() {
    let proxy = before_cluster(shared::cluster());
    let mut waiting = connect(&proxy);
    waiting.send("BLPOP {bgo}l 0");
    let node = &shared::cluster().nodes()[shared::cluster().owner_of(shared::cluster().slot_of("bgo"))];
    let blocked = || node.info("blocked_clients").unwrap().parse::<i64>().unwrap();
    wait::until("the client is blocked", LIMIT, || blocked() > 0);
    let before = blocked();
    drop(waiting);
    wait::until("the wait is over", LIMIT, || blocked() < before);
    let mut client = connect(&proxy);
    client.expect("RPUSH {bgo}l x", "1");
    client.expect("LPOP {bgo}l", "\"x\"");
}
