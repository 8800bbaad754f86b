//! The server family: mostly errors and shapes, since the values are each server's own.
#![allow(clippy::unwrap_used, reason = "a step that fails ends the test")]

use nagaya_resp::{Frame, Proto, parse_frame};
use nagaya_testkit::Redis;

use crate::harness::{Compare, Pair};

fn server() -> Redis {
    Redis::with_config(&["enable-debug-command yes"])
}

#[test]
fn refusals_are_in_the_same_words() {
    let server = server();
    let mut pair = Pair::on(&server, Proto::Resp2);
    let mut differences = String::new();
    for request in [
        "CLIENT",
        "CLIENT NOSUCH",
        "CLIENT KILL",
        "CLIENT KILL 1.2.3.4:5",
        "CLIENT KILL ID 0",
        "CLIENT KILL ID 999999",
        "CLIENT KILL ID 10 wrong",
        "CLIENT KILL TYPE x",
        "CLIENT KILL USER nobody",
        "CLIENT KILL SKIPME x",
        "CLIENT LIST TYPE x",
        "CLIENT LIST TYPE master",
        "CLIENT LIST ID x",
        "CLIENT LIST ID 99999",
        "CLIENT LIST x",
        "CLIENT GETNAME",
        "CLIENT SETNAME x",
        "CLIENT GETNAME",
        "CLIENT REPLY x",
        "CLIENT NO-EVICT x",
        "CLIENT NO-EVICT on",
        "CLIENT PAUSE x",
        "CLIENT PAUSE -1",
        "CLIENT PAUSE 1 x",
        "CLIENT PAUSE 1 2 3",
        "CLIENT UNPAUSE",
        "CLIENT UNBLOCK x",
        "CLIENT UNBLOCK 1 x",
        "CLIENT UNBLOCK 99999 ERROR",
        "CONFIG GET nosuch",
        "CONFIG GET",
        "CONFIG GET maxmemory",
        "CONFIG GET HASH-max-ziplist-value",
        "CONFIG SET maxmemory",
        "CONFIG SET maxmemory 1 timeout",
        "CONFIG SET nosuch 1",
        "CONFIG SET maxmemory 1x",
        "CONFIG SET maxmemory -1",
        "CONFIG SET maxmemory 10mb maxmemory 1",
        "CONFIG SET maxmemory 10mb maxmemory-clients 200%",
        "CONFIG SET maxmemory-policy x",
        "CONFIG SET maxmemory-samples 0",
        "CONFIG SET daemonize yes",
        "CONFIG SET dir /tmp",
        "CONFIG SET timeout x",
        "CONFIG SET timeout -1",
        "CONFIG SET maxclients 0",
        "CONFIG SET notify-keyspace-events q",
        "CONFIG SET notify-keyspace-events KEA",
        "CONFIG GET notify-keyspace-events",
        "CONFIG SET latency-tracking x",
        "CONFIG SET slowlog-log-slower-than -2",
        "CONFIG SET client-output-buffer-limit x",
        "CONFIG SET proto-max-bulk-len 1",
        "CONFIG SET list-max-ziplist-size 99999999999",
        "CONFIG SET unixsocketperm 999",
        "CONFIG SET hll-sparse-max-bytes 1kb",
        "CONFIG GET hll-sparse-max-bytes",
        "CONFIG RESETSTAT",
        "CONFIG REWRITE x",
        "SLOWLOG LEN",
        "SLOWLOG GET",
        "SLOWLOG GET -2",
        "SLOWLOG GET x",
        "SLOWLOG RESET",
        "SLOWLOG NOSUCH",
        "SLOWLOG GET 1 2",
        "LATENCY HISTORY x",
        "LATENCY GRAPH x",
        "LATENCY LATEST",
        "LATENCY RESET",
        "LATENCY RESET a b",
        "LATENCY HISTOGRAM nosuch",
        "LATENCY NOSUCH",
        "MEMORY USAGE nosuch",
        "MEMORY USAGE nosuch SAMPLES -1",
        "MEMORY USAGE nosuch SAMPLES",
        "MEMORY USAGE",
        "MEMORY PURGE",
        "ROLE",
        "WAIT 0 1",
        "WAIT x 1",
        "WAIT 0 x",
        "WAIT 0 -1",
        "REPLICAOF no one",
        "REPLICAOF localhost x",
        "SWAPDB x 1",
        "SWAPDB 0 x",
        "SWAPDB 0 99",
        "FAILOVER",
        "FAILOVER ABORT",
        "CLUSTER INFO",
        "CLUSTER NOSUCH",
        "CLUSTER KEYSLOT",
        "MODULE LIST",
        "SHUTDOWN ABORT",
        "SHUTDOWN x",
        "SHUTDOWN SAVE NOSAVE",
        "DEBUG NOSUCH",
        "DEBUG OBJECT nosuch",
        "DEBUG ERROR MADE-UP",
        "DEBUG SET-ACTIVE-EXPIRE 1",
        "DEBUG HTSTATS 99",
        "DEBUG PROTOCOL nosuch",
        "DEBUG RELOAD x",
        "DEBUG POPULATE x",
        "DEBUG POPULATE -1",
        "DEBUG DIGEST",
        "DEBUG QUICKLIST-PACKED-THRESHOLD x",
    ] {
        let args: Vec<&[u8]> = request.split(' ').map(str::as_bytes).collect();
        let (ours, theirs) = pair.run(&args);
        if ours != theirs {
            let (ours, theirs) = (ours.escape_ascii(), theirs.escape_ascii());
            differences.push_str(&format!("{request}\n  ours:   {ours}\n  theirs: {theirs}\n"));
        }
    }
    assert_eq!(differences, "");
}

#[test]
fn protocol_samples_are_the_same_bytes() {
    let server = server();
    for proto in [Proto::Resp2, Proto::Resp3] {
        let mut pair = Pair::on(&server, proto);
        for name in [
            "string", "integer", "double", "bignum", "null", "array", "set", "map", "verbatim", "true",
            "false",
        ] {
            pair.same(&format!("DEBUG PROTOCOL {name}"));
        }
    }
    // In RESP3 an attribute or a push is a frame of its own before the reply.
    Pair::on(&server, Proto::Resp2).same("DEBUG PROTOCOL attrib");
    Pair::on(&server, Proto::Resp2).same("DEBUG PROTOCOL push");
}

#[test]
fn digests_of_the_same_data_are_the_same() {
    let server = server();
    let mut pair = Pair::on(&server, Proto::Resp2);
    for request in [
        "SET int 12345",
        "SET text hello",
        "SET volatile x EX 1000",
        "XADD s 1-1 f v g 7",
        "XADD s 2-1 f v2 g 8",
        "XADD s 3-5 other 1",
        "DEBUG POPULATE 100 p",
        "DEBUG POPULATE 10 big 200",
    ] {
        pair.same(request);
    }
    pair.same("DEBUG DIGEST-VALUE int text volatile s nosuch");
    pair.same("DEBUG DIGEST");
    pair.same("DEBUG RELOAD");
    pair.same("DEBUG DIGEST");
}

/// Reads a reply as a flat list of its field names.
fn names(reply: &[u8], parse: impl Fn(&str) -> Option<&str>) -> Vec<String> {
    let (frame, _) = parse_frame(reply).unwrap().unwrap();
    let Frame::Bulk(text) = frame else {
        panic!("not text: {frame:?}")
    };
    let text = String::from_utf8(text).unwrap();
    text.lines()
        .filter_map(|line| parse(line).map(str::to_owned))
        .collect()
}

#[test]
fn info_has_the_same_fields_in_the_same_order() {
    let server = server();
    let mut pair = Pair::on(&server, Proto::Resp2);
    pair.same("SET k v EX 1000");
    for section in [
        "server",
        "clients",
        "memory",
        "persistence",
        "stats",
        "replication",
        "cpu",
        "modules",
        "cluster",
        "keyspace",
    ] {
        let (ours, theirs) = pair.run(&[b"INFO", section.as_bytes()]);
        let field = |line: &str| -> Option<String> { Some(line.split(':').next()?.to_owned()) };
        let list = |reply: &[u8]| {
            let lines = names(reply, |line| Some(line));
            let fields = lines.iter().filter_map(|line| field(line));
            // Ours alone has its own version, and counts what fields of hashes of later releases do.
            fields
                .filter(|name| name != "nagaya_version" && name != "expired_subkeys")
                .collect::<Vec<String>>()
        };
        assert_eq!(list(&ours), list(&theirs), "{section}");
    }
}

#[test]
fn client_lines_have_the_same_fields_in_the_same_order() {
    let server = server();
    let mut pair = Pair::on(&server, Proto::Resp2);
    let (ours, theirs) = pair.run(&[b"CLIENT", b"INFO"]);
    let fields = |reply: &[u8]| -> Vec<String> {
        let line = names(reply, |line| Some(line)).remove(0);
        line.split(' ')
            .map(|field| field.split('=').next().unwrap().to_owned())
            .collect()
    };
    let mut expected = fields(&theirs);
    // Since Redis 7.2, which has CLIENT SETINFO.
    expected.extend(["lib-name".to_owned(), "lib-ver".to_owned()]);
    assert_eq!(fields(&ours), expected);
}

#[test]
fn memory_stats_have_the_same_names() {
    let server = server();
    let mut pair = Pair::on(&server, Proto::Resp2);
    pair.check(&[b"SET", b"k", b"v"], Compare::Exact);
    let (ours, theirs) = pair.run(&[b"MEMORY", b"STATS"]);
    let keys = |reply: &[u8]| -> Vec<String> {
        let (frame, _) = parse_frame(reply).unwrap().unwrap();
        let Frame::Array(items) = frame else {
            panic!("not an array: {frame:?}")
        };
        items.iter().step_by(2).map(|name| format!("{name:?}")).collect()
    };
    assert_eq!(keys(&ours), keys(&theirs));
}
