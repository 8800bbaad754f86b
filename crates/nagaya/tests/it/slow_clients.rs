//! Clients that connect and then do as little as they can, on every HTTP listener.
//!
//! With `NAGAYA_TEST_LONG=1` there are 2000 of them for two minutes.

use super::*;
use crate::fanout_serve::Endpoint;
use nagaya_clock::{Clock, SystemClock};
use nagaya_testkit::{Reply, RespClient, http};

/// Half of a form.
const HALF_A_BODY: &str = "POST /sign-in HTTP/1.1\r\nhost: localhost\r\n\
    content-type: application/x-www-form-urlencoded\r\ncontent-length: 1000\r\n\r\nx";

/// What a stalled client sends before it goes silent.
const STALLS: &[&[u8]] = &[
    HALF_A_BODY.as_bytes(),
    b"",
    b"GET /v1/house HTTP/1.1\r\nhost: loc",
    b"POST /nagaya.jobs.v1.Jobs/Enqueue HTTP/1.1\r\nhost: localhost\r\ncontent-type: application/grpc\r\n\
      content-length: 100000\r\n\r\nx",
    b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n",
    // A WebSocket whose client never says who it is.
    b"GET /v1/ws HTTP/1.1\r\nhost: localhost\r\nconnection: upgrade\r\nupgrade: websocket\r\n\
      sec-websocket-version: 13\r\nsec-websocket-key: dGhlIHNhbXBsZSBub25jZQ==\r\n\r\n",
    // HTTP/2 with a window of no bytes, then a whole request: GET http://localhost/x.
    b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n\
      \0\0\x06\x04\0\0\0\0\0\0\x04\0\0\0\0\
      \0\0\x11\x01\x05\0\0\0\x01\x82\x86\x04\x02/x\x41\x09localhost",
];

struct Plan {
    clients: usize,
    lasts: Duration,
}

impl Plan {
    fn get() -> Plan {
        match std::env::var_os("NAGAYA_TEST_LONG") {
            Some(_) => Plan {
                clients: 2000,
                lasts: Duration::from_secs(120),
            },
            None => Plan {
                clients: 300,
                lasts: Duration::from_secs(2),
            },
        }
    }
}

/// Stalled connections, which are opened again when the server closes them.
struct Crowd {
    address: SocketAddr,
    clients: Vec<Option<TcpStream>>,
    opened: usize,
}

impl Crowd {
    fn gather(address: SocketAddr, clients: usize) -> Crowd {
        let mut crowd = Crowd {
            address,
            clients: (0..clients).map(|_| None).collect(),
            opened: 0,
        };
        crowd.come_back();
        crowd
    }

    /// Connects those again that were closed.
    fn come_back(&mut self) {
        for client in &mut self.clients {
            let is_open = client.as_mut().is_some_and(|stream| {
                let mut buffer = [0; 4096];
                match stream.read(&mut buffer) {
                    Ok(0) => false,
                    Ok(_) => true,
                    Err(error) => error.kind() == std::io::ErrorKind::WouldBlock,
                }
            });
            if is_open {
                continue;
            }
            let stall = STALLS[self.opened % STALLS.len()];
            self.opened += 1;
            *client = TcpStream::connect_timeout(&self.address, LIMIT)
                .ok()
                .and_then(|mut stream| {
                    stream.write_all(stall).ok()?;
                    stream.set_nonblocking(true).ok()?;
                    Some(stream)
                });
        }
    }
}

/// Resident memory of a server, in bytes.
fn resident(house: &Nagaya) -> u64 {
    let status = std::fs::read_to_string(format!("/proc/{}/status", house.process().pid().unwrap())).unwrap();
    let line = status.lines().find(|line| line.starts_with("VmRSS:")).unwrap();
    let kilobytes: u64 = line.split_whitespace().nth(1).unwrap().parse().unwrap();
    kilobytes << 10
}

/// Returns how many connections were closed for others.
fn displaced(house: &Nagaya) -> u64 {
    let metrics = house.get("/metrics").unwrap().body;
    let name = "nagaya_http_connections_displaced_total ";
    let line = metrics.lines().find_map(|line| line.strip_prefix(name));
    line.unwrap().parse().unwrap()
}

/// Asks for health and returns how long the answer took. Not how long it took to connect: the kernel may let a client wait
/// a second whose port belonged to a connection that was closed a moment ago.
fn time_of_health(house: &Nagaya) -> Duration {
    let mut stream = TcpStream::connect(house.address("http")).unwrap();
    stream.set_read_timeout(Some(LIMIT)).unwrap();
    let asked = SystemClock.now();
    let request = b"GET /healthz HTTP/1.1\r\nhost: localhost\r\nconnection: close\r\n\r\n";
    stream.write_all(request).unwrap();
    let answer = read_all(&mut stream);
    assert!(answer.starts_with("HTTP/1.1 200 "), "{answer}");
    asked.elapsed()
}

/// Lets a crowd stall on a listener while health is probed and a good client is served.
fn withstand(house: &Nagaya, listener: &str, good: impl Fn() -> bool) {
    let plan = Plan::get();
    let before = resident(house);
    let mut crowd = Crowd::gather(house.address(listener), plan.clients);
    let (until, mut slowest, mut served, mut most) = (SystemClock.now() + plan.lasts, Duration::ZERO, 0, 0);
    while SystemClock.now() < until {
        slowest = slowest.max(time_of_health(house));
        assert_eq!(http::get(house.address("http"), "/readyz").unwrap().status, 200);
        assert!(good(), "a good client was not served after {served} times");
        served += 1;
        most = most.max(resident(house));
        crowd.come_back();
    }
    eprintln!(
        "{listener}: {} stalled clients, {} connections in {:?}; slowest health {slowest:?}, good client served {served} \
         times, memory {} kB before, {} kB at most",
        plan.clients,
        crowd.opened,
        plan.lasts,
        before >> 10,
        most >> 10
    );
    assert!(slowest < Duration::from_secs(1), "health took {slowest:?}");
    let allowed = plan.clients as u64 * (64 << 10) + (64 << 20);
    assert!(
        most.saturating_sub(before) < allowed,
        "memory grew from {before} to {most}"
    );
}

#[test]
fn stalled_clients_keep_nobody_from_the_http_listener() {
    let token = "a-token-for-tests";
    let house = house()
        .env("NAGAYA_HTTP__TOKEN", token)
        .args([
            "--set",
            "http.connections_max=200",
            "--set",
            "http.body_timeout=1s",
        ])
        .start();
    let head = format!("GET /v1/house HTTP/1.1\r\nauthorization: Bearer {token}");
    withstand(&house, "http", || {
        ask(house.address("http"), &head).starts_with("HTTP/1.1 200 ")
    });
}

#[test]
fn stalled_clients_keep_nobody_from_an_open_http_listener() {
    let house = house().args(["--set", "http.connections_max=200"]).start();
    withstand(&house, "http", || {
        ask(house.address("http"), "GET /v1/house HTTP/1.1").starts_with("HTTP/1.1 200 ")
    });
    assert!(displaced(&house) > 0);
}

#[test]
fn stalled_clients_keep_nobody_from_the_fanouts_listener() {
    let endpoint = Endpoint::start("one");
    // Without a token every request of the crowd would be one to fan out.
    let token = "a-token-for-tests";
    let house = house()
        .listener("fanout")
        .env("NAGAYA_FANOUT__TOKEN", token)
        .args(["--set", &format!("fanout.endpoints=a={}", endpoint.url)])
        .args([
            "--set",
            "fanout.connections_max=200",
            "--set",
            "fanout.handlers=4",
        ])
        .start();
    withstand(&house, "fanout", || {
        let post = format!("POST /p HTTP/1.1\r\nauthorization: Bearer {token}\r\ncontent-length: 0");
        ask(house.address("fanout"), &post).starts_with("HTTP/1.1 200 ")
    });
}

#[test]
fn eleven_hundred_half_bodies_do_not_take_the_house_away() {
    let house = house().start();
    let address = house.address("http");
    let crowd: Vec<TcpStream> = (0..1100).map(|_| send(address, HALF_A_BODY)).collect();
    for path in ["/readyz", "/v1/house", "/"] {
        let answer = nagaya_testkit::wait::value("an answer", LIMIT, || {
            Some(ask(address, &format!("GET {path} HTTP/1.1"))).filter(|answer| !answer.is_empty())
        });
        assert!(answer.starts_with("HTTP/1.1 200 "), "{path}: {answer}");
    }
    drop(crowd);
}

#[test]
fn bodies_in_progress_have_a_limit_with_a_name() {
    let house = house()
        .args(["--set", "http.bodies_max=1mb", "--set", "http.body_timeout=30s"])
        .start();
    let address = house.address("http");
    let part = "x".repeat(50_000);
    let half = format!(
        "POST /v1/jobs HTTP/1.1\r\nhost: localhost\r\ncontent-type: application/json\r\ncontent-length: 60000\r\n\r\n\
         \"{part}"
    );
    let crowd: Vec<TcpStream> = (0..30).map(|_| send(address, &half)).collect();
    let refused = nagaya_testkit::wait::value("a refusal", LIMIT, || {
        crowd.iter().find_map(|mut stream| {
            stream.set_nonblocking(true).unwrap();
            let mut buffer = [0; 4096];
            let read = stream.read(&mut buffer).ok().filter(|read| *read > 0)?;
            Some(String::from_utf8_lossy(&buffer[..read]).into_owned())
        })
    });
    assert!(refused.starts_with("HTTP/1.1 503 "), "{refused}");
    assert!(
        refused.contains("/problems/bodies-full") && refused.contains("`http.bodies_max`"),
        "{refused}"
    );
}

#[test]
fn exports_that_nobody_reads_are_few() {
    let house = house().start();
    let mut client = RespClient::connect(house.address("room")).unwrap();
    let value = vec![b'v'; 1 << 20];
    for at in 0..20 {
        let key = format!("{{big}}{at}");
        let set = [b"SET".as_slice(), key.as_bytes(), &value];
        assert_eq!(client.cmd(&set).unwrap(), Reply::ok());
    }
    let address = house.address("http");
    let request = "GET /v1/room/tags/big/export HTTP/1.1\r\nhost: localhost\r\nconnection: close\r\n\r\n";
    let mut crowd: Vec<TcpStream> = (0..8).map(|_| send(address, request)).collect();
    let status = |stream: &mut TcpStream| {
        let mut line = [0; 12];
        stream.read_exact(&mut line).unwrap();
        String::from_utf8(line.to_vec()).unwrap()
    };
    let answers: Vec<String> = crowd.iter_mut().map(status).collect();
    let count = |wanted: &str| answers.iter().filter(|answer| *answer == wanted).count();
    assert_eq!(
        (count("HTTP/1.1 200"), count("HTTP/1.1 503")),
        (2, 6),
        "{answers:?}"
    );
    drop(crowd);
    let answer = nagaya_testkit::wait::value("a place for another export", LIMIT, || {
        let answer = read_all(&mut send(address, request));
        answer.starts_with("HTTP/1.1 200 ").then_some(answer)
    });
    assert!(answer.len() > 20 << 20, "{}", answer.len());
}
