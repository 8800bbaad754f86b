//! A client against servers that misbehave.

use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};

use super::*;

const LONG: Duration = Duration::from_secs(20);
const SHORT: Duration = Duration::from_millis(100);

/// A server that handles each connection with `serve`; returns its URL and the number of connections so far.
async fn server<F>(serve: impl Fn(TcpStream) -> F + Send + 'static) -> (Uri, Arc<AtomicUsize>)
where
    F: Future<Output = ()> + Send + 'static,
{
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let url = url_of(listener.local_addr().unwrap());
    let connections = Arc::new(AtomicUsize::new(0));
    let count = Arc::clone(&connections);
    tokio::spawn(async move {
        while let Ok((stream, _)) = listener.accept().await {
            count.fetch_add(1, Ordering::Relaxed);
            tokio::spawn(serve(stream));
        }
    });
    (url, connections)
}

fn url_of(address: SocketAddr) -> Uri {
    format!("http://{address}/x?y=1").parse().unwrap()
}

/// A server that reads one request per connection and writes these bytes; it then closes, or waits for ever.
async fn canned(response: &'static str, closes: bool) -> Uri {
    let serve = move |mut stream: TcpStream| async move {
        read_head(&mut stream).await;
        stream.write_all(response.as_bytes()).await.unwrap();
        if !closes {
            std::future::pending::<()>().await;
        }
    };
    server(serve).await.0
}

/// Reads the head of a request; empty at the end of the connection.
async fn read_head(stream: &mut TcpStream) -> String {
    let mut head = Vec::new();
    while !head.ends_with(b"\r\n\r\n") {
        match stream.read_u8().await {
            Ok(byte) => head.push(byte),
            Err(_) => return String::new(),
        }
    }
    String::from_utf8(head).unwrap()
}

fn client() -> Client {
    Client::new(Limits::default())
}

#[tokio::test]
async fn a_request_and_its_response() {
    let (heads, mut seen) = tokio::sync::mpsc::unbounded_channel();
    let serve = move |mut stream: TcpStream| {
        let heads = heads.clone();
        async move {
            heads.send(read_head(&mut stream).await).unwrap();
            let mut body = [0; 4];
            stream.read_exact(&mut body).await.unwrap();
            assert_eq!(&body, b"ping");
            let response = b"HTTP/1.1 201 Created\r\nx-a: b\r\ncontent-length: 4\r\n\r\npong";
            stream.write_all(response).await.unwrap();
        }
    };
    let (url, _) = server(serve).await;
    let authority = url.authority().unwrap().to_string();
    let call = client()
        .post(url, "ping")
        .header(http::header::ACCEPT, HeaderValue::from_static("text/plain"))
        .timeout(LONG)
        .send()
        .await;
    let response = call.unwrap();
    assert_eq!(response.status(), 201);
    assert_eq!(response.headers()["x-a"], "b");
    assert_eq!(&response.body()[..], b"pong");
    let head = seen.recv().await.unwrap();
    assert!(head.starts_with("POST /x?y=1 HTTP/1.1\r\n"), "{head}");
    for line in ["accept: text/plain", "content-length: 4"] {
        assert!(head.contains(&format!("\r\n{line}\r\n")), "{head}");
    }
    assert!(head.contains(&format!("\r\nhost: {authority}\r\n")), "{head}");
}

#[tokio::test]
async fn connections_are_reused_and_a_dead_one_is_replaced() {
    // Answers two requests on a connection, then closes it without a word.
    let serve = |mut stream: TcpStream| async move {
        for _ in 0..2 {
            if read_head(&mut stream).await.is_empty() {
                return;
            }
            let response = b"HTTP/1.1 200 OK\r\ncontent-length: 2\r\n\r\nok";
            stream.write_all(response).await.unwrap();
        }
    };
    let (url, connections) = server(serve).await;
    let client = client();
    for (request, expected) in [(1, 1), (2, 1), (3, 2), (4, 2)] {
        let response = client.get(url.clone()).timeout(LONG).send().await.unwrap();
        assert_eq!(&response.body()[..], b"ok", "request {request}");
        assert_eq!(connections.load(Ordering::Relaxed), expected, "request {request}");
    }
    let single = Client::new(Limits {
        idle_per_host_max: 0,
        ..Limits::default()
    });
    for expected in [3, 4] {
        single.get(url.clone()).timeout(LONG).send().await.unwrap();
        assert_eq!(connections.load(Ordering::Relaxed), expected);
    }
}

#[tokio::test]
async fn a_refused_connection_sends_nothing() {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let url = url_of(listener.local_addr().unwrap());
    drop(listener);
    let error = client().get(url).send().await.unwrap_err();
    assert!(matches!(error, Error::Connect(_)), "{error:?}");
    let io = error.root().downcast_ref::<std::io::Error>().unwrap();
    assert_eq!(io.kind(), std::io::ErrorKind::ConnectionRefused);
    // Only plain HTTP is spoken without TLS.
    let secure: Uri = "https://127.0.0.1:1/".parse().unwrap();
    let error = client().get(secure).send().await.unwrap_err();
    assert!(matches!(error, Error::Connect(_)), "{error:?}");
}

#[tokio::test]
async fn a_slow_head_and_a_slow_body_are_timed_out() {
    for response in ["HTTP/1.1 200", "HTTP/1.1 200 OK\r\ncontent-length: 3\r\n\r\nab"] {
        let url = canned(response, false).await;
        let timed_out = |error: &Error| matches!(error, Error::TimedOut { limit } if *limit == SHORT);
        let error = client().get(url.clone()).timeout(SHORT).send().await.unwrap_err();
        assert!(timed_out(&error), "{response:?}: {error:?}");
        let call = client().get(url).timeout(LONG).read_timeout(SHORT);
        let error = call.send().await.unwrap_err();
        assert!(timed_out(&error), "{response:?}: {error:?}");
    }
}

#[tokio::test]
async fn a_body_that_keeps_coming_is_not_timed_out_by_its_pauses() {
    let serve = |mut stream: TcpStream| async move {
        read_head(&mut stream).await;
        let head = b"HTTP/1.1 200 OK\r\ncontent-length: 6\r\n\r\n";
        stream.write_all(head).await.unwrap();
        for _ in 0..6 {
            tokio::time::sleep(SHORT / 2).await;
            stream.write_all(b"a").await.unwrap();
        }
    };
    let (url, _) = server(serve).await;
    let response = client().get(url).read_timeout(SHORT * 10).send().await.unwrap();
    assert_eq!(&response.body()[..], b"aaaaaa");
}

#[tokio::test]
async fn a_body_that_is_too_large_is_an_error() {
    let announced = "HTTP/1.1 200 OK\r\ncontent-length: 5\r\n\r\nhello";
    let chunked = "HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n3\r\nhel\r\n2\r\nlo\r\n0\r\n\r\n";
    let until_close = "HTTP/1.1 200 OK\r\n\r\nhello";
    for response in [announced, chunked, until_close] {
        let url = canned(response, true).await;
        let fits = client().get(url.clone()).body_max(5).send().await.unwrap();
        assert_eq!(&fits.body()[..], b"hello", "{response:?}");
        let error = client().get(url).body_max(4).send().await.unwrap_err();
        assert!(
            matches!(error, Error::TooLarge { bytes_max: 4 }),
            "{response:?}: {error:?}"
        );
    }
}

#[tokio::test]
async fn a_peer_that_closes_within_a_body_is_an_error() {
    for response in [
        "HTTP/1.1 200 OK\r\ncontent-length: 5\r\n\r\nhel",
        "HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n3\r\nhel\r\n",
    ] {
        let url = canned(response, true).await;
        let error = client().get(url.clone()).timeout(LONG).send().await.unwrap_err();
        assert!(matches!(error, Error::Body(_)), "{response:?}: {error:?}");
        // The beginning alone is there all the same.
        let response = client().get(url).body_prefix(100, LONG).send().await.unwrap();
        assert_eq!(&response.body()[..], b"hel");
    }
    for response in ["", "HTTP/1.1 200 OK\r\ncontent-le"] {
        let url = canned(response, true).await;
        let error = client().get(url).timeout(LONG).send().await.unwrap_err();
        assert!(matches!(error, Error::Broken(_)), "{response:?}: {error:?}");
    }
}

#[tokio::test]
async fn the_beginning_of_a_body_has_its_own_limits() {
    let stalled = "HTTP/1.1 500 Oh\r\ncontent-length: 900\r\n\r\nhello";
    let url = canned(stalled, false).await;
    let call = client().get(url.clone()).timeout(LONG).body_prefix(100, SHORT);
    let response = call.send().await.unwrap();
    assert_eq!(
        (response.status().as_u16(), &response.body()[..]),
        (500, &b"hello"[..])
    );
    // The limit of the whole request ends the body too, without an error.
    let call = client().get(url.clone()).timeout(SHORT).body_prefix(100, LONG);
    assert_eq!(&call.send().await.unwrap().body()[..], b"hello");
    let call = client().get(url).timeout(LONG).body_prefix(2, LONG);
    assert_eq!(&call.send().await.unwrap().body()[..], b"he");
}

#[tokio::test]
async fn redirects_are_returned_and_not_followed() {
    let url = canned(
        "HTTP/1.1 302 Found\r\nlocation: http://127.0.0.1:1/\r\ncontent-length: 0\r\n\r\n",
        true,
    );
    let response = client().get(url.await).timeout(LONG).send().await.unwrap();
    assert_eq!(response.status(), 302);
    assert_eq!(response.headers()["location"], "http://127.0.0.1:1/");
}

#[tokio::test]
async fn a_server_of_another_protocol_is_recognised() {
    let url = canned("SSH-2.0-OpenSSH_9.6\r\n\r\n", true).await;
    let error = client().get(url).timeout(LONG).send().await.unwrap_err();
    assert!(error.is_not_http(), "{error:?}");
}
