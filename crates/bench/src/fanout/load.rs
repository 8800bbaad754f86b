//! Requests at a fixed rate over many connections, whatever the other side does.
//!
//! Each connection has its own times to send, evenly spread. One that is held up by a slow reply sends the
//! overdue request at once and counts its wait from when it was due: so a stall is not hidden by the
//! requests that it kept from being sent.

use std::net::SocketAddr;
use std::time::Duration;

use anyhow::{Context, bail};
use nagaya_clock::{Clock, SystemClock};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio::task::JoinSet;
use tokio::time::{Instant, sleep_until, timeout};

/// Maximum number of ids kept for reading back what was stored.
const IDS_MAX: usize = 4000;
const REPLY_LIMIT: Duration = Duration::from_secs(10);

/// The result of a load.
#[derive(Default)]
pub(super) struct Loaded {
    /// Replies 200, and all others.
    pub(super) taken: u64,
    pub(super) refused: u64,
    /// The client's waits, sorted, in microseconds.
    pub(super) waits_us: Vec<u32>,
    /// Some of the requests' ids.
    pub(super) ids: Vec<String>,
    /// How long it took; longer than planned if the other side could not keep up.
    pub(super) seconds: f64,
}

impl Loaded {
    /// The wait below which this share of the requests stayed, in milliseconds.
    pub(super) fn wait_ms(&self, share: f64) -> f64 {
        let at = ((self.waits_us.len() as f64 * share) as usize).min(self.waits_us.len().saturating_sub(1));
        self.waits_us
            .get(at)
            .map_or(f64::NAN, |us| f64::from(*us) / 1000.0)
    }

    pub(super) fn per_second(&self) -> f64 {
        self.taken as f64 / self.seconds
    }
}

/// Sends `rate` requests a second for `seconds`.
pub(super) async fn run(
    address: SocketAddr,
    rate: f64,
    seconds: f64,
    clients: usize,
) -> anyhow::Result<Loaded> {
    let total = (rate * seconds).ceil() as usize;
    let keep_every = total.div_ceil(IDS_MAX).max(1);
    let start = Instant::now() + Duration::from_millis(50);
    let began = SystemClock.now();
    let mut tasks = JoinSet::new();
    for client in 0..clients {
        tasks.spawn(async move {
            let mut connection = Client::open(address).await?;
            let mut loaded = Loaded::default();
            for number in (client..total).step_by(clients) {
                let due = start + Duration::from_secs_f64(number as f64 / rate);
                let on_time = Instant::now() <= due;
                if on_time {
                    sleep_until(due).await;
                }
                let from = if on_time { Instant::now() } else { due };
                let taken = connection.ask(number % keep_every == 0, &mut loaded.ids).await?;
                loaded
                    .waits_us
                    .push(u32::try_from(from.elapsed().as_micros()).unwrap_or(u32::MAX));
                if taken {
                    loaded.taken += 1;
                } else {
                    loaded.refused += 1;
                }
            }
            anyhow::Ok(loaded)
        });
    }
    let mut all = Loaded::default();
    while let Some(ended) = tasks.join_next().await {
        let loaded = ended.context("a client failed")??;
        all.taken += loaded.taken;
        all.refused += loaded.refused;
        all.waits_us.extend(loaded.waits_us);
        all.ids.extend(loaded.ids);
    }
    all.waits_us.sort_unstable();
    all.seconds = (SystemClock.now() - began).as_secs_f64() - 0.05;
    Ok(all)
}

/// One keep-alive connection.
pub(super) struct Client {
    stream: TcpStream,
    buffer: Vec<u8>,
    stays_open: bool,
}

impl Client {
    pub(super) async fn open(address: SocketAddr) -> anyhow::Result<Client> {
        let stream = TcpStream::connect(address).await.context("cannot connect")?;
        stream.set_nodelay(true)?;
        Ok(Client {
            stream,
            buffer: Vec::with_capacity(4096),
            stays_open: true,
        })
    }

    /// Returns whether the other side keeps the connection after its last reply.
    pub(super) fn stays_open(&self) -> bool {
        self.stays_open
    }

    /// Sends one request and reads its reply; says whether it was taken.
    pub(super) async fn ask(&mut self, keep: bool, ids: &mut Vec<String>) -> anyhow::Result<bool> {
        self.buffer.clear();
        self.stream
            .write_all(b"GET /p?q=1 HTTP/1.1\r\nhost: localhost\r\n\r\n")
            .await?;
        let whole = async {
            loop {
                if self.stream.read_buf(&mut self.buffer).await? == 0 {
                    bail!("the connection was closed");
                }
                if let Some(body) = whole_body(&self.buffer) {
                    return Ok(body);
                }
            }
        };
        let body = timeout(REPLY_LIMIT, whole).await.context("no reply came")??;
        let text = String::from_utf8_lossy(&self.buffer[body..]);
        let taken = self.buffer.starts_with(b"HTTP/1.1 200");
        let head = String::from_utf8_lossy(&self.buffer[..body]).to_ascii_lowercase();
        self.stays_open = !head.contains("\r\nconnection: close");
        if keep && taken {
            let id = text
                .split("\"request_id\":\"")
                .nth(1)
                .and_then(|rest| rest.split('"').next());
            ids.extend(id.map(str::to_owned));
        }
        Ok(taken)
    }
}

/// Where the body begins, once all of it is there.
fn whole_body(bytes: &[u8]) -> Option<usize> {
    let end = bytes.windows(4).position(|part| part == b"\r\n\r\n")? + 4;
    let head = String::from_utf8_lossy(&bytes[..end]).to_ascii_lowercase();
    let length = head.split("content-length: ").nth(1)?.split("\r\n").next()?;
    let length: usize = length.trim().parse().ok()?;
    (bytes.len() >= end + length).then_some(end)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_reply_is_whole_with_its_body() {
        let reply = b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\n{}";
        assert_eq!(whole_body(reply), Some(reply.len() - 2));
        assert_eq!(whole_body(&reply[..reply.len() - 1]), None);
    }

    #[test]
    fn shares_of_waits_are_told_in_milliseconds() {
        let loaded = Loaded {
            waits_us: (1..=100).map(|n| n * 1000).collect(),
            ..Loaded::default()
        };
        assert_eq!(loaded.wait_ms(0.5), 51.0);
        assert_eq!(loaded.wait_ms(1.0), 100.0);
    }
}
