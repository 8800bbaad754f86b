//! The memory cost of an idle reader.

use serde_json::json;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;

use super::test_server::TestServer;

const STREAMS: usize = 2_000;
/// Ten thousand must fit into 500 MB. The figure includes the test's own ends of the connections.
const BYTES_EACH_MAX: usize = 50_000;

/// Returns the resident memory of this process, in bytes.
fn resident() -> usize {
    let text = std::fs::read_to_string("/proc/self/statm").unwrap();
    let pages: usize = text.split(' ').nth(1).unwrap().parse().unwrap();
    pages * 4_096
}

async fn open(server: &TestServer, path: &str) -> TcpStream {
    let mut stream = TcpStream::connect(server.address).await.unwrap();
    let request = format!("GET {path} HTTP/1.1\r\nHost: jobs\r\n\r\n");
    stream.write_all(request.as_bytes()).await.unwrap();
    let mut text = Vec::new();
    while !String::from_utf8_lossy(&text).contains("retry: 1000\n\n") {
        assert!(stream.read_buf(&mut text).await.unwrap() > 0);
    }
    stream
}

#[tokio::test(flavor = "multi_thread")]
async fn an_idle_stream_of_events_is_small() {
    let server = TestServer::start().await;
    let id = server
        .client()
        .enqueue(json!({"queue": "mail", "payload": 1}))
        .await;
    let path = format!("/v1/jobs/{id}/events");
    let paths = ["/v1/events?queue=post", &path];
    let mut streams = Vec::with_capacity(STREAMS + paths.len());
    for path in paths {
        streams.push(open(&server, path).await);
    }
    let before = resident();
    for n in 0..STREAMS {
        streams.push(open(&server, paths[n % paths.len()]).await);
    }
    let each = resident().saturating_sub(before) / STREAMS;
    println!("{each} bytes each");
    assert!(each < BYTES_EACH_MAX, "{each} bytes each");
}
