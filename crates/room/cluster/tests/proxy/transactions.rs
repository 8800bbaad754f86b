//! MULTI, EXEC, DISCARD, WATCH through the proxy.

use nagaya_testkit::shared;

use crate::support::{before_cluster, connect};

#[test]
fn a_transaction_replies_element_by_element() {
    let proxy = before_cluster(shared::cluster());
    let mut client = connect(&proxy);
    client.expect("DEL {txa}n {txa}s", "0");
    client.expect("MULTI", "+OK");
    client.expect("INCR {txa}n", "+QUEUED");
    client.expect("PING", "+QUEUED");
    client.expect("SET {txa}s text", "+QUEUED");
    client.expect("GET {txa}none", "+QUEUED");
    client.expect("INCR {txa}s", "+QUEUED");
    client.expect("ECHO end", "+QUEUED");
    client.expect(
        "EXEC",
        r#"[1, +PONG, +OK, nil, -ERR value is not an integer or out of range, "end"]"#,
    );
    client.expect("GET {txa}s", "\"text\"");
}

#[test]
fn a_refused_command_aborts_the_whole_transaction() {
    let proxy = before_cluster(shared::cluster());
    let mut client = connect(&proxy);
    client.expect("MULTI", "+OK");
    client.expect("SET {txb}k 1", "+QUEUED");
    client.expect("SET {txb}k", "-ERR wrong number of arguments for 'set' command");
    client.expect("SET {txb}k 2", "+QUEUED");
    client.expect(
        "EXEC",
        "-EXECABORT Transaction discarded because of previous errors.",
    );
    client.expect("GET {txb}k", "nil");
    client.expect("EXEC", "-ERR EXEC without MULTI");
    client.expect("DISCARD", "-ERR DISCARD without MULTI");
    client.expect("MULTI", "+OK");
    client.expect("MULTI", "-ERR MULTI calls can not be nested");
    client.expect("WATCH k", "-ERR WATCH inside MULTI is not allowed");
    client.expect("SET {txb}k 3", "+QUEUED");
    client.expect("DISCARD", "+OK");
    client.expect("GET {txb}k", "nil");
    client.expect("MULTI", "+OK");
    client.expect("EXEC", "[]");
}

#[test]
fn a_transaction_over_two_tags_is_refused_whole() {
    let proxy = before_cluster(shared::cluster());
    let mut client = connect(&proxy);
    client.expect("MULTI", "+OK");
    client.expect("SET {txc}k 1", "+QUEUED");
    client.expect("SET {txd}k 1", "+QUEUED");
    client.expect("EXEC", "-CROSSSLOT Keys in request don't hash to the same slot");
    client.expect("EXISTS {txc}k {txd}k", "0");
}

#[test]
fn a_watched_key_that_changes_stops_the_transaction() {
    let proxy = before_cluster(shared::cluster());
    let (mut client, mut other) = (connect(&proxy), connect(&proxy));
    client.expect("SET {txw}k 1", "+OK");
    client.expect("WATCH {txw}k", "+OK");
    other.expect("SET {txw}k 2", "+OK");
    client.expect("MULTI", "+OK");
    client.expect("SET {txw}k 3", "+QUEUED");
    client.expect("EXEC", "nil");
    client.expect("GET {txw}k", "\"2\"");
    client.expect("WATCH {txw}k {txw}l", "+OK");
    client.expect("GET {txw}k", "\"2\"");
    client.expect("MULTI", "+OK");
    client.expect("SET {txw}k 3", "+QUEUED");
    client.expect("EXEC", "[+OK]");
    client.expect("WATCH {txw}k", "+OK");
    other.expect("SET {txw}k 4", "+OK");
    client.expect("UNWATCH", "+OK");
    client.expect("MULTI", "+OK");
    client.expect("GET {txw}k", "+QUEUED");
    client.expect("EXEC", "[\"4\"]");
    client.expect("WATCH {txw}k", "+OK");
    client.expect(
        "WATCH {other}k",
        "-CROSSSLOT Keys in request don't hash to the same slot",
    );
}

#[test]
fn counting_with_watch_loses_no_update() {
    let proxy = before_cluster(shared::cluster());
    connect(&proxy).expect("SET {txn}n 0", "+OK");
    std::thread::scope(|scope| {
        for _ in 0..4 {
            scope.spawn(|| {
                let mut client = connect(&proxy);
                let mut done = 0;
                while done < 50 {
                    client.expect("WATCH {txn}n", "+OK");
                    let next: i64 = client.say("GET {txn}n").text().parse::<i64>().unwrap() + 1;
                    client.expect("MULTI", "+OK");
                    client.expect(&format!("SET {{txn}}n {next}"), "+QUEUED");
                    if client.say("EXEC") != nagaya_testkit::Reply::Nil {
                        done += 1;
                    }
                }
            });
        }
    });
    connect(&proxy).expect("GET {txn}n", "\"200\"");
}

#[test]
fn transactions_speak_the_protocol_of_their_client() {
    let proxy = before_cluster(shared::cluster());
    let mut client = connect(&proxy);
    client.say("HELLO 3");
    client.expect("DEL {txp}h", "0");
    client.expect("MULTI", "+OK");
    client.expect("HSET {txp}h a 1", "+QUEUED");
    client.expect("HGETALL {txp}h", "+QUEUED");
    client.expect("EXEC", r#"[1, {"a": "1"}]"#);
}
