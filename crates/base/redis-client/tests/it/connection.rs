//! One connection: order, limits, and how it ends.

use std::time::Duration;

use nagaya_redis_client::{Backoff, Client, Error, Fault, Frame, Options, Script, reply};
use nagaya_testkit::{Direction, Redis, TcpProxy};

use crate::{block_on, client};

static ADD: Script = Script::new(
    "add",
    "return redis.call('INCRBY', KEYS[1], ARGV[1])",
    &["counter"],
    &["by"],
);

#[test]
fn many_callers_share_a_connection_and_each_gets_its_own_reply() {
    let redis = Redis::start();
    block_on(async {
        let connection = client(&redis.url()).connection(b"").await.unwrap();
        let calls = (0..500).map(|at: i32| {
            let connection = connection.clone();
            tokio::spawn(async move { connection.call(&["ECHO", &at.to_string()]).await })
        });
        for (at, call) in calls.enumerate() {
            let reply = call.await.unwrap().unwrap();
            assert_eq!(reply, Frame::Bulk(at.to_string().into()));
        }
        let pipeline: [&[&[u8]]; 3] = [&[b"SET", b"k", b"v"], &[b"LPUSH", b"k", b"x"], &[b"GET", b"k"]];
        let replies = connection
            .pipeline_within(&pipeline, Duration::from_secs(5))
            .await
            .unwrap();
        assert!(matches!(&replies[1], Frame::Error(text) if text.starts_with(b"WRONGTYPE")));
        assert_eq!(replies[2], Frame::Bulk(b"v".to_vec()));
    });
}

#[test]
fn a_large_reply_comes_whole() {
    let redis = Redis::start();
    block_on(async {
        let connection = client(&redis.url()).connection(b"").await.unwrap();
        let value = vec![b'x'; 3_000_000];
        connection.call(&[b"SET".as_slice(), b"k", &value]).await.unwrap();
        let reply = connection.call(&["GET", "k"]).await.unwrap();
        assert_eq!(reply::bytes(&reply).map(<[u8]>::len), Some(value.len()));
    });
}

#[test]
fn scripts_run_by_hash_and_are_sent_again_when_the_server_forgot_them() {
    let redis = Redis::start();
    block_on(async {
        let connection = client(&redis.url()).connection(b"").await.unwrap();
        for (flush, sum) in [(false, 2), (false, 4), (true, 6)] {
            if flush {
                connection.call(&["SCRIPT", "FLUSH"]).await.unwrap();
            }
            let reply = connection.eval(&ADD, &[b"n"], &[b"2"]).await.unwrap();
            assert_eq!(reply, Frame::Int(sum));
        }
        let error = connection.eval(&ADD, &[b"n"], &[b"x"]).await.unwrap_err();
        assert!(error.to_string().contains("refused add"), "{error}");
    });
}

#[test]
fn a_frozen_server_ends_the_connection_and_the_next_one_works() {
    let redis = Redis::start();
    block_on(async {
        let options = Options {
            connect_limit: Duration::from_secs(2),
            reply_limit: Duration::from_millis(200),
            client_name: String::new(),
        };
        let client = Client::new(redis.url().parse().unwrap(), options).unwrap();
        let connection = client.connection(b"").await.unwrap();
        redis.stop();
        let error = connection.call(&["PING"]).await.unwrap_err();
        assert!(matches!(error, Error::TimedOut { .. }), "{error}");
        assert!(error.may_have_run() && error.is_retryable());
        assert!(!connection.is_open());
        let after = connection.call(&["PING"]).await.unwrap_err();
        assert!(matches!(after, Error::Closed { .. }), "{after}");
        redis.cont();
        let next = client.connection(b"").await.unwrap();
        assert_ne!(next.id(), connection.id());
        next.call(&["PING"]).await.unwrap();
    });
}

#[test]
fn a_reset_connection_fails_those_who_wait() {
    let redis = Redis::start();
    let proxy = TcpProxy::start(redis.address());
    block_on(async {
        let connection = client(&format!("redis://{}", proxy.address()))
            .connection(b"")
            .await
            .unwrap();
        proxy.cut(Direction::ToClient);
        let call = {
            let connection = connection.clone();
            tokio::spawn(async move { connection.call(&["INCR", "n"]).await })
        };
        nagaya_testkit::wait::until("the command ran", crate::PATIENCE, || {
            redis.cmd(&["EXISTS", "n"]).int() == 1
        });
        proxy.reset();
        let error = call.await.unwrap().unwrap_err();
        assert!(matches!(error, Error::Closed { .. }), "{error}");
        assert!(error.may_have_run());
    });
}

#[test]
fn errors_tell_whose_fault_they_are() {
    let redis = Redis::with_config(&["requirepass secret"]);
    block_on(async {
        let error = client(&redis.url()).connection(b"").await.unwrap_err();
        assert_eq!(
            error.server_error().map(|error| error.code()),
            Some("NOAUTH"),
            "{error}"
        );
        assert_eq!(error.fault(), Fault::Caller);
        let url = format!("redis://:wrong@{}", redis.address());
        let error = client(&url).connection(b"").await.unwrap_err();
        assert!(
            error.to_string().contains("WRONGPASS") && !error.is_retryable(),
            "{error}"
        );
        let url = format!("redis://default:secret@{}/3", redis.address());
        let connection = client(&url).connection(b"").await.unwrap();
        let info = connection.call(&["CLIENT", "LIST"]).await.unwrap();
        let info = reply::text(&info).unwrap();
        assert!(info.contains("name=kit") && info.contains("db=3"), "{info}");
        let port = nagaya_testkit::free_port();
        let error = client(&format!("redis://127.0.0.1:{port}"))
            .connection(b"")
            .await
            .unwrap_err();
        assert_eq!(error.fault(), Fault::Network);
        assert!(!error.may_have_run());
    });
}

#[test]
fn a_server_that_comes_back_is_connected_to_again_and_a_wrong_password_is_not_tried_again() {
    let redis = Redis::with_config(&["requirepass secret"]);
    let mut backoff = Backoff::new(Duration::from_millis(10), Duration::from_millis(100));
    block_on(async {
        let good = client(&format!("redis://:secret@{}", redis.address()));
        redis.kill9();
        let trying = tokio::spawn(async move {
            let mut backoff = Backoff::new(Duration::from_millis(10), Duration::from_millis(100));
            good.connection_retrying(b"", &mut backoff).await
        });
        tokio::task::block_in_place(|| redis.restart());
        trying.await.unwrap().unwrap().call(&["PING"]).await.unwrap();
        let error = client(&redis.url())
            .connection_retrying(b"", &mut backoff)
            .await
            .unwrap_err();
        assert!(error.to_string().contains("NOAUTH"), "{error}");
    });
}

#[test]
fn a_unix_socket_is_connected_to() {
    let folder = nagaya_testkit::Folder::new("kit");
    let socket = folder.path().join("s.sock");
    let redis = Redis::with_config(&[&format!("unixsocket {}", socket.display())]);
    block_on(async {
        let url = format!("redis+unix://{}?db=2", socket.display());
        let connection = client(&url).connection(b"").await.unwrap();
        connection.call(&["SET", "k", "v"]).await.unwrap();
    });
    assert_eq!(
        redis.info("db2").map(|keys| keys.starts_with("keys=1")),
        Some(true)
    );
}

#[test]
fn tls_is_spoken_with_the_certificates_of_the_url() {
    let key = rcgen::KeyPair::generate().unwrap();
    let params = rcgen::CertificateParams::new(vec!["localhost".to_owned()]).unwrap();
    let certificate = params.self_signed(&key).unwrap();
    let folder = nagaya_testkit::Folder::new("kit-tls");
    let cert_file = folder.write("cert.pem", &certificate.pem());
    let key_file = folder.write("key.pem", &key.serialize_pem());
    let port = nagaya_testkit::free_port();
    let redis = Redis::with_config(&[
        &format!("tls-port {port}"),
        &format!("tls-cert-file {}", cert_file.display()),
        &format!("tls-key-file {}", key_file.display()),
        &format!("tls-ca-cert-file {}", cert_file.display()),
        "tls-auth-clients no",
    ]);
    block_on(async {
        let url = format!("rediss://localhost:{port}?ca={}", cert_file.display());
        let connection = client(&url).connection(b"").await.unwrap();
        connection.call(&["SET", "k", "v"]).await.unwrap();
        assert_eq!(redis.cmd(&["GET", "k"]).text(), "v");
        // The certificate names localhost, not this.
        let url = format!("rediss://127.0.0.1:{port}?ca={}", cert_file.display());
        let error = client(&url).connection(b"").await.unwrap_err();
        assert!(matches!(error, Error::Connect { .. }), "{error}");
    });
}
