//! An engine in this process, and what tests send to it.

use std::io::{ErrorKind, Read, Write};
use std::net::{Shutdown, SocketAddr, TcpStream};
use std::time::Duration;

use nagaya_engine::{Bound, Engine, RoomConfig};
use nagaya_testkit::{Redis, Reply, RespClient, wait};

/// Longer than anything takes on a loaded machine.
pub(crate) const LIMIT: Duration = Duration::from_secs(60);

/// Starts an engine on a free port.
pub(crate) fn engine() -> Engine {
    engine_with(|_| ())
}

/// Starts an engine on a free port, with other settings changed.
pub(crate) fn engine_with(change: impl FnOnce(&mut RoomConfig)) -> Engine {
    let mut config = RoomConfig::default();
    config.listen.0.set_port(0);
    change(&mut config);
    Bound::bind(config).unwrap().start(None).unwrap()
}

pub(crate) fn client(engine: &Engine) -> RespClient {
    let client = RespClient::connect(engine.tcp_address()).unwrap();
    client.set_timeout(LIMIT).unwrap();
    client
}

/// Runs a command whose reply must come.
#[track_caller]
pub(crate) fn ask<A: AsRef<[u8]>>(client: &mut RespClient, args: &[A]) -> Reply {
    match client.cmd(args) {
        Ok(reply) => reply,
        Err(error) => panic!("no reply: {error}"),
    }
}

/// Panics unless the engine answers a new client.
#[track_caller]
pub(crate) fn still_serves(engine: &Engine) {
    assert_eq!(ask(&mut client(engine), &["PING"]), Reply::Simple("PONG".into()));
}

/// A plain connection.
pub(crate) fn connect(address: SocketAddr) -> TcpStream {
    let stream = TcpStream::connect(address).unwrap();
    stream.set_read_timeout(Some(LIMIT)).unwrap();
    stream.set_write_timeout(Some(LIMIT)).unwrap();
    stream.set_nodelay(true).unwrap();
    stream
}

/// Sends bytes, ends the sending side, and returns all that comes back.
///
/// A server drops replies that it cannot write at once to a client that has ended its side: for long ones,
/// let the bytes end with QUIT, and the sending side stays open.
pub(crate) fn exchange(address: SocketAddr, bytes: &[u8]) -> Vec<u8> {
    let mut stream = connect(address);
    // A server that has heard enough closes before everything is sent.
    let sent = stream.write_all(bytes);
    if sent.is_ok() && !bytes.ends_with(b"QUIT\r\n") {
        stream.shutdown(Shutdown::Write).ok();
    }
    read_to_end(&mut stream)
}

/// Reads until the other side closes; a reset counts as closed.
#[track_caller]
pub(crate) fn read_to_end(stream: &mut impl Read) -> Vec<u8> {
    let mut bytes = Vec::new();
    match stream.read_to_end(&mut bytes) {
        Ok(_) => (),
        Err(error)
            if matches!(
                error.kind(),
                ErrorKind::ConnectionReset | ErrorKind::UnexpectedEof
            ) => {}
        Err(error) => panic!("the connection was not closed: {error}"),
    }
    bytes
}

/// A request as clients write it.
pub(crate) fn request<A: AsRef<[u8]>>(args: &[A]) -> Vec<u8> {
    let mut bytes = format!("*{}\r\n", args.len()).into_bytes();
    for arg in args {
        bytes.extend_from_slice(format!("${}\r\n", arg.as_ref().len()).as_bytes());
        bytes.extend_from_slice(arg.as_ref());
        bytes.extend_from_slice(b"\r\n");
    }
    bytes
}

/// Our engine and a real server, told the same things.
pub(crate) struct Both {
    pub(crate) ours: Engine,
    pub(crate) redis: Redis,
}

impl Both {
    pub(crate) fn start() -> Both {
        Both {
            ours: engine(),
            redis: Redis::start(),
        }
    }

    /// Sends the same bytes to both and panics unless the same bytes come back, up to the close.
    #[track_caller]
    pub(crate) fn same(&self, bytes: &[u8]) -> String {
        let ours = exchange(self.ours.tcp_address(), bytes);
        let redis = exchange(self.redis.address(), bytes);
        let shown = |bytes: &[u8]| bytes[..bytes.len().min(400)].escape_ascii().to_string();
        assert_eq!(shown(&ours), shown(&redis), "after {}", shown(bytes));
        assert!(ours == redis, "replies differ after {}", shown(bytes));
        String::from_utf8_lossy(&ours).into_owned()
    }

    /// Runs commands, words separated by spaces, one after the other on one connection.
    #[track_caller]
    pub(crate) fn same_commands(&self, commands: &[&str]) {
        let (mut ours, mut redis) = (client(&self.ours), self.redis.client());
        for command in commands {
            let words: Vec<&str> = command.split(' ').collect();
            let (ours, redis) = (ask(&mut ours, &words), ask(&mut redis, &words));
            assert_eq!(ours, redis, "{command}");
        }
    }
}

/// Waits until as many connections are open as said.
#[track_caller]
pub(crate) fn wait_for(what: &str, condition: impl FnMut() -> bool) {
    wait::until(what, LIMIT, condition);
}
