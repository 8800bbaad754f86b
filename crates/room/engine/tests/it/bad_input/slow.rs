//! Clients that send slowly, vanish, or never read.

use std::io::{Read, Write};

use nagaya_config::ByteSize;
use nagaya_engine::used_bytes;
use nagaya_testkit::{Reply, RespClient};

use crate::harness::*;

/// Other tests of this process hold some memory at the same time.
const SLACK_BYTES: usize = 256 << 20;

#[test]
fn a_request_sent_byte_by_byte_is_answered() {
    let engine = engine();
    let mut stream = connect(engine.tcp_address());
    let bytes = [
        request(&["SET", "key", "va\r\nlue"]),
        request(&["GET", "key"]),
        b"PING\r\n".to_vec(),
    ]
    .concat();
    for byte in bytes {
        stream.write_all(&[byte]).unwrap();
    }
    let expected = b"+OK\r\n$7\r\nva\r\nlue\r\n+PONG\r\n";
    let mut answer = vec![0; expected.len()];
    stream.read_exact(&mut answer).unwrap();
    assert_eq!(answer, expected);
}

#[test]
fn half_a_request_keeps_nobody_waiting() {
    let engine = engine();
    let mut slow = connect(engine.tcp_address());
    slow.write_all(b"*3\r\n$3\r\nSET\r\n$1\r\nk\r\n$10\r\nhalf")
        .unwrap();
    still_serves(&engine);
    slow.write_all(b" done\n\r\n").unwrap();
    let mut answer = [0; 5];
    slow.read_exact(&mut answer).unwrap();
    assert_eq!(&answer, b"+OK\r\n");
    assert_eq!(
        ask(&mut client(&engine), &["GET", "k"]),
        Reply::bulk("half done\n")
    );
}

#[test]
fn clients_that_vanish_make_room_for_others() {
    let engine = engine_with(|config| config.max_clients = 2);
    for bytes in [
        &b"*3\r\n$3\r\nSET\r\n"[..],
        b"",
        b"*2\r\n$5\r\nBLPOP\r\n",
        b"BLPOP nothing 0\r\n",
    ] {
        for _ in 0..2 {
            // A place is free again once the engine has seen the last one go.
            wait_for("a place is free", || {
                let mut stream = connect(engine.tcp_address());
                stream.write_all(b"PING\r\n").is_ok() && {
                    let mut answer = [0; 7];
                    let served = stream.read_exact(&mut answer).is_ok() && &answer == b"+PONG\r\n";
                    if served {
                        stream.write_all(bytes).unwrap();
                    }
                    served
                }
            });
        }
    }
}

#[test]
fn a_client_that_never_reads_costs_little_and_delays_nobody() {
    let engine = engine_with(|config| config.io_threads = 1);
    let mut other = client(&engine);
    let value = vec![b'x'; 1 << 20];
    ask(&mut other, &["SET".as_bytes(), b"large", &value]);
    let before = used_bytes();
    let mut lazy = connect(engine.tcp_address());
    const REQUESTS: usize = 2000;
    lazy.write_all(&request(&["GET", "large"]).repeat(REQUESTS))
        .unwrap();
    for _ in 0..200 {
        assert_eq!(ask(&mut other, &["PING"]), Reply::Simple("PONG".into()));
    }
    // Two thousand replies of a megabyte are owed.
    assert!(used_bytes().saturating_sub(before) < SLACK_BYTES);
    // And all of them come once it does read.
    let one = [b"$1048576\r\n", value.as_slice(), b"\r\n"].concat();
    let mut reply = vec![0; one.len()];
    for number in 0..REQUESTS {
        lazy.read_exact(&mut reply).unwrap();
        assert!(reply == one, "reply {number} is another");
    }
}

#[test]
fn requests_of_a_client_that_never_reads_are_left_in_its_socket() {
    let engine = engine();
    let mut other = client(&engine);
    ask(&mut other, &["SET".as_bytes(), b"large", &vec![b'x'; 1 << 20]]);
    let before = used_bytes();
    let mut lazy = connect(engine.tcp_address());
    lazy.set_nonblocking(true).unwrap();
    let batch = request(&["GET", "large"]).repeat(1000);
    // Until the sockets between us are full.
    let mut refused = 0;
    wait_for("the engine stops taking requests", || {
        match lazy.write(&batch) {
            Ok(_) => refused = 0,
            Err(_) => refused += 1,
        }
        refused == 50
    });
    assert!(used_bytes().saturating_sub(before) < SLACK_BYTES);
    assert_eq!(ask(&mut other, &["PING"]), Reply::Simple("PONG".into()));
}

#[test]
fn a_subscriber_that_falls_too_far_behind_is_dropped() {
    let engine = engine_with(|config| config.output_buffer_max = ByteSize(1 << 20));
    let mut lazy: RespClient = client(&engine);
    lazy.send(&["SUBSCRIBE", "news"]).unwrap();
    assert_eq!(lazy.receive().unwrap().items()[2], Reply::Int(1));
    let mut publisher = client(&engine);
    let message = "x".repeat(100_000);
    let before = used_bytes();
    wait_for("nobody listens any more", || {
        ask(&mut publisher, &["PUBLISH", "news", &message]).int() == 0
    });
    assert!(used_bytes().saturating_sub(before) < SLACK_BYTES);
    still_serves(&engine);
}
