//! Receives the accesses of many servers and writes them together.
//!
//! The collector speaks just enough RESP for a Redis client to reach it: `AUTH`, `PING`, and `ROOM.NOTE tag
//! read_at_ms written_at_ms ...` with 0 for an unknown time. The reply is the number of tags. It comes once
//! the accesses are merged with those of others, so a collector that cannot keep up slows its senders down.
//! A collector that is full replies with an error and takes nothing of that request.

use std::io;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use nagaya_config::Secret;
use nagaya_resp::{Args, Limits, Out, Parsed, Proto, RequestParser, parse_i64};
use nagaya_tiering::cold::Access;
use subtle::ConstantTimeEq;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::Semaphore;
use tokio::task::JoinSet;

use super::access_log::AccessLog;
use super::wire::NOTE;

const READ_BYTES: usize = 64 * 1024;
/// How long a sender may be silent. Senders deliver every few seconds and can connect again.
const SILENCE_MAX: Duration = Duration::from_secs(300);
/// The pause after a failed accept. Mostly the process is out of file descriptors, and trying at once would
/// only burn CPU.
const ACCEPT_PAUSE: Duration = Duration::from_millis(100);
const LIMITS: Limits = Limits {
    bulk_bytes_max: 1 << 20,
    args_max: 64 << 10,
    inline_bytes_max: 1 << 10,
    query_bytes_max: 16 << 20,
};

/// The address of a collector and its limits.
#[derive(Clone, Debug)]
pub struct CollectorConfig {
    pub listen: SocketAddr,
    /// The password of senders, if they need one.
    pub password: Option<Secret>,
    /// Most senders at a time; further ones wait to be accepted.
    pub senders_max: usize,
}

/// A collector that is bound and does not serve yet.
pub struct Collector {
    listener: TcpListener,
    config: CollectorConfig,
    log: Arc<AccessLog>,
}

impl Collector {
    pub async fn bind(config: CollectorConfig, log: Arc<AccessLog>) -> io::Result<Collector> {
        let listener = TcpListener::bind(config.listen).await?;
        Ok(Collector {
            listener,
            config,
            log,
        })
    }

    pub fn address(&self) -> io::Result<SocketAddr> {
        self.listener.local_addr()
    }

    /// Serves until `stop` ends, then closes every connection: a sender whose batch was not acknowledged
    /// sends it again elsewhere or later.
    pub async fn run(self, stop: impl Future<Output = ()>) {
        let places = Arc::new(Semaphore::new(self.config.senders_max.max(1)));
        let mut senders = JoinSet::new();
        tokio::pin!(stop);
        loop {
            let accept = async {
                let place = places.clone().acquire_owned().await;
                (self.listener.accept().await, place)
            };
            let (accepted, place) = tokio::select! {
                () = &mut stop => break,
                accepted = accept => accepted,
                Some(_) = senders.join_next() => continue,
            };
            match accepted {
                Ok((stream, _)) => {
                    let session = Session {
                        log: self.log.clone(),
                        is_known: self.config.password.is_none(),
                        password: self.config.password.clone(),
                    };
                    senders.spawn(async move {
                        let ended = session.serve(stream).await;
                        drop(place);
                        if let Err(error) = ended {
                            tracing::debug!(%error, "a sender's connection ended");
                        }
                    });
                }
                Err(error) => {
                    tracing::warn!(%error, "a sender could not be accepted");
                    tokio::time::sleep(ACCEPT_PAUSE).await;
                }
            }
        }
        senders.shutdown().await;
    }
}

struct Session {
    log: Arc<AccessLog>,
    password: Option<Secret>,
    is_known: bool,
}

impl Session {
    async fn serve(mut self, mut stream: TcpStream) -> io::Result<()> {
        stream.set_nodelay(true)?;
        let mut parser = RequestParser::default();
        let mut buffer = Vec::new();
        let mut out = Out::new(Proto::Resp2);
        loop {
            buffer.reserve(READ_BYTES);
            let read = tokio::time::timeout(SILENCE_MAX, stream.read_buf(&mut buffer)).await;
            if read.map_err(|_| io::ErrorKind::TimedOut)?? == 0 {
                return Ok(());
            }
            let goes_on = self.answer_all(&mut parser, &mut buffer, &mut out);
            stream.write_all(&out.buf).await?;
            out.truncate(0_usize);
            if !goes_on {
                return Ok(());
            }
        }
    }

    /// Answers the complete requests in the buffer; returns whether the connection stays open.
    fn answer_all(&mut self, parser: &mut RequestParser, buffer: &mut Vec<u8>, out: &mut Out) -> bool {
        let mut used = 0;
        let goes_on = loop {
            let rest = &buffer[used..];
            let limits = if self.is_known {
                LIMITS
            } else {
                Limits::unauthenticated()
            };
            match parser.parse(rest, &limits) {
                Ok(Parsed::Incomplete) => break true,
                Ok(Parsed::Empty { consumed }) => used += consumed,
                Ok(Parsed::Complete { consumed }) => {
                    self.answer(parser.args(rest), out);
                    used += consumed;
                }
                Err(error) => {
                    out.error(&format!("ERR {error}"));
                    break false;
                }
            }
        };
        buffer.drain(..used);
        goes_on
    }

    fn answer(&mut self, args: Args<'_>, out: &mut Out) {
        let name = args.get(0).unwrap_or_default().to_ascii_uppercase();
        match name.as_slice() {
            b"AUTH" => self.log_in(args, out),
            b"PING" if self.is_known => out.simple("PONG"),
            // Clients of Redis send these two when they connect.
            b"ROLE" if self.is_known => {
                out.array(3);
                out.bulk_str("master");
                out.int(0);
                out.array(0);
            }
            b"CLIENT" if self.is_known => out.ok(),
            name if !self.is_known && name != b"AUTH" => out.error("NOAUTH Authentication required."),
            name if name == NOTE.as_bytes() => self.note(args.skip(1), out),
            _ => out.error("ERR a collector only knows AUTH, PING and ROOM.NOTE"),
        }
    }

    fn log_in(&mut self, args: Args<'_>, out: &mut Out) {
        let given = args.get(args.len().saturating_sub(1)).unwrap_or_default();
        let Some(password) = &self.password else {
            return out.error("ERR AUTH called without any password configured");
        };
        if args.len() > 1 && bool::from(given.ct_eq(password.reveal().as_bytes())) {
            self.is_known = true;
            return out.ok();
        }
        out.error("WRONGPASS invalid username-password pair or user is disabled.");
    }

    fn note(&self, args: Args<'_>, out: &mut Out) {
        let words: Vec<&[u8]> = args.iter().collect();
        let Some(accesses) = words.chunks(3).map(access).collect::<Option<Vec<Access>>>() else {
            return out.error("ERR ROOM.NOTE takes a tag and two times for each");
        };
        let count = accesses.len();
        if self.log.take(accesses) {
            out.int(count as i64);
        } else {
            out.error("BUSY the collector is full, try again later");
        }
    }
}

fn access(words: &[&[u8]]) -> Option<Access> {
    let [tag, read_at_ms, written_at_ms] = words else {
        return None;
    };
    let time = |text| parse_i64(text).map(|at_ms| Some(at_ms).filter(|at_ms| *at_ms > 0));
    Some(Access {
        tag: tag.to_vec(),
        read_at_ms: time(read_at_ms)?,
        written_at_ms: time(written_at_ms)?,
    })
}
