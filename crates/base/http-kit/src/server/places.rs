//! Who may be connected.
//!
//! There are so many places for connections, and so many for one address. When they are taken, a newcomer gets
//! the place of the connection that has waited longest for its client: one that is idle, that has sent half of
//! a request and nothing since, that does not read its response, or that has become a WebSocket and said nothing
//! yet. So clients that connect and then do nothing keep nobody out, however many they are. A connection whose request is
//! being answered, or whose body comes from somebody who has signed in, is never given up.
//!
//! When every place is in honest use, a few more are there for probes: who asks for health or metrics is answered
//! there, everybody else is told to come back.

use std::collections::HashMap;
use std::net::IpAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};

use tokio::time::Instant;
use tokio_util::sync::CancellationToken;

/// How many connections there may be.
#[derive(Clone, Copy, Debug)]
pub(super) struct Limits {
    pub(super) all: usize,
    pub(super) per_address: usize,
    /// Further places, for probes.
    pub(super) reserve: usize,
}

pub(super) struct Places {
    limits: Limits,
    began: Instant,
    taken: std::sync::Mutex<Taken>,
}

#[derive(Default)]
struct Taken {
    next: u64,
    slots: HashMap<u64, Slot>,
    per_address: HashMap<IpAddr, usize>,
    reserve: usize,
}

struct Slot {
    address: IpAddr,
    is_reserve: bool,
    activity: Arc<Activity>,
    given_up: CancellationToken,
}

/// The place of one connection; free again when it is dropped.
pub(super) struct Place {
    places: Arc<Places>,
    number: u64,
    /// Serves probes only.
    pub(super) is_reserve: bool,
    pub(super) activity: Arc<Activity>,
    /// Cancelled when a newcomer gets the place.
    pub(super) given_up: CancellationToken,
}

impl Places {
    pub(super) fn new(limits: Limits) -> Arc<Places> {
        Arc::new(Places {
            limits,
            began: Instant::now(),
            taken: Default::default(),
        })
    }

    /// Finds a place for a connection. An address that is trusted has no limit of its own: it is a proxy, behind
    /// which there are many.
    pub(super) fn enter(self: &Arc<Places>, address: IpAddr, is_trusted: bool) -> Option<Place> {
        let now_ms = self.now_ms();
        let mut taken = self
            .taken
            .lock()
            .unwrap_or_else(std::sync::PoisonError::into_inner);
        let own = taken.per_address.get(&address).copied().unwrap_or(0);
        let is_free = if !is_trusted && own >= self.limits.per_address {
            taken.give_up_one(|slot| !slot.is_reserve && slot.address == address)
        } else if taken.slots.len() - taken.reserve >= self.limits.all {
            taken.give_up_one(|slot| !slot.is_reserve)
        } else {
            true
        };
        let is_reserve = !is_free;
        if is_reserve && taken.reserve >= self.limits.reserve && !taken.give_up_one(|slot| slot.is_reserve) {
            return None;
        }
        let number = taken.next;
        taken.next += 1;
        let given_up = CancellationToken::new();
        let activity = Arc::new(Activity::new(self.began, now_ms, given_up.clone()));
        taken.insert(
            number,
            Slot {
                address,
                is_reserve,
                activity: Arc::clone(&activity),
                given_up: given_up.clone(),
            },
        );
        Some(Place {
            places: Arc::clone(self),
            number,
            is_reserve,
            activity,
            given_up,
        })
    }

    /// Gives up the connection that has waited longest for its client; false if none waits.
    pub(super) fn give_up_any(&self) -> bool {
        let mut taken = self
            .taken
            .lock()
            .unwrap_or_else(std::sync::PoisonError::into_inner);
        taken.give_up_one(|_| true)
    }

    fn now_ms(&self) -> u64 {
        millis_since(self.began)
    }
}

impl Taken {
    /// Takes the place of the connection that has waited longest among those that are meant.
    fn give_up_one(&mut self, meant: impl Fn(&Slot) -> bool) -> bool {
        let waiting = self.slots.iter().filter(|(_, slot)| meant(slot));
        let waiting = waiting.filter_map(|(number, slot)| Some((slot.activity.waiting_since_ms()?, *number)));
        // Of those that began to wait in the same moment, the one that came first.
        let Some((_, number)) = waiting.min() else {
            return false;
        };
        if let Some(slot) = self.remove(number) {
            slot.given_up.cancel();
        }
        true
    }

    fn insert(&mut self, number: u64, slot: Slot) {
        if slot.is_reserve {
            self.reserve += 1;
        } else {
            *self.per_address.entry(slot.address).or_default() += 1;
        }
        self.slots.insert(number, slot);
    }

    fn remove(&mut self, number: u64) -> Option<Slot> {
        let slot = self.slots.remove(&number)?;
        if slot.is_reserve {
            self.reserve -= 1;
        } else if let Some(count) = self.per_address.get_mut(&slot.address) {
            *count -= 1;
            if *count == 0 {
                self.per_address.remove(&slot.address);
            }
        }
        Some(slot)
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        let taken = &self.places.taken;
        taken
            .lock()
            .unwrap_or_else(std::sync::PoisonError::into_inner)
            .remove(self.number);
    }
}

/// What a connection is doing.
pub(super) struct Activity {
    began: Instant,
    /// Requests from the end of their head to the end of their response.
    requests: AtomicUsize,
    /// Those of them that wait for their client: for the rest of the body, or until it reads the response.
    awaiting_client: AtomicUsize,
    /// When it last began to wait for its client.
    since_ms: AtomicU64,
    given_up: CancellationToken,
}

impl Activity {
    fn new(began: Instant, now_ms: u64, given_up: CancellationToken) -> Activity {
        Activity {
            began,
            requests: AtomicUsize::new(0),
            awaiting_client: AtomicUsize::new(0),
            since_ms: AtomicU64::new(now_ms),
            given_up,
        }
    }

    /// Returns since when it has waited for its client; `None` while it answers a request.
    fn waiting_since_ms(&self) -> Option<u64> {
        let awaiting = self.awaiting_client.load(Ordering::Relaxed);
        let is_waiting = self.requests.load(Ordering::Relaxed) <= awaiting;
        is_waiting.then(|| self.since_ms.load(Ordering::Relaxed))
    }

    pub(super) fn is_waiting(&self) -> bool {
        self.waiting_since_ms().is_some()
    }

    pub(super) fn begin(self: &Arc<Activity>, has_body: bool) -> InProgress {
        let wait = ClientWait {
            activity: Arc::clone(self),
            is_waiting: Arc::default(),
        };
        wait.set(has_body);
        self.requests.fetch_add(1, Ordering::Relaxed);
        InProgress { wait }
    }

    fn note_waiting(&self) {
        self.since_ms.store(millis_since(self.began), Ordering::Relaxed);
    }
}

/// A request in progress, for as long as it lives.
pub(super) struct InProgress {
    wait: ClientWait,
}

impl InProgress {
    pub(super) fn wait(&self) -> &ClientWait {
        &self.wait
    }
}

impl Drop for InProgress {
    fn drop(&mut self) {
        self.wait.set(false);
        self.wait.activity.note_waiting();
        self.wait.activity.requests.fetch_sub(1, Ordering::Relaxed);
    }
}

/// Whether a request waits for its client. While it does, its connection may lose its place.
#[derive(Clone)]
pub(super) struct ClientWait {
    activity: Arc<Activity>,
    is_waiting: Arc<AtomicBool>,
}

impl ClientWait {
    pub(super) fn set(&self, is_waiting: bool) {
        if is_waiting {
            self.activity.note_waiting();
        }
        if self.is_waiting.swap(is_waiting, Ordering::Relaxed) == is_waiting {
            return;
        }
        let awaiting = &self.activity.awaiting_client;
        if is_waiting {
            awaiting.fetch_add(1, Ordering::Relaxed);
        } else {
            awaiting.fetch_sub(1, Ordering::Relaxed);
        }
    }

    /// Resolves when the connection has lost its place.
    pub(super) async fn given_up(&self) {
        self.activity.given_up.cancelled().await;
    }
}

fn millis_since(began: Instant) -> u64 {
    u64::try_from(began.elapsed().as_millis()).unwrap_or(u64::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    const LIMITS: Limits = Limits {
        all: 4,
        per_address: 2,
        reserve: 1,
    };

    fn address(last: u8) -> IpAddr {
        IpAddr::from([10, 0, 0, last])
    }

    async fn later() {
        tokio::time::advance(std::time::Duration::from_millis(10)).await;
    }

    #[tokio::test(start_paused = true)]
    async fn the_longest_waiting_connection_makes_room() {
        let places = Places::new(LIMITS);
        let mut all = Vec::new();
        for last in 0..4 {
            all.push(places.enter(address(last), false).unwrap());
            later().await;
        }
        // The first is answering, the second has waited longest.
        let _busy = all[0].activity.begin(false);
        let newcomer = places.enter(address(9), false).unwrap();
        assert!(!newcomer.is_reserve);
        let given_up: Vec<bool> = all.iter().map(|place| place.given_up.is_cancelled()).collect();
        assert_eq!(given_up, [false, true, false, false]);
    }

    #[tokio::test(start_paused = true)]
    async fn half_a_body_is_waiting_and_a_whole_one_is_not() {
        let places = Places::new(Limits { all: 1, ..LIMITS });
        let first = places.enter(address(1), false).unwrap();
        let request = first.activity.begin(true);
        later().await;
        request.wait().set(false);
        assert!(places.enter(address(2), false).unwrap().is_reserve);
        drop(request);
        let stalled = first.activity.begin(true);
        later().await;
        assert!(!places.enter(address(2), false).unwrap().is_reserve);
        assert!(first.given_up.is_cancelled());
        drop(stalled);
    }

    #[tokio::test(start_paused = true)]
    async fn a_response_that_nobody_reads_is_waiting_and_one_that_is_being_made_is_not() {
        let places = Places::new(Limits { all: 1, ..LIMITS });
        let first = places.enter(address(1), false).unwrap();
        let request = first.activity.begin(false);
        later().await;
        assert!(places.enter(address(2), false).unwrap().is_reserve);
        // A piece of the response was handed over, and none has been asked for since.
        request.wait().set(true);
        later().await;
        assert!(!places.enter(address(2), false).unwrap().is_reserve);
        assert!(first.given_up.is_cancelled());
    }

    #[tokio::test(start_paused = true)]
    async fn one_address_takes_no_more_than_its_share() {
        let places = Places::new(LIMITS);
        let ours: Vec<Place> = (0..2).map(|_| places.enter(address(1), false).unwrap()).collect();
        let _busy: Vec<InProgress> = ours.iter().map(|place| place.activity.begin(false)).collect();
        later().await;
        assert!(places.enter(address(1), false).unwrap().is_reserve);
        assert!(!places.enter(address(2), false).unwrap().is_reserve);
        assert!(!places.enter(address(1), true).unwrap().is_reserve);
    }

    #[tokio::test(start_paused = true)]
    async fn the_reserve_is_small_and_its_places_are_freed() {
        let places = Places::new(Limits { all: 1, ..LIMITS });
        let first = places.enter(address(1), false).unwrap();
        let _busy = first.activity.begin(false);
        let probe = places.enter(address(2), false).unwrap();
        assert!(probe.is_reserve);
        let answering = probe.activity.begin(false);
        assert!(places.enter(address(3), false).is_none());
        drop(answering);
        assert!(
            places
                .enter(address(3), false)
                .is_some_and(|place| place.is_reserve)
        );
        drop(probe);
        drop(first);
        assert!(!places.enter(address(3), false).unwrap().is_reserve);
    }
}
