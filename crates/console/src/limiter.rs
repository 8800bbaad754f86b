//! Slows down guessing of tokens.
//!
//! Only failures count, in windows of a minute: per address, and over all addresses together, so that many
//! addresses are no way around. A wrong token of a client over the limit is answered with a wait. The right one is
//! always let in: others must not be able to lock its owner out, and tokens are too long to be guessed anyway.

use std::collections::HashMap;
use std::net::IpAddr;
use std::time::Duration;

use parking_lot::Mutex;
use tokio::time::Instant;

/// Failures of one address in a window; people mistype a few times.
const PER_ADDRESS: u32 = 8;
/// Failures of all addresses together in a window.
const ALL_TOGETHER: u32 = 100;
const WINDOW: Duration = Duration::from_secs(60);

/// Counts failed sign-ins.
#[derive(Debug, Default)]
pub(crate) struct Limiter(Mutex<Window>);

#[derive(Debug, Default)]
struct Window {
    /// Nothing before the first failure.
    began: Option<Instant>,
    all: u32,
    /// No more entries than `ALL_TOGETHER`.
    per_address: HashMap<IpAddr, u32>,
}

impl Limiter {
    /// Returns how long this address has to wait after another failure; `None` when it may try.
    pub(crate) fn wait(&self, address: IpAddr) -> Option<Duration> {
        let mut window = self.0.lock();
        let left = window.left()?;
        let own = window.per_address.get(&address).copied().unwrap_or(0);
        (own >= PER_ADDRESS || window.all >= ALL_TOGETHER).then_some(left)
    }

    /// Records a failure.
    pub(crate) fn failed(&self, address: IpAddr) {
        let mut window = self.0.lock();
        if window.left().is_none() {
            window.began = Some(Instant::now());
        }
        window.all += 1;
        *window.per_address.entry(address).or_default() += 1;
    }
}

impl Window {
    /// What is left of the window; one that is over is emptied.
    fn left(&mut self) -> Option<Duration> {
        let left = WINDOW
            .checked_sub(self.began?.elapsed())
            .filter(|left| !left.is_zero());
        if left.is_none() {
            *self = Window::default();
        }
        left
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn address(last: u8) -> IpAddr {
        IpAddr::from([10, 0, 0, last])
    }

    #[tokio::test(start_paused = true)]
    async fn an_address_that_fails_too_often_waits_for_the_window_to_end() {
        let limiter = Limiter::default();
        for _ in 0..PER_ADDRESS {
            assert_eq!(limiter.wait(address(1)), None);
            limiter.failed(address(1));
        }
        assert_eq!(limiter.wait(address(1)), Some(WINDOW));
        assert_eq!(limiter.wait(address(2)), None);
        tokio::time::advance(WINDOW).await;
        assert_eq!(limiter.wait(address(1)), None);
    }

    #[tokio::test(start_paused = true)]
    async fn many_addresses_together_are_slowed_down_as_well() {
        let limiter = Limiter::default();
        for number in 0..ALL_TOGETHER {
            limiter.failed(address((number % 50) as u8));
        }
        assert!(limiter.wait(address(200)).is_some());
    }
}
