//! What counts against `room.max_memory`, and who waits while there is too little.

use std::io::Write;
use std::net::TcpStream;

use nagaya_testkit::{Nagaya, Reply, RespClient, wait};

use super::{LIMIT, house};

fn connect(house: &Nagaya) -> RespClient {
    let client = RespClient::connect(house.address("room")).unwrap();
    client.set_timeout(LIMIT).unwrap();
    client
}

fn info(client: &mut RespClient, section: &str, field: &str) -> i64 {
    let info = client.cmd(&["INFO", section]).unwrap().text();
    let value = info
        .lines()
        .find_map(|line| line.strip_prefix(field)?.strip_prefix(':'));
    value
        .unwrap_or_else(|| panic!("{field} in {info}"))
        .trim()
        .parse()
        .unwrap()
}

fn used(client: &mut RespClient) -> i64 {
    info(client, "memory", "used_memory")
}

fn evicted(client: &mut RespClient) -> i64 {
    info(client, "room", "room_evicted_tags")
}

/// Connections that have sent a part of a large body and wait.
fn stalled_posts(house: &Nagaya, listener: &str, path: &str, count: usize) -> Vec<TcpStream> {
    let address = house.address(listener);
    let head = format!(
        "POST {path} HTTP/1.1\r\nhost: {address}\r\ncontent-type: application/json\r\n\
         content-length: 60000\r\n\r\n"
    );
    let bytes = [head.as_bytes(), &[b' '; 50_000]].concat();
    let open = (0..count).map(|_| {
        let mut stream = TcpStream::connect(address).unwrap();
        // The server may refuse or close it; that is not what is tested.
        stream.write_all(&bytes).ok();
        stream
    });
    open.collect()
}

#[test]
fn a_storm_on_the_other_services_neither_fills_nor_empties_the_room() {
    const DATA: usize = 30 << 20;
    let house = house()
        .listener("fanout")
        .args([
            "--set",
            "room.max_memory=64mb",
            // What the log keeps until a sync counts as well.
            "--set",
            "room.fsync=always",
            "--set",
            "fanout.endpoints=a=http://127.0.0.1:1/",
        ])
        .start();
    let mut client = connect(&house);
    let value = vec![b'v'; 40_000];
    for at in 0..DATA / value.len() {
        let key = format!("{{t{at}}}k");
        let set = [b"SET".as_slice(), key.as_bytes(), &value];
        assert_eq!(client.cmd(&set).unwrap(), Reply::ok());
    }
    assert_eq!(client.cmd(&["SAVE"]).unwrap(), Reply::ok());
    let mut before = used(&mut client);
    wait::until("the room is at rest", LIMIT, || {
        let last = std::mem::replace(&mut before, used(&mut client));
        (last - before).abs() < 64 << 10
    });
    assert_eq!(evicted(&mut client), 0);
    let mut most = 0;
    let mut note = |client: &mut RespClient| most = most.max((used(client) - before).abs());
    for _ in 0..2 {
        let http = stalled_posts(&house, "http", "/v1/jobs", 1020);
        note(&mut client);
        let fanout = stalled_posts(&house, "fanout", "/x", 300);
        note(&mut client);
        let payload = "p".repeat(10_000);
        let job = format!(r#"{{"queue":"mail","payload":"{payload}"}}"#);
        let batch = format!(r#"{{"jobs":[{}]}}"#, vec![job; 50].join(","));
        drop(http);
        for _ in 0..20 {
            let address = house.address("http");
            let request = format!(
                "POST /v1/jobs/batch HTTP/1.1\r\nhost: {address}\r\nconnection: close\r\n\
                 content-type: application/json\r\ncontent-length: {}\r\n\r\n{batch}",
                batch.len()
            );
            let answer = super::read_all(&mut super::send(address, &request));
            assert!(answer.starts_with("HTTP/1.1 201"), "{answer:.300}");
            note(&mut client);
        }
        drop(fanout);
        note(&mut client);
    }
    // The saver looks at memory ten times a second; a later look may still evict.
    let rounds = info(&mut client, "stats", "total_commands_processed") + 200;
    wait::until("some time has passed", LIMIT, || {
        note(&mut client);
        info(&mut client, "stats", "total_commands_processed") > rounds
    });
    assert!(most < 2 << 20, "used_memory has moved by {most} bytes");
    assert_eq!(evicted(&mut client), 0);
}

/// Runs so many requests and returns the errors among the replies.
fn errors_of(house: &Nagaya, count: usize, request: impl Fn(usize) -> Vec<Vec<u8>>) -> Vec<String> {
    let mut client = connect(house);
    let mut errors = Vec::new();
    for at in 0..count {
        let reply = client.cmd(&request(at)).unwrap();
        errors.extend(reply.error().map(str::to_owned));
    }
    errors
}

fn words(words: &[&[u8]]) -> Vec<Vec<u8>> {
    words.iter().map(|word| word.to_vec()).collect()
}

#[test]
fn scripts_wait_for_memory_as_other_writes_do() {
    const COUNT: usize = 3_000;
    let house = house().args(["--set", "room.max_memory=24mb"]).start();
    let value = vec![b'v'; 30_000];
    let library = "#!lua name=lib\nredis.register_function('put', function(keys, args) \
                   return redis.call('SET', keys[1], args[1]) end)";
    let loaded = connect(&house).cmd(&["FUNCTION", "LOAD", library]).unwrap();
    assert_eq!(loaded, Reply::bulk("lib"));
    let eval = b"return redis.call('SET', KEYS[1], ARGV[1])";
    let errors = errors_of(&house, COUNT, |at| {
        words(&[b"EVAL", eval, b"1", format!("{{e{at}}}k").as_bytes(), &value])
    });
    assert_eq!(errors.len(), 0, "EVAL: {}", errors[0]);
    let errors = errors_of(&house, COUNT, |at| {
        words(&[b"FCALL", b"put", b"1", format!("{{f{at}}}k").as_bytes(), &value])
    });
    assert_eq!(errors.len(), 0, "FCALL: {}", errors[0]);
    let count = b"return redis.call('HINCRBY', KEYS[1], 'n', 1)";
    let errors = errors_of(&house, COUNT, |at| {
        words(&[b"EVAL", count, b"1", format!("{{e{at}}}n").as_bytes()])
    });
    assert_eq!(errors.len(), 0, "EVAL HINCRBY: {}", errors[0]);
    let mut client = connect(&house);
    for at in (0..COUNT).step_by(97) {
        let key = format!("{{e{at}}}");
        assert_eq!(
            client.cmd(&["HGET", &format!("{key}n"), "n"]).unwrap(),
            Reply::bulk("1")
        );
        assert_eq!(
            client.cmd(&["STRLEN", &format!("{key}k")]).unwrap(),
            Reply::Int(30_000)
        );
    }
}

/// Returns the memory that the process holds, pages of files not counted, in bytes.
fn resident(house: &Nagaya) -> i64 {
    let pid = house.process().pid().unwrap();
    let status = std::fs::read_to_string(format!("/proc/{pid}/status")).unwrap();
    let line = status.lines().find_map(|line| line.strip_prefix("RssAnon:"));
    let kilobytes = line.unwrap().trim().trim_end_matches(" kB");
    kilobytes.parse::<i64>().unwrap() << 10
}

#[test]
fn at_ten_times_the_memory_the_process_stays_near_the_limit_and_most_of_it_is_data() {
    const LIMIT_BYTES: i64 = 32 << 20;
    const VALUE_BYTES: i64 = 10_000;
    const BATCH: i64 = 32;
    let house = house().args(["--set", "room.max_memory=32mb"]).start();
    let mut client = connect(&house);
    let value = vec![b'v'; VALUE_BYTES as usize];
    let mut most = 0;
    for first in (0..10 * LIMIT_BYTES / VALUE_BYTES).step_by(BATCH as usize) {
        for at in first..first + BATCH {
            client
                .send(&[b"SET", format!("k{at}").as_bytes(), &value])
                .unwrap();
        }
        for _ in 0..BATCH {
            assert_eq!(client.receive().unwrap(), Reply::ok());
        }
        // Some come back.
        let old = format!("k{}", first * 7 % (first + 1));
        assert_eq!(client.cmd(&["STRLEN", &old]).unwrap(), Reply::Int(VALUE_BYTES));
        most = most.max(resident(&house));
    }
    let bound = LIMIT_BYTES * 5 / 4 + (64 << 20);
    assert!(
        most <= bound,
        "{} MiB resident, {} allowed",
        most >> 20,
        bound >> 20
    );
    let data = info(&mut client, "room", "room_hot_keys") * VALUE_BYTES;
    assert!(data >= LIMIT_BYTES * 6 / 10, "{} MiB hold data", data >> 20);
}

#[test]
fn many_small_keys_take_little_more_than_themselves_while_they_are_saved_and_after_they_are_gone() {
    const KEYS: usize = 200_000;
    const BATCH: usize = 500;
    let house = house().start();
    let mut client = connect(&house);
    let idle = resident(&house);
    let mut most = 0;
    for words in [&["SET", "value"][..], &["DEL"]] {
        for first in (0..KEYS).step_by(BATCH) {
            for at in first..first + BATCH {
                let key = format!("user:{at}:name");
                let request = [&words[..1], &[key.as_str()], &words[1..]].concat();
                client.send(&request).unwrap();
            }
            (0..BATCH).for_each(|_| assert!(client.receive().unwrap().error().is_none()));
            most = most.max(resident(&house));
        }
        assert_eq!(client.cmd(&["SAVE"]).unwrap(), Reply::ok());
        most = most.max(resident(&house));
    }
    let grown = (most - idle) >> 20;
    assert!(grown <= 100, "{grown} MiB more than without data");
}
