//! An endpoint that behaves exactly as scripted and records its requests.

use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use parking_lot::Mutex;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};
use tokio::time::sleep;

/// What it does with every request.
#[derive(Clone, Debug)]
pub(crate) enum Behaviour {
    /// Answers 200 with this body, and keeps the connection.
    Say(String),
    /// As `Say`, after a delay.
    SayAfter(Duration, String),
    /// Sends these bytes and closes.
    Send(Vec<u8>),
    /// Reads and never answers.
    Stall,
    /// Sends the bytes and then nothing, with the connection open.
    SendAndStall(Vec<u8>),
    /// Sends the bytes one by one, a second apart.
    Trickle(Vec<u8>),
    /// Sends the bytes and resets the connection.
    SendAndReset(Vec<u8>),
    /// Sends the head and then zeros forever.
    Endless(Vec<u8>),
    /// Answers with the head and body that it was sent.
    Echo,
}

/// One request as received.
#[derive(Clone, Debug)]
pub(crate) struct Seen {
    pub(crate) line: String,
    head: String,
    pub(crate) body: Vec<u8>,
}

impl Seen {
    pub(crate) fn header(&self, name: &str) -> Option<String> {
        let mut lines = self.head.lines().skip(1).filter_map(|line| line.split_once(':'));
        let found = lines.find(|(found, _)| found.eq_ignore_ascii_case(name));
        found.map(|(_, value)| value.trim().to_owned())
    }
}

/// The endpoint; it ends with the test's runtime.
#[derive(Clone)]
pub(crate) struct Scripted {
    address: SocketAddr,
    behaviour: Arc<Mutex<Behaviour>>,
    seen: Arc<Mutex<Vec<Seen>>>,
    connections: Arc<AtomicUsize>,
    open: Arc<AtomicUsize>,
}

impl Scripted {
    pub(crate) async fn start(behaviour: Behaviour) -> Scripted {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let scripted = Scripted {
            address: listener.local_addr().unwrap(),
            behaviour: Arc::new(Mutex::new(behaviour)),
            seen: Arc::default(),
            connections: Arc::default(),
            open: Arc::default(),
        };
        let server = scripted.clone();
        tokio::spawn(async move {
            while let Ok((stream, _)) = listener.accept().await {
                let server = server.clone();
                server.connections.fetch_add(1, Ordering::Relaxed);
                server.open.fetch_add(1, Ordering::Relaxed);
                tokio::spawn(async move {
                    // However a connection ends here, the test observes the other side.
                    let _ = server.serve(stream).await;
                    server.open.fetch_sub(1, Ordering::Relaxed);
                });
            }
        });
        scripted
    }

    pub(crate) async fn saying(body: &str) -> Scripted {
        Scripted::start(Behaviour::Say(body.to_owned())).await
    }

    pub(crate) fn url(&self) -> String {
        format!("http://{}", self.address)
    }

    pub(crate) fn does(&self, behaviour: Behaviour) {
        *self.behaviour.lock() = behaviour;
    }

    pub(crate) fn seen(&self) -> Vec<Seen> {
        self.seen.lock().clone()
    }

    /// Connections so far, and those still open.
    pub(crate) fn connections(&self) -> (usize, usize) {
        (
            self.connections.load(Ordering::Relaxed),
            self.open.load(Ordering::Relaxed),
        )
    }

    async fn serve(&self, mut stream: TcpStream) -> std::io::Result<()> {
        let mut buffer = Vec::new();
        while let Some(seen) = read_request(&mut stream, &mut buffer).await? {
            self.seen.lock().push(seen.clone());
            let behaviour = self.behaviour.lock().clone();
            match behaviour {
                Behaviour::Say(body) => stream.write_all(&answer(200, &body)).await?,
                Behaviour::SayAfter(wait, body) => {
                    sleep(wait).await;
                    stream.write_all(&answer(200, &body)).await?;
                }
                Behaviour::Echo => {
                    let text = format!("{}\n{}", seen.head, String::from_utf8_lossy(&seen.body));
                    stream.write_all(&answer(200, &text)).await?;
                }
                Behaviour::Send(bytes) => {
                    stream.write_all(&bytes).await?;
                    return Ok(());
                }
                Behaviour::Stall => stall(&mut stream).await?,
                Behaviour::SendAndStall(bytes) => {
                    stream.write_all(&bytes).await?;
                    stall(&mut stream).await?;
                }
                Behaviour::Trickle(bytes) => {
                    for byte in bytes {
                        stream.write_all(&[byte]).await?;
                        sleep(Duration::from_secs(1)).await;
                    }
                }
                Behaviour::SendAndReset(bytes) => {
                    stream.write_all(&bytes).await?;
                    sleep(Duration::from_millis(20)).await;
                    stream.set_zero_linger()?;
                    return Ok(());
                }
                Behaviour::Endless(head) => {
                    stream.write_all(&head).await?;
                    let zeros = vec![0; 64 * 1024];
                    loop {
                        stream.write_all(&zeros).await?;
                    }
                }
            }
        }
        Ok(())
    }
}

/// Waits until the other side closes.
async fn stall(stream: &mut TcpStream) -> std::io::Result<()> {
    let mut rest = [0; 64];
    while stream.read(&mut rest).await? > 0 {}
    Ok(())
}

/// A whole answer.
pub(crate) fn answer(status: u16, body: &str) -> Vec<u8> {
    answer_with(status, "", body.as_bytes())
}

/// A whole answer with more headers, each ended by a line break.
pub(crate) fn answer_with(status: u16, headers: &str, body: &[u8]) -> Vec<u8> {
    let length = body.len();
    let mut bytes = format!("HTTP/1.1 {status} X\r\ncontent-length: {length}\r\n{headers}\r\n").into_bytes();
    bytes.extend_from_slice(body);
    bytes
}

async fn read_request(stream: &mut TcpStream, buffer: &mut Vec<u8>) -> std::io::Result<Option<Seen>> {
    loop {
        if let Some(seen) = parse(buffer) {
            return Ok(Some(seen));
        }
        if stream.read_buf(buffer).await? == 0 {
            return Ok(None);
        }
    }
}

fn parse(buffer: &mut Vec<u8>) -> Option<Seen> {
    let end = buffer.windows(4).position(|part| part == b"\r\n\r\n")?;
    let head = String::from_utf8_lossy(&buffer[..end]).into_owned();
    let mut seen = Seen {
        line: head.lines().next().unwrap_or_default().to_owned(),
        head,
        body: Vec::new(),
    };
    let length = seen
        .header("content-length")
        .map_or(0, |length| length.parse().unwrap());
    let body = buffer.get(end + 4..end + 4 + length)?.to_vec();
    buffer.drain(..end + 4 + length);
    seen.body = body;
    Some(seen)
}
