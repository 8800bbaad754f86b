//! How other threads reach an I/O thread.
//!
//! Sending is a bounded amount of work: a push to a vector and, only if the thread is asleep, a write
//! to its eventfd. That no wake-up is lost rests on the order of two flags. The receiver says `asleep`
//! and then looks at `pending`; the sender says `pending` and then looks at `asleep`. Whichever comes
//! later sees the other.

use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use parking_lot::Mutex;
use rustix::event::{EventfdFlags, eventfd};

use crate::poller::{Events, Interest, Poller};

/// Items for which the vector keeps its room between turns. More than a busy turn brings; a burst
/// beyond it gives its memory back.
const KEPT_ITEMS: usize = 1024;

/// Ends the wait of a thread from another one.
pub struct Waker(OwnedFd);

impl Waker {
    pub fn new() -> io::Result<Waker> {
        let fd = eventfd(0, EventfdFlags::CLOEXEC | EventfdFlags::NONBLOCK)?;
        Ok(Waker(fd))
    }

    pub fn wake(&self) {
        // It fails only if the counter is full, and then a wake-up is pending already.
        rustix::io::write(&self.0, &1u64.to_ne_bytes()).ok();
    }
}

impl AsFd for Waker {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.0.as_fd()
    }
}

/// A queue of items for one I/O thread.
pub struct Inbox<T> {
    items: Mutex<Vec<T>>,
    /// Whether `items` holds any; read without the lock.
    pending: AtomicBool,
    asleep: AtomicBool,
    waker: Waker,
}

impl<T> Inbox<T> {
    pub fn new() -> io::Result<Inbox<T>> {
        Ok(Inbox {
            items: Mutex::default(),
            pending: AtomicBool::new(false),
            asleep: AtomicBool::new(false),
            waker: Waker::new()?,
        })
    }

    /// Has `poller` return when the sleeping thread is woken. The events under `token` need no answer:
    /// each wake-up is an edge, so that nothing has to be read.
    pub fn watch(&self, poller: &Poller, token: u64) -> io::Result<()> {
        poller.add(&self.waker, token, Interest::READ.edge())
    }

    /// Sends an item to the thread, and wakes it if it sleeps.
    #[inline]
    pub fn push(&self, item: T) {
        self.items.lock().push(item);
        self.pending.store(true, Ordering::SeqCst);
        if self.asleep.swap(false, Ordering::SeqCst) {
            self.waker.wake();
        }
    }

    /// Ends the current wait or the next one (shutdown).
    pub fn wake(&self) {
        self.waker.wake();
    }

    /// Moves all items to the end of `into`, in the order they were sent.
    #[inline]
    pub fn take(&self, into: &mut impl Extend<T>) {
        // An item that this look misses is seen by `sleep`, before the thread waits.
        if self.pending.load(Ordering::Relaxed) {
            self.take_pending(into);
        }
    }

    fn take_pending(&self, into: &mut impl Extend<T>) {
        self.pending.store(false, Ordering::SeqCst);
        let mut items = self.items.lock();
        if items.capacity() <= KEPT_ITEMS {
            into.extend(items.drain(..));
            return;
        }
        let burst = std::mem::take(&mut *items);
        drop(items);
        into.extend(burst);
    }

    /// Announces that the thread is about to wait. Returns false if items have arrived: then it must not
    /// wait.
    #[inline]
    #[must_use]
    pub fn sleep(&self) -> bool {
        self.asleep.store(true, Ordering::SeqCst);
        !self.pending.load(Ordering::SeqCst)
    }

    /// Announces that the thread looks at its inbox without being woken.
    #[inline]
    pub fn awake(&self) {
        self.asleep.store(false, Ordering::SeqCst);
    }

    /// Waits for events, at most `timeout` and not while there are items. The thread takes the items
    /// after that.
    #[inline]
    pub fn wait(&self, poller: &Poller, events: &mut Events, timeout: Duration) {
        if timeout.is_zero() {
            return poller.wait(events, timeout);
        }
        let timeout = if self.sleep() { timeout } else { Duration::ZERO };
        poller.wait(events, timeout);
        self.awake();
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use super::*;
    use crate::reserved_token;

    /// Long enough that a lost wake-up shows as a failure and not as a delay.
    const FOR_EVER: Duration = Duration::from_secs(60);

    fn watched<T>() -> (Arc<Inbox<T>>, Poller, Events) {
        let (inbox, poller) = (Arc::new(Inbox::new().unwrap()), Poller::new().unwrap());
        inbox.watch(&poller, reserved_token(0)).unwrap();
        (inbox, poller, Events::with_capacity(8))
    }

    #[test]
    fn no_wake_up_is_lost() {
        const SENDERS: u64 = 4;
        const ITEMS: u64 = 20_000;
        let (inbox, poller, mut events) = watched();
        let senders: Vec<_> = (0..SENDERS)
            .map(|sender| {
                let inbox = Arc::clone(&inbox);
                std::thread::spawn(move || {
                    for item in 0..ITEMS {
                        inbox.push((sender, item));
                        if item % 7 == 0 {
                            // Lets the receiver fall asleep now and then.
                            std::thread::yield_now();
                        }
                    }
                })
            })
            .collect();
        let mut next = [0; SENDERS as usize];
        let mut taken = Vec::new();
        while next.iter().sum::<u64>() < SENDERS * ITEMS {
            inbox.wait(&poller, &mut events, FOR_EVER);
            inbox.take(&mut taken);
            for (sender, item) in taken.drain(..) {
                let expected = &mut next[sender as usize];
                assert_eq!(item, *expected, "items of one sender keep their order");
                *expected += 1;
            }
        }
        senders.into_iter().for_each(|sender| sender.join().unwrap());
        assert_eq!(next, [ITEMS; SENDERS as usize]);
    }

    #[test]
    fn only_a_sleeper_is_woken() {
        let (inbox, poller, mut events) = watched();
        inbox.push(1);
        poller.wait(&mut events, Duration::ZERO);
        assert_eq!(events.iter().len(), 0, "an awake thread costs no write");
        assert!(!inbox.sleep(), "items are waiting");
        inbox.push(2);
        poller.wait(&mut events, FOR_EVER);
        assert_eq!(events.iter().next().unwrap().token, reserved_token(0));
        let mut taken = Vec::new();
        inbox.take(&mut taken);
        assert_eq!(taken, [1, 2]);
    }

    #[test]
    fn each_wake_up_is_reported_once_without_being_read() {
        let (inbox, poller, mut events) = watched::<()>();
        for _ in 0..3 {
            inbox.wake();
            inbox.wait(&poller, &mut events, FOR_EVER);
            assert_eq!(events.iter().len(), 1);
            inbox.wait(&poller, &mut events, Duration::ZERO);
            assert_eq!(events.iter().len(), 0);
        }
    }

    #[test]
    fn the_room_of_a_burst_is_given_back() {
        let (inbox, ..) = watched();
        (0..KEPT_ITEMS * 4).for_each(|item| inbox.push(item));
        let mut taken = Vec::new();
        inbox.take(&mut taken);
        assert_eq!(taken.len(), KEPT_ITEMS * 4);
        assert_eq!(inbox.items.lock().capacity(), 0);
        inbox.push(1);
        inbox.take(&mut taken);
        assert!(inbox.items.lock().capacity() > 0, "an ordinary turn's room stays");
    }
}
