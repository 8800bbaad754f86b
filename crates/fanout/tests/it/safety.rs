//! Loops, request smuggling, injection, and authentication.

use nagaya_config::{ByteSize, Secret};
use nagaya_fanout::RejectReason;
use tokio::io::{AsyncReadExt, AsyncWriteExt};

use crate::fan::{Fan, config, eventually, state};
use crate::scripted::{Behaviour, Scripted};

/// A service that is its own endpoint; its address is only known once it runs.
async fn looped() -> Fan {
    let port = nagaya_testkit::free_port();
    let mut config = config(&[("me", format!("http://127.0.0.1:{port}/again"))]);
    config.listen.0.set_port(port);
    Fan::start(config).await
}

#[tokio::test]
async fn an_endpoint_that_points_at_us_is_stopped_after_one_round() {
    let fan = looped().await;
    let request = fan.whole().await;
    assert_eq!(state(&request, "me"), "http_error");
    assert_eq!(request["results"]["me"]["status"], 508);
    assert_eq!(fan.fanout.counts().rejected(RejectReason::Loop), 1);
}

#[tokio::test]
async fn a_loop_over_two_services_is_stopped_too() {
    let port = nagaya_testkit::free_port();
    let mut first = config(&[]);
    first.listen.0.set_port(port);
    let second = Fan::start(config(&[("first", format!("http://127.0.0.1:{port}"))])).await;
    let url = format!("http://{}", second.address);
    first
        .endpoints
        .0
        .insert("second".into(), nagaya_fanout::EndpointConfig::at(url));
    let first = Fan::start(first).await;
    let request = first.whole().await;
    assert_eq!(state(&request, "second"), "ok");
    let inner: serde_json::Value =
        serde_json::from_str(request["results"]["second"]["body"].as_str().unwrap()).unwrap();
    let inner = second.finished(inner["request_id"].as_str().unwrap()).await;
    assert_eq!(inner["results"]["first"]["status"], 508);
}

#[tokio::test]
async fn line_breaks_in_a_query_stay_escaped() {
    let endpoint = Scripted::start(Behaviour::Echo).await;
    let fan = Fan::start(config(&[("a", endpoint.url())])).await;
    let answer = fan
        .get("/?a=1%0d%0aX-Injected:%20yes%0d%0a%0d%0aGET%20/evil")
        .await;
    fan.finished(answer.json()["request_id"].as_str().unwrap()).await;
    let seen = endpoint.seen();
    assert_eq!(seen.len(), 1);
    assert_eq!(
        seen[0].line,
        "GET /?a=1%0d%0aX-Injected:%20yes%0d%0a%0d%0aGET%20/evil HTTP/1.1"
    );
    assert_eq!(seen[0].header("x-injected"), None);
}

#[tokio::test]
async fn two_lengths_and_other_ambiguities_are_refused() {
    let endpoint = Scripted::saying("fine").await;
    let fan = Fan::start(config(&[("a", endpoint.url())])).await;
    for head in [
        "content-length: 5\r\ncontent-length: 6",
        "content-type: a\rb\r\ncontent-length: 0",
        "transfer-encoding: chunked, identity",
        "transfer-encoding : chunked",
    ] {
        let mut stream = tokio::net::TcpStream::connect(fan.address).await.unwrap();
        let bytes = format!("POST / HTTP/1.1\r\nhost: localhost\r\nconnection: close\r\n{head}\r\n\r\nhello");
        stream.write_all(bytes.as_bytes()).await.unwrap();
        let mut answer = Vec::new();
        // A reset is a rejection as well.
        let _ = stream.read_to_end(&mut answer).await;
        let text = String::from_utf8_lossy(&answer);
        assert!(
            text.is_empty() || text.starts_with("HTTP/1.1 400"),
            "{head}: {text}"
        );
    }
    assert!(endpoint.seen().is_empty());
}

#[tokio::test]
async fn a_body_with_a_length_and_chunks_is_sent_on_with_one_meaning() {
    let endpoint = Scripted::saying("fine").await;
    let fan = Fan::start(config(&[("a", endpoint.url())])).await;
    let mut stream = tokio::net::TcpStream::connect(fan.address).await.unwrap();
    let bytes = "POST / HTTP/1.1\r\nhost: localhost\r\nconnection: close\r\ntransfer-encoding: chunked\r\n\
                 content-length: 4\r\n\r\n5\r\nhello\r\n0\r\n\r\n";
    stream.write_all(bytes.as_bytes()).await.unwrap();
    let mut answer = Vec::new();
    let _ = stream.read_to_end(&mut answer).await;
    for seen in endpoint.seen() {
        assert_eq!(seen.header("transfer-encoding"), None);
        assert_eq!(seen.header("content-length").unwrap(), "5");
        assert_eq!(seen.body, b"hello");
    }
}

#[tokio::test]
async fn a_body_beyond_the_limit_is_413() {
    let endpoint = Scripted::saying("fine").await;
    let mut config = config(&[("a", endpoint.url())]);
    config.request_max = ByteSize(10);
    let fan = Fan::start(config).await;
    assert_eq!(fan.send("POST / HTTP/1.1", b"0123456789").await.status, 200);
    assert_eq!(fan.send("POST / HTTP/1.1", b"0123456789x").await.status, 413);
    assert_eq!(fan.fanout.counts().rejected(RejectReason::Bad), 1);
}

#[tokio::test]
async fn clients_that_say_nothing_or_half_a_head_are_closed() {
    let endpoint = Scripted::saying("fine").await;
    let mut config = config(&[("a", endpoint.url())]);
    config.head_timeout = std::time::Duration::from_millis(100);
    config.body_timeout = std::time::Duration::from_millis(100);
    let fan = Fan::start(config).await;
    for bytes in ["", "GET / HT"] {
        let mut stream = tokio::net::TcpStream::connect(fan.address).await.unwrap();
        stream.write_all(bytes.as_bytes()).await.unwrap();
        let mut answer = Vec::new();
        let closed = stream.read_to_end(&mut answer);
        tokio::time::timeout(crate::fan::LIMIT, closed)
            .await
            .unwrap()
            .unwrap();
    }
    let slow = fan.send("POST / HTTP/1.1\r\ncontent-length: 9", b"").await;
    assert_eq!(slow.status, 408);
    assert_eq!(fan.fanout.in_flight().0, 0);
}

#[tokio::test]
async fn a_token_is_asked_for_if_there_is_one() {
    let endpoint = Scripted::saying("fine").await;
    let mut config = config(&[("a", endpoint.url())]);
    config.token = Some(Secret::new("hunter2"));
    let fan = Fan::start(config).await;
    let none = fan.get("/").await;
    assert_eq!(none.status, 401);
    assert_eq!(none.header("www-authenticate").as_deref(), Some("Bearer"));
    let wrong = fan
        .send("GET / HTTP/1.1\r\nauthorization: Bearer hunter3", b"")
        .await;
    assert_eq!(wrong.status, 401);
    let right = fan
        .send("GET / HTTP/1.1\r\nauthorization: bearer hunter2", b"")
        .await;
    assert_eq!(right.status, 200);
    let id = right.json()["request_id"].as_str().unwrap().to_owned();
    assert_eq!(fan.get(&format!("/requests/{id}")).await.status, 401);
    assert!(
        endpoint
            .seen()
            .iter()
            .all(|seen| seen.header("authorization").is_none())
    );
}

#[tokio::test]
async fn web_pages_reach_nothing() {
    let endpoint = Scripted::saying("fine").await;
    let fan = Fan::start(config(&[("a", endpoint.url())])).await;
    let (port, mut stream) = (
        fan.address.port(),
        tokio::net::TcpStream::connect(fan.address).await.unwrap(),
    );
    let rebound = format!("POST / HTTP/1.1\r\nhost: evil.test:{port}\r\ncontent-length: 5\r\n\r\n");
    stream.write_all(rebound.as_bytes()).await.unwrap();
    let mut answer = Vec::new();
    stream.read_to_end(&mut answer).await.unwrap();
    assert!(
        answer.starts_with(b"HTTP/1.1 421 "),
        "{}",
        String::from_utf8_lossy(&answer)
    );
    for head in [
        "POST / HTTP/1.1\r\norigin: http://evil.test",
        "POST / HTTP/1.1\r\norigin: null",
        "GET / HTTP/1.1\r\nsec-fetch-site: cross-site\r\nsec-fetch-mode: no-cors",
        "GET / HTTP/1.1\r\nsec-fetch-site: cross-site\r\nsec-fetch-mode: navigate",
    ] {
        assert_eq!(fan.send(head, b"x").await.status, 403, "{head}");
    }
    assert!(endpoint.seen().is_empty());
}

#[tokio::test]
async fn clients_that_are_slow_with_their_bodies_hold_no_handler() {
    let endpoint = Scripted::saying("fine").await;
    let mut config = config(&[("a", endpoint.url())]);
    config.handlers = 1;
    let fan = Fan::start(config).await;
    let mut stalled = Vec::new();
    for _ in 0..20 {
        let mut stream = tokio::net::TcpStream::connect(fan.address).await.unwrap();
        let half = b"POST / HTTP/1.1\r\nhost: localhost\r\ncontent-length: 1000\r\n\r\nx";
        stream.write_all(half).await.unwrap();
        stalled.push(stream);
    }
    for _ in 0..5 {
        assert_eq!(fan.send("POST / HTTP/1.1", b"quick").await.status, 200);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn bodies_of_requests_have_a_limit_together_until_no_endpoint_needs_them() {
    let endpoint = Scripted::start(Behaviour::Stall).await;
    let mut config = config(&[("a", endpoint.url())]);
    config.timeout = std::time::Duration::from_millis(500);
    config.bodies_max = ByteSize(1000);
    let fan = Fan::start(config).await;
    assert_eq!(fan.send("POST / HTTP/1.1", &[b'x'; 900]).await.status, 200);
    let full = fan.send("POST / HTTP/1.1", &[b'x'; 900]).await;
    assert_eq!(full.status, 503);
    assert!(
        full.json()["detail"]
            .as_str()
            .unwrap()
            .contains("`fanout.bodies_max`")
    );
    eventually("the first request ends", || fan.fanout.in_flight().1 == 0);
    // The call may go on for a moment, and has the body as long.
    eventually("the call is given up", || endpoint.connections().1 == 0);
    assert_eq!(fan.send("POST / HTTP/1.1", &[b'x'; 900]).await.status, 200);
}
