use std::io::{ErrorKind, Read, Write};
use std::net::{Ipv4Addr, TcpListener, TcpStream};
use std::thread;
use std::time::{Duration, SystemTime};

use nagaya_testkit::{Direction, Redis, Reply, RespClient, TcpProxy, shared, wait};

use crate::LIMIT;

const SHORT: Duration = Duration::from_millis(150);

fn connect(proxy: &TcpProxy) -> RespClient {
    let mut client = RespClient::connect(proxy.address()).unwrap();
    assert_eq!(client.cmd(&["PING"]).unwrap(), pong());
    client
}

fn pong() -> Reply {
    Reply::Simple("PONG".into())
}

#[track_caller]
fn assert_silent(client: &mut RespClient) {
    client.set_timeout(SHORT).unwrap();
    let error = client.receive().unwrap_err();
    assert!(
        matches!(error.kind(), ErrorKind::WouldBlock | ErrorKind::TimedOut),
        "{error}"
    );
    client.set_timeout(LIMIT).unwrap();
}

#[track_caller]
fn assert_reset(client: &mut RespClient) {
    assert_eq!(client.receive().unwrap_err().kind(), ErrorKind::ConnectionReset);
}

/// A server that sends back what it gets until its client ends the stream.
fn echo_server() -> TcpProxy {
    let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).unwrap();
    let proxy = TcpProxy::start(listener.local_addr().unwrap());
    thread::spawn(move || {
        let (mut stream, _) = listener.accept().unwrap();
        std::io::copy(&mut stream.try_clone().unwrap(), &mut stream).unwrap();
    });
    proxy
}

#[test]
fn a_proxy_without_faults_passes_everything_and_the_end_of_the_stream() {
    let proxy = echo_server();
    let mut stream = TcpStream::connect(proxy.address()).unwrap();
    let sent: Vec<u8> = (0..3_000_000_u32).map(|n| (n % 251) as u8).collect();
    let received = thread::scope(|scope| {
        let mut reader = stream.try_clone().unwrap();
        let received = scope.spawn(move || {
            let mut bytes = Vec::new();
            reader.read_to_end(&mut bytes).unwrap();
            bytes
        });
        stream.write_all(&sent).unwrap();
        stream.shutdown(std::net::Shutdown::Write).unwrap();
        received.join().unwrap()
    });
    assert!(
        received == sent,
        "{} of {} bytes came back",
        received.len(),
        sent.len()
    );
}

#[test]
fn a_delay_holds_for_each_direction_but_does_not_add_up_in_a_pipeline() {
    let proxy = TcpProxy::start(shared::redis().address());
    let mut client = connect(&proxy);
    proxy.delay(SHORT);
    let begin = SystemTime::now();
    for _ in 0..20 {
        client.send(&["PING"]).unwrap();
    }
    for _ in 0..20 {
        assert_eq!(client.receive().unwrap(), pong());
    }
    let elapsed = begin.elapsed().unwrap();
    assert!(elapsed >= SHORT * 2 && elapsed < SHORT * 20, "{elapsed:?}");
    proxy.delay(LIMIT);
    client.send(&["PING"]).unwrap();
    proxy.restore();
    assert_eq!(client.receive().unwrap(), pong());
}

#[test]
fn a_throttle_spreads_bytes_over_time() {
    let proxy = TcpProxy::start(shared::redis().address());
    let mut client = connect(&proxy);
    proxy.throttle(100_000);
    let begin = SystemTime::now();
    let value = vec![b'x'; 30_000];
    assert_eq!(
        client.cmd(&[b"ECHO".as_slice(), &value]).unwrap(),
        Reply::Bulk(value)
    );
    let elapsed = begin.elapsed().unwrap();
    // 30 kB each way, which overlap little: the reply starts when the request has come through.
    assert!(elapsed >= Duration::from_millis(400), "{elapsed:?}");
}

#[test]
fn a_cut_towards_the_client_holds_replies_back_until_restored() {
    let redis = shared::redis();
    let proxy = TcpProxy::start(redis.address());
    let mut client = connect(&proxy);
    proxy.cut(Direction::ToClient);
    client.send(&["SET", "cut:a", "1"]).unwrap();
    wait::until("the command has arrived", LIMIT, || {
        redis.cmd(&["GET", "cut:a"]) == Reply::bulk("1")
    });
    assert_silent(&mut client);
    proxy.restore();
    assert_eq!(client.receive().unwrap(), Reply::ok());
}

#[test]
fn a_cut_towards_the_server_holds_commands_back_until_restored() {
    for direction in [Direction::ToServer, Direction::Both] {
        let redis = shared::redis();
        redis.cmd(&["DEL", "cut:b"]);
        let proxy = TcpProxy::start(redis.address());
        let mut client = connect(&proxy);
        proxy.cut(direction);
        client.send(&["SET", "cut:b", "1"]).unwrap();
        assert_silent(&mut client);
        assert_eq!(redis.cmd(&["GET", "cut:b"]), Reply::Nil);
        proxy.restore();
        assert_eq!(client.receive().unwrap(), Reply::ok());
    }
}

#[test]
fn half_open_swallows_old_and_new_connections_and_a_restore_resets_them() {
    let redis = shared::redis();
    let proxy = TcpProxy::start(redis.address());
    let mut old = connect(&proxy);
    proxy.half_open();
    let mut new = RespClient::connect(proxy.address()).unwrap();
    for client in [&mut old, &mut new] {
        client.send(&["SET", "half:a", "1"]).unwrap();
        assert_silent(client);
    }
    proxy.restore();
    assert_reset(&mut old);
    assert_reset(&mut new);
    assert_eq!(redis.cmd(&["GET", "half:a"]), Reply::Nil);
    connect(&proxy);
}

#[test]
fn a_reset_breaks_open_connections_and_lets_new_ones_in() {
    let proxy = TcpProxy::start(shared::redis().address());
    let mut client = connect(&proxy);
    proxy.reset();
    assert_reset(&mut client);
    connect(&proxy);
}

#[test]
fn a_reset_reaches_connections_that_are_cut() {
    let proxy = TcpProxy::start(shared::redis().address());
    let mut client = connect(&proxy);
    proxy.cut(Direction::Both);
    client.send(&["PING"]).unwrap();
    proxy.reset();
    assert_reset(&mut client);
}

#[test]
fn a_server_that_is_down_looks_like_a_reset() {
    let redis = Redis::start();
    let proxy = TcpProxy::start(redis.address());
    redis.kill9();
    // The reset may come while the client is still setting up its connection.
    let answer = RespClient::connect(proxy.address()).and_then(|mut client| client.receive());
    assert_eq!(answer.unwrap_err().kind(), ErrorKind::ConnectionReset);
    redis.restart();
    connect(&proxy);
}
