//! Pipelines longer than what is read at a time, in every state that a connection can be in.

use std::io::Write;
use std::net::{Shutdown, TcpStream};
use std::time::Duration;

use nagaya_engine::{Engine, Fsync};
use nagaya_testkit::Reply;

use crate::harness::{ask, client, connect, exchange, request};
use crate::storage::Place;

/// Sends bytes from another thread while the replies are read; `pieces` are sent with a flush after each.
fn replies(engine: &Engine, pieces: Vec<Vec<u8>>, count: usize) -> Vec<Reply> {
    let mut client = client(engine);
    client.set_timeout(Duration::from_secs(20)).unwrap();
    let mut sender = client.sender().unwrap();
    let sending = std::thread::spawn(move || {
        for piece in pieces {
            sender.write_all(&piece).unwrap();
            sender.flush().unwrap();
        }
    });
    let replies = (0..count).map(|at| match client.receive() {
        Ok(reply) => reply,
        Err(error) => panic!("reply {at} of {count} does not come: {error}"),
    });
    let replies = replies.collect();
    sending.join().unwrap();
    replies
}

/// SETs of values of one size, as one run of bytes.
fn sets(count: usize, bytes: usize) -> Vec<u8> {
    let value = vec![b'v'; bytes];
    let set = |at: usize| request(&[b"SET".as_slice(), format!("k{at}").as_bytes(), &value]);
    (0..count).flat_map(set).collect()
}

fn in_each_mode(test: impl Fn(&Engine)) {
    for fsync in [Fsync::Always, Fsync::EverySec] {
        let place = Place::new(7);
        let engine = place.start_with(|config| config.fsync = fsync);
        test(&engine);
        engine.stop();
    }
}

#[test]
fn a_pipeline_of_more_than_one_read_is_answered_without_further_bytes() {
    in_each_mode(|engine| {
        for (count, bytes) in [
            (10, 8 << 10),
            (20, 8 << 10),
            (50, 8 << 10),
            (500, 100),
            (5_000, 100),
            (300, 8 << 10),
            (12, 300 << 10),
            (3, 4 << 20),
        ] {
            let replies = replies(engine, vec![sets(count, bytes)], count);
            assert!(
                replies.iter().all(|reply| *reply == Reply::ok()),
                "{count} of {bytes}"
            );
        }
    });
}

#[test]
fn pieces_that_end_where_a_read_does_are_answered() {
    in_each_mode(|engine| {
        let bytes = sets(40, 8 << 10);
        for size in [16 << 10, (64 << 10) - 1, 64 << 10, (64 << 10) + 1, 128 << 10] {
            let pieces = bytes.chunks(size).map(<[u8]>::to_vec).collect();
            let replies = replies(engine, pieces, 40);
            assert!(
                replies.iter().all(|reply| *reply == Reply::ok()),
                "pieces of {size}"
            );
        }
    });
}

#[test]
fn many_clients_with_long_pipelines_are_all_answered() {
    in_each_mode(|engine| {
        std::thread::scope(|scope| {
            for _ in 0..16 {
                scope.spawn(|| assert_eq!(replies(engine, vec![sets(60, 8 << 10)], 60).len(), 60));
            }
        });
    });
}

#[test]
fn a_long_transaction_is_answered() {
    in_each_mode(|engine| {
        let bytes = [
            request(&["MULTI"]),
            sets(50, 8 << 10),
            request(&["EXEC"]),
            request(&["PING"]),
        ]
        .concat();
        let replies = replies(engine, vec![bytes], 53);
        assert_eq!(replies[51].items().len(), 50);
        assert_eq!(replies[52], Reply::Simple("PONG".into()));
    });
}

#[test]
fn a_long_pipeline_behind_a_blocked_request_is_answered_once_it_ends() {
    in_each_mode(|engine| {
        let bytes = [request(&["BLPOP", "list", "0"]), sets(50, 8 << 10)].concat();
        std::thread::scope(|scope| {
            let waiting = scope.spawn(|| replies(engine, vec![bytes], 51));
            let mut other = client(engine);
            crate::harness::wait_for("it is blocked", || {
                ask(&mut other, &["INFO", "clients"])
                    .text()
                    .contains("blocked_clients:1")
            });
            ask(&mut other, &["RPUSH", "list", "x"]);
            assert_eq!(waiting.join().unwrap().len(), 51);
        });
    });
}

#[test]
fn a_long_pipeline_during_a_pause_is_answered_after_it() {
    in_each_mode(|engine| {
        let mut other = client(engine);
        ask(&mut other, &["CLIENT", "PAUSE", "300", "WRITE"]);
        let replies = replies(engine, vec![sets(50, 8 << 10)], 50);
        assert!(replies.iter().all(|reply| *reply == Reply::ok()));
    });
}

#[test]
fn long_replies_to_a_long_pipeline_come_whole() {
    in_each_mode(|engine| {
        let mut one = client(engine);
        ask(&mut one, &[b"SET".as_slice(), b"big", &vec![b'v'; 200 << 10]]);
        let gets = request(&["GET", "big"]).repeat(40);
        let bytes = [gets.clone(), sets(50, 8 << 10), gets].concat();
        let replies = replies(engine, vec![bytes], 130);
        assert_eq!(replies[129].text().len(), 200 << 10);
    });
}

#[test]
fn a_client_that_ends_its_side_after_a_long_pipeline_is_closed_when_all_is_answered() {
    in_each_mode(|engine| {
        for count in [9, 16, 50, 100] {
            let answered = exchange(engine.tcp_address(), &sets(count, 8 << 10));
            assert_eq!(answered.len(), count * "+OK\r\n".len(), "{count}");
        }
    });
}

#[test]
fn what_a_blocked_client_sends_is_bounded() {
    let place = Place::new(7);
    let engine = place.start();
    let mut other = client(&engine);
    let limit = (4 << 20).to_string();
    ask(
        &mut other,
        &["CONFIG", "SET", "client-query-buffer-limit", &limit],
    );
    let mut stream: TcpStream = connect(engine.tcp_address());
    stream.write_all(&request(&["BLPOP", "nothing", "0"])).unwrap();
    let megabyte = sets(1, 1 << 20);
    let mut sent = 0;
    while stream.write_all(&megabyte).is_ok() {
        sent += 1;
        assert!(sent < 64, "a blocked client may send without end");
    }
    stream.shutdown(Shutdown::Both).ok();
}
