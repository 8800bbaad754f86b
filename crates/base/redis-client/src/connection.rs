//! One socket, shared by many callers.
//!
//! A task owns the socket. Requests are written in the order of the calls, replies arrive in that
//! order, and many may be in flight. It never reconnects. A call that is not answered in time ends the
//! connection for all callers, because its server is frozen or gone.

use std::fmt;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, OnceLock};
use std::time::Duration;

use nagaya_resp::{Frame, encode_request};
use tokio::io::AsyncWriteExt;
use tokio::sync::{mpsc, oneshot};
use tokio::task::AbortHandle;

use crate::error::Error;
use crate::reply;
use crate::wire::{FrameReader, ReadError, Wire, refused};

/// Requests that may wait to be written; further callers wait.
const REQUESTS_QUEUED_MAX: usize = 1024;
/// Requests that may wait for their replies.
const REPLIES_AWAITED_MAX: usize = 16 * 1024;
/// Requests combined into one write.
const BATCH_BYTES_MAX: usize = 64 * 1024;

static NEXT_ID: AtomicU64 = AtomicU64::new(1);

/// Identifies one run of one server. It changes with every restart, promotion and replication from
/// another server, so data that was stored under the same run has not been lost since.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Run {
    pub run_id: String,
    pub replication_id: String,
}

impl fmt::Display for Run {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:{}", self.run_id, self.replication_id)
    }
}

/// A handle on one socket. Clones share it; the socket closes when the last is dropped.
#[derive(Clone, Debug)]
pub struct Connection {
    shared: Arc<Shared>,
}

#[derive(Debug)]
struct Shared {
    id: u64,
    address: String,
    requests: mpsc::Sender<Request>,
    ended: Arc<OnceLock<Ended>>,
    task: Mutex<Option<AbortHandle>>,
    run: OnceLock<Run>,
    reply_limit: Duration,
}

#[derive(Clone, Debug)]
enum Ended {
    Closed(String),
    NotAReply(nagaya_resp::FrameError),
}

struct Request {
    bytes: Vec<u8>,
    awaited: Awaited,
}

struct Awaited {
    replies: usize,
    got: Vec<Frame>,
    to: oneshot::Sender<Vec<Frame>>,
}

impl Connection {
    /// Takes over a socket whose login is done. Must run inside a tokio runtime.
    pub(crate) fn new(wire: Wire, reply_limit: Duration) -> Connection {
        let (requests, queue) = mpsc::channel(REQUESTS_QUEUED_MAX);
        let ended = Arc::new(OnceLock::new());
        let address = wire.address.clone();
        let task = tokio::spawn(drive(wire, queue, ended.clone()));
        Connection {
            shared: Arc::new(Shared {
                id: NEXT_ID.fetch_add(1, Ordering::Relaxed),
                address,
                requests,
                ended,
                task: Mutex::new(Some(task.abort_handle())),
                run: OnceLock::new(),
                reply_limit,
            }),
        }
    }

    /// Returns a number that no other connection of this process has or had.
    pub fn id(&self) -> u64 {
        self.shared.id
    }

    pub fn address(&self) -> &str {
        &self.shared.address
    }

    /// Returns how long an ordinary call may take.
    pub fn reply_limit(&self) -> Duration {
        self.shared.reply_limit
    }

    /// Returns whether calls can still be made; true does not promise that the next one succeeds.
    pub fn is_open(&self) -> bool {
        // A task can also end with the runtime it ran on.
        self.shared.ended.get().is_none() && !self.shared.requests.is_closed()
    }

    /// Ends the connection for all its users.
    pub fn close(&self, reason: &str) {
        // The first reason stays.
        let _ = self.shared.ended.set(Ended::Closed(reason.to_owned()));
        let task = self.shared.task.lock().expect("nothing panics here").take();
        if let Some(task) = task {
            task.abort();
        }
    }

    /// Runs one command. An error reply is an error.
    ///
    /// Cancel safe for the connection; whether a dropped call has run is unknown.
    pub async fn call<A: AsRef<[u8]>>(&self, args: &[A]) -> Result<Frame, Error> {
        self.call_within(args, self.shared.reply_limit).await
    }

    /// As [`call`](Connection::call), for commands that the server answers late on purpose.
    pub async fn call_within<A: AsRef<[u8]>>(&self, args: &[A], limit: Duration) -> Result<Frame, Error> {
        let args: Vec<&[u8]> = args.iter().map(AsRef::as_ref).collect();
        let replies = self.pipeline_within(&[&args], limit).await?;
        let reply = replies.into_iter().next().expect("one request has one reply");
        self.checked(&args, reply)
    }

    /// Sends several commands with one write and returns all replies, error replies as frames.
    pub async fn pipeline_within(&self, commands: &[&[&[u8]]], limit: Duration) -> Result<Vec<Frame>, Error> {
        let mut bytes = Vec::new();
        for args in commands {
            encode_request(args, &mut bytes);
        }
        if commands.is_empty() {
            return Ok(Vec::new());
        }
        let (to, from) = oneshot::channel();
        let awaited = Awaited {
            replies: commands.len(),
            got: Vec::with_capacity(commands.len()),
            to,
        };
        let exchange = async {
            let request = Request { bytes, awaited };
            self.shared.requests.send(request).await.ok()?;
            from.await.ok()
        };
        match tokio::time::timeout(limit, exchange).await {
            Ok(Some(replies)) => Ok(replies),
            Ok(None) => Err(self.ended_error()),
            Err(_) => {
                self.close("a reply did not come in time");
                Err(Error::TimedOut {
                    address: self.shared.address.clone(),
                    what: "a command",
                    limit,
                })
            }
        }
    }

    /// Returns the run of the server behind this connection, asked once.
    pub async fn run(&self) -> Result<Run, Error> {
        if let Some(run) = self.shared.run.get() {
            return Ok(run.clone());
        }
        let commands: [&[&[u8]]; 2] = [&[b"INFO", b"server"], &[b"INFO", b"replication"]];
        let replies = self.pipeline_within(&commands, self.shared.reply_limit).await?;
        let mut texts = Vec::with_capacity(replies.len());
        for (args, reply) in commands.iter().zip(replies) {
            let reply = self.checked(args, reply)?;
            texts.push(reply::text(&reply).ok_or_else(|| reply::unexpected("INFO", &reply))?);
        }
        let field = |text: &str, name| reply::info_field(text, name).unwrap_or_default().to_owned();
        let run = Run {
            run_id: field(&texts[0], "run_id"),
            replication_id: field(&texts[1], "master_replid"),
        };
        Ok(self.shared.run.get_or_init(|| run).clone())
    }

    /// Turns an error reply into an error, and ends the connection if the reply says that this is
    /// not the server to talk to.
    pub(crate) fn checked(&self, args: &[&[u8]], frame: Frame) -> Result<Frame, Error> {
        let (Frame::Error(text) | Frame::BlobError(text)) = &frame else {
            return Ok(frame);
        };
        let error = refused(&self.shared.address, args, text);
        let code = error.server_error().map(|error| error.code().to_owned());
        if matches!(code.as_deref(), Some("READONLY" | "MASTERDOWN" | "NOAUTH")) {
            self.close(&String::from_utf8_lossy(text));
        }
        Err(error)
    }

    /// Returns the error of a frame from a pipeline, if it is one.
    pub fn check(&self, args: &[&[u8]], frame: &Frame) -> Result<(), Error> {
        match frame {
            Frame::Error(_) | Frame::BlobError(_) => self.checked(args, frame.clone()).map(drop),
            _ => Ok(()),
        }
    }

    fn ended_error(&self) -> Error {
        let address = self.shared.address.clone();
        match self.shared.ended.get().cloned() {
            Some(Ended::NotAReply(source)) => Error::Protocol { address, source },
            Some(Ended::Closed(reason)) => Error::Closed { address, reason },
            None => Error::Closed {
                address,
                reason: "its task is gone".into(),
            },
        }
    }
}

impl Drop for Shared {
    fn drop(&mut self) {
        if let Some(task) = self.task.lock().expect("nothing panics here").take() {
            task.abort();
        }
    }
}

/// Owns the socket until either direction fails.
async fn drive(wire: Wire, queue: mpsc::Receiver<Request>, ended: Arc<OnceLock<Ended>>) {
    let Wire {
        reader, mut writer, ..
    } = wire;
    let (awaited, replies) = mpsc::channel(REPLIES_AWAITED_MAX);
    let reason = tokio::select! {
        reason = write(&mut writer, queue, awaited) => reason,
        reason = read(reader, replies) => reason,
    };
    // Set before the waiting callers are woken by the drop of their senders.
    let _ = ended.set(reason);
}

async fn write(
    writer: &mut (impl AsyncWriteExt + Unpin),
    mut queue: mpsc::Receiver<Request>,
    awaited: mpsc::Sender<Awaited>,
) -> Ended {
    let mut bytes = Vec::new();
    while let Some(request) = queue.recv().await {
        let mut next = Some(request);
        bytes.clear();
        while let Some(request) = next {
            bytes.extend_from_slice(&request.bytes);
            if awaited.send(request.awaited).await.is_err() {
                return Ended::Closed("its reader is gone".into());
            }
            next = if bytes.len() < BATCH_BYTES_MAX {
                queue.try_recv().ok()
            } else {
                None
            };
        }
        if let Err(error) = writer.write_all(&bytes).await {
            return Ended::Closed(error.to_string());
        }
    }
    Ended::Closed("nobody uses it any more".into())
}

async fn read(mut reader: FrameReader, mut replies: mpsc::Receiver<Awaited>) -> Ended {
    let mut current: Option<Awaited> = None;
    loop {
        let frame = match reader.next().await {
            Ok(Frame::Push(_) | Frame::Attribute(_)) => continue,
            Ok(frame) => frame,
            Err(ReadError::Frame(error)) => return Ended::NotAReply(error),
            Err(error) => return Ended::Closed(error.to_string()),
        };
        // The slot was queued before its request was written, so it is there.
        let Some(mut awaited) = current.take().or_else(|| replies.try_recv().ok()) else {
            return Ended::Closed("the server sent a reply that nobody asked for".into());
        };
        awaited.got.push(frame);
        if awaited.got.len() < awaited.replies {
            current = Some(awaited);
        } else {
            // The caller may have given up; its reply is then of no use.
            let _ = awaited.to.send(awaited.got);
        }
    }
}
