//! A server against clients that misbehave, and its end.

use bytes::Bytes;
use http_body_util::{BodyExt, Full};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::sync::{mpsc, oneshot};
use tokio::task::JoinHandle;

use super::*;

const REQUEST: &[u8] = b"GET /quick HTTP/1.1\r\nhost: localhost\r\n\r\n";
const SLOW: &[u8] = b"GET /slow HTTP/1.1\r\nhost: localhost\r\n\r\n";
const LIMIT: Duration = Duration::from_secs(20);

fn options() -> Options {
    Options {
        section: "http",
        connections_max: 100,
        connections_per_address: 100,
        head_timeout: LIMIT,
        head_bytes_max: 16 * 1024,
        body: BodyLimits {
            timeout: LIMIT,
            bytes_per_second: 1000,
            held_max: 1 << 20,
        },
        streams_max: 10,
        write_timeout: None,
        accept_pause: Duration::from_millis(10),
        probes: &["/healthz"],
        hosts: HostRule {
            is_loopback: true,
            ..HostRule::default()
        },
        proxies: Proxies::default(),
        tls: None,
    }
}

#[derive(Clone)]
struct Refusals(mpsc::UnboundedSender<()>);

impl Observer for Refusals {
    type Guard = ();

    fn opened(&self) {}

    fn refused(&self) {
        self.0.send(()).unwrap();
    }

    fn displaced(&self) {}
}

struct Running {
    address: SocketAddr,
    stop: Stop,
    /// A message for each request to `/slow`; it is answered when the sender in it is used or dropped.
    slow: mpsc::UnboundedReceiver<oneshot::Sender<()>>,
    task: JoinHandle<Cut>,
}

async fn start(options: Options) -> Running {
    start_with(options, ()).await
}

async fn start_with(options: Options, observer: impl Observer) -> Running {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let (address, stop) = (listener.local_addr().unwrap(), Stop::default());
    let (sender, slow) = mpsc::unbounded_channel();
    let service = move |request: Request<RequestBody>| {
        let sender = sender.clone();
        async move {
            let path = request.uri().path().to_owned();
            if path.starts_with("/read") {
                request.into_body().collect().await.ok();
            }
            if path.ends_with("slow") {
                let (release, released) = oneshot::channel();
                sender.send(release).unwrap();
                released.await.ok();
            }
            let body = if path == "/large" {
                vec![b'x'; 64 << 20].into()
            } else {
                Bytes::from("done")
            };
            Response::new(Full::new(body))
        }
    };
    let task = tokio::spawn(serve(listener, options, observer, stop.clone(), service));
    Running {
        address,
        stop,
        slow,
        task,
    }
}

async fn send(address: SocketAddr, bytes: &[u8]) -> TcpStream {
    let mut stream = TcpStream::connect(address).await.unwrap();
    stream.write_all(bytes).await.unwrap();
    stream
}

/// Reads until the server closes.
async fn read_all(mut stream: TcpStream) -> String {
    let mut bytes = Vec::new();
    // A reset is an end too.
    stream.read_to_end(&mut bytes).await.ok();
    String::from_utf8(bytes).unwrap()
}

async fn read_response(stream: &mut TcpStream) -> String {
    let mut text = String::new();
    while !text.ends_with("done") {
        let mut buffer = [0; 1024];
        let read = stream.read(&mut buffer).await.unwrap();
        assert!(read > 0, "closed after {text:?}");
        text.push_str(std::str::from_utf8(&buffer[..read]).unwrap());
    }
    text
}

#[tokio::test]
async fn connections_beyond_the_limit_are_refused() {
    let (refusals, mut refused) = mpsc::unbounded_channel();
    let limited = Options {
        connections_max: 1,
        probes: &[],
        ..options()
    };
    let mut server = start_with(limited, Refusals(refusals)).await;
    let mut first = send(server.address, SLOW).await;
    let release = server.slow.recv().await.unwrap();
    let text = read_all(send(server.address, b"").await).await;
    assert!(text.starts_with("HTTP/1.1 503 "), "{text}");
    assert!(text.contains("`http.connections_max`"), "{text}");
    refused.recv().await.unwrap();
    release.send(()).unwrap();
    read_response(&mut first).await;
    // Its place is free again when it has gone.
    drop(first);
    loop {
        let text = read_all(send(server.address, b"GET / HTTP/1.0\r\n\r\n").await).await;
        if text.ends_with("done") {
            break;
        }
    }
}

#[tokio::test]
async fn connections_that_wait_for_their_clients_make_room() {
    let limited = Options {
        connections_max: 3,
        connections_per_address: 3,
        ..options()
    };
    let server = start(limited).await;
    let mut idle = send(server.address, REQUEST).await;
    read_response(&mut idle).await;
    let head = send(server.address, b"GET / HTTP/1.1\r\nhost: loc").await;
    let body = send(
        server.address,
        b"POST /read HTTP/1.1\r\nhost: localhost\r\ncontent-length: 10\r\n\r\n1",
    )
    .await;
    let mut served = Vec::new();
    while served.len() < 3 {
        let mut stream = send(server.address, REQUEST).await;
        let mut start = [0; 12];
        stream.read_exact(&mut start).await.unwrap();
        if &start == b"HTTP/1.1 200" {
            served.push(stream);
        }
    }
    for stalled in [idle, head, body] {
        assert_eq!(read_all(stalled).await, "");
    }
}

#[tokio::test]
async fn probes_are_answered_when_all_places_are_in_use() {
    let limited = Options {
        connections_max: 1,
        ..options()
    };
    let mut server = start(limited).await;
    let _busy = send(server.address, SLOW).await;
    let _release = server.slow.recv().await.unwrap();
    let probe = b"GET /healthz HTTP/1.1\r\nhost: localhost\r\n\r\n";
    let text = read_all(send(server.address, probe).await).await;
    assert!(
        text.starts_with("HTTP/1.1 200 ") && text.contains("connection: close"),
        "{text}"
    );
    let text = read_all(send(server.address, REQUEST).await).await;
    assert!(
        text.starts_with("HTTP/1.1 503 ") && text.contains("connections-taken"),
        "{text}"
    );
}

#[tokio::test]
async fn one_address_cannot_take_all_places() {
    let limited = Options {
        connections_max: 4,
        connections_per_address: 0,
        probes: &[],
        ..options()
    };
    let mut server = start(limited).await;
    let mut busy = Vec::new();
    for _ in 0..2 {
        busy.push(send(server.address, SLOW).await);
        busy_release(&mut server).await;
    }
    let text = read_all(send(server.address, REQUEST).await).await;
    assert!(text.starts_with("HTTP/1.1 503 "), "{text}");
    let socket = tokio::net::TcpSocket::new_v4().unwrap();
    socket.bind("127.0.0.2:0".parse().unwrap()).unwrap();
    let mut other = socket.connect(server.address).await.unwrap();
    other.write_all(REQUEST).await.unwrap();
    read_response(&mut other).await;
}

/// Waits for the next slow request, which stays unanswered.
async fn busy_release(server: &mut Running) {
    std::mem::forget(server.slow.recv().await.unwrap());
}

#[tokio::test]
async fn a_slow_body_is_answered_408_and_its_connection_closed() {
    let hasty = Options {
        body: BodyLimits {
            timeout: Duration::from_millis(100),
            ..options().body
        },
        ..options()
    };
    let server = start(hasty).await;
    let half = b"POST /read HTTP/1.1\r\nhost: localhost\r\ncontent-length: 1000\r\n\r\nx";
    let text = read_all(send(server.address, half).await).await;
    assert!(
        text.starts_with("HTTP/1.1 408 ") && text.contains("body-slow"),
        "{text}"
    );
}

#[tokio::test]
async fn a_body_that_came_fast_may_not_pause_for_what_it_has_earned() {
    let hasty = Options {
        body: BodyLimits {
            timeout: Duration::from_millis(200),
            bytes_per_second: 1,
            ..options().body
        },
        ..options()
    };
    let server = start(hasty).await;
    let body = "x".repeat(1000);
    let half = format!("POST /read HTTP/1.1\r\nhost: localhost\r\ncontent-length: 1001\r\n\r\n{body}");
    let text = read_all(send(server.address, half.as_bytes()).await).await;
    assert!(text.starts_with("HTTP/1.1 408 "), "{text}");
}

#[tokio::test]
async fn a_body_that_keeps_its_pace_has_all_the_time_it_needs() {
    let hasty = Options {
        body: BodyLimits {
            timeout: Duration::from_secs(1),
            bytes_per_second: 2,
            ..options().body
        },
        ..options()
    };
    let server = start(hasty).await;
    let head = b"POST /read HTTP/1.1\r\nhost: localhost\r\ncontent-length: 10\r\n\r\n";
    let mut stream = send(server.address, head).await;
    // A slow sender is what is tested: three seconds in all, where the limit without a pace is one.
    for _ in 0..10 {
        tokio::time::sleep(Duration::from_millis(300)).await;
        stream.write_all(b"x").await.unwrap();
    }
    read_response(&mut stream).await;
}

#[tokio::test]
async fn bodies_take_no_more_memory_than_allowed() {
    let small = Options {
        body: BodyLimits {
            held_max: 1000,
            ..options().body
        },
        ..options()
    };
    let mut server = start(small).await;
    let post = |path: &str, length: usize| {
        let body = "x".repeat(length);
        format!("POST {path} HTTP/1.1\r\nhost: localhost\r\ncontent-length: {length}\r\n\r\n{body}")
    };
    let _first = send(server.address, post("/read-slow", 900).as_bytes()).await;
    let release = server.slow.recv().await.unwrap();
    let text = read_all(send(server.address, post("/read", 200).as_bytes()).await).await;
    assert!(
        text.starts_with("HTTP/1.1 503 ") && text.contains("bodies-full"),
        "{text}"
    );
    assert!(text.contains("`http.bodies_max`"), "{text}");
    release.send(()).unwrap();
    let mut stream = send(server.address, post("/read", 900).as_bytes()).await;
    while !read_response(&mut stream).await.contains(" 200 ") {
        stream = send(server.address, post("/read", 900).as_bytes()).await;
    }
}

#[tokio::test]
async fn a_foreign_name_is_answered_421_before_the_body_is_read() {
    let server = start(options()).await;
    for host in ["evil.test", "evil.test:7400"] {
        let head = format!("POST /read HTTP/1.1\r\nhost: {host}\r\ncontent-length: 1000\r\n\r\n");
        let text = read_all(send(server.address, head.as_bytes()).await).await;
        assert!(
            text.starts_with("HTTP/1.1 421 ") && text.contains("`http.hosts`"),
            "{text}"
        );
    }
    let head =
        b"POST /read HTTP/1.1\r\nhost: localhost\r\norigin: http://evil.test\r\ncontent-length: 9\r\n\r\n";
    let text = read_all(send(server.address, head).await).await;
    assert!(
        text.starts_with("HTTP/1.1 403 ") && text.contains("foreign-page"),
        "{text}"
    );
}

#[tokio::test]
async fn a_slow_head_ends_the_connection() {
    let hasty = Options {
        head_timeout: Duration::from_millis(100),
        ..options()
    };
    let server = start(hasty).await;
    for part in [&b""[..], b"G", b"GET / HTTP/1.1\r\nhos"] {
        let text = read_all(send(server.address, part).await).await;
        assert!(!text.contains("done"), "{text}");
    }
    // The second request of a connection is timed as well.
    let mut stream = send(server.address, REQUEST).await;
    read_response(&mut stream).await;
    stream.write_all(b"GET / HT").await.unwrap();
    assert!(!read_all(stream).await.contains("done"));
}

#[tokio::test]
async fn a_head_that_is_too_large_is_refused() {
    let server = start(options()).await;
    let head = format!(
        "GET / HTTP/1.1\r\nhost: localhost\r\nx-y: {}\r\n\r\n",
        "z".repeat(20_000)
    );
    let text = read_all(send(server.address, head.as_bytes()).await).await;
    assert!(text.starts_with("HTTP/1.1 431 "), "{text}");
}

#[tokio::test]
async fn a_client_that_reads_nothing_is_cut_off() {
    let impatient = Options {
        write_timeout: Some(Duration::from_millis(200)),
        connections_max: 1,
        ..options()
    };
    let server = start(impatient).await;
    let _stalled = send(server.address, b"GET /large HTTP/1.1\r\nhost: localhost\r\n\r\n").await;
    let began = tokio::time::Instant::now();
    loop {
        let text = read_all(send(server.address, b"GET / HTTP/1.0\r\n\r\n").await).await;
        if text.ends_with("done") {
            return;
        }
        assert!(
            began.elapsed() < LIMIT,
            "the stalled client still has its connection"
        );
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
}

#[tokio::test]
async fn draining_answers_what_has_begun_and_closes_the_rest() {
    let mut server = start(options()).await;
    let mut idle = send(server.address, REQUEST).await;
    read_response(&mut idle).await;
    let slow = send(server.address, SLOW).await;
    let release = server.slow.recv().await.unwrap();
    server.stop.draining.cancel();
    server.stop.closing.cancelled().await;
    assert_eq!(read_all(idle).await, "");
    assert!(TcpStream::connect(server.address).await.is_err());
    release.send(()).unwrap();
    assert!(read_all(slow).await.ends_with("done"));
    assert_eq!(server.task.await.unwrap(), Cut::default());
}

#[tokio::test]
async fn what_is_open_at_the_cut_is_counted() {
    let mut server = start(options()).await;
    let slow = send(server.address, SLOW).await;
    let _release = server.slow.recv().await.unwrap();
    let half = send(server.address, b"GET / HTTP/1.1\r\nhost: localhost\r\n").await;
    // The server reads the half head before it drains.
    let mut other = send(server.address, REQUEST).await;
    read_response(&mut other).await;
    server.stop.draining.cancel();
    server.stop.closing.cancelled().await;
    server.stop.cut.cancel();
    let cut = server.task.await.unwrap();
    assert_eq!(cut.answering, 1);
    assert!(cut.connections >= 1, "{cut:?}");
    assert_eq!(read_all(slow).await, "");
    assert_eq!(read_all(half).await, "");
}
