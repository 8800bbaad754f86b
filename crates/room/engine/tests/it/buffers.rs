//! What connections may take: replies that nobody reads, requests that never end.

use nagaya_engine::Engine;
use nagaya_testkit::{Reply, RespClient};

use crate::harness::{Both, ask, client, connect, engine, read_to_end, request, wait_for};

fn set(client: &mut RespClient, name: &str, value: &str) {
    assert_eq!(
        ask(client, &["CONFIG", "SET", name, value]),
        Reply::ok(),
        "{name}"
    );
}

/// Returns whether a connection of this name is open.
fn is_connected(client: &mut RespClient, name: &str) -> bool {
    let list = ask(client, &["CLIENT", "LIST"]).text();
    list.contains(&format!(" name={name} "))
}

fn evicted_clients(client: &mut RespClient) -> String {
    let info = ask(client, &["INFO", "stats"]).text();
    let line = info
        .lines()
        .find_map(|line| line.strip_prefix("evicted_clients:"));
    line.unwrap().to_owned()
}

/// Connects, gives itself a name, and begins a request that it does not end.
fn begin_large_request(engine: &Engine, name: &str, bytes: usize, stays: bool) -> RespClient {
    let mut client = client(engine);
    assert_eq!(ask(&mut client, &["CLIENT", "SETNAME", name]), Reply::ok());
    if stays {
        assert_eq!(ask(&mut client, &["CLIENT", "NO-EVICT", "ON"]), Reply::ok());
    }
    let mut begun = format!("*3\r\n$3\r\nSET\r\n$1\r\nk\r\n${}\r\n", bytes + 1).into_bytes();
    begun.resize(begun.len() + bytes, b'x');
    // It may be closed before everything is sent.
    client.send_raw(&begun).ok();
    client
}

#[test]
fn of_replies_over_the_hard_limit_a_client_gets_nothing() {
    let both = Both::start();
    let mut bytes = request(&["CONFIG", "SET", "client-output-buffer-limit", "normal 100000 0 0"]);
    for _ in 0..150 {
        bytes.extend(request(&["RPUSH", "list", &"x".repeat(1000)]));
    }
    bytes.extend(request(&["QUIT"]));
    both.same(&bytes);
    let long = request(&["LRANGE", "list", "0", "-1"]);
    assert_eq!(both.same(&long), "", "one long reply");
    let short = request(&["LRANGE", "list", "0", "20"]);
    assert_eq!(
        both.same(&short.repeat(20)),
        "",
        "many short ones in one pipeline"
    );
    let fits = [short, b"QUIT\r\n".to_vec()].concat();
    assert!(both.same(&fits).len() > 20_000);
}

#[test]
fn a_subscriber_over_the_soft_limit_is_closed_in_time_though_nothing_more_happens() {
    let engine = engine();
    let mut admin = client(&engine);
    set(&mut admin, "client-output-buffer-limit", "pubsub 0 1mb 1");
    let mut subscriber = client(&engine);
    ask(&mut subscriber, &["CLIENT", "SETNAME", "lazy"]);
    ask(&mut subscriber, &["SUBSCRIBE", "news"]);
    // The system takes some megabytes before anything waits in the engine.
    let message = "x".repeat(1 << 20);
    for _ in 0..32 {
        assert_eq!(ask(&mut admin, &["PUBLISH", "news", &message]), Reply::Int(1));
    }
    assert!(is_connected(&mut admin, "lazy"), "for a second it may be behind");
    wait_for("the subscriber's end", || !is_connected(&mut admin, "lazy"));
}

#[test]
fn the_largest_connections_are_closed_when_all_take_too_much() {
    let engine = engine();
    let mut admin = client(&engine);
    let _small = begin_large_request(&engine, "small", 100_000, false);
    let _large = begin_large_request(&engine, "large", 3 << 20, false);
    // A percentage of no limit is no limit.
    set(&mut admin, "maxmemory-clients", "1%");
    wait_for("the large request", || {
        ask(&mut admin, &["CLIENT", "LIST"]).text().lines().any(|line| {
            let field = line.split(' ').find_map(|field| field.strip_prefix("qbuf="));
            line.contains(" name=large ")
                && field.is_some_and(|bytes| bytes.parse::<usize>().unwrap() > 3 << 20)
        })
    });
    assert_eq!(evicted_clients(&mut admin), "0");
    // It was there before the limit.
    set(&mut admin, "maxmemory-clients", "2mb");
    wait_for("the largest one's end", || !is_connected(&mut admin, "large"));
    assert!(is_connected(&mut admin, "small"));
    assert_eq!(evicted_clients(&mut admin), "1");
    // And one that comes after it.
    let _larger = begin_large_request(&engine, "larger", 8 << 20, false);
    wait_for("the next one's end", || evicted_clients(&mut admin) == "2");
    assert!(is_connected(&mut admin, "small") && !is_connected(&mut admin, "larger"));
    assert_eq!(ask(&mut admin, &["PING"]), Reply::Simple("PONG".into()));
}

#[test]
fn a_connection_that_must_not_be_closed_stays_and_others_go_in_its_place() {
    let engine = engine();
    let mut admin = client(&engine);
    ask(&mut admin, &["CLIENT", "NO-EVICT", "ON"]);
    set(&mut admin, "maxmemory-clients", "2mb");
    let mut guarded = begin_large_request(&engine, "guarded", 3 << 20, true);
    let other = connect(engine.tcp_address());
    wait_for("the other's end", || evicted_clients(&mut admin) != "0");
    assert!(is_connected(&mut admin, "guarded"));
    assert_eq!(read_to_end(&mut &other), b"");
    // The request that took so much ends, and is served.
    guarded.send_raw(b"x\r\n").unwrap();
    assert_eq!(guarded.receive().unwrap(), Reply::ok());
}
