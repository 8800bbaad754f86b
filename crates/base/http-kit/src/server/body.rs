//! Bodies of requests within limits of time and memory.
//!
//! A body must come at a pace: it has some seconds at first, earns more with every byte, and may not pause for long;
//! one whose sender is not known yet has a limit that nothing extends. What has come of all
//! bodies and is not answered yet is counted against one budget per listener, of which requests whose sender is
//! not known yet may use a part. A body past either limit ends with an error, and the server answers in place of
//! the handler, which can only tell that the body broke off.

use std::pin::Pin;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::{Context, Poll};
use std::time::Duration;

use bytes::Bytes;
use http_body::{Body, Frame, SizeHint};
use hyper::body::Incoming;
use tokio::time::{Instant, Sleep, sleep};

use super::places::ClientWait;

/// Limits of bodies.
#[derive(Clone, Copy, Debug)]
pub struct BodyLimits {
    /// How long a body may take, and how long it may pause.
    pub timeout: Duration,
    /// So many bytes earn another second.
    pub bytes_per_second: u64,
    /// Bytes of all bodies that were received and whose requests are not answered yet.
    pub held_max: usize,
}

/// What requests whose sender is not known yet may hold of it: this part, one in so many.
const STRANGERS_PART: usize = 4;

/// How often the timeout the body of a stranger may take in all.
const STRANGERS_TIMEOUTS: u32 = 6;

/// Why a body ended early.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum BodyError {
    #[error("the body did not come in time")]
    Slow,
    #[error("too many bytes of bodies are held")]
    Full,
    #[error("the body broke off")]
    Broken,
}

/// The bytes of all bodies that a listener holds.
#[derive(Debug)]
pub(super) struct Budget {
    max: usize,
    held: Mutex<Held>,
}

#[derive(Debug, Default)]
struct Held {
    all: usize,
    by_strangers: usize,
}

impl Budget {
    pub(super) fn new(max: usize) -> Arc<Budget> {
        Arc::new(Budget {
            max,
            held: Mutex::default(),
        })
    }

    fn lock(&self) -> MutexGuard<'_, Held> {
        self.held.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn take(&self, bytes: usize, is_stranger: bool) -> bool {
        let mut held = self.lock();
        let fits = |held: usize, max: usize| held.checked_add(bytes).is_some_and(|sum| sum <= max);
        if !fits(held.all, self.max) || (is_stranger && !fits(held.by_strangers, self.max / STRANGERS_PART)) {
            return false;
        }
        held.all += bytes;
        if is_stranger {
            held.by_strangers += bytes;
        }
        true
    }

    fn give_back(&self, bytes: usize, by_strangers: usize) {
        let mut held = self.lock();
        held.all -= bytes;
        held.by_strangers -= by_strangers;
    }
}

/// What is known of one body; shared by the body, its handler and the server.
pub(super) struct Meter {
    budget: Arc<Budget>,
    wait: ClientWait,
    state: Mutex<MeterState>,
}

struct MeterState {
    is_stranger: bool,
    /// The client is to say what it wants after the connection was upgraded.
    awaits_hello: bool,
    /// Goes on beside its response and has no limits any more.
    is_stream: bool,
    held: usize,
    failure: Option<BodyError>,
}

impl Meter {
    pub(super) fn new(budget: &Arc<Budget>, is_stranger: bool, wait: ClientWait) -> Arc<Meter> {
        Arc::new(Meter {
            budget: Arc::clone(budget),
            wait,
            state: Mutex::new(MeterState {
                is_stranger,
                awaits_hello: false,
                is_stream: false,
                held: 0,
                failure: None,
            }),
        })
    }

    pub(super) fn awaits_hello(&self) -> bool {
        self.lock().awaits_hello
    }

    fn lock(&self) -> MutexGuard<'_, MeterState> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Why the body ended early, if the server ended it.
    pub(super) fn failure(&self) -> Option<BodyError> {
        self.lock().failure
    }

    /// The response has begun: what was held of the request is free, and what still comes is a stream of messages
    /// with pauses between them, each bounded by who reads it.
    pub(super) fn settle(&self) {
        self.wait.set(false);
        let mut state = self.lock();
        state.is_stream = true;
        state.give_back(&self.budget);
    }

    fn take(&self, bytes: usize) -> Result<(), BodyError> {
        let mut state = self.lock();
        if state.is_stream {
            return Ok(());
        }
        if !self.budget.take(bytes, state.is_stranger) {
            state.failure = Some(BodyError::Full);
            return Err(BodyError::Full);
        }
        state.held += bytes;
        Ok(())
    }
}

impl MeterState {
    fn give_back(&mut self, budget: &Budget) {
        let held = std::mem::take(&mut self.held);
        budget.give_back(held, if self.is_stranger { held } else { 0 });
    }
}

impl Drop for Meter {
    fn drop(&mut self) {
        let mut state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
        state.give_back(&self.budget);
    }
}

/// By which handlers tell what they know about a request; among its extensions.
#[derive(Clone)]
pub struct BodyControl(pub(super) Arc<Meter>);

impl BodyControl {
    /// The sender is known. The request's connection keeps its place, and its body counts as any other.
    pub fn signed_in(&self) {
        self.0.wait.set(false);
        let mut state = self.0.lock();
        if std::mem::take(&mut state.is_stranger) {
            self.0.budget.give_back(0, state.held);
        }
    }

    /// After the upgrade of its connection the client is to say what it wants. Until [`BodyControl::signed_in`], the
    /// connection may lose its place.
    pub fn awaits_hello(&self) {
        self.0.lock().awaits_hello = true;
    }

    /// Resolves when the connection has lost its place to a newcomer.
    pub async fn given_up(&self) {
        self.0.wait.given_up().await;
    }

    /// Keeps what has been received counted beyond the response, until the result is dropped.
    pub fn keep(&self) -> Kept {
        self.signed_in();
        let bytes = std::mem::take(&mut self.0.lock().held);
        Kept {
            budget: Arc::clone(&self.0.budget),
            bytes,
        }
    }
}

/// Bytes of a body that outlive the response to its request.
#[derive(Debug)]
pub struct Kept {
    budget: Arc<Budget>,
    bytes: usize,
}

impl Drop for Kept {
    fn drop(&mut self) {
        self.budget.give_back(self.bytes, 0);
    }
}

/// The body of a request.
pub struct RequestBody {
    inner: Incoming,
    meter: Arc<Meter>,
    limits: BodyLimits,
    /// When it was first asked for; a handler that is busy elsewhere is not its sender's fault.
    began: Option<Instant>,
    /// When something last came.
    progressed: Option<Instant>,
    received: u64,
    timer: Option<Pin<Box<Sleep>>>,
}

impl RequestBody {
    pub(super) fn new(inner: Incoming, meter: Arc<Meter>, limits: BodyLimits) -> RequestBody {
        RequestBody {
            inner,
            meter,
            limits,
            began: None,
            progressed: None,
            received: 0,
            timer: None,
        }
    }

    /// Returns whether the time is over while nothing comes.
    fn is_late(&mut self, context: &mut Context<'_>) -> bool {
        let is_stranger = {
            let state = self.meter.lock();
            if state.is_stream {
                return false;
            }
            state.is_stranger
        };
        let began = *self.began.get_or_insert_with(Instant::now);
        let pause_until = self.progressed.unwrap_or(began) + self.limits.timeout;
        let deadline = pause_until.min(began + allowed(self.limits, self.received, is_stranger));
        let timer = self.timer.get_or_insert_with(|| Box::pin(sleep(Duration::ZERO)));
        if timer.deadline() != deadline {
            timer.as_mut().reset(deadline);
        }
        timer.as_mut().poll(context).is_ready()
    }
}

/// Returns how long a body may take of which so much has come.
fn allowed(limits: BodyLimits, received: u64, is_stranger: bool) -> Duration {
    let earned_ms = received.saturating_mul(1000) / limits.bytes_per_second.max(1);
    let allowed = limits.timeout + Duration::from_millis(earned_ms);
    if is_stranger {
        allowed.min(limits.timeout * STRANGERS_TIMEOUTS)
    } else {
        allowed
    }
}

impl Body for RequestBody {
    type Data = Bytes;
    type Error = BodyError;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, BodyError>>> {
        let frame = match Pin::new(&mut self.inner).poll_frame(context) {
            Poll::Ready(Some(Ok(frame))) => frame,
            Poll::Ready(Some(Err(_))) => return Poll::Ready(Some(Err(BodyError::Broken))),
            Poll::Ready(None) => {
                self.meter.wait.set(false);
                return Poll::Ready(None);
            }
            Poll::Pending if self.is_late(context) => {
                self.meter.lock().failure = Some(BodyError::Slow);
                return Poll::Ready(Some(Err(BodyError::Slow)));
            }
            Poll::Pending => return Poll::Pending,
        };
        if let Some(data) = frame.data_ref() {
            self.received += data.len() as u64;
            self.progressed = Some(Instant::now());
            self.meter.take(data.len())?;
        }
        if self.inner.is_end_stream() {
            self.meter.wait.set(false);
        }
        Poll::Ready(Some(Ok(frame)))
    }

    fn is_end_stream(&self) -> bool {
        self.inner.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        self.inner.size_hint()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bytes_earn_time_up_to_a_limit_for_strangers() {
        let limits = BodyLimits {
            timeout: Duration::from_secs(10),
            bytes_per_second: 1000,
            held_max: 0,
        };
        assert_eq!(allowed(limits, 0, false), Duration::from_secs(10));
        assert_eq!(allowed(limits, 999, true), Duration::from_millis(10_999));
        assert_eq!(allowed(limits, 90_000, false), Duration::from_secs(100));
        // Of somebody whose token was not checked yet, nothing takes longer than this.
        assert_eq!(allowed(limits, 90_000, true), Duration::from_secs(60));
    }

    #[test]
    fn strangers_hold_a_part_of_the_budget_at_most() {
        let budget = Budget::new(100);
        assert!(budget.take(25, true) && !budget.take(1, true));
        assert!(budget.take(75, false) && !budget.take(1, false));
        budget.give_back(25, 25);
        assert!(budget.take(25, true));
    }
}
