//! Readiness of sockets, from epoll.

use std::io;
use std::os::fd::{AsFd, OwnedFd};
use std::time::Duration;

use rustix::buffer::spare_capacity;
use rustix::event::{Timespec, epoll};

/// Tokens that no [`Key`](crate::Key) uses, at the upper end: a thread's inbox and listeners. A slab
/// would need two thousand million slots to get there.
const RESERVED_TOKENS: u64 = 1 << 16;

/// Returns a token that no [`Key`](crate::Key) uses: for an inbox or a listener.
#[inline]
pub const fn reserved_token(number: u16) -> u64 {
    u64::MAX - number as u64
}

/// Returns the number of a reserved token, and nothing for the token of a [`Key`](crate::Key).
#[inline]
pub const fn reserved_number(token: u64) -> Option<u16> {
    let number = u64::MAX - token;
    if number < RESERVED_TOKENS {
        Some(number as u16)
    } else {
        None
    }
}

/// The events a descriptor is watched for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Interest(epoll::EventFlags);

impl Interest {
    /// The descriptor stays in the set; only errors and hang-ups are reported.
    pub const NONE: Interest = Interest(epoll::EventFlags::empty());
    pub const READ: Interest = Interest(epoll::EventFlags::IN);
    pub const WRITE: Interest = Interest(epoll::EventFlags::OUT);
    pub const READ_WRITE: Interest = Interest(epoll::EventFlags::IN.union(epoll::EventFlags::OUT));

    /// Reports each change once, the end of the peer's stream included.
    ///
    /// The kernel then does not examine an idle descriptor again in each turn. The user must read until
    /// a read comes back short, and must read once more after [`Ready::is_hung_up`].
    #[must_use]
    pub const fn edge(self) -> Interest {
        Interest(
            self.0
                .union(epoll::EventFlags::ET)
                .union(epoll::EventFlags::RDHUP),
        )
    }
}

/// The state of a descriptor as the kernel reported it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Ready(epoll::EventFlags);

const HUNG_UP: epoll::EventFlags = epoll::EventFlags::RDHUP
    .union(epoll::EventFlags::HUP)
    .union(epoll::EventFlags::ERR);

impl Ready {
    /// For a descriptor that has to be read again although the kernel reports nothing new.
    pub const READ: Ready = Ready(epoll::EventFlags::IN);

    /// Returns whether a read returns something: bytes, the end of the stream, or an error.
    #[inline]
    pub fn is_readable(self) -> bool {
        self.0.intersects(epoll::EventFlags::IN.union(HUNG_UP))
    }

    #[inline]
    pub fn is_writable(self) -> bool {
        self.0.contains(epoll::EventFlags::OUT)
    }

    /// Returns whether the peer sends no more, or the connection has failed. Unread bytes may precede
    /// the end.
    #[inline]
    pub fn is_hung_up(self) -> bool {
        self.0.intersects(HUNG_UP)
    }
}

/// One reported event.
#[derive(Clone, Copy, Debug)]
pub struct Event {
    /// What the descriptor was added with.
    pub token: u64,
    pub ready: Ready,
}

/// Room for the events of one wait.
pub struct Events(Vec<epoll::Event>);

impl Events {
    /// Makes room for `max` events per wait; further ones are reported by the next wait.
    pub fn with_capacity(max: usize) -> Events {
        Events(Vec::with_capacity(max))
    }

    #[inline]
    pub fn iter(&self) -> impl ExactSizeIterator<Item = Event> + '_ {
        self.0.iter().map(|event| Event {
            token: event.data.u64(),
            ready: Ready(event.flags),
        })
    }
}

/// A set of watched descriptors. Closing a descriptor removes it from the set.
pub struct Poller {
    epoll: OwnedFd,
}

impl Poller {
    pub fn new() -> io::Result<Poller> {
        let epoll = epoll::create(epoll::CreateFlags::CLOEXEC)?;
        Ok(Poller { epoll })
    }

    /// Watches a descriptor; its events carry `token`.
    pub fn add(&self, source: impl AsFd, token: u64, interest: Interest) -> io::Result<()> {
        let data = epoll::EventData::new_u64(token);
        epoll::add(&self.epoll, source, data, interest.0)?;
        Ok(())
    }

    /// Changes what a descriptor is watched for. An edge-triggered one that is ready already is reported
    /// again.
    #[inline]
    pub fn modify(&self, source: impl AsFd, token: u64, interest: Interest) -> io::Result<()> {
        let data = epoll::EventData::new_u64(token);
        epoll::modify(&self.epoll, source, data, interest.0)?;
        Ok(())
    }

    /// Replaces `events` by what has happened, waiting for it at most `timeout`. An interrupted wait
    /// yields no events.
    #[inline]
    pub fn wait(&self, events: &mut Events, timeout: Duration) {
        let timeout = Timespec {
            tv_sec: timeout.as_secs() as _,
            tv_nsec: timeout.subsec_nanos() as _,
        };
        events.0.clear();
        epoll::wait(&self.epoll, spare_capacity(&mut events.0), Some(&timeout)).ok();
    }
}

#[cfg(test)]
mod tests {
    use std::io::{Read, Write};
    use std::os::unix::net::UnixStream;

    use super::*;

    fn pair() -> (UnixStream, UnixStream) {
        let (ours, theirs) = UnixStream::pair().unwrap();
        ours.set_nonblocking(true).unwrap();
        theirs.set_nonblocking(true).unwrap();
        (ours, theirs)
    }

    fn wait(poller: &Poller) -> Vec<Event> {
        let mut events = Events::with_capacity(8);
        poller.wait(&mut events, Duration::ZERO);
        events.iter().collect()
    }

    #[test]
    fn an_edge_is_reported_once_and_a_level_until_it_is_read() {
        let (mut edge, mut edge_peer) = pair();
        let (level, mut level_peer) = pair();
        let poller = Poller::new().unwrap();
        poller.add(&edge, 1, Interest::READ.edge()).unwrap();
        poller.add(&level, 2, Interest::READ).unwrap();
        edge_peer.write_all(b"a").unwrap();
        level_peer.write_all(b"a").unwrap();
        let mut tokens: Vec<u64> = wait(&poller).iter().map(|event| event.token).collect();
        tokens.sort_unstable();
        assert_eq!(tokens, [1, 2]);
        let again = wait(&poller);
        assert_eq!(again.iter().map(|event| event.token).collect::<Vec<_>>(), [2]);
        // New bytes are a new edge, although older ones are unread.
        edge_peer.write_all(b"b").unwrap();
        assert!(wait(&poller).iter().any(|event| event.token == 1));
        let mut bytes = [0; 8];
        assert_eq!(edge.read(&mut bytes).unwrap(), 2);
    }

    #[test]
    fn a_half_closed_socket_hangs_up_and_still_takes_bytes() {
        let (mut ours, mut theirs) = pair();
        let poller = Poller::new().unwrap();
        poller.add(&ours, 1, Interest::READ.edge()).unwrap();
        theirs.write_all(b"last").unwrap();
        theirs.shutdown(std::net::Shutdown::Write).unwrap();
        let events = wait(&poller);
        assert_eq!(events.len(), 1);
        assert!(events[0].ready.is_readable() && events[0].ready.is_hung_up());
        let mut bytes = [0; 8];
        assert_eq!(ours.read(&mut bytes).unwrap(), 4);
        assert_eq!(ours.read(&mut bytes).unwrap(), 0);
        ours.write_all(b"reply").unwrap();
        assert_eq!(theirs.read(&mut bytes).unwrap(), 5);
    }

    #[test]
    fn a_changed_interest_reports_what_is_ready_already() {
        let (ours, mut theirs) = pair();
        let poller = Poller::new().unwrap();
        poller.add(&ours, 7, Interest::WRITE.edge()).unwrap();
        theirs.write_all(b"a").unwrap();
        let events = wait(&poller);
        assert!(events[0].ready.is_writable() && !events[0].ready.is_readable());
        assert!(wait(&poller).is_empty());
        poller.modify(&ours, 7, Interest::READ.edge()).unwrap();
        let events = wait(&poller);
        assert!(events[0].ready.is_readable() && !events[0].ready.is_writable());
        poller.modify(&ours, 7, Interest::NONE).unwrap();
        assert!(wait(&poller).is_empty());
    }

    #[test]
    fn a_closed_descriptor_is_not_reported() {
        let (ours, mut theirs) = pair();
        let poller = Poller::new().unwrap();
        poller.add(&ours, 1, Interest::READ).unwrap();
        theirs.write_all(b"a").unwrap();
        drop(ours);
        assert!(wait(&poller).is_empty());
    }
}
