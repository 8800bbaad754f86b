//! A TCP proxy that behaves as badly as a network.
//!
//! Each connection has two threads per direction: one reads and notes the time,
//! one writes when the faults of the moment allow it. So a delay shifts a stream
//! without slowing it, and a cut holds bytes back as lost packets would until
//! they are sent again.

use std::io::{self, Read, Write};
use std::net::{Ipv4Addr, Shutdown, SocketAddr, TcpListener, TcpStream};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{Receiver, SyncSender, sync_channel};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, Weak};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use crate::wait;

/// Bytes read at once, and how many such chunks may be on their way; more than
/// that stays in the sender's socket.
const CHUNK_BYTES: usize = 16 * 1024;
const CHUNKS_MAX: usize = 64;
const CONNECT_LIMIT: Duration = Duration::from_secs(5);
/// How often a blocked writer looks whether its connection was reset.
const WRITE_PATIENCE: Duration = Duration::from_millis(50);
/// A throttled stream is written in this many pieces per second.
const PIECES_PER_S: u64 = 50;

/// Which way bytes flow.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Direction {
    ToServer,
    ToClient,
    Both,
}

/// A proxy in front of one server. Faults hold for open and for new connections
/// until [`restore`](TcpProxy::restore).
#[derive(Debug)]
pub struct TcpProxy {
    address: SocketAddr,
    shared: Arc<Shared>,
    acceptor: Option<JoinHandle<()>>,
}

#[derive(Debug)]
struct Shared {
    server: SocketAddr,
    faults: Mutex<Faults>,
    changed: Condvar,
    links: Mutex<Vec<Weak<Link>>>,
    threads: Mutex<Vec<JoinHandle<()>>>,
}

#[derive(Clone, Copy, Debug, Default)]
struct Faults {
    delay: Duration,
    bytes_per_s: Option<u64>,
    cut_to_server: bool,
    cut_to_client: bool,
    half_open: bool,
    closed: bool,
}

/// One client's connection; the sockets close when its last thread ends.
#[derive(Debug)]
struct Link {
    client: TcpStream,
    /// `None` when the connection was accepted half-open.
    server: Option<TcpStream>,
    reset: AtomicBool,
    /// Bytes were lost, so the connection cannot go on after a restore.
    swallowed: AtomicBool,
}

#[derive(Clone, Copy)]
enum Way {
    ToServer,
    ToClient,
}

struct Chunk {
    read_at: Instant,
    bytes: Vec<u8>,
}

/// When a byte was read, and when the throttle lets the next one pass.
#[derive(Clone, Copy)]
struct Timing {
    read_at: Instant,
    paced_to: Instant,
}

impl TcpProxy {
    /// Listens on a free port and forwards to `server`, which need not run yet.
    #[track_caller]
    pub fn start(server: SocketAddr) -> TcpProxy {
        match TcpProxy::try_start(server) {
            Ok(proxy) => proxy,
            Err(error) => panic!("could not start a proxy: {error}"),
        }
    }

    fn try_start(server: SocketAddr) -> io::Result<TcpProxy> {
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0))?;
        let address = listener.local_addr()?;
        let shared = Arc::new(Shared {
            server,
            faults: Mutex::default(),
            changed: Condvar::new(),
            links: Mutex::default(),
            threads: Mutex::default(),
        });
        let acceptor = {
            let shared = shared.clone();
            thread::Builder::new()
                .name("testkit-proxy".into())
                .spawn(move || accept(&listener, &shared))?
        };
        Ok(TcpProxy {
            address,
            shared,
            acceptor: Some(acceptor),
        })
    }

    /// Where clients connect to.
    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// Lets every byte arrive this much later, in each direction.
    pub fn delay(&self, delay: Duration) {
        self.shared.change(|faults| faults.delay = delay);
    }

    /// Lets at most this many bytes per second through, in each direction of each
    /// connection.
    #[track_caller]
    pub fn throttle(&self, bytes_per_s: u64) {
        assert!(bytes_per_s > 0, "a throttle to nothing is a cut");
        self.shared
            .change(|faults| faults.bytes_per_s = Some(bytes_per_s));
    }

    /// Holds back all bytes, and the end of the stream, in a direction.
    pub fn cut(&self, direction: Direction) {
        self.shared.change(|faults| {
            faults.cut_to_server |= direction != Direction::ToClient;
            faults.cut_to_client |= direction != Direction::ToServer;
        });
    }

    /// Accepts connections and swallows what they send, as a machine does that
    /// lost its power and whose peers have not noticed. Open connections are
    /// swallowed too.
    pub fn half_open(&self) {
        self.shared.change(|faults| faults.half_open = true);
    }

    /// Resets (RST) all open connections; new ones are served.
    pub fn reset(&self) {
        for link in self.shared.live_links() {
            self.shared.reset(&link);
        }
    }

    /// Ends all faults. Held bytes go on their way; connections that lost bytes
    /// are reset.
    pub fn restore(&self) {
        self.shared.change(|faults| *faults = Faults::default());
        for link in self.shared.live_links() {
            if link.swallowed.load(Ordering::SeqCst) {
                self.shared.reset(&link);
            }
        }
    }
}

impl Drop for TcpProxy {
    fn drop(&mut self) {
        self.shared.change(|faults| faults.closed = true);
        self.reset();
        // Wakes the acceptor, which then sees that the proxy is closed.
        drop(TcpStream::connect(self.address));
        let threads = std::mem::take(&mut *lock(&self.shared.threads));
        for thread in self.acceptor.take().into_iter().chain(threads) {
            thread.join().ok();
        }
    }
}

impl Shared {
    fn change(&self, change: impl FnOnce(&mut Faults)) {
        change(&mut lock(&self.faults));
        self.changed.notify_all();
    }

    fn live_links(&self) -> Vec<Arc<Link>> {
        let mut links = lock(&self.links);
        links.retain(|link| link.strong_count() > 0);
        links.iter().filter_map(Weak::upgrade).collect()
    }

    fn reset(&self, link: &Link) {
        link.reset.store(true, Ordering::SeqCst);
        for socket in [Some(&link.client), link.server.as_ref()].into_iter().flatten() {
            // Closing a socket that does not linger sends RST. Ending the read side sends nothing,
            // and wakes the reader so that it lets go of the socket.
            rustix::net::sockopt::set_socket_linger(socket, Some(Duration::ZERO)).ok();
            socket.shutdown(Shutdown::Read).ok();
        }
        let _faults = lock(&self.faults);
        self.changed.notify_all();
    }

    /// Waits until a byte may leave; `None` when the connection was reset meanwhile.
    fn wait_turn(&self, link: &Link, way: Way, byte: Timing) -> Option<Faults> {
        let mut faults = lock(&self.faults);
        loop {
            if link.reset.load(Ordering::SeqCst) || faults.closed {
                return None;
            }
            let delayed = byte.read_at + faults.delay;
            let due = if faults.bytes_per_s.is_some() {
                delayed.max(byte.paced_to)
            } else {
                delayed
            };
            let early = due.saturating_duration_since(wait::now());
            faults = if faults.cuts(way) {
                self.changed
                    .wait(faults)
                    .unwrap_or_else(|poisoned| poisoned.into_inner())
            } else if !early.is_zero() {
                let waited = self.changed.wait_timeout(faults, early);
                waited.unwrap_or_else(|poisoned| poisoned.into_inner()).0
            } else {
                return Some(*faults);
            };
        }
    }
}

impl Faults {
    fn cuts(&self, way: Way) -> bool {
        match way {
            Way::ToServer => self.cut_to_server,
            Way::ToClient => self.cut_to_client,
        }
    }
}

fn accept(listener: &TcpListener, shared: &Arc<Shared>) {
    for client in listener.incoming() {
        let faults = *lock(&shared.faults);
        if faults.closed {
            return;
        }
        let Ok(client) = client else { continue };
        let server = if faults.half_open {
            None
        } else {
            Some(connect(shared.server))
        };
        match server.transpose() {
            Ok(server) => serve(shared, client, server),
            // As near as an accepted connection gets to being refused.
            Err(_) => drop(rustix::net::sockopt::set_socket_linger(
                &client,
                Some(Duration::ZERO),
            )),
        }
    }
}

fn connect(server: SocketAddr) -> io::Result<TcpStream> {
    let stream = TcpStream::connect_timeout(&server, CONNECT_LIMIT)?;
    stream.set_nodelay(true)?;
    stream.set_write_timeout(Some(WRITE_PATIENCE))?;
    Ok(stream)
}

fn serve(shared: &Arc<Shared>, client: TcpStream, server: Option<TcpStream>) {
    client.set_nodelay(true).ok();
    client.set_write_timeout(Some(WRITE_PATIENCE)).ok();
    let half_open = server.is_none();
    let (reset, swallowed) = (AtomicBool::new(false), AtomicBool::new(half_open));
    let link = Arc::new(Link {
        client,
        server,
        reset,
        swallowed,
    });
    lock(&shared.links).push(Arc::downgrade(&link));
    let mut threads = lock(&shared.threads);
    threads.retain(|thread| !thread.is_finished());
    if half_open {
        // A restore that came before the link was listed has not seen it.
        if !lock(&shared.faults).half_open {
            shared.reset(&link);
        }
        threads.push(thread::spawn(move || swallow(&link)));
        return;
    }
    for way in [Way::ToServer, Way::ToClient] {
        let (sender, chunks) = sync_channel(CHUNKS_MAX);
        let reader = link.clone();
        threads.push(thread::spawn(move || read_chunks(&reader, way, &sender)));
        let (writer, shared) = (link.clone(), shared.clone());
        threads.push(thread::spawn(move || {
            write_chunks(&shared, &writer, way, &chunks)
        }));
    }
}

fn swallow(link: &Link) {
    let mut buffer = [0; CHUNK_BYTES];
    while matches!((&link.client).read(&mut buffer), Ok(1..)) {}
}

fn read_chunks(link: &Link, way: Way, chunks: &SyncSender<Chunk>) {
    let mut buffer = vec![0; CHUNK_BYTES];
    let Some(mut source) = link.source(way) else {
        return;
    };
    while let Ok(count @ 1..) = source.read(&mut buffer) {
        let chunk = Chunk {
            read_at: wait::now(),
            bytes: buffer[..count].to_owned(),
        };
        if chunks.send(chunk).is_err() {
            return;
        }
    }
}

fn write_chunks(shared: &Shared, link: &Link, way: Way, chunks: &Receiver<Chunk>) {
    let Some(target) = link.target(way) else { return };
    let mut paced_to = wait::now();
    for chunk in chunks {
        match write_chunk(shared, link, way, &chunk, paced_to) {
            Some(next) => paced_to = next,
            // The target is gone, and its partner must not wait for it.
            None => return shared.reset(link),
        }
    }
    // The source ended. The end of a stream travels under the same faults as its bytes.
    let Some(faults) = shared.wait_turn(
        link,
        way,
        Timing {
            read_at: wait::now(),
            paced_to,
        },
    ) else {
        return;
    };
    if faults.half_open {
        link.swallowed.store(true, Ordering::SeqCst);
    } else {
        target.shutdown(Shutdown::Write).ok();
    }
}

/// Writes a chunk in pieces as the faults allow and returns when the throttle
/// lets the next one pass; `None` when the connection is over.
fn write_chunk(shared: &Shared, link: &Link, way: Way, chunk: &Chunk, paced_to: Instant) -> Option<Instant> {
    let mut target = link.target(way)?;
    let mut rest = chunk.bytes.as_slice();
    let mut timing = Timing {
        read_at: chunk.read_at,
        paced_to,
    };
    while !rest.is_empty() {
        let faults = shared.wait_turn(link, way, timing)?;
        if faults.half_open {
            link.swallowed.store(true, Ordering::SeqCst);
            break;
        }
        let piece = faults
            .bytes_per_s
            .map_or(u64::MAX, |rate| (rate / PIECES_PER_S).max(1));
        let piece = usize::try_from(piece).unwrap_or(usize::MAX).min(rest.len());
        let written = match target.write(&rest[..piece]) {
            Ok(written) => written,
            Err(error) if matches!(error.kind(), io::ErrorKind::WouldBlock | io::ErrorKind::TimedOut) => 0,
            Err(_) => return None,
        };
        rest = &rest[written..];
        if let Some(rate) = faults.bytes_per_s {
            timing.paced_to = wait::now() + Duration::from_secs_f64(written as f64 / rate as f64);
        }
    }
    Some(timing.paced_to)
}

impl Link {
    fn source(&self, way: Way) -> Option<&TcpStream> {
        match way {
            Way::ToServer => Some(&self.client),
            Way::ToClient => self.server.as_ref(),
        }
    }

    fn target(&self, way: Way) -> Option<&TcpStream> {
        match way {
            Way::ToServer => self.server.as_ref(),
            Way::ToClient => Some(&self.client),
        }
    }
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(|poisoned| poisoned.into_inner())
}
