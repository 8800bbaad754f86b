//! One pipelined connection to a memcached server: many exchanges are in flight at once and answered in
//! order. A task owns the socket. An exchange without a reply in time ends the connection for all.

use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use bytes::{Buf, Bytes, BytesMut};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio::net::tcp::{OwnedReadHalf, OwnedWriteHalf};
use tokio::sync::{mpsc, oneshot};
use tokio::task::AbortHandle;
use tokio::time::timeout;

/// Exchanges that may wait to be written, and to be answered.
const QUEUED_MAX: usize = 1024;
const AWAITED_MAX: usize = 16 * 1024;
/// Longest line that a server may send, in bytes; keys have at most 250.
const LINE_BYTES_MAX: usize = 4096;
/// Longest value that is read, in bytes. Servers limit values to a megabyte by default.
const VALUE_BYTES_MAX: usize = 1 << 30;
const BATCH_BYTES_MAX: usize = 64 * 1024;

/// The reply to one command.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Reply {
    /// One line: `STORED`, `DELETED`, an error.
    Line(String),
    /// The values that a `get` found.
    Values(Vec<(String, Bytes)>),
}

#[derive(Clone, Copy, Debug)]
pub(super) enum Expect {
    Line,
    Values,
}

/// Bytes to send, and the expected replies.
struct Exchange {
    bytes: Vec<u8>,
    awaited: Awaited,
}

struct Awaited {
    expected: Vec<Expect>,
    got: Vec<Reply>,
    to: oneshot::Sender<Vec<Reply>>,
}

/// A handle on one socket, which closes when the last handle is dropped.
#[derive(Clone)]
pub(super) struct Connection {
    shared: Arc<Shared>,
}

struct Shared {
    exchanges: mpsc::Sender<Exchange>,
    closed: AtomicBool,
    task: AbortHandle,
}

impl Connection {
    pub(super) async fn open(address: &str, limit: Duration) -> io::Result<Connection> {
        let stream = match timeout(limit, TcpStream::connect(address)).await {
            Ok(stream) => stream?,
            Err(_) => return Err(io::ErrorKind::TimedOut.into()),
        };
        stream.set_nodelay(true)?;
        let (exchanges, queue) = mpsc::channel(QUEUED_MAX);
        let task = tokio::spawn(drive(stream, queue)).abort_handle();
        Ok(Connection {
            shared: Arc::new(Shared {
                exchanges,
                closed: AtomicBool::new(false),
                task,
            }),
        })
    }

    pub(super) fn is_open(&self) -> bool {
        !self.shared.closed.load(Ordering::Relaxed) && !self.shared.exchanges.is_closed()
    }

    /// Sends commands in one write and returns their replies. After an error it is unknown whether they were
    /// executed.
    pub(super) async fn exchange(
        &self,
        bytes: Vec<u8>,
        expected: Vec<Expect>,
        limit: Duration,
    ) -> Result<Vec<Reply>, &'static str> {
        let (to, from) = oneshot::channel();
        let awaited = Awaited {
            got: Vec::with_capacity(expected.len()),
            expected,
            to,
        };
        let exchange = async {
            self.shared
                .exchanges
                .send(Exchange { bytes, awaited })
                .await
                .ok()?;
            from.await.ok()
        };
        match timeout(limit, exchange).await {
            Ok(Some(replies)) => Ok(replies),
            Ok(None) => Err("the connection ended"),
            Err(_) => {
                self.close();
                Err("it did not answer in time")
            }
        }
    }

    pub(super) fn close(&self) {
        self.shared.closed.store(true, Ordering::Relaxed);
        self.shared.task.abort();
    }
}

impl Drop for Shared {
    fn drop(&mut self) {
        self.task.abort();
    }
}

/// Owns the socket until either direction fails. Callers notice by their dropped senders.
async fn drive(stream: TcpStream, queue: mpsc::Receiver<Exchange>) {
    let (reader, writer) = stream.into_split();
    let (awaited, answers) = mpsc::channel(AWAITED_MAX);
    tokio::select! {
        () = write(writer, queue, awaited) => (),
        () = read(reader, answers) => (),
    }
}

async fn write(
    mut writer: OwnedWriteHalf,
    mut queue: mpsc::Receiver<Exchange>,
    awaited: mpsc::Sender<Awaited>,
) {
    let mut bytes = Vec::new();
    while let Some(exchange) = queue.recv().await {
        bytes.clear();
        let mut next = Some(exchange);
        while let Some(exchange) = next {
            bytes.extend_from_slice(&exchange.bytes);
            if awaited.send(exchange.awaited).await.is_err() {
                return;
            }
            next = if bytes.len() < BATCH_BYTES_MAX {
                queue.try_recv().ok()
            } else {
                None
            };
        }
        if writer.write_all(&bytes).await.is_err() {
            return;
        }
    }
}

async fn read(mut reader: OwnedReadHalf, mut answers: mpsc::Receiver<Awaited>) {
    let mut buffer = BytesMut::new();
    let mut current: Option<Awaited> = None;
    loop {
        // The exchange was queued before its bytes were written, so a reply always finds it.
        if current.is_none() {
            current = answers.try_recv().ok();
        }
        let wanted = current
            .as_ref()
            .and_then(|awaited| awaited.expected.get(awaited.got.len()));
        let parsed = wanted.map(|expect| parse(&mut buffer, *expect));
        match parsed {
            Some(Ok(Some(reply))) => {
                let mut awaited = current.take().expect("it asked for this reply");
                awaited.got.push(reply);
                if awaited.got.len() < awaited.expected.len() {
                    current = Some(awaited)
                } else {
                    // The caller may have given up.
                    drop(awaited.to.send(awaited.got))
                }
            }
            Some(Err(())) => return,
            Some(Ok(None)) | None => match reader.read_buf(&mut buffer).await {
                Ok(0) | Err(_) => return,
                Ok(_) => (),
            },
        }
    }
}

/// Takes one complete reply from the buffer, if it is there. An error means that both sides are out of sync.
fn parse(buffer: &mut BytesMut, expect: Expect) -> Result<Option<Reply>, ()> {
    match expect {
        Expect::Line => {
            let Some(line) = line_at(buffer, 0)? else {
                return Ok(None);
            };
            let text = String::from_utf8_lossy(&buffer[..line]).into_owned();
            buffer.advance(line + 2);
            // After these, the server may parse our next bytes as commands, or we its replies as something
            // else.
            if text == "ERROR" || text.starts_with("CLIENT_ERROR") {
                return Err(());
            }
            Ok(Some(Reply::Line(text)))
        }
        Expect::Values => parse_values(buffer),
    }
}

fn parse_values(buffer: &mut BytesMut) -> Result<Option<Reply>, ()> {
    let mut at = 0;
    let mut found = Vec::new();
    loop {
        let Some(line) = line_at(buffer, at)? else {
            return Ok(None);
        };
        let text = std::str::from_utf8(&buffer[at..at + line]).map_err(drop)?;
        let start = at + line + 2;
        if text == "END" {
            break at = start;
        }
        let mut words = text.strip_prefix("VALUE ").ok_or(())?.split(' ');
        let key = words.next().ok_or(())?.to_owned();
        let length: usize = words.nth(1).and_then(|word| word.parse().ok()).ok_or(())?;
        if length > VALUE_BYTES_MAX {
            return Err(());
        }
        if buffer.len() < start + length + 2 {
            return Ok(None);
        }
        found.push((key, start..start + length));
        at = start + length + 2;
    }
    let whole = buffer.split_to(at).freeze();
    let values = found.into_iter().map(|(key, place)| (key, whole.slice(place)));
    Ok(Some(Reply::Values(values.collect())))
}

/// Returns the length of the line that starts at `at`, without its terminator.
fn line_at(buffer: &[u8], at: usize) -> Result<Option<usize>, ()> {
    let rest = &buffer[at..];
    let seen = &rest[..rest.len().min(LINE_BYTES_MAX)];
    match seen.windows(2).position(|pair| pair == b"\r\n") {
        Some(line) => Ok(Some(line)),
        None if seen.len() == LINE_BYTES_MAX => Err(()),
        None => Ok(None),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn values(text: &str) -> Result<Option<Reply>, ()> {
        parse(&mut BytesMut::from(text), Expect::Values)
    }

    #[test]
    fn answers_are_taken_whole_or_not_at_all() {
        let mut buffer = BytesMut::from("STORED\r\nSERVER_ERROR out of memory\r\nDEL");
        let line = |text: &str| Ok(Some(Reply::Line(text.to_owned())));
        assert_eq!(parse(&mut buffer, Expect::Line), line("STORED"));
        assert_eq!(
            parse(&mut buffer, Expect::Line),
            line("SERVER_ERROR out of memory")
        );
        assert_eq!(parse(&mut buffer, Expect::Line), Ok(None));
        assert_eq!(&buffer[..], b"DEL");
        let text = "VALUE k 0 4\r\na\r\nb\r\nVALUE j 0 0\r\n\r\nEND\r\n";
        let expected = vec![("k".into(), Bytes::from("a\r\nb")), ("j".into(), Bytes::new())];
        assert_eq!(values(text), Ok(Some(Reply::Values(expected))));
        for end in 0..text.len() {
            assert_eq!(values(&text[..end]), Ok(None), "{end}");
        }
    }

    #[test]
    fn what_is_no_answer_ends_the_connection() {
        assert!(values("STORED\r\n").is_err());
        assert!(values("VALUE k 0 99999999999\r\n").is_err());
        assert!(values(&"x".repeat(5000)).is_err());
        assert!(parse(&mut BytesMut::from("ERROR\r\n"), Expect::Line).is_err());
    }
}
