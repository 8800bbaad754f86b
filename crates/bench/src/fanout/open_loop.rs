//! Requests that come when they come, whether earlier ones have been answered or not.
//!
//! Clients of a service do not wait for each other, so a service that is too slow gets just as many requests as a
//! quick one. The times between arrivals are those of many independent clients (exponential), from a fixed seed, so
//! that everybody is measured with the same arrivals. Each request has a connection of its own while it lasts; a client
//! whose reply does not come within its patience is lost.

use std::net::SocketAddr;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use tokio::sync::Semaphore;
use tokio::time::{Instant, sleep_until, timeout};

use super::load::Client;

/// How long a client waits for its reply.
const PATIENCE: Duration = Duration::from_secs(1);
/// Requests under way at most. An arrival beyond it finds no connection, and is lost.
pub(super) const UNDER_WAY_MAX: usize = 2000;
/// Ids kept for reading back what was stored.
const IDS_MAX: usize = 4000;
const SEED: u64 = 0x9e37_79b9_7f4a_7c15;

/// What became of all arrivals: their sum is what was offered.
#[derive(Debug, Default)]
pub(super) struct Offered {
    pub(super) taken: u64,
    pub(super) refused: u64,
    pub(super) lost: u64,
    /// The waits of those that were taken, from when they were due, sorted, in microseconds.
    pub(super) waits_us: Vec<u32>,
    /// Some of the ids of those that were taken.
    pub(super) ids: Vec<String>,
}

impl Offered {
    pub(super) fn all(&self) -> u64 {
        self.taken + self.refused + self.lost
    }

    /// The wait below which this share of the taken requests stayed, in milliseconds.
    pub(super) fn wait_ms(&self, share: f64) -> f64 {
        let at = ((self.waits_us.len() as f64 * share) as usize).min(self.waits_us.len().saturating_sub(1));
        self.waits_us
            .get(at)
            .map_or(f64::NAN, |us| f64::from(*us) / 1000.0)
    }
}

/// Returns the times of arrival within `seconds`, `rate` a second on average.
pub(super) fn arrivals(rate: f64, seconds: f64, seed: u64) -> Vec<Duration> {
    let mut state = seed.max(1);
    let mut at = 0.0;
    let mut times = Vec::with_capacity((rate * seconds) as usize + 16);
    loop {
        // xorshift64
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        let uniform = ((state >> 11) as f64 + 1.0) / (1u64 << 53) as f64;
        at -= uniform.ln() / rate;
        if at >= seconds {
            return times;
        }
        times.push(Duration::from_secs_f64(at));
    }
}

/// What the requests share.
struct Shared {
    address: SocketAddr,
    keep_every: usize,
    under_way: Arc<Semaphore>,
    idle: Mutex<Vec<Client>>,
    offered: Mutex<Offered>,
}

/// Sends requests for `seconds`, and waits for the last replies.
pub(super) async fn run(address: SocketAddr, rate: f64, seconds: f64) -> Offered {
    let times = arrivals(rate, seconds, SEED);
    let shared = Arc::new(Shared {
        address,
        keep_every: times.len().div_ceil(IDS_MAX).max(1),
        under_way: Arc::new(Semaphore::new(UNDER_WAY_MAX)),
        idle: Mutex::default(),
        offered: Mutex::default(),
    });
    let start = Instant::now();
    for (number, time) in times.into_iter().enumerate() {
        let due = start + time;
        sleep_until(due).await;
        let Ok(permit) = Arc::clone(&shared.under_way).try_acquire_owned() else {
            shared.book(|offered| offered.lost += 1);
            continue;
        };
        let shared = Arc::clone(&shared);
        tokio::spawn(async move {
            shared.ask(number, due).await;
            drop(permit);
        });
    }
    // When all permits are back, every request has ended.
    let all = u32::try_from(UNDER_WAY_MAX).unwrap_or(u32::MAX);
    drop(shared.under_way.acquire_many(all).await);
    let mut offered = std::mem::take(&mut *shared.offered.lock().unwrap_or_else(PoisonError::into_inner));
    offered.waits_us.sort_unstable();
    offered
}

impl Shared {
    fn book(&self, change: impl FnOnce(&mut Offered)) {
        change(&mut self.offered.lock().unwrap_or_else(PoisonError::into_inner));
    }

    async fn ask(&self, number: usize, due: Instant) {
        let mut ids = Vec::new();
        let asked = self.ask_once(number.is_multiple_of(self.keep_every), &mut ids);
        let replied = timeout(PATIENCE, asked).await;
        let wait_us = u32::try_from(due.elapsed().as_micros()).unwrap_or(u32::MAX);
        self.book(|offered| match replied {
            Ok(Ok(true)) => {
                offered.taken += 1;
                offered.waits_us.push(wait_us);
                offered.ids.extend(ids);
            }
            Ok(Ok(false)) => offered.refused += 1,
            Ok(Err(_)) | Err(_) => offered.lost += 1,
        });
    }

    async fn ask_once(&self, keep: bool, ids: &mut Vec<String>) -> anyhow::Result<bool> {
        let idle = self.idle.lock().unwrap_or_else(PoisonError::into_inner).pop();
        if let Some(mut client) = idle
            && let Ok(taken) = client.ask(keep, ids).await
        {
            self.put_back(client);
            return Ok(taken);
        }
        // It had been closed meanwhile, as idle connections may be, or there was none.
        let mut client = Client::open(self.address).await?;
        let taken = client.ask(keep, ids).await?;
        self.put_back(client);
        Ok(taken)
    }

    fn put_back(&self, client: Client) {
        if client.stays_open() {
            self.idle
                .lock()
                .unwrap_or_else(PoisonError::into_inner)
                .push(client);
        }
    }
}

#[cfg(test)]
mod tests {
    use tokio::io::{AsyncReadExt, AsyncWriteExt};
    use tokio::net::TcpListener;

    use super::*;

    #[test]
    fn arrivals_have_their_rate_and_are_the_same_each_time() {
        let times = arrivals(1000.0, 10.0, SEED);
        assert!((9_500..10_500).contains(&times.len()), "{}", times.len());
        assert!(times.is_sorted());
        assert_eq!(times, arrivals(1000.0, 10.0, SEED));
        // Independent clients come in bunches: a third of the gaps is below 0.4 of the mean.
        let short = times
            .windows(2)
            .filter(|pair| pair[1] - pair[0] < Duration::from_micros(400));
        let share = short.count() as f64 / times.len() as f64;
        assert!((0.30..0.36).contains(&share), "{share}");
    }

    /// A server that answers every second connection and closes the others unanswered.
    async fn moody() -> SocketAddr {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        tokio::spawn(async move {
            for number in 0u64.. {
                let (mut stream, _) = listener.accept().await.unwrap();
                tokio::spawn(async move {
                    if !stream.read(&mut [0; 1024]).await.is_ok_and(|length| length > 0) {
                        return;
                    }
                    let answer: &[u8] = match number % 3 {
                        0 => b"HTTP/1.1 200 OK\r\nconnection: close\r\ncontent-length: 20\r\n\r\n{\"request_id\":\"abcd\"}",
                        1 => b"HTTP/1.1 503 Busy\r\nconnection: close\r\ncontent-length: 2\r\n\r\n{}",
                        _ => b"",
                    };
                    stream.write_all(answer).await.ok();
                });
            }
        });
        address
    }

    #[tokio::test]
    async fn every_arrival_has_its_end() {
        let offered = run(moody().await, 300.0, 0.5).await;
        assert_eq!(offered.all() as usize, arrivals(300.0, 0.5, SEED).len());
        assert!(
            offered.taken > 0 && offered.refused > 0 && offered.lost > 0,
            "{offered:?}"
        );
        assert_eq!(offered.ids[0], "abcd");
        assert_eq!(offered.waits_us.len() as u64, offered.taken);
    }
}
