//! The memcached server over real sockets.

use std::collections::HashSet;
use std::io::{BufRead, BufReader, Read, Write};
use std::net::{Shutdown, SocketAddr, TcpStream};
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use nagaya_ids::FixedPermit;
use nagaya_ids::id_clock::RunningClock;
use nagaya_ids::layout::Layout;
use nagaya_ids::mint::Mint;
use nagaya_ids::server::{ListenAddress, Listener, Server, ServerConfig, Stats};

/// Long enough for a loaded machine; a test that waits for it has failed.
const LIMIT: Duration = Duration::from_secs(20);

/// A server of worker 7 on a port of its own.
pub(crate) struct TestServer {
    pub(crate) server: Server,
    pub(crate) mint: Arc<Mint>,
    pub(crate) stats: Arc<Stats>,
}

impl TestServer {
    pub(crate) fn start(config: ServerConfig) -> TestServer {
        TestServer::listening(&ListenAddress::Tcp("127.0.0.1:0".parse().unwrap()), config)
    }

    fn listening(address: &ListenAddress, config: ServerConfig) -> TestServer {
        let mint = Arc::new(Mint::new(Layout::default(), RunningClock::system()));
        mint.set_permit(Some(Arc::new(FixedPermit::new(7))));
        let stats = Arc::new(Stats::new(&mint, "1.2.3"));
        let listener = Listener::bind(address).unwrap();
        let server = Server::start(vec![listener], config, Arc::clone(&mint), Arc::clone(&stats)).unwrap();
        TestServer { server, mint, stats }
    }

    pub(crate) fn address(&self) -> SocketAddr {
        self.server.addresses()[0]
    }

    fn connect(&self) -> TcpStream {
        let stream = TcpStream::connect(self.address()).unwrap();
        stream.set_read_timeout(Some(LIMIT)).unwrap();
        stream.set_nodelay(true).unwrap();
        stream
    }
}

fn ask(stream: &mut (impl Read + Write), request: &[u8], answer_bytes: usize) -> Vec<u8> {
    stream.write_all(request).unwrap();
    let mut answer = vec![0; answer_bytes];
    stream.read_exact(&mut answer).unwrap();
    answer
}

/// Everything until the server closes.
fn rest(stream: &mut impl Read) -> Vec<u8> {
    let mut bytes = Vec::new();
    // A reset counts as closed: the server had unread input.
    stream.read_to_end(&mut bytes).ok();
    bytes
}

fn ids_in(answer: &[u8]) -> Vec<u64> {
    let text = String::from_utf8_lossy(answer);
    text.lines().filter_map(|line| line.parse().ok()).collect()
}

#[test]
fn text_and_binary_share_a_port() {
    let server = TestServer::start(ServerConfig::default());
    let mut text = server.connect();
    let answer = ask(&mut text, b"get id\r\n", "VALUE id 0 19\r\n".len() + 21 + 5);
    assert!(answer.starts_with(b"VALUE id 0 19\r\n") && answer.ends_with(b"\r\nEND\r\n"));
    let mut binary = server.connect();
    let mut request = vec![0x80, 0, 0, 2, 0, 0, 0, 0, 0, 0, 0, 2, 9, 9, 9, 9];
    request.extend([0; 8]);
    request.extend(b"id");
    let answer = ask(&mut binary, &request, 24 + 4 + 19);
    assert_eq!(answer[..16], [0x81, 0, 0, 0, 4, 0, 0, 0, 0, 0, 0, 23, 9, 9, 9, 9]);
    let from_text = ids_in(&ask(&mut text, b"get id\r\n", 41))[0];
    let from_binary: u64 = String::from_utf8_lossy(&answer[28..]).parse().unwrap();
    assert!(from_text > from_binary);
    assert_eq!(server.mint.layout().decode(from_text).unwrap().worker, 7);
}

#[test]
fn a_pipeline_is_answered_in_order_and_whole() {
    let server = TestServer::start(ServerConfig::default());
    let mut stream = server.connect();
    let pipeline = b"get a b c d e f g h i j\r\nversion\r\n".repeat(3000);
    let writer = {
        let mut stream = stream.try_clone().unwrap();
        std::thread::spawn(move || {
            stream.write_all(&pipeline).unwrap();
            stream.write_all(b"quit\r\n").unwrap();
        })
    };
    let answer = rest(&mut stream);
    writer.join().unwrap();
    let ids = ids_in(&answer);
    assert_eq!(ids.len(), 30_000);
    assert!(ids.is_sorted_by(|a, b| a < b));
    assert_eq!(
        String::from_utf8_lossy(&answer)
            .matches("VERSION 1.2.3\r\n")
            .count(),
        3000
    );
}

#[test]
fn many_connections_get_different_ids() {
    let server = TestServer::start(ServerConfig::default());
    let fetch = || {
        let mut stream = server.connect();
        let ids: Vec<u64> = (0..200)
            .flat_map(|_| ids_in(&ask(&mut stream, b"get a b\r\n", 2 * 35 + 5)))
            .collect();
        ids
    };
    let all: Vec<u64> = std::thread::scope(|scope| {
        let handles: Vec<_> = (0..20).map(|_| scope.spawn(fetch)).collect();
        handles
            .into_iter()
            .flat_map(|handle| handle.join().unwrap())
            .collect()
    });
    assert_eq!(all.len(), 8000);
    assert_eq!(all.iter().collect::<HashSet<_>>().len(), 8000);
    let stats = server.stats.snapshot(&server.mint);
    assert_eq!(
        (stats.cmd_get, stats.get_hits, stats.total_connections),
        (4000, 8000, 20)
    );
}

#[test]
fn connections_above_the_limit_are_told_so() {
    let config = ServerConfig {
        connections_max: 2,
        ..ServerConfig::default()
    };
    let server = TestServer::start(config);
    let mut kept: Vec<TcpStream> = (0..2).map(|_| server.connect()).collect();
    for stream in &mut kept {
        ask(stream, b"version\r\n", 15);
    }
    assert_eq!(
        rest(&mut server.connect()),
        b"ERROR Too many open connections\r\n"
    );
    // A place that becomes free is given away again.
    kept.pop();
    let refused_until_free = || {
        let mut stream = server.connect();
        stream.write_all(b"version\r\nquit\r\n").ok();
        rest(&mut stream) == b"VERSION 1.2.3\r\n"
    };
    assert!((0..1000).any(|_| refused_until_free()));
    assert!(server.stats.snapshot(&server.mint).rejected_connections >= 1);
}

#[test]
fn a_connection_that_asks_nothing_is_closed() {
    let config = ServerConfig {
        idle_timeout: Duration::from_millis(100),
        ..ServerConfig::default()
    };
    let server = TestServer::start(config);
    let mut silent = server.connect();
    let mut half = server.connect();
    half.write_all(b"get a").unwrap();
    assert_eq!(rest(&mut silent), b"");
    assert_eq!(rest(&mut half), b"");
    assert_eq!(server.stats.snapshot(&server.mint).total_connections, 2);
}

#[test]
fn a_client_that_does_not_read_is_not_read_from() {
    let config = ServerConfig {
        threads: 1,
        ..ServerConfig::default()
    };
    let server = TestServer::start(config);
    let mut greedy = server.connect();
    greedy
        .set_write_timeout(Some(Duration::from_millis(300)))
        .unwrap();
    // Sends until the server has stopped reading and every buffer between them is full.
    let request = b"get a b c d e f g h\r\n".repeat(1000);
    let mut sent = 0;
    while let Ok(count) = greedy.write(&request) {
        sent += count;
        assert!(sent < 1 << 30, "the server takes everything");
    }
    // Others are served meanwhile, by the same thread.
    let mut other = server.connect();
    assert_eq!(ask(&mut other, b"version\r\n", 15), b"VERSION 1.2.3\r\n");
    greedy.shutdown(Shutdown::Write).unwrap();
    let mut ids = 0;
    for line in BufReader::new(greedy).split(b'\n') {
        ids += usize::from(line.unwrap_or_default().starts_with(b"VALUE"));
    }
    assert!(ids > 0);
}

#[test]
fn a_unix_socket_serves_and_is_removed_in_the_end() {
    let folder = nagaya_testkit::Folder::new("ids-socket");
    let path = Path::new(folder.path()).join("ids.sock");
    // One that a killed process left behind.
    drop(std::os::unix::net::UnixListener::bind(&path).unwrap());
    let server = TestServer::listening(&ListenAddress::Unix(path.clone()), ServerConfig::default());
    let mut stream = UnixStream::connect(&path).unwrap();
    assert_eq!(ids_in(&ask(&mut stream, b"get a\r\n", 40)).len(), 1);
    // One that is in use stays.
    assert!(Listener::bind(&ListenAddress::Unix(path.clone())).is_err());
    drop(server);
    assert!(!path.exists());
}

#[test]
fn stopping_answers_what_has_arrived_and_closes() {
    let server = TestServer::start(ServerConfig::default());
    let mut stream = server.connect();
    ask(&mut stream, b"version\r\n", 15);
    assert_eq!(server.server.stop(), 1);
    assert_eq!(rest(&mut stream), b"");
}
